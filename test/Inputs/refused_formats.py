#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""refused_formats.py DIR: configs that are read or refused by name.

Runs `octet check --config-only` on a Llama config with each, below DIR, and
prints `NAME: exit status, stderr` on one line. Python's standard library only.
"""
import copy
import json
import subprocess
import sys
from pathlib import Path

MODEL = {
    "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16",
    "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 256,
    "rms_norm_eps": 1e-5, "max_position_embeddings": 128, "hidden_act": "silu",
    "rope_theta": 10000.0, "tie_word_embeddings": False,
}
FLOAT = {"num_bits": 8, "type": "float", "strategy": "tensor",
         "symmetric": True}


def compressed(form, weights=None, inputs=None, **more):
    return {"quant_method": "compressed-tensors", "format": form,
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": FLOAT | (weights or {}),
                "input_activations": inputs}}, **more}


def quark(weight, **more):
    return {"quant_method": "quark", "exclude": ["lm_head"],
            "global_quant_config": {"weight": weight, "input_tensors": None},
            "layer_quant_config": {}, **more}


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}
CASES = {
    "ct-float": compressed("float-quantized"),
    "ct-naive": compressed("naive-quantized"),
    "ct-int4": compressed("pack-quantized", INT4),
    "ct-marlin-24": compressed("marlin-24", INT4),
    "ct-mxfp8": compressed("mxfp8-quantized",
                           {"strategy": "group", "group_size": 32}),
    "ct-mxfp4": compressed("mxfp4-pack-quantized",
                           {"num_bits": 4, "strategy": "group",
                            "group_size": 32}),
    "ct-mxfp6": compressed("mxfp6-pack-quantized", {"num_bits": 6}),
    "ct-sparse": compressed("float-quantized",
                            sparsity_config={"format": "sparse-24-bitmask"}),
    "ct-transform": compressed("float-quantized", transform_config={
        "config_groups": {"u": {"type": "hadamard"}}}),
    "ct-attn-head": compressed("float-quantized", {"strategy": "attn_head"}),
    "ct-int8-asymmetric": compressed(
        "int-quantized", {"type": "int", "strategy": "channel",
                          "symmetric": False}),
    "ct-int8-asymmetric-activations": compressed(
        "int-quantized", {"type": "int", "strategy": "channel"},
        {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True,
         "symmetric": False}),
    "auto-round-int": {"quant_method": "auto-round", "bits": 4,
                       "group_size": 128, "sym": True, "data_type": "int",
                       "packing_format": "auto_round:auto_gptq"},
    "auto-round-mx": {"quant_method": "auto-round", "bits": 4,
                      "group_size": 32, "data_type": "mx_fp",
                      "packing_format": "auto_round:auto_gptq"},
    "auto-round-mx-groups": {"quant_method": "auto-round", "bits": 4,
                             "group_size": 64, "data_type": "mx_fp"},
    "auto-round-nv": {"quant_method": "auto-round", "bits": 4,
                      "group_size": 16, "data_type": "nv_fp",
                      "packing_format": "auto_round:auto_gptq"},
    "auto-round-nv-act-8": {"quant_method": "auto-round", "bits": 4,
                            "group_size": 16, "data_type": "nv_fp",
                            "act_bits": 8},
    "auto-round-fp8": {"quant_method": "auto-round", "bits": 8,
                       "group_size": -1, "data_type": "fp"},
    "modelopt-awq": {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"},
    "modelopt-w4a8": {"quant_method": "modelopt", "quant_algo": "w4a8_awq"},
    "quark-fp8": quark(FP8, layer_type_quant_config={}),
    "quark-by-type": quark(FP8, layer_type_quant_config={
        "<class 'torch.nn.modules.linear.Linear'>": {"weight": FP8}}),
    "quark-by-another-type": quark(FP8, layer_type_quant_config={
        "<class 'torch.nn.modules.sparse.Embedding'>": {"weight": FP8}}),
    "quark-int4": quark({"dtype": "uint4", "qscheme": "per_group",
                         "group_size": 128}),
    "awq-gemv": {"quant_method": "awq", "bits": 4, "group_size": 128,
                 "zero_point": True, "version": "gemv"},
    "gptq-marlin-format": {"quant_method": "gptq", "bits": 4,
                           "group_size": 128, "checkpoint_format": "marlin"},
    "gptq-3-bit": {"quant_method": "gptq", "bits": 3, "group_size": 128},
    # Of several that match the first counts (C7).
    "gptq-dynamic": {"quant_method": "gptq", "bits": 4, "group_size": 128,
                     "dynamic": {"+:.*down_proj": {"bits": 8},
                                 "-:.*o_proj": {}}},
    "gptq-dynamic-twice": {"quant_method": "gptq", "bits": 4,
                           "group_size": 128,
                           "dynamic": {"+:.*down_proj": {"bits": 8},
                                       "+:.*layers\\.0.*": {"bits": 4},
                                       "-:.*o_proj": {}}},
    "gptq-dynamic-skips-too": {"quant_method": "gptq", "bits": 4,
                               "group_size": 128,
                               "dynamic": {"+:.*proj": {"bits": 8},
                                           "-:.*o_proj": {}}},
    # Something else than an object (C1); names are compared whole, in any
    # letter case (C14).
    "no-object": ["fp8"],
    "modelopt-any-case": {"quant_algo": "Fp8"},
    "modelopt-part-of-a-name": {"quant_algo": "FP8X"},
    # What could change results and is in no reader is reported (C15).
    "unknown-key": compressed("float-quantized", smooth_factor=0.5),
}


def rope(theta, **more):
    return {"rope_theta": theta, "rope_type": "default", **more}


# Keys beside quantization_config (C15).
CONFIGS = {
    "config-unknown-key": {"attn_logit_softcapping": 30.0},
    "config-activation": {"hidden_act": "gelu"},
    "config-epsilon-word": {"rms_norm_eps": "x"},
    "config-epsilon-negative": {"rms_norm_eps": -1},
    "rope-nested": {"rope_theta": None, "rope_parameters": rope(5000.0)},
    "rope-per-attention-type": {"rope_parameters": {
        "full_attention": rope(10000.0), "sliding_attention": rope(10000.0)}},
    "rope-contradicts": {"rope_parameters": rope(5000.0)},
    "rope-types-differ": {"rope_parameters": {
        "full_attention": rope(10000.0), "sliding_attention": rope(500.0)}},
}


def main():
    root = Path(sys.argv[1])
    cases = {name: {"quantization_config": value}
             for name, value in CASES.items()}
    for name, keys in (cases | CONFIGS).items():
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        config = copy.deepcopy(MODEL) | keys
        (folder / "config.json").write_text(json.dumps(config))
        run = subprocess.run(
            ["octet", "check", str(folder), "--config-only", "--target",
             "sm_90"], capture_output=True, text=True)
        # Whose config.json it is stands before it.
        print(f"{name}: {run.returncode}, " +
              " | ".join(run.stderr.strip().replace(f"{folder}/", "").splitlines()))


if __name__ == "__main__":
    main()
