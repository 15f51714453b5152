#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ids, tokens and text equal those of Hugging Face's `tokenizers`, on the
vocabularies that make_tokenizer.py trains for each family of checkpoints, and
on every character that Unicode 14 has."""
import json
import random
import subprocess
import sys
import unicodedata
import unittest

from octet_test import SEED, TestCase, main
import make_tokenizer
from tokenizer_strings import make_strings

try:
    import tokenizers
except ImportError:
    print("skipped: python's tokenizers is the oracle and cannot be imported; "
          "`pip install -r test/requirements.txt` has it")
    sys.exit(77)

STRINGS = 450  # a family; over 10,000 in all
# What PCRE2 and utf8proc of Debian 12 know.
UNICODE = "14.0.0"


class TokenizerTest(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.count = 0

    def executable(self, family, **options):
        """An executable with a tokenizer of the family, and the oracle of it."""
        name = "-".join([family, *options])
        folder = self.make(name, "--layers", 1)
        description = make_tokenizer.make(family, **options)
        path = folder / "tokenizer.json"
        path.write_text(json.dumps(description, ensure_ascii=False), encoding="utf-8")
        exe = self.compile(folder, name + ".exe")
        extra = [token["content"] for token in description["added_tokens"]]
        return exe, tokenizers.Tokenizer.from_file(str(path)), extra

    def run_bytes(self, exe, *arguments, stdin):
        done = subprocess.run([exe, *arguments], input=stdin, capture_output=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace"))
        return done.stdout

    def lines(self, exe, *arguments, stdin):
        output = self.run_bytes(exe, *arguments, stdin=stdin).decode().split("\n")
        self.assertEqual(output.pop(), "")
        return [json.loads(line) for line in output]

    def check(self, exe, oracle, texts):
        """Every text's ids and tokens, and the text of its ids."""
        got = self.lines(exe, "tokenize", "--json", "--null", stdin=b"".join(t + b"\0" for t in texts))
        self.assertEqual(len(got), len(texts))
        wrong = []
        for text, line in zip(texts, got):
            expected = oracle.encode(text.decode(errors="replace")).ids
            tokens = [oracle.id_to_token(i) for i in expected]
            if line != {"ids": expected, "tokens": tokens}:
                wrong.append((text, tokens, line["tokens"]))
        self.assertFalse(wrong, f"{len(wrong)} of {len(texts)}; the first: {wrong[0] if wrong else ''}")
        for option in ([], ["--skip-special"]):
            back = self.lines(exe, "detokenize", "--json", *option,
                              stdin="".join(f"{json.dumps(line)}\n" for line in got).encode())
            for text, line in zip(got, back):
                self.assertEqual(line["text"],
                                 oracle.decode(text["ids"], skip_special_tokens=bool(option)))
        type(self).count += len(texts)


class Families(TokenizerTest):
    def check_family(self, family):
        seed = f"{SEED} {family}"
        with self.subTest(seed=seed):
            exe, oracle, extra = self.executable(family, string_merges=len(family) % 2 == 0)
            texts = make_strings(STRINGS, seed, extra)
            self.check(exe, oracle, texts)
            # Random ids: broken characters, runs of bytes, special tokens.
            r, end = random.Random(seed), oracle.get_vocab_size()
            ids = [[r.randrange(end if r.random() < .5 else min(end, 300)) for _ in range(12)] for _ in range(100)]
            back = self.lines(exe, "detokenize", "--json", stdin="".join(f"{i}\n" for i in ids).encode())
            for row, line in zip(ids, back):
                self.assertEqual(line["text"], oracle.decode(row, skip_special_tokens=False), row)
            # One text by itself may hold zero bytes.
            text = b"a\0b\0\0 c" + texts[0]
            line, = self.lines(exe, "tokenize", "--json", stdin=text)
            self.assertEqual(line["ids"], oracle.encode(text.decode(errors="replace")).ids)
            # A vocabulary that shows each cut.
            if not make_tokenizer.FAMILIES[family].get("spm"):
                exe, oracle, extra = self.executable(family, pairs=True)
                self.check(exe, oracle, make_strings(STRINGS, seed + " pairs", extra))

    def test_zz_count(self):
        """Runs last: how many texts there were."""
        self.assertGreaterEqual(self.count, 10000)


for _family in make_tokenizer.FAMILIES:
    setattr(Families, f"test_{_family}", lambda self, family=_family: self.check_family(family))


@unittest.skipUnless(unicodedata.unidata_version == UNICODE,
                     f"python has Unicode {unicodedata.unidata_version}; what is in "
                     f"{UNICODE} is wanted")
class EveryCharacter(TokenizerTest):
    @staticmethod
    def characters():
        return [chr(c) for c in range(1, 0x110000)
                if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")
                # Ideographs by the thousand have one class and no normal form.
                and not (0x20100 <= c < 0x2A600 or 0x30100 <= c < 0x31300)]

    def check_characters(self, family, form):
        exe, oracle, _ = self.executable(family, pairs=True)
        self.check(exe, oracle, [form.format(c).encode() for c in self.characters()])

    def test_classes_llama3(self):
        self.check_characters("llama3", "x{0}y {0}{0}2{0}\n")

    def test_classes_deepseek3(self):
        self.check_characters("deepseek3", "x{0}y {0}{0}2{0}\n")

    def test_classes_tekken(self):
        self.check_characters("tekken", "x{0}Y {0}{0}z{0}\n")

    def test_nfc(self):
        self.check_characters("qwen2", "{0}a{0}\u0334-a\u0345{0}")

    def test_nfkd(self):
        self.check_characters("mixed-nfkd", "{0}a{0}\u0334-a\u0345{0}")

    def test_nfkc(self):
        self.check_characters("mixed-nfkc", "{0}a{0}\u0334-a\u0345{0} {0}")


if __name__ == "__main__":
    main()
