# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of the config, its lists and the targets (C1-C15), for more_cases.py."""
from make_check_inputs import (BLOCK, bf16, block, channel, deepseek, experts, gptq, int8, llama,
                               mxfp8, nvfp4, static, unscaled)
from more_cases import accept, case, reject

LAYER = "model.layers.0"
QKV, O = f"{LAYER}.self_attn.qkv_proj", f"{LAYER}.self_attn.o_proj"
GATE_UP, DOWN = f"{LAYER}.mlp.gate_up_proj", f"{LAYER}.mlp.down_proj"
PLAIN = {"method": "unquantized", "weight_dtype": "BF16", "activation": "none",
         "compute_dtype": "BF16"}
FP8 = {"method": "fp8-block", "weight_dtype": "F8_E4M3"}
TENSOR = {"method": "fp8-tensor", "weight_dtype": "F8_E4M3"}
CHANNEL = {"method": "fp8-channel", "activation": "dynamic-token"}


def skip(*names, base=BLOCK):
    return base | {"modules_to_not_convert": list(names)}


def store(model, how, *paths):
    """Stores linears in another way."""
    for path in paths:
        n, k = model.tensors[f"{path}.weight"][1]
        for name in [key for key in model.tensors if key.startswith(path + ".")]:
            del model.tensors[name]
        model.linear(path, n, k, how)
    return model


def shards(*names, layer=0):
    return [f"model.layers.{layer}.self_attn.{name}_proj" for name in names]


def ct(weights, activations, ignore=("lm_head",), targets=("Linear",), **fields):
    """A compressed-tensors config of one group."""
    return {"quant_method": "compressed-tensors", "format": "float-quantized",
            "ignore": list(ignore), "config_groups": {"group_0": {
                "targets": list(targets), "weights": weights,
                "input_activations": activations}}} | fields


CT_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True,
              "dynamic": False}
CT_TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True,
            "dynamic": True}


# C1, C2, C14: which config, which method.

