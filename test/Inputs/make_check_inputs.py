#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write small checkpoint folders for `octet check`, each about one rule.

    make_check_inputs.py OUTDIR [CASE ...]

Writes OUTDIR/CASE for each named case; without a name, all. --list prints the
cases. Data is a hole in the file but for scalars that have a value.
"""
import argparse
import inspect
import json
import struct
import sys
from pathlib import Path

WIDTH = {"F32": 4, "I32": 4, "I64": 8, "BF16": 2, "F16": 2, "U8": 1, "I8": 1,
         "F8_E4M3": 1, "F8_E5M2": 1, "F8_E4M3FNUZ": 1, "F8_E8M0": 1}
BLOCK = {"quant_method": "fp8", "activation_scheme": "dynamic",
         "weight_block_size": [128, 128]}
CASES = {}


def case(function):
    """Registers a function that returns a Model."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def cdiv(a, b):
    return -(-a // b)


# How a linear is stored: functions of (n, k) to {suffix: (dtype, shape[, value])}.

def bf16(n, k):
    return {"weight": ("BF16", [n, k])}


def block(n, k, name="weight_scale_inv", dtype="F32"):
    return {"weight": ("F8_E4M3", [n, k]),
            name: (dtype, [cdiv(n, 128), cdiv(k, 128)])}


def unscaled(n, k):
    return {"weight": ("F8_E4M3", [n, k])}


def static(n, k):
    return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("F32", [], 0.01),
            "input_scale": ("F32", [], 0.05)}


def channel(n, k):
    return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("F32", [n, 1])}


def int8(n, k):
    return {"weight": ("I8", [n, k]), "weight_scale": ("F32", [n, 1])}


