#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with experts are compiled as far as plan-buffers, on targets and ranks.

Nothing of theirs runs yet, so only this passes the types of their operators,
dispatched codes among them (P13, B7), through every pass. The checkpoints are
headers of each architecture, and the golden cases where they are there.
"""
import unittest
from pathlib import Path

from octet_test import BIN, SHARED, TestCase, main

ARCHITECTURES = ("deepseek-v2", "deepseek-v3", "deepseek-v32", "glm-dsa",
                 "glm4-moe", "qwen3-moe", "mixtral", "gpt-oss")
OFTEN, TARGETS = ("cpu", "sm_90a"), ("cpu", "sm_80", "sm_90a", "sm_100f", "sm_120")
RANKS = ((), ("--dp", "2", "--ep", "2"), ("--tp", "2", "--split-blocks", "pad"))


class Plan(TestCase):
    def plan(self, folder, target, ranks):
        done = self.call(BIN / "octet", "compile", folder, "--target", target,
                         *ranks, "--compile-to", "plan-buffers", "-o", "-")
        self.assertIn("kernel.arena_bytes", done.stdout)
        return done

    def test_architectures(self):
        make = Path(__file__).parent.parent / "Inputs" / "make_sparse.py"
        for name in ARCHITECTURES:
            folder = self.dir / name
            self.call("python3", make, folder, "--arch", name)
            for target in TARGETS:
                for ranks in RANKS if target in OFTEN else RANKS[:1]:
                    with self.subTest(name, target=target, ranks=ranks):
                        self.plan(folder, target, ranks)

    def test_unwritten_is_said(self):
        """A program of experts ends with the list of what it needs (C9)."""
        folder, make = self.dir / "unwritten", Path(__file__).parent.parent / "Inputs"
        self.call("python3", make / "make_sparse.py", folder, "--arch", "deepseek-v3")
        exe = self.dir / "exe"
        done = self.call(BIN / "octet", "compile", folder, "--target", "cpu",
                         "-o", exe, status=1)
        self.error_of(done, "kernels that are not written yet",
                      "cpu.fp8_block_experts", "[C9]")
        self.assertFalse(exe.exists())

    @unittest.skipUnless(SHARED and (Path(SHARED) / "golden").is_dir(),
                         "OCTET_SHARED_DIR has no golden cases")
    def test_golden(self):
        seen = 0
        for folder in sorted((Path(SHARED) / "golden").iterdir()):
            config = folder / "config.json"
            if not config.is_file() or "expert" not in config.read_text():
                continue
            seen += 1
            for target in OFTEN:
                for ranks in RANKS:
                    with self.subTest(folder.name, target=target, ranks=ranks):
                        self.plan(folder, target, ranks)
        self.assertGreater(seen, 5)


if __name__ == "__main__":
    main()
