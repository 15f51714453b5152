#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batch 1 = batch 7 = any chunking of the prompt = any number of threads (B5).

Bit for bit: the files that `EXE logits` writes, hidden states and decoded
logits included, are compared as bytes, and the ids of `EXE run` as text.
"""
import json
import sys

from octet_test import TestCase, draw_prompts, load, main, rel_l2, SEED

# Two of them longer than a page of the KV cache (64), one of one token, one
# of exactly a page.
LENGTHS = [12, 1, 70, 33, 5, 64, 131]

# The settings that must change nothing.
SETTINGS = [
    ["--batch", 7],
    ["--chunk", 1, "--batch", 7],
    ["--chunk", 3],
    ["--chunk", 64, "--threads", 2],
    ["--threads", 3, "--batch", 4],
    ["--threads", 7, "--batch", 7, "--chunk", 5],
]


class Invariance(TestCase):
    def check_all(self, name, arguments, options=()):
        folder = self.make(name, "--seed", SEED, *arguments)
        exe = self.compile(folder, f"{name}.exe", *options)
        prompts = draw_prompts(LENGTHS)
        flags = ["--decode", 5, "--trace", "hidden"]
        base = self.logits(exe, prompts, *flags, "--batch", 1, "--threads", 1,
                           out=f"{name}.base")
        for i, setting in enumerate(SETTINGS):
            other = self.logits(exe, prompts, *flags, *setting,
                                out=f"{name}.{i}")
            if other.read_bytes() != base.read_bytes():
                self.fail(f"{name} {setting}: {first_difference(base, other)}")
        # A small step size, chosen when compiling, is a chunking too.
        small = self.compile(folder, f"{name}.small", "--max-step-tokens", 10,
                             "--max-seqs", 3, *options)
        other = self.logits(small, prompts, *flags, "--batch", 3,
                            out=f"{name}.steps")
        if other.read_bytes() != base.read_bytes():
            self.fail(f"{name} max-step-tokens: {first_difference(base, other)}")
        self.check_run(exe, prompts)
        self.check_forced(exe, prompts, base)

    def check_run(self, exe, prompts):
        """`run` on seven prompts at once gives the ids of seven runs."""
        flags = ["--max-tokens", 9, "--ignore-eos", "--json"]

        def run(some, *more):
            ids = [a for p in some for a in
                   ("--prompt-ids", ",".join(map(str, prompts[p])))]
            lines = self.call(exe, "run", *ids, *flags, *more).stdout
            return [json.loads(line) for line in lines.splitlines()]
        together = run(prompts)
        self.assertEqual([one["prompt_ids"] for one in together],
                         list(prompts.values()))
        for prompt, one in zip(prompts, together):
            self.assertEqual(len(one["ids"]), 9)
            self.assertEqual(one["finish"], "length")
            self.assertEqual(
                run([prompt], "--threads", 2, "--chunk", 7)[0], one)

    def check_forced(self, exe, prompts, base):
        """Tokens through the cache, one by one, give the logits that they
        give as part of a prompt."""
        whole = prompts["p3"]
        out = load(self.logits(exe, {"p": whole[:20], "p.force": whole[20:]},
                               out=f"{exe.name}.forced"))
        (rows, width), forced = out["p.decode_logits"]
        _, values = load(base)["p3.logits"]
        self.assertEqual(rows, len(whole) - 20)
        self.assertEqual(forced, values[19 * width:(19 + rows) * width])

    def test_simd_levels(self):
        """AVX2 and AVX-512 give the same bits; the BF16 level has an order of
        additions of its own. Each is invariant in itself."""
        folder = self.make("levels", "--seed", SEED, "--hidden", 200,
                           "--intermediate", 320, "--head-dim", 32)
        prompts = draw_prompts([9, 1, 70])
        for dtype, limit in (("f32", 1e-5), ("bf16", 3e-2)):
            exe = self.compile(folder, f"levels.{dtype}", "--dtype", dtype,
                               "--activation-quant", "off")
            found = {}
            for level in ("v3", "avx512", "bf16", "amx"):
                outs = []
                for i, setting in enumerate((
                        ["--threads", 1], ["--batch", 3, "--chunk", 4])):
                    try:
                        outs.append(self.logits(
                            exe, prompts, "--simd", level, *setting,
                            out=f"levels.{dtype}.{level}.{i}"))
                    except AssertionError as error:
                        if "status 1, expected 0" not in str(error):
                            raise
                if not outs:
                    print(f"not on this machine: {level}", file=sys.stderr)
                    continue
                self.assertEqual(len(outs), 2, level)
                self.assertEqual(outs[0].read_bytes(), outs[1].read_bytes(),
                                 f"{dtype} {level}: {setting}")
                found[level] = outs[0]
            self.assertIn("v3", found)
            for level, out in found.items():
                if level == "avx512":
                    self.assertEqual(out.read_bytes(),
                                     found["v3"].read_bytes(), dtype)
                for name, (_, values) in load(out).items():
                    self.assertLess(rel_l2(values, load(found["v3"])[name][1]),
                                    limit, f"{dtype} {level} {name}")

    def test_block(self):
        self.check_all("qwen3_block", [
            "--arch", "qwen3", "--format", "fp8-block", "--hidden", 200,
            "--intermediate", 320, "--head-dim", 32])

    def test_channel(self):
        self.check_all("llama_channel", [
            "--arch", "llama", "--format", "ct-channel", "--hidden", 128,
            "--intermediate", 192, "--head-dim", 32])

    def test_tensor_and_fp8_cache(self):
        self.check_all("mistral_static", [
            "--arch", "mistral", "--format", "fp8-tensor-static",
            "--kv-scales", "--sliding-window", 40, "--hidden", 128,
            "--intermediate", 192, "--head-dim", 32])

    def test_plain(self):
        self.check_all("qwen2_bf16", [
            "--arch", "qwen2", "--format", "bf16", "--hidden", 144,
            "--intermediate", 176, "--head-dim", 48])

    def test_f32(self):
        self.check_all("qwen3_f32", [
            "--arch", "qwen3", "--format", "fp8-block", "--hidden", 128,
            "--intermediate", 192, "--head-dim", 32], ["--dtype", "f32"])


def first_difference(one, other):
    """The first value in which two files differ, in words."""
    a, b = load(one), load(other)
    if a.keys() != b.keys():
        return f"tensors {sorted(a.keys() ^ b.keys())}"
    for name in a:
        (shape, left), (shape2, right) = a[name], b[name]
        if shape != shape2:
            return f"{name}: {shape} and {shape2}"
        wrong = [i for i, (x, y) in enumerate(zip(left, right)) if x != y]
        if wrong:
            i = wrong[0]
            at = i // shape[-1], i % shape[-1]
            return (f"{name}[{at}]: {left[i]!r} and {right[i]!r}; "
                    f"{len(wrong)} of {len(left)} differ")
    return "the same values, other bytes"


if __name__ == "__main__":
    main()