@case("C1 C14")
def sidecar_beside_a_config():
    """config.json wins over hf_quant_config.json, which says something else."""
    model = llama(skip("lm_head"))
    model.sidecar = {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    return model, [accept({O: FP8 | {"activation": "dynamic-token-group-128"}})]


@case("C1")
def config_below_text_config():
    """The text part of a config declares the method."""
    model = llama(None)
    model.config["text_config"] = {"quantization_config": skip("lm_head")}
    model.config["compression_config"] = {"quant_method": "no-such"}
    return model, [accept({O: FP8})]


@case("C1")
def older_compression_config():
    """The older key of compressed-tensors, without quant_method."""
    model = llama(None, channel)
    model.config["compression_config"] = ct(CT_CHANNEL, CT_TOKEN)
    del model.config["compression_config"]["quant_method"]
    return model, [accept({QKV: CHANNEL | {"scale_shape": [1024, 1]}})]


@case("C1")
def null_config():
    """`quantization_config: null` counts as absent, and nothing is quantised."""
    model = llama(None, bf16)
    model.config["quantization_config"] = None
    return model, [accept({O: PLAIN, QKV: PLAIN}), reject("C9", "sm_75", "8.0", target="sm_75")]


@case("C2")
def unknown_method_lists_the_known():
    """An unknown method, and what the target has."""
    return llama({"quant_method": "fp8_e4m3_custom"}), [
        reject("C2", "fp8_e4m3_custom", "compressed-tensors", "modelopt_fp4", "sm_90")]


@case("C14")
def algorithm_without_a_method():
    """quant_algo without quant_method is ModelOpt, in any letter case."""
    return llama({"quant_algo": "fp8", "ignore": ["lm_head"]}, static), [
        accept({O: TENSOR | {"activation": "static-tensor"}})]


@case("C14 B6")
def modelopt_mxfp8_is_not_fp8():
    """modelopt with MXFP8 is mxfp8: exponents, groups of 32, sm_100 or the CPU."""
    model = llama({"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}, mxfp8)
    mx = {"method": "mxfp8", "scale_dtype": "U8", "scale_shape": [512, 16], "scale_format": "ue8m0",
          "activation": "dynamic-token-group-32", "compute_dtype": "F8_E4M3"}
    return model, [accept({O: mx}, target="sm_100"), accept({O: mx}, target="cpu"),
                   reject("B6", "sm_90", "mxfp8")]


@case("C14")
def method_in_upper_case():
    """Names are compared whole, ignoring case."""
    return llama(BLOCK | {"quant_method": "FP8"}), [accept({O: FP8})]


# C4, C5, C6: fields.

@case("C5")
def block_and_static():
    """One static scale cannot describe activations a block."""
    return llama(BLOCK | {"activation_scheme": "static"}), [
        reject("C5", "static", "128"), reject("C5", "static", target="cpu")]


@case("C5 W10")
def block_of_unserialised_weights():
    """A block size and BF16 weights that are to be quantised while loading."""
    return llama(BLOCK | {"is_checkpoint_fp8_serialized": False}, bf16), [
        reject("C5", "weight_block_size", "octet quantize")]


@case("W10 B4")
def quantised_while_loading():
    """BF16 weights become one scale a channel; FP8 products only where there are."""
    model = llama({"quant_method": "fp8", "activation_scheme": "dynamic",
                   "is_checkpoint_fp8_serialized": False, "ignored_layers": [O]}, bf16)
    return model, [
        accept({QKV: CHANNEL, O: PLAIN, "lm_head": PLAIN}, says=["while loading"]),
        accept({QKV: CHANNEL | {"activation": "none", "compute_dtype": "BF16"}}, target="sm_80")]


@case("C4", "vllm-project/vllm#6665")
def null_list():
    """`modules_to_not_convert: null` is no list."""
    return llama(BLOCK | {"modules_to_not_convert": None, "ignored_layers": None}), [
        accept({O: FP8, QKV: FP8}, silent=["[C7]", "[C4]"])]


@case("C4")
def ignored_layers_is_the_same_list():
    """vLLM's name of the list and transformers' are one field."""
    model = store(llama(BLOCK | {"ignored_layers": ["lm_head", O],
                                 "modules_to_not_convert": [O, "lm_head"]}), bf16, O)
    return model, [accept({O: PLAIN, QKV: FP8}, silent=["C4]", "C7]"])]


@case("C4")
def list_that_is_no_list():
    """A string instead of a list of names."""
    return llama(BLOCK | {"modules_to_not_convert": "lm_head"}), [
        reject("C4", "modules_to_not_convert", "lm_head")]


@case("C4")
def block_size_of_one_number():
    """A block has two sides."""
    return llama(BLOCK | {"weight_block_size": [128]}), [reject("C4", "weight_block_size", "128")]


@case("C6")
def mxfp8_with_another_block():
    """mxfp8 has groups of 32 whatever the field says."""
    return llama({"quant_method": "mxfp8", "weight_block_size": [128, 128]}, mxfp8), [
        accept({O: {"method": "mxfp8", "scale_shape": [512, 16]}}, says=["[1, 32]", "c6"],
               target="cpu")]


@case("C15")
def contradicting_rope():
    """rope_scaling and rope_parameters differ."""
    return llama(rope_theta=10000.0, rope_parameters={"rope_type": "default",
                                                      "rope_theta": 500000.0}), [
        reject("C15", "rope_theta", "500000", "10000")]


# C7, C8: lists.

@case("C7", "sgl-project/sglang#23467")
def entry_is_no_substring():
    """'gate' names the router; 'up_proj' names no gate_up_proj; 'q' names nothing."""
    model = experts("Qwen3MoeForCausalLM", skip("gate", "q", "self_attn.o", "lm_head"))
    return model, [accept({f"{LAYER}.mlp.gate": PLAIN, QKV: FP8, O: FP8,
                           f"{LAYER}.mlp.experts": {"method": "fp8-block"}},
                          says=["'q'", "'self_attn.o'"], silent=["'gate'"])]


@case("C7")
def a_dot_is_a_dot():
    """An entry without re: is no expression, and layer 1 is not layer 10."""
    model = store(llama(skip("model.layers.1", "model.layers.0.self_attn.o.proj"), layers=11),
                  bf16, *[f"model.layers.1.self_attn.{n}_proj" for n in "qkvo"],
                  *[f"model.layers.1.mlp.{n}_proj" for n in ("gate", "up", "down")])
    return model, [accept({"model.layers.1.self_attn.o_proj": PLAIN, O: FP8,
                           "model.layers.10.self_attn.o_proj": FP8},
                          says=["o.proj"], silent=["'model.layers.1'"])]


@case("C7", "huggingface/transformers#48349")
def every_wrapper_prefix():
    """Entries with each prefix of a wrapper name the same modules."""
    model = llama(skip("language_model.model.layers.0.self_attn.o_proj",
                       "model.language_model.layers.0.mlp.down_proj",
                       "language_model.lm_head", "layers.0.self_attn.qkv_proj"))
    store(model, bf16, O, DOWN, *shards("q", "k", "v"))
    return model, [accept({O: PLAIN, DOWN: PLAIN, QKV: PLAIN, GATE_UP: FP8}, silent=["C7]"])]


@case("C7", "vllm-project/llm-compressor#1306")
def expressions_of_compressed_tensors():
    """re: matches from the start, anything else is a path."""
    model = experts("Qwen3MoeForCausalLM", ct(
        CT_CHANNEL, CT_TOKEN, ["lm_head", "re:.*mlp.gate$", "re:.*self_attn.*"]), channel)
    store(model, bf16, O, *shards("q", "k", "v"))
    return model, [accept({QKV: PLAIN, O: PLAIN, f"{LAYER}.mlp.gate": PLAIN,
                           f"{LAYER}.mlp.experts": {"method": "fp8-channel",
                                                    "w13_scale_shape": [4, 512, 1],
                                                    "w2_scale_shape": [4, 512, 1]}},
                          silent=["C7]"])]


@case("C7")
def broken_expression():
    """re: with what is no expression."""
    return llama(ct(CT_CHANNEL, CT_TOKEN, ["re:.*(gate"]), channel), [reject("C7", ".*(gate")]


@case("C7 C8")
def expression_of_a_fused_name():
    """re: names the fused module, whose shards are stored in BF16."""
    model = store(llama(ct(CT_CHANNEL, CT_TOKEN, ["lm_head", "re:.*gate_up_proj"]), channel),
                  bf16, f"{LAYER}.mlp.gate_proj", f"{LAYER}.mlp.up_proj")
    return model, [accept({GATE_UP: PLAIN, QKV: CHANNEL}, silent=["C7]", "C13]"])]


@case("C7", "vllm-project/compressed-tensors#171")
def class_name_in_the_ignore_list():
    """'Linear' in ignore names every linear: only the cache is quantised."""
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    model = llama(ct(CT_CHANNEL, CT_TOKEN, ["Linear"], kv_cache_scheme=scheme), bf16)
    for name in "kv":
        model.tensors[f"{LAYER}.self_attn.{name}_scale"] = ("F32", [1], 0.5)
    return model, [accept({O: PLAIN, QKV: PLAIN, f"{LAYER}.self_attn.attn": {
        "kv_cache": {"dtype": "F8_E4M3", "k_scale": 0.5, "source": "checkpoint"}}},
        silent=["C7]", "C13]"])]


@case("C7", "NVIDIA/TensorRT-LLM#12320")
def globs_of_modelopt():
    """`*` stands for dots too; a match of an enclosing prefix counts."""
    model = experts("Qwen3MoeForCausalLM", {"quant_method": "modelopt", "quant_algo": "FP8",
                    "exclude_modules": ["lm_head", "*.mlp.gate", "model.*attn*"]}, static)
    store(model, bf16, O, *shards("q", "k", "v"))
    return model, [accept({QKV: PLAIN, O: PLAIN, f"{LAYER}.mlp.gate": PLAIN,
                           f"{LAYER}.mlp.experts": {"method": "fp8-tensor",
                                                    "activation": "static-tensor"}},
                          silent=["C7]", "C13]"])]


@case("C7")
def globs_are_not_for_fp8():
    """`*` in a list of fp8 is no glob: the entry matches nothing and is reported."""
    return llama(skip("model.layers.*.self_attn.o_proj")), [
        accept({O: FP8}, says=["C7]", "model.layers.*"], silent=["C13]"])]


@case("C7 W13", "vllm-project/vllm#23640")
def entries_that_name_tensors():
    """A tensor's name and a layer that is not built count as matched."""
    model = deepseek(skip("model.layers.1.mlp.gate.e_score_correction_bias", "model.layers.1.mlp.gate",
                          "model.layers.2.eh_proj", "model.layers.2", "lm_head",
                          "model.embed_tokens", "model.norm", "model.layers.0.input_layernorm"),
                     drafts=1)
    return model, [accept({"model.layers.1.mlp.gate.e_score_correction_bias": {"storage_dtype": "F32"},
                           "model.layers.2.self_attn.o_proj": None,
                           "model.layers.2.eh_proj": None}, silent=["C7]"])]


@case("C7 W15", "vllm-project/vllm#6758")
def tied_head_in_the_list():
    """lm_head of a tied model is in the list, and a copy is stored."""
    model = llama(skip("lm_head"), tie_word_embeddings=True)
    model.plain("lm_head.weight", 512, 512)
    return model, [accept({"lm_head": {"tied_to": "model.embed_tokens"}}, silent=["C7]", "W14]"],
                          says=["lm_head.weight"])]


@case("C8", "vllm-project/vllm-ascend#2588")
def mixed_gate_up():
    """up_proj is listed and BF16, gate_proj is FP8."""
    model = store(llama(skip(f"{LAYER}.mlp.up_proj")), bf16, f"{LAYER}.mlp.up_proj")
    return model, [reject("C8", GATE_UP, "gate_proj", "up_proj"), reject("C8", GATE_UP, tp=2)]


@case("C8 C13", "vllm-project/vllm-ascend#2588")
def mixed_without_a_list():
    """k_proj is BF16 and no list says so."""
    return store(llama(), bf16, *shards("k")), [reject("C8", QKV, "q_proj and v_proj are", "k_proj is")]


@case("C8", "vllm-project/vllm-ascend#15346")
def mixed_latent_projections():
    """q_a_proj is listed, kv_a_proj_with_mqa is not: they are one module."""
    path = f"{LAYER}.self_attn.q_a_proj"
    return store(deepseek(skip(path)), bf16, path), [
        reject("C8", f"{LAYER}.self_attn.fused_qkv_a_proj", "q_a_proj", "kv_a_proj_with_mqa")]


@case("C8")
def fused_latent_name_in_the_list():
    """The list has the fused name of the two."""
    model = deepseek(skip(f"{LAYER}.self_attn.fused_qkv_a_proj_with_mqa"))
    store(model, bf16, f"{LAYER}.self_attn.q_a_proj", f"{LAYER}.self_attn.kv_a_proj_with_mqa")
    return model, [accept({f"{LAYER}.self_attn.q_a_proj": PLAIN,
                           f"{LAYER}.self_attn.kv_a_proj_with_mqa": PLAIN,
                           f"{LAYER}.self_attn.q_b_proj": FP8}, silent=["C7]", "C13]"])]


@case("C8", "vllm-project/vllm#46757")
def experts_by_their_prefix():
    """An enclosing prefix skips all experts; tp cuts no block of theirs then."""
    model = experts("Qwen3MoeForCausalLM", skip("model.layers.0.mlp.experts"), width=320)
    store(model, bf16, *[f"{LAYER}.mlp.experts.{e}.{n}_proj" for e in range(4)
                         for n in ("gate", "up", "down")])
    return model, [accept({f"{LAYER}.mlp.experts": {
        "method": "unquantized", "num_local_experts": 4, "w13_weight_shape": [4, 320, 512],
        "w2_weight_shape": [4, 512, 160]}}, tp=2, silent=["C7]", "C13]"])]


@case("C8")
def one_expert_in_another_format():
    """Expert 2 is BF16, the others are FP8."""
    model = experts("Qwen3MoeForCausalLM", skip(f"{LAYER}.mlp.experts.2"))
    store(model, bf16, *[f"{LAYER}.mlp.experts.2.{n}_proj" for n in ("gate", "up", "down")])
    return model, [reject("C8", f"{LAYER}.mlp.experts.2")]


# C9, C10: targets.

@case("C9")
def targets_by_number():
    """Any sm_NN is judged by its number."""
    model = llama({"quant_method": "w8a8_fp8"}, channel)
    return model, [reject("C9", "sm_86", "8.9", target="sm_86"),
                   reject("C9", "sm_70", "8.9", target="sm_70"),
                   accept({O: CHANNEL}, target="sm_89"), accept({O: CHANNEL}, target="sm_100f")]


@case("C9")
def float32_model_on_a_gpu():
    """F32 activations are a CPU's; a GPU takes BF16 for them, and says so."""
    model = llama(skip("lm_head"), torch_dtype="float32")
    return model, [accept({O: FP8}, target="cpu")]


@case("C10")
def gptq_of_two_groups():
    """gptq is run as gptq_marlin, and the remark says how to keep it."""
    model = llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                   "desc_act": False}, gptq)
    q4 = {"method": "gptq-int4", "group_size": 128, "activation": "none", "compute_dtype": "BF16"}
    return model, [accept({O: q4 | {"weight_shape": [64, 512], "zeros_shape": [4, 64],
                                    "scale_shape": [4, 512]}}, says=["gptq_marlin", "c10"]),
                   accept({QKV: q4 | {"weight_shape": [64, 512], "scale_shape": [4, 512],
                                      "zeros_shape": [4, 64]}}, tp=2)]


# C11-C13: what is stored.

@case("C12", "huggingface/transformers#40545")
def mxfp4_is_for_experts():
    """A dense model under mxfp4 stays as it is; FP8 there is an error."""
    return llama({"quant_method": "mxfp4", "modules_to_not_convert": None}), [
        reject("C12", f"{LAYER}.self_attn.q_proj")]


@case("C13", "vllm-project/vllm#54722")
def listed_codes_without_a_scale():
    """A listed module holds FP8 codes, and no scale says what they mean."""
    return store(llama(skip(O)), unscaled, O), [reject("C13", O, "F8_E4M3")]


@case("C13", "NVIDIA/TensorRT-LLM#16196")
def headers_win_over_the_list():
    """A listed module has FP8 codes with scales: used as stored."""
    return llama(skip("self_attn", "lm_head")), [
        accept({QKV: FP8, O: FP8}, says=["C13]", "self_attn"], silent=["C7]"])]


@case("C13", "ROCm/ATOM#755")
def plain_module_that_no_list_names():
    """A BF16 module without scales stays BF16; its neighbours say nothing of it."""
    model = store(llama(layers=2), bf16, O)
    return model, [accept({O: PLAIN, "model.layers.1.self_attn.o_proj": FP8}, says=[O, "C13]"])]


@case("C13")
def scale_of_a_plain_weight():
    """A BF16 weight has a scale."""
    model = llama(skip(O))
    model.tensors[f"{O}.weight"] = ("BF16", [512, 512])
    return model, [reject("C13", O, "weight_scale_inv", "BF16")]


@case("C13", "vllm-project/vllm#5915")
def codes_without_a_method():
    """FP8 weights and no config."""
    return llama(None), [reject("C13", f"{LAYER}.self_attn.q_proj", "F8_E4M3")]


@case("C13")
def wrong_codes():
    """INT8 codes under fp8."""
    return llama({"quant_method": "fp8", "activation_scheme": "dynamic"}, int8), [
        reject("C13", f"{LAYER}.self_attn.q_proj", "I8", "F8_E4M3")]


@case("C13")
def width_of_another_model():
    """config.json and headers differ in intermediate_size."""
    model = llama(width=1152)
    model.config["intermediate_size"] = 1024
    return model, [reject("C13", f"{LAYER}.mlp.gate_proj", "1152", "1024")]


@case("C13 C7", "vllm-project/vllm#12520")
def mixed_precision_of_modelopt():
    """An algorithm for each module; what has none is unquantised, without a note."""
    layers = {f"{LAYER}.self_attn.{n}_proj": {"quant_algo": "FP8"} for n in "qkv"}
    layers |= {f"{LAYER}.mlp.{n}_proj": {"quant_algo": "NVFP4", "group_size": 16}
               for n in ("gate", "up", "down")}
    model = llama(None, static)
    model.sidecar = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    store(store(model, bf16, O), nvfp4, *[f"{LAYER}.mlp.{n}_proj" for n in ("gate", "up", "down")])
    return model, [
        accept({QKV: TENSOR | {"activation": "static-tensor"}, O: PLAIN,
                GATE_UP: {"method": "nvfp4", "activation": "none", "compute_dtype": "BF16",
                          "weight_shape": [2048, 256], "scale_shape": [2048, 32],
                          "scale_dtype": "F8_E4M3", "group_size": 16}}, silent=["C13]"]),
        accept({DOWN: {"method": "nvfp4", "weight_shape": [512, 256], "scale_shape": [512, 32],
                       "compute_dtype": "F4_E2M1", "activation": "dynamic-token-group-16"}},
               target="sm_100", tp=2)]


@case("C11 C7")
def targets_of_compressed_tensors():
    """A path wins over a pattern, a pattern over the class; what none names is plain."""
    tensor = CT_CHANNEL | {"strategy": "tensor"}
    config = ct(CT_CHANNEL, CT_TOKEN, targets=["re:.*self_attn.*"])
    config["config_groups"]["group_1"] = {
        "targets": [O], "weights": tensor,
        "input_activations": CT_TOKEN | {"strategy": "tensor", "dynamic": False}}
    model = store(store(llama(config, channel), static, O), bf16,
                  *[f"{LAYER}.mlp.{n}_proj" for n in ("gate", "up", "down")])
    return model, [accept({O: TENSOR | {"activation": "static-tensor"}, QKV: CHANNEL,
                           GATE_UP: PLAIN}, silent=["C13]", "C7]"])]


@case("C11")
def codes_that_no_target_names():
    """FP8 in a module that no group names."""
    return llama(ct(CT_CHANNEL, CT_TOKEN, targets=["re:.*self_attn.*"]), channel), [
        reject("C11", f"{LAYER}.mlp.gate_proj")]


@case("C7 C13", "vllm-project/vllm#7086")
def dynamic_rules_of_gptq():
    """`-:` skips, `+:` overrides; the router is neither."""
    def gptq8(n, k):
        return {"qweight": ("I32", [k // 4, n]), "qzeros": ("I32", [k // 64, n // 4]),
                "scales": ("F16", [k // 64, n]), "g_idx": ("I32", [k])}
    model = llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                   "desc_act": False, "dynamic": {
                       r"-:.*\.0\..*o_proj.*": {},
                       r"+:.*down_proj.*": {"bits": 8, "group_size": 64}}}, gptq)
    del model.tensors[f"{O}.qweight"], model.tensors[f"{O}.qzeros"]
    del model.tensors[f"{O}.scales"], model.tensors[f"{O}.g_idx"]
    model.linear(O, 512, 512, bf16)
    for name in [key for key in model.tensors if key.startswith(DOWN)]:
        del model.tensors[name]
    model.linear(DOWN, 512, 1024, gptq8)
    return model, [accept({O: PLAIN, QKV: {"method": "gptq-int4", "group_size": 128},
                           DOWN: {"method": "gptq-int8", "group_size": 64,
                                  "weight_shape": [256, 512], "scale_shape": [16, 512],
                                  "zeros_shape": [16, 128]}}, silent=["C7]", "C13]"])]
