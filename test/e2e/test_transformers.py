#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `octet quantize` writes loads in Hugging Face transformers, in float32, and
gives the logits of `octet compile --dtype f32 --activation-quant off`.

Block FP8 goes through transformers' own loader, with sides that are multiples of
128, because it misreads ragged ones; per channel and per tensor go through
compressed-tensors. Both sides hold the same float32 weights and sum them in other
orders, a relative error of 1e-6; 1e-4 is asked for. With activations rounded, a
sum in another order moves a code now and then (N5), which is compared to 0.05.

OCTET_TORCH_PYTHON names a Python that has torch, transformers and
compressed-tensors (test/requirements-torch.txt; `tools/dev test --with-torch`).
Skipped where they cannot be imported.
"""
import os
import sys

python = os.environ.pop("OCTET_TORCH_PYTHON", "")
if python:
    os.environ.pop("PYTHONPATH", None)  # packages for another Python
    try:
        os.execv(python, [python, *sys.argv])
    except OSError as error:
        sys.exit(f"OCTET_TORCH_PYTHON: {python}: {error.strerror}")
try:
    import torch
    import transformers
    import compressed_tensors
except ImportError as error:
    print(f"skipped: {error}; OCTET_TORCH_PYTHON may name a Python that has "
          "test/requirements-torch.txt, 'tools/dev test --with-torch' makes one")
    sys.exit(77)

import json  # noqa: E402
from octet_test import BIN, TestCase, draw_prompts, load, main, SEED  # noqa: E402

SHAPE = ["--hidden", 256, "--intermediate", 512, "--heads", 4, "--kv-heads", 2,
         "--head-dim", 64]
CLOSE, FLIP = 1e-4, 0.05


class Transformers(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        torch.set_num_threads(1)
        print(f"torch {torch.__version__}, transformers {transformers.__version__}, "
              f"compressed-tensors {compressed_tensors.__version__}", file=sys.stderr)
        cls.prompts = draw_prompts([9, 17])

    def quantize(self, name, arch, *options):
        source = self.make(f"{name}-source", "--arch", arch, "--format", "bf16",
                           "--seed", SEED, *SHAPE)
        if "--calibrate" in options:
            (self.dir / "prompts.jsonl").write_text("".join(
                json.dumps({"prompt_ids": ids}) + "\n"
                for ids in self.prompts.values()))
        out = self.dir / name
        self.call(BIN / "octet", "quantize", source, "-o", out, *options)
        return out

    def load_model(self, folder, config):
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager",
            quantization_config=config)
        weight = model.model.layers[0].self_attn.q_proj.weight
        self.assertEqual(weight.dtype, torch.float32)
        return model.eval()

    def compare(self, folder, model, limit, *options):
        exe = self.compile(folder, folder.name + ".exe", "--dtype", "f32", *options)
        got = load(self.logits(exe, self.prompts))
        for prompt, ids in self.prompts.items():
            with torch.no_grad():
                want = model(torch.tensor([ids])).logits[0]
            shape, values = got[prompt + ".logits"]
            error = (torch.tensor(values).view(shape) - want).norm() / want.norm()
            print(f"{folder.name} {prompt} {' '.join(options)}: {error:.1e}",
                  file=sys.stderr)
            self.assertLess(error, limit)

    def check_block(self, arch):
        folder = self.quantize("block-" + arch, arch, "--to", "fp8-block")
        model = self.load_model(
            folder, transformers.FineGrainedFP8Config(dequantize=True))
        self.compare(folder, model, CLOSE, "--activation-quant", "off")

    def test_block_llama(self):
        self.check_block("llama")

    def test_block_qwen3(self):
        self.check_block("qwen3")

    def check_compressed(self, name, *options):
        folder = self.quantize(name, "llama", "--format", "compressed-tensors", *options)
        model = self.load_model(
            folder, transformers.CompressedTensorsConfig(dequantize=True))
        modules = [m for m in model.modules()
                   if getattr(m, "quantization_scheme", None)]
        self.assertEqual(len(modules), 7 * 2)
        self.compare(folder, model, FLIP)
        for module in modules:
            module.quantization_enabled = False
        self.compare(folder, model, CLOSE, "--activation-quant", "off")

    def test_channel(self):
        self.check_compressed("channel", "--to", "fp8-channel")

    def test_tensor(self):
        self.check_compressed("tensor", "--to", "fp8-tensor")

    def test_tensor_static(self):
        self.check_compressed("static", "--to", "fp8-tensor", "--calibrate",
                              self.dir / "prompts.jsonl")


if __name__ == "__main__":
    main()
