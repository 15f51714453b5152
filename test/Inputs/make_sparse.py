#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the shape of a tiny model with experts or latent attention.

    make_sparse.py OUT --arch deepseek-v3 [--format bf16] [KEY=JSON ...]

config.json and one safetensors file whose headers are as a real checkpoint of
the architecture has them; the data are a hole in the file. KEY=JSON sets a key
of config.json after the tensors are laid out, so that they can contradict each
other. Python's standard library only.
"""
import argparse
import json
import math
import struct
from pathlib import Path

WIDTH = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1}
HIDDEN, VOCAB, LAYERS, EXPERTS = 256, 256, 4, 8

LATENT = dict(num_attention_heads=4, num_key_value_heads=4, q_lora_rank=128,
              kv_lora_rank=128, qk_nope_head_dim=64, qk_rope_head_dim=32,
              v_head_dim=64)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=64)
ROUTED = dict(n_routed_experts=EXPERTS, n_shared_experts=1,
              moe_intermediate_size=128, num_experts_per_tok=2, n_group=4,
              topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5,
              first_k_dense_replace=1)
INDEX = dict(index_n_heads=2, index_head_dim=64, index_topk=16)
ARCHITECTURES = {
    "deepseek-v2": ("DeepseekV2ForCausalLM", LATENT | ROUTED | dict(
        q_lora_rank=None, topk_method="greedy", scoring_func="softmax",
        norm_topk_prob=False)),
    "deepseek-v3": ("DeepseekV3ForCausalLM", LATENT | ROUTED | dict(
        num_nextn_predict_layers=1)),
    "deepseek-v32": ("DeepseekV32ForCausalLM", LATENT | ROUTED | INDEX),
    "glm-dsa": ("GlmMoeDsaForCausalLM", LATENT | ROUTED | INDEX | dict(
        n_group=1, topk_group=1,
        indexer_types=["full", "full", "shared", "shared"])),
    "glm4-moe": ("Glm4MoeForCausalLM", HEADS | ROUTED | dict(
        attention_bias=True, use_qk_norm=True, partial_rotary_factor=0.5,
        n_group=1, topk_group=1)),
    "qwen3-moe": ("Qwen3MoeForCausalLM", HEADS | dict(
        num_experts=EXPERTS, moe_intermediate_size=128, num_experts_per_tok=2,
        norm_topk_prob=True, mlp_only_layers=[0], attention_bias=False)),
    "mixtral": ("MixtralForCausalLM", HEADS | dict(
        num_local_experts=EXPERTS, num_experts_per_tok=2)),
    "gpt-oss": ("GptOssForCausalLM", HEADS | dict(
        num_local_experts=EXPERTS, num_experts_per_tok=2, sliding_window=16,
        attention_bias=True, swiglu_limit=7.0)),
}


def cdiv(a, b):
    return -(-a // b)


class Layout:
    """Names, dtypes and shapes of the tensors."""

    def __init__(self, config, quantized):
        self.c, self.quantized, self.tensors = config, quantized, {}

    def plain(self, name, *shape, dtype="BF16"):
        self.tensors[name] = (dtype, list(shape))

    def linear(self, path, n, k, bias=False):
        if bias:
            self.plain(path + ".bias", n)
        if not self.quantized:
            self.plain(path + ".weight", n, k)
            return
        self.plain(path + ".weight", n, k, dtype="F8_E4M3")
        self.plain(path + ".weight_scale_inv", cdiv(n, 128), cdiv(k, 128),
                   dtype="F32")

    def heads(self, at):
        c, bias = self.c, self.c.get("attention_bias", False)
        q, kv = (c[key] * c["head_dim"] for key in
                 ("num_attention_heads", "num_key_value_heads"))
        for name, n in (("q", q), ("k", kv), ("v", kv)):
            self.linear(at + f"{name}_proj", n, HIDDEN, bias)
        self.linear(at + "o_proj", HIDDEN, q, bias and "swiglu_limit" in c)
        if c.get("use_qk_norm") or "num_experts" in c:
            self.plain(at + "q_norm.weight", c["head_dim"])
            self.plain(at + "k_norm.weight", c["head_dim"])
        if "swiglu_limit" in c:
            self.plain(at + "sinks", c["num_attention_heads"])

    def latent(self, at, layer):
        c = self.c
        heads, rank = c["num_attention_heads"], c["kv_lora_rank"]
        nope, rope = c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        if c["q_lora_rank"]:
            self.linear(at + "q_a_proj", c["q_lora_rank"], HIDDEN)
            self.plain(at + "q_a_layernorm.weight", c["q_lora_rank"])
            self.linear(at + "q_b_proj", heads * (nope + rope),
                        c["q_lora_rank"])
        else:
            self.linear(at + "q_proj", heads * (nope + rope), HIDDEN)
        self.linear(at + "kv_a_proj_with_mqa", rank + rope, HIDDEN)
        self.plain(at + "kv_a_layernorm.weight", rank)
        self.linear(at + "kv_b_proj", heads * (nope + c["v_head_dim"]), rank)
        self.linear(at + "o_proj", HIDDEN, heads * c["v_head_dim"])
        types = c.get("indexer_types", ["full"] * LAYERS) + ["full"]
        if "index_topk" in c and types[layer] == "full":
            dim = c["index_head_dim"]
            self.linear(at + "indexer.wq_b", c["index_n_heads"] * dim,
                        c["q_lora_rank"])
            self.linear(at + "indexer.wk", dim, HIDDEN)
            self.plain(at + "indexer.k_norm.weight", dim)
            self.plain(at + "indexer.k_norm.bias", dim)
            self.plain(at + "indexer.weights_proj.weight", c["index_n_heads"],
                       HIDDEN)

    def mlp(self, at, width):
        self.linear(at + "gate_proj", width, HIDDEN)
        self.linear(at + "up_proj", width, HIDDEN)
        self.linear(at + "down_proj", HIDDEN, width)

    def experts(self, at):
        c = self.c
        if "swiglu_limit" in c:
            width = c["intermediate_size"]
            self.plain(at + "mlp.router.weight", EXPERTS, HIDDEN)
            self.plain(at + "mlp.router.bias", EXPERTS)
            for name, n, k in (("gate_up_proj", 2 * width, HIDDEN),
                               ("down_proj", HIDDEN, width)):
                stem = at + "mlp.experts." + name
                self.plain(stem + "_blocks", EXPERTS, n, k // 32, 16,
                           dtype="U8")
                self.plain(stem + "_scales", EXPERTS, n, k // 32, dtype="U8")
                self.plain(stem + "_bias", EXPERTS, n)
            return
        mixtral = "num_local_experts" in c
        block = at + ("block_sparse_moe." if mixtral else "mlp.")
        width = c["intermediate_size" if mixtral else "moe_intermediate_size"]
        self.plain(block + "gate.weight", EXPERTS, HIDDEN)
        if "n_routed_experts" in c and c.get("topk_method") != "greedy":
            self.plain(block + "gate.e_score_correction_bias", EXPERTS,
                       dtype="F32")
        names = (("w1", "w3", "w2") if mixtral else
                 ("gate_proj", "up_proj", "down_proj"))
        for e in range(EXPERTS):
            for name in names[:2]:
                self.linear(block + f"experts.{e}.{name}", width, HIDDEN)
            self.linear(block + f"experts.{e}.{names[2]}", HIDDEN, width)
        if c.get("n_shared_experts"):
            self.mlp(block + "shared_experts.", width)

    def draft(self, at):
        """What joins a draft layer to the model (W14)."""
        for name in ("enorm", "hnorm", "shared_head.norm"):
            self.plain(at + name + ".weight", HIDDEN)
        self.plain(at + "eh_proj.weight", HIDDEN, 2 * HIDDEN)
        if self.c.get("own_draft_head", True):
            self.plain(at + "embed_tokens.weight", VOCAB, HIDDEN)
            self.plain(at + "shared_head.head.weight", VOCAB, HIDDEN)

    def layer(self, i):
        c, at = self.c, f"model.layers.{i}."
        if i >= LAYERS:
            self.draft(at)
        self.plain(at + "input_layernorm.weight", HIDDEN)
        if "kv_lora_rank" in c:
            self.latent(at + "self_attn.", i)
        else:
            self.heads(at + "self_attn.")
        self.plain(at + "post_attention_layernorm.weight", HIDDEN)
        if (i < c.get("first_k_dense_replace", 0)
                or i in c.get("mlp_only_layers", [])):
            self.mlp(at + "mlp.", c["intermediate_size"])
        else:
            self.experts(at)

    def model(self):
        self.plain("model.embed_tokens.weight", VOCAB, HIDDEN)
        for i in range(LAYERS + self.c.get("num_nextn_predict_layers", 0)):
            self.layer(i)
        self.plain("model.norm.weight", HIDDEN)
        self.plain("lm_head.weight", VOCAB, HIDDEN)
        return self.tensors


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--arch", choices=ARCHITECTURES, required=True)
    parser.add_argument("--format", choices=["fp8-block", "bf16"],
                        default="fp8-block")
    parser.add_argument("--drafts", type=int, choices=[0, 1],
                        help="draft layers (W14)")
    parser.add_argument("--bare-draft", action="store_true",
                        help="a draft layer has no embedding and head")
    parser.add_argument("keys", nargs="*", metavar="KEY=JSON")
    o = parser.parse_intermixed_args()
    name, own = ARCHITECTURES[o.arch]
    config = dict(
        architectures=[name], torch_dtype="bfloat16", vocab_size=VOCAB,
        hidden_size=HIDDEN, intermediate_size=256, num_hidden_layers=LAYERS,
        hidden_act="silu", rms_norm_eps=1e-5, max_position_embeddings=4096,
        rope_theta=10000.0, tie_word_embeddings=False) | own
    if o.arch == "gpt-oss":
        o.format = "bf16"  # but for the experts
        config["quantization_config"] = {
            "quant_method": "mxfp4", "modules_to_not_convert": [
                "model.layers.*.self_attn", "model.layers.*.mlp.router",
                "model.embed_tokens", "lm_head"]}
    elif o.format == "fp8-block":
        config["quantization_config"] = {
            "quant_method": "fp8", "activation_scheme": "dynamic",
            "weight_block_size": [128, 128]}
    if o.bare_draft:
        config["own_draft_head"] = False
    if o.drafts is not None:
        config["num_nextn_predict_layers"] = o.drafts
    tensors = Layout(config, o.format == "fp8-block").model()
    config.pop("own_draft_head", None)
    for key in o.keys:
        key, _, value = key.partition("=")
        config[key] = json.loads(value)
    o.out.mkdir(parents=True, exist_ok=True)
    (o.out / "config.json").write_text(json.dumps(config, indent=1))
    header, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * WIDTH[dtype]
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(o.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


if __name__ == "__main__":
    main()
