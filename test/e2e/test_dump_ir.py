#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`--dump-ir` writes a file per phase, octet-opt reads each, and the remaining
passes make the same program of it: no pass knows more than the file says.
"""
import re

from octet_test import BIN, TestCase, main, SEED


class DumpIR(TestCase):
    def dump(self, name, *arguments, options=()):
        folder = self.make(name, "--seed", SEED, *arguments)
        out = self.dir / f"{name}.ir"
        self.compile(folder, f"{name}.exe", "--dump-ir", out, *options)
        files = sorted(out.iterdir())
        for i, file in enumerate(files):
            self.assertRegex(file.name, rf"^{i:02}-[a-z-]+\.mlir$")
        self.assertEqual(files[0].name, "00-import.mlir")
        self.assertEqual(files[-1].name[3:], "lower-to-host.mlir")
        return folder, files

    def opt(self, *arguments):
        return self.call(BIN / "octet-opt", *arguments).stdout

    def check_resumes(self, files):
        last = files[-1].read_text().strip()
        for file in files:
            phase = file.name[3:-len(".mlir")]
            again = self.opt(file, f"--octet-to-host=from={phase}").strip()
            self.assertEqual(again, last, f"from {file.name} on")

    def test_block(self):
        _, files = self.dump("block", "--arch", "qwen3", "--format",
                             "fp8-block", "--layers", 3)
        self.check_resumes(files)

    def test_static_with_fp8_cache(self):
        _, files = self.dump("static", "--arch", "llama", "--format",
                             "ct-static", "--kv-scales", "--bias", "--layers",
                             4, "--ignore", "model.layers.3.mlp.down_proj")
        self.check_resumes(files)

    def test_quantised_while_loading(self):
        _, files = self.dump("w10", "--arch", "mistral", "--format", "bf16",
                             "--tied", options=["--quantization", "fp8"])
        self.check_resumes(files)

    def test_compile_to(self):
        """--compile-to PHASE prints what --dump-ir writes for it."""
        folder, files = self.dump("to", "--arch", "qwen2", "--format", "bf16")
        for file in files:
            text = self.call(BIN / "octet", "compile", folder, "--target",
                             "cpu", "--compile-to", file.name[3:-5]).stdout
            self.assertEqual(text, file.read_text(), file.name)

    def test_a_function_per_kind_of_layer(self):
        """Twelve equal layers cost what one costs."""
        sizes = []
        for layers in (1, 12):
            _, files = self.dump(f"layers{layers}", "--layers", layers,
                                 "--hidden", 128, "--intermediate", 128)
            text = files[0].read_text()
            self.assertEqual(len(re.findall(r"func\.func .*@decoder_layer_",
                                            text)), 1)
            sizes.append(len(files[-1].read_text()))
        # The tensor table grows with the layers, the code does not.
        self.assertLess(sizes[1], 2 * sizes[0])


if __name__ == "__main__":
    main()
