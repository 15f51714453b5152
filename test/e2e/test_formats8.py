#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Formats of 8 bits and the rewrites of loading, against reference8.py.

Compiled and compared as test_models.py does: mxfp8, INT8, fbgemm_fp8, ModelOpt,
Quark, E5M2 and FNUZ (N7, N8), and with a GPU's contracts or a flag: weights only
(B4), the largest scale (W8), power-of-two scales (W11), MXFP8 as blocks (B6).

`--list` prints the names of the cases; a name runs that case alone.
"""
import sys

from octet_test import BIN, draw_prompts, load, main, make_model, SEED
import reference
from test_models import Models, RAGGED, SMALL

# Rows of 160 = 5 groups of 32, of 96 = 3: half a chunk at the end.
GROUPS = ["--hidden", 160, "--intermediate", 288, "--heads", 5,
          "--kv-heads", 1, "--head-dim", 32]

# name: (make_model.py's arguments, octet compile's, the reference's)
CASES = {
    "mxfp8": (["--arch", "llama", "--format", "mxfp8", *GROUPS], [], {}),
    "mxfp8_as_block": (
        ["--arch", "qwen3", "--format", "mxfp8-equal", *RAGGED],
        ["--numerics", "sm_90a", "--mxfp8-as", "block"],
        {"mxfp8_as": "block"}),
    "mxfp8_as_weight_only": (
        ["--arch", "llama", "--format", "mxfp8", *GROUPS],
        ["--numerics", "sm_90a", "--mxfp8-as", "weight-only"],
        {"mxfp8_as": "weight-only"}),
    "w8a8_int8": (["--arch", "qwen2", "--format", "w8a8-int8", *RAGGED], [], {}),
    "w8a8_fp8": (["--arch", "llama", "--format", "w8a8-fp8", *SMALL], [], {}),
    "ct_int8_channel": (
        ["--arch", "llama", "--format", "ct-int8-channel", *SMALL], [], {}),
    # Each shard has scales of its own, joined (W7, W9).
    "ct_int8_static": (
        ["--arch", "qwen3", "--format", "ct-int8-static", *RAGGED], [], {}),
    "ct_int8_weight_only": (
        ["--arch", "llama", "--format", "ct-int8-weight-only", *SMALL], [], {}),
    "ct_int8_read_as_w8a8_int8": (
        ["--arch", "llama", "--format", "ct-int8-channel", *SMALL],
        ["--quantization", "w8a8_int8"], {}),
    "fbgemm_fp8": (["--arch", "llama", "--format", "fbgemm", *SMALL], [], {}),
    "modelopt_fp8": (
        ["--arch", "llama", "--format", "modelopt-fp8", *SMALL], [], {}),
    "modelopt_channel": (
        ["--arch", "qwen3", "--format", "modelopt-channel", *SMALL], [], {}),
    "modelopt_block": (
        ["--arch", "qwen3", "--format", "modelopt-block", *RAGGED], [], {}),
    "modelopt_mxfp8": (
        ["--arch", "llama", "--format", "modelopt-mxfp8", *GROUPS], [], {}),
    "quark_fp8": (["--arch", "llama", "--format", "quark-fp8", *SMALL], [], {}),
    "quark_int8": (["--arch", "qwen2", "--format", "quark-int8", *SMALL], [], {}),
    "e5m2_block": (
        ["--arch", "qwen3", "--format", "fp8-e5m2-block", *RAGGED], [], {}),
    "e5m2_tensor": (
        ["--arch", "llama", "--format", "fp8-e5m2-tensor", *SMALL], [], {}),
    "fnuz_block": (
        ["--arch", "llama", "--format", "fp8-fnuz-block", *RAGGED], [], {}),
    "fnuz_channel": (
        ["--arch", "qwen3", "--format", "fp8-fnuz-channel", *SMALL], [], {}),
    "sm_80_block": (
        ["--arch", "qwen3", "--format", "fp8-block", *RAGGED],
        ["--numerics", "sm_80"], {"numerics": "sm_80"}),
    "sm_80_static": (
        ["--arch", "llama", "--format", "fp8-tensor-static", *SMALL],
        ["--numerics", "sm_80"], {"numerics": "sm_80"}),
    "sm_120_static": (
        ["--arch", "llama", "--format", "fp8-tensor-static", *SMALL],
        ["--numerics", "sm_120"], {"numerics": "sm_120"}),
    "sm_120_e5m2": (
        ["--arch", "llama", "--format", "fp8-e5m2-tensor", *SMALL],
        ["--numerics", "sm_120"], {"numerics": "sm_120"}),
    "requant_max": (
        ["--arch", "qwen3", "--format", "ct-static", *SMALL],
        ["--requant-max"], {"requant_max": True}),
    "requant_max_while_loading": (
        ["--arch", "llama", "--format", "bf16", *SMALL],
        ["--quantization", "fp8", "--requant-max"], {"requant_max": True}),
    "sm_100_block": (
        ["--arch", "qwen3", "--format", "fp8-block", *RAGGED],
        ["--numerics", "sm_100"], {"numerics": "sm_100"}),
    "sm_100_block_32": (
        ["--arch", "llama", "--format", "fp8-block", "--block", "32x32", *GROUPS],
        ["--numerics", "sm_100"], {"numerics": "sm_100"}),
    "sm_100_keep": (
        ["--arch", "qwen3", "--format", "fp8-block", *SMALL],
        ["--numerics", "sm_100", "--scale-format", "keep"],
        {"numerics": "sm_100", "keep_scales": True}),
}


class Formats(Models):
    def check_format(self, name, arguments, options, flags):
        folder = self.make(name, "--seed", SEED, *arguments)
        prompts = draw_prompts([1, 6, 7, 12])
        for kind in ("weights", "w8a8"):
            quant = kind == "w8a8"
            extra = [] if quant else ["--activation-quant", "off"]
            named = "fp8" if "fp8" in options else None
            model = reference.Model(folder, quant, named, **flags)
            want = {p: model.run(ids, decode=6) for p, ids in prompts.items()}
            for dtype in ("f32", "bf16"):
                exe = self.compile(folder, f"{name}.{kind}.{dtype}", "--dtype",
                                   dtype, *options, *extra)
                got = load(self.logits(exe, prompts, "--decode", 6, "--trace",
                                       "hidden", out=f"{exe.name}.safetensors"))
                if dtype == "f32":
                    self.compare(name, kind, got, want)
                else:
                    self.compare_size(name, kind, got, want)


class Refusals(Models):
    """What only the bytes of a weight can say."""

    def spoil(self, folder, name, change):
        """Rewrites one tensor of the only file."""
        path = folder / "model.safetensors"
        tensors = reference.read_safetensors(path)
        dtype, shape, data = tensors[name]
        data = bytearray(data)
        change(data)
        tensors[name] = (dtype, shape, bytes(data))
        make_model.write_safetensors(path, tensors)

    def refuse(self, name, arguments, tensor, change, options, *parts):
        folder = self.make(name, "--seed", SEED, *arguments)
        self.spoil(folder, tensor, change)
        exe = self.compile(folder, name + ".exe", *options)
        done = self.call(exe, "logits", "--ids-file", self.ids(), "-o",
                         self.dir / "out", status=1)
        self.error_of(done, *parts)

    def ids(self):
        path = self.dir / "ids.json"
        path.write_text('{"p0": [5, 6]}')
        return path

    def test_n8_fnuz_nan(self):
        """0x80 is the one NaN of FNUZ formats."""
        def change(data):
            data[128 * 3 + 17] = 0x80
        self.refuse("n8", ["--arch", "llama", "--format", "fp8-fnuz-channel",
                           *SMALL],
                    "model.layers.1.mlp.up_proj.weight", change, [],
                    "model.layers.1.mlp.up_proj.weight", "element [3, 17] is "
                    "0x80, which is no finite number in its format", "[N8]")

    def test_n8_e5m2_infinity(self):
        def change(data):
            data[5] = 0x7C
        self.refuse("n8inf", ["--arch", "llama", "--format", "fp8-e5m2-tensor",
                              *SMALL],
                    "model.layers.0.self_attn.o_proj.weight", change, [],
                    "element [0, 5] is 0x7C", "[N8]")

    def test_b6_unequal_scales(self):
        def change(data):
            data[4 * 7 + 2] += 1
        self.refuse("b6", ["--arch", "llama", "--format", "mxfp8-equal", *SMALL],
                    "model.layers.1.mlp.gate_proj.weight_scale_inv", change,
                    ["--numerics", "sm_90a", "--mxfp8-as", "block"],
                    "element [7, 2] is 2^", "both in one block of 128x128",
                    "[B6]")

    def test_w6_nan_exponent(self):
        def change(data):
            data[0] = 0xFF
        self.refuse("w6", ["--arch", "llama", "--format", "mxfp8", *SMALL],
                    "model.layers.0.mlp.down_proj.weight_scale_inv", change, [],
                    "element [0, 0] is NaN", "[W6]")


for case, (arguments, options, flags) in CASES.items():
    def test(self, case=case, arguments=arguments, options=options, flags=flags):
        self.check_format(case, arguments, options, flags)
    setattr(Formats, f"test_{case}", test)
# The cases of test_models.py are not run again.
for name in [n for n in dir(Models) if n.startswith("test_")]:
    for each in (Formats, Refusals):
        if getattr(each, name) is getattr(Models, name):
            setattr(each, name, None)

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(";".join([*CASES, "refusals"]), end="")
        sys.exit()
    assert BIN
    sys.argv[1:] = ["Refusals" if a == "refusals" else
                    f"Formats.test_{a}" if a in CASES else a
                    for a in sys.argv[1:]]
    main()