def mxfp8(n, k):
    return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("U8", [n, k // 32])}


def nvfp4(n, k):
    return {"weight": ("U8", [n, k // 2]), "weight_scale": ("F8_E4M3", [n, k // 16]),
            "weight_scale_2": ("F32", [], 0.001), "input_scale": ("F32", [], 0.05)}


def awq(n, k):
    return {"qweight": ("I32", [k, n // 8]), "qzeros": ("I32", [k // 128, n // 8]),
            "scales": ("F16", [k // 128, n])}


def gptq(n, k):
    return {"qweight": ("I32", [k // 8, n]), "qzeros": ("I32", [k // 128, n // 8]),
            "scales": ("F16", [k // 128, n]), "g_idx": ("I32", [k])}


class Model:
    """A config and tensors."""

    def __init__(self, quantization, **fields):
        self.config = {"torch_dtype": "bfloat16", "hidden_size": 512, "vocab_size": 512,
                       "num_attention_heads": 4, "rms_norm_eps": 1e-6, "hidden_act": "silu",
                       "max_position_embeddings": 2048, "tie_word_embeddings": False} | fields
        if quantization is not None:
            self.config["quantization_config"] = quantization
        self.sidecar = None
        self.tensors = {}
        self.hidden = self.config["hidden_size"]
        self.plain("model.embed_tokens.weight", self.config["vocab_size"], self.hidden)
        self.plain("model.norm.weight", self.hidden)
        if not self.config["tie_word_embeddings"]:
            self.plain("lm_head.weight", self.config["vocab_size"], self.hidden)

    def plain(self, name, *shape):
        self.tensors[name] = ("BF16", list(shape))

    def linear(self, path, n, k, how):
        for suffix, tensor in how(n, k).items():
            self.tensors[f"{path}.{suffix}"] = tensor

    def norms(self, prefix):
        for name in ("input_layernorm", "post_attention_layernorm"):
            self.plain(f"{prefix}.{name}.weight", self.hidden)

    def heads(self, prefix, how, kv_heads=2, head_dim=128):
        width = self.config["num_attention_heads"] * head_dim
        self.linear(f"{prefix}.self_attn.q_proj", width, self.hidden, how)
        for name in "kv":
            self.linear(f"{prefix}.self_attn.{name}_proj", kv_heads * head_dim, self.hidden, how)
        self.linear(f"{prefix}.self_attn.o_proj", self.hidden, width, how)

    def mlp(self, prefix, width, how):
        for name in ("gate_proj", "up_proj"):
            self.linear(f"{prefix}.{name}", width, self.hidden, how)
        self.linear(f"{prefix}.down_proj", self.hidden, width, how)

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config, indent=1))
        if self.sidecar:
            (folder / "hf_quant_config.json").write_text(json.dumps(self.sidecar))
        header, offset, values = {}, 0, []
        for name, (dtype, shape, *value) in self.tensors.items():
            size = WIDTH[dtype]
            for side in shape:
                size *= side
            header[name] = {"dtype": dtype, "shape": shape,
                            "data_offsets": [offset, offset + size]}
            if value:
                data = value[0]
                values.append((offset, data if isinstance(data, bytes)
                               else struct.pack("<f", data)))
            offset += size
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for at, data in values:
                file.seek(8 + len(text) + at)
                file.write(data)
            file.truncate(8 + len(text) + offset)


def llama(quantization=BLOCK, how=block, kv_heads=2, width=1024, layers=1, **fields):
    model = Model(quantization, architectures=["LlamaForCausalLM"], model_type="llama",
                  num_hidden_layers=layers, num_key_value_heads=kv_heads, head_dim=128,
                  intermediate_size=width, **fields)
    for layer in range(layers):
        prefix = f"model.layers.{layer}"
        model.norms(prefix)
        model.heads(prefix, how, kv_heads)
        model.mlp(f"{prefix}.mlp", width, how)
    return model


def experts(architecture, quantization=BLOCK, how=block, count=4, width=256, **fields):
    """One layer of Qwen3-MoE, or of Mixtral."""
    mixtral = architecture == "MixtralForCausalLM"
    names = {"num_local_experts": count} if mixtral else {
        "num_experts": count, "moe_intermediate_size": width}
    model = Model(quantization, architectures=[architecture], num_hidden_layers=1,
                  num_key_value_heads=2, head_dim=128, num_experts_per_tok=2,
                  intermediate_size=width if mixtral else 1024, **names, **fields)
    prefix = "model.layers.0"
    model.norms(prefix)
    model.heads(prefix, how)
    if not mixtral:
        for name in "qk":
            model.plain(f"{prefix}.self_attn.{name}_norm.weight", 128)
    block_name = "block_sparse_moe" if mixtral else "mlp"
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    model.plain(f"{prefix}.{block_name}.gate.weight", count, 512)
    for expert in range(count):
        stem = f"{prefix}.{block_name}.experts.{expert}"
        model.linear(f"{stem}.{gate}", width, 512, how)
        model.linear(f"{stem}.{up}", width, 512, how)
        model.linear(f"{stem}.{down}", 512, width, how)
    return model


def deepseek(quantization=BLOCK, how=block, drafts=0, nope=64, value=64, **fields):
    """A dense layer and one of experts, latent attention, draft layers behind."""
    model = Model(quantization, architectures=["DeepseekV3ForCausalLM"],
                  model_type="deepseek_v3", num_hidden_layers=2, first_k_dense_replace=1,
                  num_key_value_heads=4, intermediate_size=512, n_routed_experts=4,
                  n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=256,
                  n_group=1, topk_group=1, scoring_func="sigmoid", topk_method="noaux_tc",
                  q_lora_rank=256, kv_lora_rank=128, qk_nope_head_dim=nope,
                  qk_rope_head_dim=64, v_head_dim=value,
                  num_nextn_predict_layers=drafts, **fields)
    for layer in range(2 + drafts):
        prefix = f"model.layers.{layer}"
        model.norms(prefix)
        attention = f"{prefix}.self_attn"
        model.linear(f"{attention}.q_a_proj", 256, 512, how)
        model.plain(f"{attention}.q_a_layernorm.weight", 256)
        model.linear(f"{attention}.q_b_proj", 4 * (nope + 64), 256, how)
        model.linear(f"{attention}.kv_a_proj_with_mqa", 192, 512, how)
        model.plain(f"{attention}.kv_a_layernorm.weight", 128)
        model.linear(f"{attention}.kv_b_proj", 4 * (nope + value), 128, how)
        model.linear(f"{attention}.o_proj", 512, 4 * value, how)
        if layer == 0:
            model.mlp(f"{prefix}.mlp", 512, how)
            continue
        model.plain(f"{prefix}.mlp.gate.weight", 4, 512)
        model.tensors[f"{prefix}.mlp.gate.e_score_correction_bias"] = ("F32", [4])
        for expert in range(4):
            model.mlp(f"{prefix}.mlp.experts.{expert}", 256, how)
        model.mlp(f"{prefix}.mlp.shared_experts", 256, how)
        if layer >= 2:
            for name in ("enorm", "hnorm", "shared_head.norm"):
                model.plain(f"{prefix}.{name}.weight", 512)
            model.plain(f"{prefix}.eh_proj.weight", 512, 1024)
    return model


# Steps 1 to 3.

@case
def good():
    """Block FP8, BF16 head: every step passes."""
    return llama(BLOCK | {"modules_to_not_convert": ["lm_head"]}, layers=2)


@case
def plain():
    """No config, no codes."""
    return llama(None, bf16)


@case
def unknown_method():
    return llama({"quant_method": "fp7"})


@case
def upper_case():
    """Names are compared whole, ignoring case (C14)."""
    return llama({"quant_method": "MXFP8"}, mxfp8)


@case
def static_block():
    """One static scale cannot describe blocks (C5)."""
    return llama(BLOCK | {"activation_scheme": "static"})


@case
def mxfp8_block_size():
    """Replaced by [1, 32], with a warning (C6)."""
    return llama({"quant_method": "mxfp8", "weight_block_size": [128, 128]}, mxfp8)


@case
def sidecar():
    """Only hf_quant_config.json says that it is quantised (C1)."""
    model = llama(None, static)
    model.sidecar = {"producer": {"name": "modelopt"},
                     "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
                                      "exclude_modules": ["lm_head"]}}
    for name in "kv":
        model.tensors[f"model.layers.0.self_attn.{name}_proj.{name}_scale"] = ("F32", [], 0.5)
    return model


@case
def w8a8():
    """w8a8_fp8 needs sm_89 (C9)."""
    return llama({"quant_method": "w8a8_fp8"}, channel)


@case
def two_ropes():
    """rope_scaling and rope_parameters contradict each other (C15)."""
    return llama(rope_scaling={"rope_type": "linear", "factor": 2.0},
                 rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0})


@case
def one_rope():
    """The newer spelling alone (C15)."""
    return llama(rope_parameters={"rope_type": "linear", "factor": 4.0,
                                  "rope_theta": 10000.0})


@case
def wide_activations():
    """Activations in F16."""
    return llama(torch_dtype="float16")


# Step 4: layers and lists.

@case
def mixed_qkv():
    """v_proj is listed and stored in BF16, q_proj and k_proj are not (C8)."""
    model = llama(BLOCK | {"modules_to_not_convert": ["model.layers.0.self_attn.v_proj"]})
    del model.tensors["model.layers.0.self_attn.v_proj.weight_scale_inv"]
    model.plain("model.layers.0.self_attn.v_proj.weight", 256, 512)
    return model


@case
def no_config():
    """FP8 weights, and no method is declared (C13)."""
    return llama(None)


@case
def listed_but_stored():
    """The list names o_proj, its headers say FP8 with scales (C13)."""
    return llama(BLOCK | {"modules_to_not_convert": ["model.layers.0.self_attn.o_proj"]})


@case
def unlisted_but_plain():
    """No list names down_proj, which is stored in BF16 (C13)."""
    model = llama()
    del model.tensors["model.layers.0.mlp.down_proj.weight_scale_inv"]
    model.plain("model.layers.0.mlp.down_proj.weight", 512, 1024)
    return model


@case
def unmatched_entry():
    """An entry that names nothing, one that names a regular expression (C7)."""
    model = llama(BLOCK | {"modules_to_not_convert": [
        "model.visual", "re:.*\\.o_proj$", "lm_head"]})
    del model.tensors["model.layers.0.self_attn.o_proj.weight_scale_inv"]
    model.plain("model.layers.0.self_attn.o_proj.weight", 512, 512)
    return model


@case
def quantised_router():
    """A router has scales (W13)."""
    model = experts("Qwen3MoeForCausalLM")
    model.linear("model.layers.0.mlp.gate", 4, 512, block)
    return model


@case
def tied():
    """lm_head is the embedding, a copy is ignored (W15)."""
    model = llama(tie_word_embeddings=True)
    model.plain("lm_head.weight", 512, 512)
    return model


@case
def no_head():
    """Neither tied nor stored (W15)."""
    model = llama()
    del model.tensors["lm_head.weight"]
    return model


@case
def extra_tensor():
    """Nothing consumes it (W14)."""
    model = llama()
    model.plain("model.layers.0.adapter.weight", 8, 8)
    return model


@case
def drafts():
    """A draft layer behind the last (W14)."""
    return deepseek(drafts=1)


@case
def broken_draft():
    """A draft layer without a scale; a plain compile does not read it (W14)."""
    model = deepseek(drafts=1)
    del model.tensors["model.layers.2.self_attn.o_proj.weight_scale_inv"]
    return model


# Step 5: shapes and split.

@case
def short_scale():
    """A row of scales is missing (W1)."""
    model = llama(width=1152)
    model.tensors["model.layers.0.mlp.gate_proj.weight_scale_inv"] = ("F32", [8, 4])
    return model


@case
def grid_of_four():
    """[a, 1, b, 1] is a grid (W2)."""
    model = llama()
    model.tensors["model.layers.0.mlp.down_proj.weight_scale_inv"] = ("F32", [4, 1, 8, 1])
    return model


@case
def wrong_width():
    """The weight is not as wide as config.json says (C13)."""
    model = llama()
    model.linear("model.layers.0.mlp.down_proj", 512, 1152, block)
    return model


@case
def ragged():
    """Width 1152 over two ranks cuts a block (W3), in three layers."""
    return llama(width=1152, layers=3)


@case
def many_layers():
    """The same in twenty layers, of which ten are printed."""
    return llama(width=1152, layers=20)


@case
def three_kv_heads():
    """Neither split nor replicated over two ranks (W3b)."""
    return llama(kv_heads=3)


@case
def one_kv_head():
    """On every rank (W3b)."""
    return llama(kv_heads=1)


@case
def vocabulary():
    """513 rows over two ranks: the last rank is short (W3b)."""
    return llama(vocab_size=513)


@case
def latent():
    """Replicated A projections may be ragged, heads of 64 + 64 are split."""
    return deepseek()


@case
def latent_ragged_heads():
    """Rows of a head, 64 + 32, do not start on a block (W12)."""
    return deepseek(value=32)


@case
def mixtral():
    return experts("MixtralForCausalLM", {"quant_method": "fp8", "activation_scheme": "static"},
                   static, width=512)


@case
def two_billion_experts():
    """config.json counts what the headers do not have (C13)."""
    model = experts("Qwen3MoeForCausalLM")
    model.config["num_experts"] = 2 ** 31 - 1
    return model


@case
def narrow_experts():
    """Expert width 192 (W3, W3c)."""
    return experts("Qwen3MoeForCausalLM", width=192)


# Step 6: scales.

@case
def missing_scales():
    """Two modules have no scale (W6)."""
    model = llama(layers=2)
    del model.tensors["model.layers.0.self_attn.o_proj.weight_scale_inv"]
    del model.tensors["model.layers.1.mlp.down_proj.weight_scale_inv"]
    return model


@case
def per_tensor_instead():
    """A scalar scale where a grid is declared (W6)."""
    model = llama()
    del model.tensors["model.layers.0.mlp.gate_proj.weight_scale_inv"]
    model.tensors["model.layers.0.mlp.gate_proj.weight_scale"] = ("F32", [1])
    return model


@case
def two_spellings():
    """Both spellings at once (W2)."""
    model = llama()
    model.tensors["model.layers.0.mlp.gate_proj.weight_scale"] = ("F32", [8, 4])
    return model


@case
def no_input_scale():
    """activation_scheme static, and one input_scale is missing (W6)."""
    model = llama({"quant_method": "fp8", "activation_scheme": "static"}, static)
    del model.tensors["model.layers.0.self_attn.k_proj.input_scale"]
    return model


@case
def kv_scales():
    """A scale for k only, none, and the older spelling (W2, P8)."""
    model = llama(BLOCK | {"kv_cache_scheme": "static"}, layers=3)
    model.tensors["model.layers.0.self_attn.k_scale"] = ("F32", [], 0.25)
    model.tensors["model.layers.2.self_attn.k_proj.output_scale"] = ("F32", [1], 0.5)
    model.tensors["model.layers.2.self_attn.v_proj.output_scale"] = ("F32", [1], 2.0)
    return model


@case
def bad_scalars():
    """Scales that are scalars are read (C13): NaN, negative (W6)."""
    model = llama({"quant_method": "fp8", "activation_scheme": "static"}, static)
    model.tensors["model.layers.0.mlp.down_proj.weight_scale"] = ("F32", [], float("nan"))
    model.tensors["model.layers.0.self_attn.o_proj.input_scale"] = ("F32", [], -0.5)
    return model


@case
def nan_in_grid():
    """The first scale of a grid; only --with-weights reads it (W6)."""
    model = llama()
    model.tensors["model.layers.0.mlp.down_proj.weight_scale_inv"] = (
        "F32", [4, 8], float("nan"))
    return model


@case
def nan_exponent():
    """0xFF among the exponents of MXFP8 (N4)."""
    model = llama({"quant_method": "mxfp8"}, mxfp8)
    model.tensors["model.layers.0.mlp.down_proj.weight_scale"] = (
        "U8", [512, 32], b"\x7f" * 35 + b"\xff")
    return model


@case
def zero_scale():
    """A scale of 0 over codes that are not, in the third block of the second row (W6)."""
    model = llama()
    model.tensors["model.layers.0.mlp.down_proj.weight"] = (
        "F8_E4M3", [512, 1024], b"\0" * (255 * 1024 + 300) + b"\x38")
    return model


@case
def fnuz_nan():
    """0x80 is NaN in this format (N8)."""
    model = llama()
    model.tensors["model.layers.0.mlp.down_proj.weight"] = (
        "F8_E4M3FNUZ", [512, 1024], b"\0" * (300 * 1024 + 17) + b"\x80")
    return model


@case
def kv_scale_nan():
    model = llama(BLOCK | {"kv_cache_scheme": "static"})
    model.tensors["model.layers.0.self_attn.kv_scale"] = ("F32", [], float("nan"))
    return model


@case
def kv_scale_per_head():
    model = llama(BLOCK | {"kv_cache_scheme": "static"})
    model.tensors["model.layers.0.self_attn.kv_scale"] = ("F32", [4])
    return model


@case
def kv_two_spellings():
    """`kv_scale` speaks for the values too (W2)."""
    model = llama(BLOCK | {"kv_cache_scheme": "static"})
    model.tensors["model.layers.0.self_attn.kv_scale"] = ("F32", [], 0.25)
    model.tensors["model.layers.0.self_attn.v_scale"] = ("F32", [], 0.5)
    return model


@case
def kv_two_dtypes():
    model = llama(BLOCK | {"kv_cache_scheme": "static"})
    for layer in range(2):
        path = f"model.layers.{layer}.self_attn"
        model.tensors[f"{path}.k_scale"] = ("F32", [], 0.25)
        model.tensors[f"{path}.v_scale"] = ("BF16", [])
    return model


# Step 7: contracts.

@case
def per_tensor():
    return llama({"quant_method": "fp8", "activation_scheme": "static"}, static)


@case
def per_channel():
    return llama({"quant_method": "compressed-tensors", "format": "float-quantized",
                  "ignore": ["lm_head"], "config_groups": {"group_0": {
                      "targets": ["Linear"],
                      "weights": {"num_bits": 8, "type": "float", "strategy": "channel",
                                  "dynamic": False, "symmetric": True},
                      "input_activations": {"num_bits": 8, "type": "float",
                                            "strategy": "token", "dynamic": True}}}}, channel)


@case
def int8_channel():
    return llama({"quant_method": "w8a8_int8"}, int8)


@case
def exponents():
    """scale_fmt ue8m0: scales are powers of two already (P3, W11)."""
    return llama(BLOCK | {"scale_fmt": "ue8m0"})


@case
def half_scales():
    """Scales in BF16."""
    return llama(BLOCK, lambda n, k: block(n, k, dtype="BF16"))


@case
def mx():
    return llama({"quant_method": "mxfp8"}, mxfp8)


@case
def nv():
    model = llama(None, nvfp4)
    model.sidecar = {"quantization": {"quant_algo": "NVFP4", "group_size": 16,
                                      "exclude_modules": ["lm_head"]}}
    return model


@case
def awq_groups():
    return llama({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
                  "version": "gemm"}, awq, torch_dtype="float16")


@case
def gptq_groups():
    return llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                  "desc_act": False}, gptq, torch_dtype="float16")


@case
def gptq_order():
    """Rows out of group order: a row split needs all scales (W3)."""
    return llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                  "desc_act": True}, gptq, torch_dtype="float16")


@case
def awq_odd_group():
    """Two ranks cut a group of 128 (W3)."""
    return llama({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
                  "version": "gemm"}, awq, width=1152, torch_dtype="float16")


@case
def e5m2():
    """A format whose conversion is not built (N8)."""
    model = llama()
    model.tensors["model.layers.0.mlp.down_proj.weight"] = ("F8_E5M2", [512, 1024])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outdir", nargs="?")
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        for name, function in CASES.items():
            print(f"{name:20} {inspect.getdoc(function) or ''}")
        return
    for name in arguments.cases or CASES:
        if name not in CASES:
            sys.exit(f"no case {name}; --list prints them")
        CASES[name]().write(Path(arguments.outdir, name))


if __name__ == "__main__":
    main()
