#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Published models at their true size over tensor-parallel ranks of sm_90a.

Of each config that comes with tensors.json the headers are laid out, and `octet
check` and `octet compile --compile-to select-kernels` have to agree at tp 1, 2,
4, 8 and 16: both go through, or both refuse by the rule in CASES. What is
refused follows from the sides:

    Qwen3-0.6B    3072 wide: 16 ranks leave 192, one and a half blocks of 128
    Qwen3-32B     25600 wide: 16 ranks leave 1600, twelve and a half
    Qwen3-30B     experts 768 wide, 6 blocks: 4 ranks leave 192
    Qwen2.5-7B    28 heads: not over 8 ranks, and 18944 columns are 148 groups
    gpt-oss-20b   experts 2880 wide, 90 groups of 32: 4 ranks leave 720

`--list` prints the names of the cases; a name runs that case alone.
"""
import os
import re
import resource
import subprocess
import sys
import unittest
from pathlib import Path

from octet_test import BIN, SHARED, TestCase, main

DEGREES = (1, 2, 4, 8, 16)

BLOCKS, HEADS = {"W3"}, {"W3", "W3b"}

# Degrees that are refused, and by which rules; kinds of layers.
CASES = {
    "DeepSeek-V3": ({}, 2),
    "GLM-5.2-FP8": ({}, 3),
    "GLM-5.3-FP8": ({}, 3),
    "Llama-3.1-8B-Instruct-FP8": ({}, 1),
    "Llama-3.1-8B-Instruct-FP8-dynamic": ({}, 1),
    "Qwen2.5-7B-Instruct-AWQ": ({8: HEADS, 16: HEADS}, 1),
    "Qwen2.5-7B-Instruct-GPTQ-Int4": ({8: HEADS, 16: HEADS}, 1),
    "Qwen3-0.6B-FP8": ({16: BLOCKS}, 1),
    "Qwen3-8B-FP8": ({}, 1),
    "Qwen3-32B-FP8": ({16: BLOCKS}, 1),
    "Qwen3-30B-A3B-FP8": ({4: BLOCKS, 8: BLOCKS, 16: BLOCKS}, 1),
    "gpt-oss-20b": ({4: BLOCKS, 8: BLOCKS, 16: BLOCKS}, 2),
}
# In seconds of the processor, and MiB.
MOST_SECONDS, MOST_MIB = 10, 1024
if os.environ.get("OCTET_SANITIZE"):
    MOST_SECONDS, MOST_MIB = 100, 8192


class Distributed(TestCase):
    name = ""

    @classmethod
    def setUpClass(cls):
        config = Path(SHARED, "configs", cls.name)
        if not SHARED or not (config / "tensors.json").exists():
            raise unittest.SkipTest("OCTET_SHARED_DIR has no configs/"
                                    f"{cls.name}/tensors.json")
        super().setUpClass()
        cls.folder = cls.dir / "checkpoint"
        subprocess.run(
            [sys.executable, Path(SHARED, "tools/make_sparse_checkpoint.py"),
             config, cls.folder], check=True, stdout=subprocess.DEVNULL)

    def rules(self, done):
        """The rules of all errors."""
        return {re.search(r"\[(\w+)\]$", line).group(1)
                for line in done.stderr.splitlines()
                if line.startswith("error: ")}

    def check(self, tp, rules):
        done = self.call(BIN / "octet", "check", self.folder, "--target",
                         "sm_90a", "--tp", tp, status=1 if rules else 0)
        self.assertEqual(self.rules(done), rules)

    def lower(self, tp, rules):
        out = self.dir / f"tp{tp}.mlir"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = self.call(BIN / "octet", "compile", self.folder, "--target",
                         "sm_90a", "--tp", tp, "--compile-to",
                         "select-kernels", "-o", out, status=1 if rules else 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime -
                        before.ru_stime, MOST_SECONDS)
        self.assertLess(after.ru_maxrss / 1024, MOST_MIB)
        self.assertEqual(self.rules(done), rules)
        if rules:
            self.assertFalse(out.exists())
            return
        text = out.read_text()
        kinds = CASES[self.name][1]
        self.assertEqual(text.count("func.func private @decoder_layer"), kinds)
        # Two sums a layer, one more with shared experts, and the embedding's.
        sums = text.count('"model.all_reduce"')
        self.assertEqual(sums > 2 * kinds, tp > 1, f"{sums} sums")
        self.assertEqual('"model.all_gather"' in text, tp > 1)
        self.assertEqual("q.slice" in text, tp > 1)
        self.assertNotIn("model.linear", text)

    def test_degrees(self):
        refused = CASES[self.name][0]
        for tp in DEGREES:
            with self.subTest(model=self.name, tp=tp):
                self.check(tp, refused.get(tp, set()))
                self.lower(tp, refused.get(tp, set()))


if __name__ == "__main__":
    if "--list" in sys.argv:
        print(";".join(CASES), end="")
        sys.exit()
    if len(sys.argv) > 1 and sys.argv[1] in CASES:
        Distributed.name = sys.argv.pop(1)
        main()
    sys.exit(f"usage: test_distributed.py ({' | '.join(CASES)})")
