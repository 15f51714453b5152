#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`octet check --memory` and the program's `info` say the same bytes.

Weights, values of a step and KV cache a token are equal; golden cases that run
are compared with their executables, the others with the IR of plan-buffers.
"""
import json
import re
import unittest
from pathlib import Path

from octet_test import BIN, SHARED, TestCase, main

LIMITS = ("--max-context", "300", "--max-seqs", "3", "--max-step-tokens", "96")


class Memory(TestCase):
    def check(self, folder, *options):
        """weights, arena and kv_per_token of octet check, by info's names."""
        done = self.call(BIN / "octet", "check", folder, "--memory", "--json",
                         *LIMITS, *options)
        memory = json.loads(done.stdout)["memory"]
        self.assertFalse(memory["is_estimate"], done.stderr)
        self.assertEqual(sum(memory["weights"].values()),
                         memory["weight_bytes"])
        self.assertEqual(memory["kv_bytes"],
                         3 * 300 * memory["kv_bytes_per_token"])
        return {"weights": memory["weight_bytes"],
                "arena": memory["workspace_bytes"],
                "kv_per_token": memory["kv_bytes_per_token"]}

    def of_program(self, folder, name, *options):
        exe = self.dir / name
        self.call(BIN / "octet", "compile", folder, "-o", exe, *LIMITS,
                  "--target", "cpu", *options)
        done = self.call(exe, "info", "--json")
        exe.unlink()
        return json.loads(done.stdout)["memory"]

    def of_plan(self, folder, *options):
        done = self.call(BIN / "octet", "compile", folder, *LIMITS, *options,
                         "--compile-to", "plan-buffers", "-o", "-")
        text = re.search(r"model\.memory = \{([^}]*)\}", done.stdout).group(1)
        return {key: int(value)
                for key, value in re.findall(r"(\w+) = (\d+)", text)}

    def compare(self, folder, name, *options):
        self.assertEqual(self.check(folder, "--target", "cpu", *options),
                         self.of_program(folder, name, *options))

    def test_generated(self):
        for kind in ("bf16", "fp8-block", "mxfp8"):
            with self.subTest(kind):
                folder = self.make(kind, "--arch", "llama", "--format", kind)
                self.compare(folder, f"{kind}.exe")
        with self.subTest("loading quantises"):
            self.compare(self.dir / "bf16", "w10.exe", "--quantization", "fp8")
        with self.subTest("config.json alone gives an estimate"):
            done = self.call(BIN / "octet", "check", self.dir / "bf16",
                             "--memory", "--json", "--config-only")
            self.assertTrue(json.loads(done.stdout)["memory"]["is_estimate"])

    @unittest.skipUnless(SHARED and (Path(SHARED) / "golden").is_dir(),
                         "OCTET_SHARED_DIR has no golden cases")
    def test_golden(self):
        seen = 0
        for folder in sorted((Path(SHARED) / "golden").iterdir()):
            config = folder / "config.json"
            if not config.is_file():
                continue
            seen += 1
            with self.subTest(folder.name):
                if "expert" not in config.read_text():
                    self.compare(folder, f"{folder.name}.exe")
                    continue
                for options in (("--target", "cpu"), ("--target", "sm_90a"),
                                ("--target", "sm_90a", "--tp", "2",
                                 "--split-blocks", "pad")):
                    self.assertEqual(self.check(folder, *options),
                                     self.of_plan(folder, *options))
        self.assertGreater(seen, 10)


if __name__ == "__main__":
    main()
