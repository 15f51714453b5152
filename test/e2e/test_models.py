#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated checkpoints against reference.py: architecture × format × shape.

Each case is compiled with --dtype f32 and its logits, hidden states and greedy
tokens are compared token by token: with --activation-quant off to 1e-4 (float32
sums give 1e-6), and as it is to the same 1e-4 up to the first token where the
reference says that a rounding may go either way (`Model.margin`). With --dtype
bf16 only the size of the error is checked: bfloat16 keeps 8 bits, a relative
rounding of 2^-9 in each of some twenty values along the way, 1e-2 together; with
activations quantised the flips make it the quantisation error, 0.1 (N5).

`--list` prints the names of the cases; a name runs that case alone.
"""
import math
import sys

from octet_test import TestCase, draw_prompts, load, main, rel_l2, SEED
import reference

RAGGED = ["--hidden", 192, "--intermediate", 320, "--heads", 6,
          "--kv-heads", 2, "--head-dim", 32]
SMALL = ["--hidden", 128, "--intermediate", 192, "--heads", 4,
         "--kv-heads", 1, "--head-dim", 32]

# name: (make_model.py's arguments, octet compile's arguments)
CASES = {
    "llama_bf16_biases_linear_rope": (
        ["--arch", "llama", "--format", "bf16", "--bias", "--rope", "linear",
         "--tied", *RAGGED], []),
    "llama_f16_multi_head": (
        ["--arch", "llama", "--format", "f16", "--hidden", 96, "--heads", 3,
         "--kv-heads", 3, "--head-dim", 32, "--intermediate", 80], []),
    "qwen2_block_biases_ragged_sharded": (
        ["--arch", "qwen2", "--format", "fp8-block", "--shards", 3, *RAGGED],
        []),
    # k and v have 64 rows, half a block each: rows of the fused matrix do not
    # start on block edges (W5b).
    "qwen3_block_ragged_shards": (
        ["--arch", "qwen3", "--format", "fp8-block", "--hidden", 200,
         "--intermediate", 200, "--heads", 5, "--kv-heads", 1], []),
    "qwen3_block_ue8m0_bf16_scales": (
        ["--arch", "qwen3", "--format", "fp8-block", "--scale-fmt", "ue8m0",
         "--scale-dtype", "bf16", "--tied", *SMALL], []),
    "qwen3_block_64x32": (
        ["--arch", "qwen3", "--format", "fp8-block", "--block", "64x32",
         *RAGGED], []),
    "llama_block_mixed_layers": (
        ["--arch", "llama", "--format", "fp8-block", "--layers", 3,
         "--ignore", "model.layers.1.mlp.down_proj",
         "--ignore", "model.layers.2.self_attn.q_proj",
         "--ignore", "model.layers.2.self_attn.k_proj",
         "--ignore", "model.layers.2.self_attn.v_proj", *SMALL], []),
    # One shard of a fused module is left as it was (C8).
    "qwen2_block_unfused_layer": (
        ["--arch", "qwen2", "--format", "fp8-block", "--layers", 3,
         "--ignore", "model.layers.1.self_attn.k_proj", *SMALL],
        ["--unfuse-mixed"]),
    "mistral_tensor_dynamic_window": (
        ["--arch", "mistral", "--format", "fp8-tensor-dynamic",
         "--sliding-window", 5, *SMALL], []),
    "qwen3_tensor_static_kv": (
        ["--arch", "qwen3", "--format", "fp8-tensor-static", "--kv-scales",
         *SMALL], []),
    "mistral_ct_static_kv": (
        ["--arch", "mistral", "--format", "ct-static", "--kv-scales", *RAGGED],
        []),
    "llama_ct_channel_llama3_rope": (
        ["--arch", "llama", "--format", "ct-channel", "--rope", "llama3",
         "--rope-theta", 500000, "--bias", *RAGGED], []),
    "qwen2_ct_token_tensor_yarn": (
        ["--arch", "qwen2", "--format", "ct-token-tensor", "--rope", "yarn",
         "--rope-style", "parameters", *SMALL], []),
    # lm_head as the checkpoint has it (P16).
    "qwen3_tensor_static_lm_head": (
        ["--arch", "qwen3", "--format", "fp8-tensor-static",
         "--quantized-head", *SMALL], []),
    "llama_ct_static_lm_head": (
        ["--arch", "llama", "--format", "ct-static", "--quantized-head",
         *SMALL], []),
    "llama_block_lm_head": (
        ["--arch", "llama", "--format", "fp8-block", "--quantized-head",
         *SMALL], []),
    "mistral_ct_channel_lm_head": (
        ["--arch", "mistral", "--format", "ct-channel", "--quantized-head",
         *SMALL], []),
    "qwen2_bf16_window_of_late_layers": (
        ["--arch", "qwen2", "--format", "bf16", "--layers", 3,
         "--sliding-window", 4, "--max-window-layers", 1, *SMALL], []),
    "llama_quantised_while_loading": (
        ["--arch", "llama", "--format", "bf16", *SMALL],
        ["--quantization", "fp8"]),
}
# A token after one that may round either way may differ by this much.
CLOSE, FLIP = 1e-6, 0.25


class Models(TestCase):
    def check_case(self, name, arguments, options):
        self.assertTrue(arguments)
        folder = self.make(name, "--seed", SEED, *arguments)
        prompts = draw_prompts([1, 6, 7, 12])
        for kind in ("weights", "w8a8"):
            quant = kind == "w8a8"
            extra = [] if quant else ["--activation-quant", "off"]
            named = "fp8" if "--quantization" in options else None
            model = reference.Model(folder, quant, named)
            want = {p: model.run(ids, decode=6) for p, ids in prompts.items()}
            for dtype in ("f32", "bf16"):
                exe = self.compile(folder, f"{name}.{kind}.{dtype}", "--dtype",
                                   dtype, *options, *extra)
                # The checkpoint's FP8 cache is kept in all cases (P7b).
                got = load(self.logits(exe, prompts, "--decode", 6, "--trace",
                                       "hidden", out=f"{exe.name}.safetensors"))
                if dtype == "f32":
                    self.compare(name, kind, got, want)
                else:
                    self.compare_size(name, kind, got, want)

    def compare(self, name, kind, got, want):
        exact = 0
        for prompt, result in want.items():
            bad = self.first_bad_row(got, prompt, result)
            label = f"{name} [{kind}] {prompt}"
            if bad is None:
                exact += 1
                self.compare_greedy(label, got, prompt, result)
            elif result["margins"][bad[0]] >= CLOSE or bad[2] > FLIP:
                self.fail(
                    f"{label}: {bad[1]} differs at token {bad[0]} by {bad[2]:.1e}, "
                    f"and no rounding up to there is closer to a step than "
                    f"{result['margins'][bad[0]]:.1e}")
        # A rounding seldom goes the other way: most prompts are exact.
        self.assertGreaterEqual(exact, 2, f"{name} [{kind}]")

    def first_bad_row(self, got, prompt, result):
        """(row, tensor, error) of the first token that differs, or None."""
        worst = None
        for tensor, (_, (rows, width), values) in self.tables(prompt, result):
            shape, have = got[tensor]
            self.assertEqual(shape, [rows, width], tensor)
            for row in range(rows):
                part = slice(row * width, (row + 1) * width)
                error = rel_l2(have[part], values[part])
                if error > 1e-4 and (worst is None or row < worst[0]):
                    worst = (row, tensor, error)
        return worst

    def tables(self, prompt, result):
        return [(name, tensor) for name, tensor
                in reference.tensors_of(prompt, result).items()
                if ".hidden" in name or name.endswith(".logits")]

    def compare_greedy(self, label, got, prompt, result):
        """Tokens after the prompt, while the reference is sure of them."""
        greedy = got[f"{prompt}.greedy"][1]
        first = len(result["margins"]) - len(result["greedy"])
        for i, (token, row) in enumerate(
                zip(result["greedy"], result["decode_logits"])):
            top, second = sorted(row, reverse=True)[:2]
            if result["margins"][first + i] < CLOSE or top - second < 1e-3:
                return
            self.assertEqual(greedy[i], token, f"{label}: token {i} after it")
            if token == 2:  # the end of the sequence
                return

    def compare_size(self, name, kind, got, want, limit=0.25):
        for prompt, result in want.items():
            flat = [x for row in result["logits"] for x in row]
            error = rel_l2(got[f"{prompt}.logits"][1], flat)
            unquantised = result["margins"][-1] == math.inf
            self.assertLess(error, 0.03 if unquantised else limit,
                            f"{name} [{kind}, bf16] {prompt}")


for case, (arguments, options) in CASES.items():
    def test(self, case=case, arguments=arguments, options=options):
        self.check_case(case, arguments, options)
    setattr(Models, f"test_{case}", test)

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(";".join(CASES), end="")
        sys.exit()
    sys.argv[1:] = [f"Models.test_{a}" if a in CASES else a for a in sys.argv[1:]]
    main()
