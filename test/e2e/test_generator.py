#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tests' own tools: the generator's E4M3, and the reference against the
golden outputs that other software computed (where the shared folder is)."""
import json
import unittest
from pathlib import Path

from octet_test import SHARED, TestCase, load, main, make_model, rel_l2
import reference
import test_golden


class Generator(TestCase):
    def test_e4m3(self):
        make_model.self_test()
        for code in range(256):
            if code & 0x7F != 0x7F:
                self.assertEqual(make_model.decode_e4m3(code),
                                 reference.E4M3[code])

    def test_same_seed_same_bytes(self):
        one, two = self.make("one"), self.make("two")
        other = self.make("other", "--seed", 2)
        files = [(f / "model.safetensors").read_bytes()
                 for f in (one, two, other)]
        self.assertEqual(files[0], files[1])
        self.assertNotEqual(files[0], files[2])

    def test_neighbouring_scales_differ(self):
        folder = self.make("block", "--format", "fp8-block")
        (rows, columns), scales = load(folder / "model.safetensors")[
            "model.layers.0.mlp.gate_proj.weight_scale_inv"]
        self.assertEqual((rows, columns), (3, 2))
        for i in range(rows):
            for j in range(columns):
                for k, l in ((i + 1, j), (i, j + 1)):
                    if k < rows and l < columns:
                        a, b = scales[i * 2 + j], scales[k * 2 + l]
                        self.assertGreaterEqual(max(a / b, b / a), 2)

    def test_shards_hold_the_same_tensors(self):
        one, three = self.make("one"), self.make("three", "--shards", 3)
        index = json.loads((three / "model.safetensors.index.json").read_text())
        tensors = {}
        for file in sorted(set(index["weight_map"].values())):
            tensors |= load(three / file)
        self.assertEqual(tensors, load(one / "model.safetensors"))


@unittest.skipUnless(SHARED and (Path(SHARED) / "golden").is_dir(),
                     "no golden/; OCTET_SHARED_DIR should name its folder")
class ReferenceAgainstGolden(TestCase):
    """Float32 sums of transformers against float64: 2e-6 (golden/README.md)."""

    def check_case(self, case):
        folder = Path(SHARED) / "golden" / case
        expected = load(folder / "expected.safetensors")
        for kind in ("ref", "w8a8"):
            if f"p0.logits_{kind}" not in expected:
                continue
            model = reference.Model(folder, kind == "w8a8")
            exact = 0
            for prompt in ("p0", "p1"):
                (_, width), want = expected[f"{prompt}.logits_{kind}"]
                result = model.run(expected[f"{prompt}.input_ids"][1])
                for i, row in enumerate(result["logits"]):
                    error = rel_l2(row, want[i * width:(i + 1) * width])
                    if error > 5e-6:
                        # Only a rounding that may go either way excuses it.
                        self.assertLess(result["margins"][i], 1e-6,
                                        f"{prompt}.logits_{kind} row {i}")
                        break
                else:
                    exact += 1
            self.assertGreaterEqual(exact, 2 if kind == "ref" else 1, kind)


for case in test_golden.CASES:
    def test(self, case=case):
        self.check_case(case)
    setattr(ReferenceAgainstGolden, f"test_{case}", test)

if __name__ == "__main__":
    main()
