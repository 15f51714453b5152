# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of the other methods: fields, names and shapes of FORMATS, for more_cases.py."""
from make_check_inputs import (awq, bf16, block, channel, deepseek, experts, gptq, int8, llama,
                               nvfp4, static)
from more_cases import accept, case, reject
from more_cases_config import (CHANNEL, CT_CHANNEL, CT_TOKEN, DOWN, FP8, GATE_UP, LAYER, O, PLAIN,
                               QKV, TENSOR, ct, shards, skip, store)
from more_cases_weights import EXPERTS, STATIC, cache, kv

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
CT_TENSOR = CT_CHANNEL | {"strategy": "tensor"}
PACKED = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


def words(group=128, zeros=False, order=False):
    """pack-quantized of compressed-tensors, 4 bits."""
    def how(n, k):
        tensors = {"weight_packed": ("I32", [n, k // 8]), "weight_shape": ("I64", [2]),
                   "weight_scale": ("BF16", [n, k // group])}
        if zeros:
            tensors["weight_zero_point"] = ("I32", [n // 8, k // group])
        if order:
            tensors["weight_g_idx"] = ("I32", [k])
        return tensors
    return how


def packed(weights, **fields):
    return ct(weights, None, **fields) | {"format": "pack-quantized"}


def one_scale(n, k):
    return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("BF16", [1])}


def mx4(n, k):
    return {"weight": ("U8", [n, k // 2]), "weight_scale": ("U8", [n, k // 32])}


# compressed-tensors

@case("C7 C13", "vllm-project/llm-compressor#959")
def scale_of_one_dimension():
    """A scale a channel as [N], and a router that the list names."""
    def flat(n, k):
        return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("BF16", [n])}
    return llama(ct(CT_CHANNEL, CT_TOKEN), flat), [
        accept({O: CHANNEL | {"scale_dtype": "BF16", "scale_shape": [512, 1]}}),
        accept({QKV: CHANNEL | {"scale_shape": [512, 1]},
                O: CHANNEL | {"scale_shape": [512, 1], "weight_shape": [512, 256]}}, tp=2)]


@case("B3")
def weights_of_8_bits_alone():
    """input_activations is null: FP8 weights, activations as they are."""
    return llama(ct(CT_TENSOR, None), one_scale), [
        accept({O: TENSOR | {"activation": "none", "compute_dtype": "BF16", "scale_shape": [1]},
                QKV: TENSOR | {"activation": "none"}}, silent=["B4]"])]


@case("W2 C4", "vllm-project/llm-compressor#967")
def cache_scales_of_compressed_tensors():
    """kv_cache_scheme is an object; the scales stand below self_attn."""
    scheme = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False,
              "symmetric": True}
    inputs = CT_TENSOR
    model = llama(ct(CT_TENSOR, inputs, kv_cache_scheme=scheme), static)
    cache(model, {"k_scale": 0.25, "v_scale": 0.5})
    return model, [accept({f"{LAYER}.self_attn.attn": kv("checkpoint", 0.25, 0.5),
                           QKV: TENSOR | {"activation": "static-tensor"}}, silent=["W14]"])]


@case("C5")
def blocks_with_a_static_input():
    """Blocks, and one static scale for the activation."""
    weights = CT_CHANNEL | {"strategy": "block", "block_structure": [128, 128]}
    return llama(ct(weights, CT_TENSOR), block), [reject("C5", "dynamic")]


@case("C2")
def formats_that_are_refused_by_name():
    """marlin-24 is no layout that is read."""
    return llama(packed(PACKED) | {"format": "marlin-24"}, words()), [reject("C2", "marlin-24")]


@case("W3 B4", "vllm-project/vllm#13640")
def packed_words():
    """4 bits in words along K, weight-only on every target; groups of 128 are not cut."""
    model = llama(packed(PACKED), words(), width=896)
    q4 = {"activation": "none", "compute_dtype": "BF16", "group_size": 128}
    return model, [
        accept({DOWN: q4 | {"weight_dtype": "I32", "weight_shape": [512, 112],
                            "scale_shape": [512, 7]},
                GATE_UP: q4 | {"weight_shape": [1792, 64], "scale_shape": [1792, 4]}},
               silent=["W14]"]),
        reject("W3", DOWN, "448", "128", tp=2)]


@case("W1 W3")
def packed_zeros_and_order():
    """Zero points are packed along N; with actorder a rank has all scales."""
    weights = PACKED | {"symmetric": False, "actorder": "group"}
    return llama(packed(weights), words(zeros=True, order=True)), [
        accept({DOWN: {"weight_shape": [512, 64], "scale_shape": [512, 8], "zeros_shape": [64, 8]},
                QKV: {"weight_shape": [512, 64], "scale_shape": [512, 4], "zeros_shape": [64, 4]}},
               tp=2)]


@case("W6")
def packed_without_an_order():
    """actorder, and no weight_g_idx."""
    weights = PACKED | {"actorder": "group"}
    return llama(packed(weights), words()), [
        reject("W6", f"{LAYER}.self_attn.q_proj", "weight_g_idx")]


@case("N6b")
def int8_of_compressed_tensors():
    """INT8 with a scale a channel, also where FP8 has no products."""
    weights, inputs = ({"num_bits": 8, "type": "int", "strategy": strategy, "symmetric": True,
                        "dynamic": dynamic} for strategy, dynamic in
                       (("channel", False), ("token", True)))
    want = {"weight_dtype": "I8", "scale_shape": [512, 1], "activation": "dynamic-token",
            "compute_dtype": "I8"}
    return llama(ct(weights, inputs) | {"format": "int-quantized"}, int8), [
        accept({O: want}), accept({O: want}, target="sm_80", silent=["B4]"])]


@case("C13", "vllm-project/vllm#46757")
def plain_experts_of_compressed_tensors():
    """ignore names the experts of one layer only; another one is FP8 a channel."""
    model = experts("Qwen3MoeForCausalLM", ct(CT_CHANNEL, CT_TOKEN, [
        "lm_head", "re:model.layers.0.mlp.gate$", r"re:.*layers\.0\.mlp\.experts.*"]), channel)
    store(model, bf16, *[f"{EXPERTS}.{e}.{n}_proj" for e in range(4)
                         for n in ("gate", "up", "down")])
    return model, [accept({EXPERTS: {"method": "unquantized"}, QKV: CHANNEL},
                          silent=["C7]", "C13]"])]


# GPTQ, AWQ, auto-round

@case("C2", "vllm-project/vllm#14394")
def three_bits():
    """GPTQ of 3 bits is refused by its bits."""
    return llama(GPTQ | {"bits": 3}, gptq), [reject("C2", "bits", "3")]


@case("W3 W1")
def one_group_for_all_of_k():
    """group_size -1: one row of scales, which each rank of a row-parallel split has."""
    def whole(n, k):
        return {"qweight": ("I32", [k // 8, n]), "qzeros": ("I32", [1, n // 8]),
                "scales": ("F16", [1, n]), "g_idx": ("I32", [k])}
    return llama(GPTQ | {"group_size": -1}, whole), [
        accept({DOWN: {"weight_shape": [128, 512], "scale_shape": [1, 512], "zeros_shape": [1, 64]}}),
        accept({DOWN: {"weight_shape": [64, 512], "scale_shape": [1, 512]},
                QKV: {"weight_shape": [64, 512], "scale_shape": [1, 512]}}, tp=2)]


@case("P16", "sgl-project/sglang#3790")
def head_of_gptq():
    """lm_head true: the head is packed too."""
    model = llama(GPTQ | {"lm_head": True}, gptq)
    del model.tensors["lm_head.weight"]
    model.linear("lm_head", 512, 512, gptq)
    return model, [accept({"lm_head": {"method": "gptq-int4", "weight_shape": [64, 512]}})]


@case("W6")
def zeros_are_missing():
    """GPTQ without qzeros."""
    model = llama(GPTQ, gptq)
    del model.tensors[f"{O}.qzeros"]
    return model, [reject("W6", O, "qzeros")]


@case("C7 C13", "vllm-project/vllm#21695")
def list_of_awq():
    """modules_to_not_convert of AWQ names a vision tower and the router."""
    model = experts("Qwen3MoeForCausalLM",
                    AWQ | {"modules_to_not_convert": ["visual", "gate", "self_attn"]}, awq,
                    width=256)
    store_awq(model, bf16, O, *shards("q", "k", "v"))
    want = {"method": "awq-int4", "num_local_experts": 4, "activation": "none",
            "w13_weight_shape": [4, 512, 64], "w2_weight_shape": [4, 256, 64]}
    return model, [accept({EXPERTS: want, QKV: PLAIN, O: PLAIN, f"{LAYER}.mlp.gate": PLAIN},
                          says=["'visual'"], silent=["'gate'", "'self_attn'", "C13]"]),
                   accept({EXPERTS: {"w13_weight_shape": [4, 512, 32],
                                     "w2_weight_shape": [4, 128, 64]}}, tp=2),
                   reject("W3", EXPERTS, "64", "128", tp=4)]


def store_awq(model, how, *paths):
    for path in paths:
        k, words_of_n = model.tensors[f"{path}.qweight"][1]
        for name in [key for key in model.tensors if key.startswith(path + ".")]:
            del model.tensors[name]
        model.linear(path, 8 * words_of_n, k, how)


@case("C2")
def other_versions_of_awq():
    """gemv is another layout."""
    return llama(AWQ | {"version": "gemv"}, awq), [reject("C2", "gemv")]


@case("C2 C13", "intel/auto-round#643")
def overrides_of_auto_round():
    """extra_config takes down_proj out; the packing is AWQ's."""
    config = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True,
              "data_type": "int", "packing_format": "auto_round:auto_awq",
              "extra_config": {DOWN: {"bits": 16, "data_type": "float"}}}
    model = llama(config, awq)
    store_awq(model, bf16, DOWN)
    return model, [accept({DOWN: PLAIN, O: {"method": "awq-int4", "group_size": 128}},
                          silent=["C7]", "C13]"])]


# ModelOpt

@case("W2 C1", "sgl-project/sglang#5095")
def scales_below_the_projections():
    """The sidecar alone declares the method and the cache: k_proj.k_scale, v_proj.v_scale."""
    model = llama(None, static)
    model.sidecar = {"producer": {"name": "modelopt", "version": "0.23"}, "quantization": {
        "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    cache(model, {"k_proj.k_scale": 0.25, "v_proj.v_scale": 0.5})
    return model, [accept({QKV: TENSOR | {"activation": "static-tensor"},
                           f"{LAYER}.self_attn.attn": kv("checkpoint", 0.25, 0.5)},
                          silent=["W14]", "C7]"])]


@case("C4 P8", "NVIDIA/Model-Optimizer#20")
def cache_without_an_algorithm():
    """Only the cache is quantised, and a layer has no scales."""
    model = llama(None, bf16, layers=2)
    model.sidecar = {"quantization": {"quant_algo": None, "kv_cache_quant_algo": "FP8"}}
    cache(model, {"k_proj.k_scale": 0.25, "v_proj.v_scale": 0.5})
    return model, [accept({O: PLAIN, f"{LAYER}.self_attn.attn": kv("checkpoint", 0.25, 0.5),
                           "model.layers.1.self_attn.attn": kv("default", 1, 1)},
                          says=["model.layers.1.self_attn", "P8]"], silent=["C13]"])]


@case("C14")
def algorithm_for_channels():
    """FP8_PER_CHANNEL_PER_TOKEN has scales [N]."""
    def flat(n, k):
        return {"weight": ("F8_E4M3", [n, k]), "weight_scale": ("F32", [n])}
    return llama({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN",
                  "ignore": ["lm_head"]}, flat), [accept({QKV: CHANNEL})]


@case("C2")
def algorithm_that_is_refused_by_name():
    """W4A8_AWQ."""
    return llama({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, awq), [
        reject("C2", "W4A8_AWQ")]


@case("W6", "vllm-project/vllm#12520")
def static_scale_of_modelopt_is_missing():
    """FP8 of ModelOpt is static: v_proj has no input_scale."""
    model = llama({"quant_method": "modelopt", "quant_algo": "FP8"}, static)
    del model.tensors[f"{LAYER}.self_attn.v_proj.input_scale"]
    return model, [reject("W6", f"{LAYER}.self_attn.v_proj", "input_scale")]


def nvfp4_experts(width):
    """Experts are NVFP4, all else is BF16 by globs."""
    model = experts("Qwen3MoeForCausalLM", {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.*.self_attn*", "*mlp.gate"]}, nvfp4, width=width)
    for name in "qkvo":
        path = f"{LAYER}.self_attn.{name}_proj"
        n, k = model.tensors[f"{path}.weight"][1][0], 512
        for key in [key for key in model.tensors if key.startswith(path + ".")]:
            del model.tensors[key]
        model.linear(path, n, k, bf16)
    return model


@case("C7 C8 N7", "radixark/miles#2855")
def experts_in_nvfp4():
    """Groups of 16 are not cut; products in FP4 read whole copies of 32 along K."""
    model = nvfp4_experts(48)
    want = {"method": "nvfp4", "num_local_experts": 4, "w13_weight_shape": [4, 96, 256],
            "w13_scale_shape": [4, 96, 32], "w2_weight_shape": [4, 512, 24],
            "w2_scale_shape": [4, 512, 3]}
    return model, [accept({EXPERTS: want, QKV: PLAIN}, silent=["C7]", "C13]"]),
                   reject("W3", EXPERTS, "24", "16", tp=2),
                   accept({EXPERTS: {"num_local_experts": 2, "w2_weight_shape": [2, 512, 24]}},
                          tp=2, ep=2),
                   reject("C11", EXPERTS, "48", "32", target="sm_100")]


@case("B4 N7")
def products_of_experts_in_nvfp4():
    """Where FP4 products are, activations of experts have groups of 16, too."""
    return nvfp4_experts(64), [
        accept({EXPERTS: {"method": "nvfp4", "activation": "dynamic-token-group-16"}},
               target="sm_100"),
        accept({EXPERTS: {"activation": "none", "compute_dtype": "BF16"}})]


# Quark, fbgemm, experts of fp8 in FP4

@case("C7 W2", "sgl-project/sglang#1559")
def scales_of_quark():
    """exclude is a list of globs; output_scale of k_proj and v_proj are the cache's."""
    spec = {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_dynamic": False}
    model = llama({"quant_method": "quark", "exclude": ["lm_head", "*.down_proj"],
                   "export": {"kv_cache_group": ["*k_proj", "*v_proj"]},
                   "layer_quant_config": {"*k_proj": {"output_tensors": spec},
                                          "*v_proj": {"output_tensors": spec}},
                   "global_quant_config": {"weight": spec, "input_tensors": spec}}, static)
    store(model, bf16, DOWN)
    cache(model, {"k_proj.output_scale": 0.25, "v_proj.output_scale": 0.5})
    return model, [accept({DOWN: PLAIN, QKV: TENSOR | {"activation": "static-tensor"},
                           f"{LAYER}.self_attn.attn": kv("checkpoint", 0.25, 0.5)},
                          silent=["C7]", "C13]", "W14]"])]


@case("N7 B4", "vllm-project/vllm#49187")
def mxfp4_of_quark():
    """fp4 in groups of 32: FP4 products from sm_100 on."""
    spec = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
    model = llama({"quant_method": "quark", "exclude": ["lm_head"], "global_quant_config": {
        "weight": spec | {"is_dynamic": False}, "input_tensors": spec | {"is_dynamic": True}}}, mx4)
    want = {"method": "mxfp4", "weight_shape": [512, 256], "scale_shape": [512, 16],
            "scale_format": "ue8m0", "group_size": 32}
    return model, [accept({O: want | {"activation": "none", "compute_dtype": "BF16"}}),
                   accept({O: want | {"activation": "dynamic-token-group-32"}}, target="sm_100"),
                   accept({DOWN: {"weight_shape": [512, 256], "scale_shape": [512, 16]}}, tp=2)]


@case("C4", "vllm-project/vllm#6665")
def null_list_of_fbgemm():
    """fbgemm_fp8 with a null list: every linear is FP8 a channel, the head is BF16."""
    return llama({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0,
                  "modules_to_not_convert": None}, channel), [
        accept({QKV: CHANNEL, "lm_head": PLAIN}, silent=["C7]"]),
        accept({QKV: {"activation": "none", "compute_dtype": "BF16"}}, target="sm_80",
               says=["sm_80", "B4]"])]


@case("C14 B4")
def experts_of_two_codes_a_byte():
    """expert_dtype fp4 under fp8: told by dtype and shape, a remark says so."""
    model = experts("Qwen3MoeForCausalLM", skip("lm_head") | {"expert_dtype": "fp4"})
    for name in [key for key in model.tensors if ".experts." in key]:
        n, k = model.tensors[name][1]
        if name.endswith("weight"):
            model.tensors[name] = ("I8", [n, k // 2])
            model.tensors[f"{name[:-7]}.weight_scale_inv"] = ("U8", [n, k // 32])
    return model, [accept({EXPERTS: {"method": "mxfp4", "activation": "none"}, QKV: FP8},
                          says=["C14]"])]


@case("C13 C14")
def experts_of_too_few_bytes():
    """Bytes that are not two codes each are no format of fp8."""
    model = experts("Qwen3MoeForCausalLM", skip("lm_head") | {"expert_dtype": "fp4"})
    for name in [key for key in model.tensors if ".experts." in key]:
        n, k = model.tensors[name][1]
        if name.endswith("weight"):
            model.tensors[name] = ("I8", [n, k // 4])
            model.tensors[f"{name[:-7]}.weight_scale_inv"] = ("U8", [n, k // 32])
    return model, [reject("C13", f"{EXPERTS}.0.gate_proj")]


# Other architectures

@case("W3 W12")
def latent_attention_without_a_query_rank():
    """DeepSeek-V2-Lite: q_proj is whole, kv_a_proj_with_mqa is fused with nothing."""
    model = deepseek(skip("lm_head", f"{LAYER}.self_attn.kv_a_proj_with_mqa"))
    model.config |= {"architectures": ["DeepseekV2ForCausalLM"], "q_lora_rank": None,
                     "topk_method": "greedy", "scoring_func": "softmax"}
    for layer in range(2):
        path = f"model.layers.{layer}.self_attn"
        for name in [key for key in model.tensors if key.startswith(f"{path}.q_")]:
            del model.tensors[name]
        model.linear(f"{path}.q_proj", 512, 512, block)
    del model.tensors["model.layers.1.mlp.gate.e_score_correction_bias"]
    store(model, bf16, f"{LAYER}.self_attn.kv_a_proj_with_mqa")
    return model, [accept({f"{LAYER}.self_attn.q_proj": FP8 | {"weight_shape": [256, 512]},
                           f"{LAYER}.self_attn.kv_a_proj_with_mqa": PLAIN,
                           "model.layers.1.self_attn.kv_a_proj_with_mqa": FP8}, tp=2,
                          silent=["C7]", "C13]"])]


@case("C8", "vllm-project/vllm-ascend#2588")
def one_matrix_of_the_experts():
    """up_proj of all experts is BF16, gate_proj is FP8: w13 is one matrix."""
    model = experts("Qwen3MoeForCausalLM", skip("up_proj"))
    store(model, bf16, *[f"{EXPERTS}.{e}.up_proj" for e in range(4)])
    return model, [reject("C8", EXPERTS, "gate_proj", "up_proj")]


@case("C13")
def expert_that_is_missing():
    """config.json counts four experts, three are stored."""
    model = experts("Qwen3MoeForCausalLM")
    for name in [key for key in model.tensors if ".experts.3." in key]:
        del model.tensors[name]
    return model, [reject("C13", f"{EXPERTS}.3")]


@case("W14")
def expert_that_is_left_over():
    """config.json counts four experts, five are stored: the last one is reported."""
    model = experts("Qwen3MoeForCausalLM", count=5)
    model.config["num_experts"] = 4
    model.plain(f"{LAYER}.mlp.gate.weight", 4, 512)
    return model, [accept({EXPERTS: {"num_local_experts": 4}}, says=["W14]", "experts.4"])]


@case("W3b W5")
def more_ranks_than_heads_of_keys():
    """Mixtral on four ranks: key heads are copied, experts are split or whole."""
    model = experts("MixtralForCausalLM", skip("lm_head"), width=512)
    path = f"{LAYER}.block_sparse_moe.experts"
    return model, [
        accept({path: {"num_local_experts": 4, "w13_weight_shape": [4, 256, 512],
                       "w13_scale_shape": [4, 2, 4], "w2_scale_shape": [4, 4, 1]},
                QKV: {"weight_shape": [384, 512]}}, tp=4),
        accept({path: {"num_local_experts": 1, "w13_weight_shape": [1, 1024, 512],
                       "w13_scale_shape": [1, 8, 4], "w2_weight_shape": [1, 512, 512]}},
               tp=4, ep=4),
        reject("W3b", "4", "8", tp=8)]


@case("C9 W7", "vllm-project/vllm#26431")
def half_precision_model():
    """torch_dtype float16: what is not FP8 is F16."""
    model = llama(STATIC, static, torch_dtype="float16")
    for name, tensor in model.tensors.items():
        if tensor[0] == "BF16":
            model.tensors[name] = ("F16", tensor[1])
    return model, [accept({"lm_head": {"weight_dtype": "F16", "compute_dtype": "F16"},
                           O: TENSOR}, target="sm_90"),
                   accept({O: {"activation": "none", "compute_dtype": "F16"}}, target="sm_80")]
