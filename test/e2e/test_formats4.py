#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights whose codes share words, against reference4.py, as test_models.py does:
AWQ, GPTQ, auto-round, pack-quantized, MXFP4 and NVFP4, weights only (B4, N7), and
what only their bytes can say (W1, W6).

`--list` prints the names of the cases; a name runs that case alone.
"""
import struct
import sys

from octet_test import BIN, draw_prompts, load, main, make_model, SEED
import reference
from test_models import Models

# Groups of 32 divide K; rows are no multiple of a tile's 64.
SMALL = ["--hidden", 128, "--intermediate", 192, "--heads", 4,
         "--kv-heads", 1, "--head-dim", 32]
RAGGED = ["--hidden", 160, "--intermediate", 224, "--heads", 5,
          "--kv-heads", 1, "--head-dim", 32]
# K is no multiple of a group or a word (a row of codes ends in a word).
ODD = ["--hidden", 130, "--intermediate", 150, "--heads", 3,
       "--kv-heads", 1, "--head-dim", 26]

# name: (make_model.py's arguments, octet compile's)
CASES = {
    "awq": (["--arch", "llama", "--format", "awq", *RAGGED], []),
    "awq_as_awq": (["--arch", "qwen2", "--format", "awq", *SMALL],
                   ["--quantization", "awq"]),
    "gptq": (["--arch", "llama", "--format", "gptq", *RAGGED], []),
    "gptq_v2": (["--arch", "qwen2", "--format", "gptq-v2", *SMALL], []),
    "gptq_act_order": (
        ["--arch", "qwen3", "--format", "gptq-act-order", *RAGGED], []),
    "gptq_8_bits": (["--arch", "llama", "--format", "gptq-8", *RAGGED], []),
    "gptq_channel": (["--arch", "llama", "--format", "gptq-channel", *SMALL], []),
    "gptq_skipped_layer": (
        ["--arch", "llama", "--format", "gptq", "--layers", 3, "--ignore",
         "model.layers.1.mlp.down_proj", *SMALL], []),
    "auto_round_gptq": (
        ["--arch", "qwen3", "--format", "auto-round-gptq", *SMALL], []),
    "auto_round_awq": (
        ["--arch", "llama", "--format", "auto-round-awq", *SMALL], []),
    "packed_4": (["--arch", "llama", "--format", "packed-4", *ODD], []),
    "packed_4_zeros_act_order": (
        ["--arch", "qwen3", "--format", "packed-4-zeros", *ODD], []),
    "packed_4_channel": (
        ["--arch", "qwen2", "--format", "packed-4-channel", *ODD], []),
    "packed_8": (["--arch", "llama", "--format", "packed-8", *ODD], []),
    "mxfp4_quark": (["--arch", "llama", "--format", "mxfp4-quark", *RAGGED], []),
    "nvfp4_modelopt": (["--arch", "qwen3", "--format", "nvfp4", *RAGGED], []),
    "nvfp4_weight_only": (
        ["--arch", "llama", "--format", "nvfp4-weight-only", *SMALL], []),
    "nvfp4_compressed_tensors": (
        ["--arch", "llama", "--format", "nvfp4-ct", *RAGGED], []),
}


# Weights only, by the CPU's own numbers (B4).
CASES |= {
    "auto_round_mxfp4": (
        ["--arch", "llama", "--format", "auto-round-mxfp4", *RAGGED], []),
    "auto_round_nvfp4": (
        ["--arch", "qwen3", "--format", "auto-round-nvfp4", *SMALL], []),
}
# By the numbers of a target with FP4 products activations are rounded too, and
# the shards of a fused matrix share the scale above their groups (B4, N7, W9).
CASES |= {
    f"{name}_{target}": ([*arguments], ["--numerics", target])
    for target in ("sm_100f", "sm_120f")
    for name, arguments in {
        "nvfp4": ["--arch", "qwen2", "--format", "nvfp4", *RAGGED],
        "nvfp4_ct": ["--arch", "qwen3", "--format", "nvfp4-ct-w4a4", *SMALL],
        "auto_round_nvfp4": [
            "--arch", "llama", "--format", "auto-round-nvfp4", *SMALL],
        "mxfp4_quark_w4a4": [
            "--arch", "llama", "--format", "mxfp4-quark-w4a4", *RAGGED],
    }.items()
}


class Formats(Models):
    def check_format(self, name, arguments, options):
        folder = self.make(name, "--seed", SEED, *arguments)
        prompts = draw_prompts([1, 6, 7, 12])
        flags = {"numerics": options[1]} if "--numerics" in options else {}
        model = reference.Model(folder, **flags)
        want = {p: model.run(ids, decode=6) for p, ids in prompts.items()}
        for dtype in ("f32", "bf16"):
            exe = self.compile(folder, f"{name}.{dtype}", "--dtype", dtype,
                               *options)
            got = load(self.logits(exe, prompts, "--decode", 6, "--trace",
                                   "hidden", out=f"{exe.name}.safetensors"))
            if dtype == "f32":
                self.compare(name, "weights", got, want)
            else:
                # A step of E2M1 is 8 of E4M3's: what BF16 rounds before it flips
                # codes, and each by more.
                self.compare_size(name, "weights", got, want,
                                  limit=0.6 if flags else 0.25)


class Refusals(Models):
    """Hostile values: one error with the tensor, the element and the rule."""

    def refuse(self, name, form, tensor, change, *parts, options=()):
        folder = self.make(name, "--seed", SEED, "--arch", "llama", "--format",
                           form, *SMALL)
        path = folder / "model.safetensors"
        tensors = reference.read_safetensors(path)
        dtype, shape, data = tensors[tensor]
        data = bytearray(data)
        change(data)
        tensors[tensor] = (dtype, shape, bytes(data))
        make_model.write_safetensors(path, tensors)
        exe = self.compile(folder, name + ".exe", *options)
        ids = self.dir / "ids.json"
        ids.write_text('{"p0": [5, 6]}')
        done = self.call(exe, "logits", "--ids-file", ids, "-o",
                         self.dir / "out", status=1)
        self.error_of(done, tensor, *parts)

    def test_w6_nan_scale(self):
        def change(data):
            data[2 * 131:2 * 132] = struct.pack("<e", float("nan"))
        self.refuse("w6nan", "awq", "model.layers.1.self_attn.q_proj.scales",
                    change, "element [1, 3] is NaN", "[W6]")

    def test_w6_zero_scale(self):
        def change(data):
            data[0:2] = bytes(2)
        self.refuse("w6zero", "gptq", "model.layers.0.mlp.up_proj.scales", change,
                    "element [0, 0] is zero with a non-zero group", "[W6]")

    def test_w6_nan_group_scale(self):
        def change(data):
            data[9] = 0x7F
        self.refuse("w6nv", "nvfp4",
                    "model.layers.0.self_attn.o_proj.weight_scale", change,
                    "element [1, 1] is NaN", "[W6]")

    def test_w6_global_scale(self):
        def change(data):
            data[:] = struct.pack("<f", -1.0)
        self.refuse("w6global", "nvfp4-ct",
                    "model.layers.0.mlp.down_proj.weight_global_scale", change,
                    "element [0] is -1", "[W6]")

    def test_w6_input_scale(self):
        """A stored scale that divides becomes a factor, which is checked."""
        def change(data):
            data[:] = struct.pack("<f", 0.0)
        self.refuse("w6input", "nvfp4-ct-w4a4",
                    "model.layers.1.mlp.up_proj.input_global_scale", change,
                    "[W6]", options=["--numerics", "sm_100f"])

    def test_w6_nan_exponent(self):
        def change(data):
            data[5] = 0xFF
        self.refuse("w6mx", "mxfp4-quark",
                    "model.layers.0.mlp.gate_proj.weight_scale", change,
                    "element [1, 1] is NaN", "[W6]")

    def test_w1_group_out_of_range(self):
        def change(data):
            data[40:44] = struct.pack("<i", 4)
        self.refuse("w1range", "gptq-act-order",
                    "model.layers.1.mlp.gate_proj.g_idx", change,
                    "element [10] is 4; expected a group from 0 to 3", "[W1]")

    def test_w1_group_too_large(self):
        def change(data):
            data[:] = bytes(len(data))
        self.refuse("w1size", "gptq-act-order",
                    "model.layers.0.self_attn.k_proj.g_idx", change,
                    "element [32] is 0", "a group has 32", "[W1]")


for case, (arguments, options) in CASES.items():
    def test(self, case=case, arguments=arguments, options=options):
        self.check_format(case, arguments, options)
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
