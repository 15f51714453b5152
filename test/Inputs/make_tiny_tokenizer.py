#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_tiny_tokenizer.py OUT.json: the 61 tokens of the fake model of the
runtime's tests: <bos>, <eos>, the letters a to z, single bytes of UTF-8, and
pairs of letters. Byte-level."""
import json
import sys

from make_tokenizer import added, byte_alphabet, byte_level, template

alphabet = byte_alphabet()
tokens = ["<bos>", "<eos>", *"abcdefghijklmnopqrstuvwxyz"]
tokens += [alphabet[b] for b in b" .,!?\n" + "ä€😀".encode()]
merges = [("t", "h"), ("th", "e"), ("a", "n"), ("an", "d"), (alphabet[32], "the"), ("i", "n"),
          ("in", "g"), ("o", "u"), ("e", "r"), ("e", "n"), ("o", "n"), ("a", "t"), ("i", "s"), ("i", "t"),
          ("s", "t"), ("r", "e"), ("n", "d"), ("l", "l")]
tokens = list(dict.fromkeys([*tokens, *(a + b for a, b in merges)]))[:61]
vocab = {token: i for i, token in enumerate(tokens)}
merges = [[a, b] for a, b in merges if a + b in vocab]
assert len(vocab) == 61, len(vocab)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({
        "added_tokens": [{"id": i, **added(tokens[i])} for i in range(2)],
        "normalizer": None, "pre_tokenizer": byte_level(True), "decoder": byte_level(True),
        "post_processor": template(["<bos>"])(vocab),
        "model": {"type": "BPE", "vocab": vocab, "merges": merges}}, file)
