# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases of weights, scales, splits and caches (W1-W15, P7-P9, B1-B6, N8), for more_cases.py."""
from make_check_inputs import (BLOCK, Model, awq, bf16, block, cdiv, channel, deepseek, experts,
                               gptq, llama, nvfp4, static, unscaled)
from more_cases import accept, case, reject
from more_cases_config import (CHANNEL, CT_CHANNEL, CT_TOKEN, DOWN, FP8, GATE_UP, LAYER, O, PLAIN,
                               QKV, TENSOR, ct, shards, skip, store)

STATIC = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
EXPERTS = f"{LAYER}.mlp.experts"


def grid(bn, bk, name="weight_scale_inv", dtype="F32"):
    """Blocks of another size."""
    return lambda n, k: {"weight": ("F8_E4M3", [n, k]),
                         name: (dtype, [cdiv(n, bn), cdiv(k, bk)])}


def cache(model, names, layer=0):
    for name, value in names.items():
        model.tensors[f"model.layers.{layer}.self_attn.{name}"] = ("F32", [], value)
    return model


def kv(source, k, v, dtype="F8_E4M3"):
    return {"kv_cache": {"dtype": dtype, "k_scale": float(k), "v_scale": float(v),
                         "source": source}}


# W1, W2, W6: shapes, names, presence.

@case("W1 W2")
def grid_of_four_dimensions():
    """[a, 1, b, 1] is the grid [a, b], under ModelOpt's name for blocks."""
    def real(n, k):
        return {"weight": ("F8_E4M3", [n, k]),
                "weight_scale": ("F32", [cdiv(n, 128), 1, cdiv(k, 128), 1])}
    model = llama({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "ignore": ["lm_head"]},
                  real)
    return model, [accept({DOWN: FP8 | {"scale_shape": [4, 8],
                                        "activation": "dynamic-token-group-128"}}),
                   accept({DOWN: {"scale_shape": [4, 4]}, QKV: {"scale_shape": [4, 4]}}, tp=2)]


@case("W1 W2", "vllm-project/llm-compressor#959")
def one_scale_in_three_spellings():
    """[], [1] and [1, 1] are one scale; the name of blocks is one too."""
    model = llama({"quant_method": "fp8", "activation_scheme": "dynamic"}, static)
    tensors = model.tensors
    for name in [key for key in tensors if key.endswith("input_scale")]:
        del tensors[name]
    tensors[f"{O}.weight_scale"] = ("F32", [1], 0.01)
    tensors[f"{DOWN}.weight_scale"] = ("F32", [1, 1], 0.01)
    del tensors[f"{LAYER}.mlp.gate_proj.weight_scale"], tensors[f"{LAYER}.mlp.up_proj.weight_scale"]
    for name in ("gate", "up"):
        tensors[f"{LAYER}.mlp.{name}_proj.weight_scale_inv"] = ("F32", [], 0.01)
    dynamic = TENSOR | {"activation": "dynamic-token"}
    return model, [accept({O: dynamic, DOWN: dynamic, GATE_UP: dynamic, QKV: dynamic})]


@case("W2")
def blocks_under_the_other_name():
    """weight_scale with a grid, stored in BF16."""
    model = llama(skip("lm_head"), grid(128, 128, "weight_scale", "BF16"))
    return model, [accept({O: FP8 | {"scale_dtype": "BF16", "scale_shape": [4, 4]}},
                          silent=["W14]"])]


@case("W2")
def both_spellings():
    """weight_scale and weight_scale_inv of one module."""
    model = llama()
    model.tensors[f"{O}.weight_scale"] = ("F32", [4, 4])
    return model, [reject("W2", O, "weight_scale", "weight_scale_inv")]


@case("W1")
def scales_of_other_blocks():
    """The grid is one of 64x64, config.json says 128x128."""
    return store(llama(), grid(64, 64), O), [reject("W1", O, "[8, 8]", "[4, 4]")]


@case("W1")
def scales_transposed():
    """[K/128, N/128] instead of [N/128, K/128]."""
    model = llama()
    model.tensors[f"{DOWN}.weight_scale_inv"] = ("F32", [8, 4])
    return model, [reject("W1", DOWN, "[8, 4]", "[4, 8]")]


@case("W1")
def exponents_under_fp8():
    """U8 scales belong to mxfp8."""
    model = store(llama(), grid(128, 128, "weight_scale_inv", "U8"), O)
    return model, [reject("W1", O, "U8", "mxfp8")]


@case("W6", "vllm-project/vllm#54722")
def channel_scale_is_missing():
    """A compressed-tensors module without its scale."""
    return store(llama(ct(CT_CHANNEL, CT_TOKEN), channel), unscaled, *shards("v")), [
        reject("W6", f"{LAYER}.self_attn.v_proj", "weight_scale")]


@case("W6 W9")
def input_scale_of_one_expert_is_missing():
    """Static activations: each expert matrix has an input_scale."""
    model = experts("MixtralForCausalLM", STATIC, static)
    del model.tensors[f"{LAYER}.block_sparse_moe.experts.3.w2.input_scale"]
    return model, [reject("W6", f"{LAYER}.block_sparse_moe.experts.3.w2", "input_scale")]


@case("W6")
def scalar_that_is_negative():
    """Scales that are scalars are read: -0.01 is none, of any expert."""
    model = experts("MixtralForCausalLM", STATIC, static)
    name = f"{LAYER}.block_sparse_moe.experts.2.w3.weight_scale"
    model.tensors[name] = ("F32", [], -0.01)
    return model, [reject("W6", name, "-0.01")]


@case("W6")
def scalar_that_is_infinite():
    """An infinite input_scale."""
    model = llama(STATIC, static)
    model.tensors[f"{O}.input_scale"] = ("F32", [], float("inf"))
    return model, [reject("W6", f"{O}.input_scale", "infinite")]


@case("W6 N2")
def input_scale_of_zero():
    """Nothing can be divided by an input_scale of 0."""
    model = llama(STATIC, static)
    model.tensors[f"{DOWN}.input_scale"] = ("F32", [], 0.0)
    return model, [reject("W6", f"{DOWN}.input_scale", "0")]


@case("W14 B4")
def scales_that_nothing_reads():
    """Dynamic activations do not read a stored input_scale, and a note says so."""
    model = llama(skip("lm_head"))
    model.tensors[f"{O}.input_scale"] = ("F32", [], 0.05)
    return model, [accept({O: {"activation": "dynamic-token-group-128"}},
                          says=[f"{O}.input_scale"])]


# W3, W3b, W3c, W5: splits.

@case("W3", "sgl-project/sglang#26213")
def shared_expert_cut_inside_a_block():
    """Experts go to ranks whole, the shared expert is split and its blocks are cut."""
    return deepseek(), [
        reject("W3", "model.layers.1.mlp.shared_experts", "64", "128", tp=4, ep=4),
        accept({"model.layers.1.mlp.shared_experts.gate_up_proj": {"weight_shape": [256, 512],
                                                                   "scale_shape": [2, 4]},
                "model.layers.1.mlp.experts": {"num_local_experts": 2,
                                               "w13_weight_shape": [2, 512, 512]}}, tp=2, ep=2)]


@case("W3")
def row_parallel_cuts_a_block():
    """o_proj reads 192 channels a rank; q, k and v have whole blocks."""
    model = Model(BLOCK, architectures=["LlamaForCausalLM"], num_hidden_layers=1, head_dim=96,
                  num_key_value_heads=4, intermediate_size=1024)
    model.norms(LAYER)
    model.heads(LAYER, block, 4, 96)
    model.mlp(f"{LAYER}.mlp", 1024, block)
    return model, [reject("W3", O, "192", "128", tp=2),
                   accept({QKV: {"weight_shape": [1152, 512], "scale_shape": [9, 4]}})]


@case("W3 W3b", "vllm-project/vllm#12256")
def heads_of_64_rows():
    """Two heads of keys of 64 rows are one block: split or copied, it is cut."""
    model = Model(BLOCK, architectures=["LlamaForCausalLM"], num_hidden_layers=1, head_dim=64,
                  num_key_value_heads=2, num_attention_heads=8, intermediate_size=1024)
    model.norms(LAYER)
    model.heads(LAYER, block, 2, 64)
    model.mlp(f"{LAYER}.mlp", 1024, block)
    return model, [reject("W3", QKV, "64", "128", tp=2), reject("W3", QKV, "64", "128", tp=4),
                   accept({QKV: {"weight_shape": [768, 512], "scale_shape": [6, 4]}})]


@case("W3b")
def heads_of_keys_are_copied():
    """Two heads on four ranks: each rank has one, and N_i is that of a rank."""
    return llama(skip("lm_head")), [
        accept({QKV: {"weight_shape": [384, 512], "scale_shape": [3, 4]},
                O: {"weight_shape": [512, 128], "scale_shape": [4, 1]},
                "lm_head": {"weight_shape": [128, 512]}}, tp=4),
        reject("W3b", "model.layers.0.self_attn", "4", "3", tp=3)]


@case("W3b")
def key_heads_that_do_not_fit():
    """Three heads of keys on two ranks."""
    model = llama(kv_heads=3, num_attention_heads=6)
    return model, [reject("W3b", "model.layers.0.self_attn", "3", "2", tp=2)]


@case("W3b W4")
def vocabulary_that_does_not_divide():
    """510 rows on four ranks: 128, 128, 128, 126."""
    model = llama(skip("lm_head"), vocab_size=510)
    return model, [accept({"lm_head": {"weight_shape": [128, 512]},
                           "model.embed_tokens": {"weight_shape": [128, 512]}}, tp=4)]


@case("W3c")
def expert_groups_that_do_not_fit():
    """ep does not divide the ranks, or the experts."""
    model = experts("Qwen3MoeForCausalLM", count=6)
    return model, [reject("W3c", "ep", tp=2, ep=4), reject("W3c", "6", "4", tp=4, ep=4)]


@case("W3c W5")
def experts_split_inside_a_group():
    """Four ranks in two groups: two experts of half the width."""
    return experts("Qwen3MoeForCausalLM", skip("lm_head"), width=512), [
        accept({EXPERTS: {"num_local_experts": 2, "w13_weight_shape": [2, 512, 512],
                          "w13_scale_shape": [2, 4, 4], "w2_weight_shape": [2, 512, 256],
                          "w2_scale_shape": [2, 4, 2]}}, tp=4, ep=2)]


@case("W3", "vllm-project/vllm#21695")
def awq_group_is_cut():
    """Width 896 is 7 groups of 128: two ranks would have 3.5."""
    model = llama({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True,
                   "version": "gemm"}, awq, width=896)
    q4 = {"method": "awq-int4", "activation": "none", "group_size": 128}
    return model, [reject("W3", DOWN, "448", "128", tp=2),
                   accept({DOWN: q4 | {"weight_shape": [896, 64], "zeros_shape": [7, 64],
                                       "scale_shape": [7, 512]},
                           GATE_UP: q4 | {"weight_shape": [512, 224], "zeros_shape": [4, 224],
                                          "scale_shape": [4, 1792]}})]


@case("W3", "vllm-project/vllm#2699")
def gptq_group_is_cut():
    """The same for GPTQ in the natural order."""
    model = llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                   "desc_act": False}, gptq, width=896)
    return model, [reject("W3", DOWN, "448", "128", tp=2)]


@case("W3", "vllm-project/vllm#7374")
def act_order_needs_all_scales():
    """Rows out of order: a rank of a row-parallel split has all scales and zeros."""
    model = llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                   "desc_act": True}, gptq)
    return model, [accept({DOWN: {"weight_shape": [64, 512], "scale_shape": [8, 512],
                                  "zeros_shape": [8, 64]},
                           QKV: {"weight_shape": [64, 512], "scale_shape": [4, 512]}}, tp=2)]


@case("W6", "vllm-project/vllm#7374")
def act_order_without_an_order():
    """desc_act, and no g_idx."""
    model = llama({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True,
                   "desc_act": True}, gptq)
    del model.tensors[f"{DOWN}.g_idx"]
    return model, [reject("W6", DOWN, "g_idx")]


@case("W3 C12", "vllm-project/vllm#17604")
def groups_of_packed_experts():
    """gpt-oss: width 96 is 3 groups of 32 along w2's input."""
    return gpt_oss(96), [
        reject("W3", EXPERTS, "48", "32", tp=2),
        accept({EXPERTS: {"method": "mxfp4", "num_local_experts": 2, "activation": "none",
                          "w13_weight_shape": [2, 192, 256], "w13_scale_shape": [2, 192, 16],
                          "w2_weight_shape": [2, 512, 48], "w2_scale_shape": [2, 512, 3]},
                f"{LAYER}.mlp.router": PLAIN, O: PLAIN}, tp=2, ep=2, silent=["C7]", "C13]"])]


@case("W6")
def packed_experts_without_scales():
    """gpt-oss without down_proj_scales."""
    model = gpt_oss(128)
    del model.tensors[f"{EXPERTS}.down_proj_scales"]
    return model, [reject("W6", f"{EXPERTS}.down_proj", "'down_proj_scales'")]


@case("W1")
def short_scales_of_packed_experts():
    """gpt-oss with scales of another width."""
    model = gpt_oss(128)
    model.tensors[f"{EXPERTS}.gate_up_proj_scales"] = ("U8", [4, 256, 15])
    return model, [reject("W1", "gate_up_proj_scales", "[4, 256, 15]", "[4, 256, 16]")]


def gpt_oss(width):
    model = Model({"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
        architectures=["GptOssForCausalLM"], num_hidden_layers=1, num_key_value_heads=2,
        head_dim=128, intermediate_size=width, num_local_experts=4, num_experts_per_tok=2,
        attention_bias=True, sliding_window=128, swiglu_limit=7.0)
    model.norms(LAYER)
    model.heads(LAYER, bf16)
    for name, n in (("q", 512), ("k", 256), ("v", 256), ("o", 512)):
        model.plain(f"{LAYER}.self_attn.{name}_proj.bias", n)
    model.plain(f"{LAYER}.self_attn.sinks", 4)
    model.plain(f"{LAYER}.mlp.router.weight", 4, 512)
    model.plain(f"{LAYER}.mlp.router.bias", 4)
    for name, n, k in (("gate_up_proj", 2 * width, 512), ("down_proj", 512, width)):
        model.tensors[f"{EXPERTS}.{name}_blocks"] = ("U8", [4, n, k // 32, 16])
        model.tensors[f"{EXPERTS}.{name}_scales"] = ("U8", [4, n, k // 32])
        model.plain(f"{EXPERTS}.{name}_bias", 4, n)
    return model


@case("W3 W3b")
def replicated_projections_are_not_cut():
    """q_a_proj and kv_a_proj_with_mqa are whole on each of four ranks; 192 rows are 1.5 blocks."""
    model = deepseek(skip("lm_head", "shared_experts", "self_attn.q_b_proj"), num_attention_heads=4)
    shared = "model.layers.1.mlp.shared_experts"
    store(model, bf16, *[f"{LAYER[:-1]}{i}.self_attn.q_b_proj" for i in range(2)],
          *[f"{shared}.{n}_proj" for n in ("gate", "up", "down")])
    attention = f"{LAYER}.self_attn"
    return model, [
        reject("W3", f"{attention}.o_proj", "64", "128", tp=4, ep=4),
        accept({f"{attention}.kv_a_proj_with_mqa": {
            "weight_shape": [192, 512], "scale_shape": [2, 4], "parallel": "replicated"},
            f"{attention}.q_b_proj": {"weight_shape": [256, 256]}}, tp=2),
        reject("W3b", "4", "8", tp=8)]


@case("W5b W12", "vllm-project/vllm-ascend#15346")
def heads_off_the_blocks():
    """A head of kv_b_proj has 96 + 64 rows: blocks of 128 do not start with heads."""
    model = deepseek(nope=96, value=64)
    up = {"method": "fp8-block", "weight_shape": [640, 128], "scale_shape": [5, 1]}
    absorbed = {"absorbed": {"w_kc_shape": [4, 96, 128], "w_vc_shape": [4, 64, 128]}}
    return model, [accept({f"{LAYER}.self_attn.kv_b_proj": up | absorbed}),
                   reject("W3", f"{LAYER}.self_attn", "320", "128", tp=2)]


@case("W12", "vllm-project/vllm#57732")
def absorbed_halves_of_a_rank():
    """Two heads a rank."""
    return deepseek(), [accept({f"{LAYER}.self_attn.kv_b_proj": {
        "weight_shape": [256, 128], "absorbed": {"w_kc_shape": [2, 64, 128],
                                                 "w_vc_shape": [2, 64, 128]}}}, tp=2)]


# W7-W9, W11, B1-B4: contracts.

@case("B3 W7", "vllm-project/vllm#4332")
def shards_keep_their_scales():
    """Three scales of a fused matrix; the largest of them only on sm_120."""
    model = llama(STATIC, static)
    model.tensors[f"{LAYER}.self_attn.k_proj.weight_scale"] = ("F32", [], 0.03)
    fused = TENSOR | {"activation": "static-tensor", "compute_dtype": "F8_E4M3"}
    return model, [accept({QKV: fused}, silent=["W8]"]), accept({QKV: fused}, target="cpu"),
                   accept({QKV: fused}, target="sm_120", says=["W8]", "largest"])]


@case("B4", "sgl-project/sglang#12887")
def static_scales_without_fp8_products():
    """sm_86 widens FP8 in the kernel and drops input_scale, with a warning."""
    return llama(STATIC, static), [
        accept({QKV: TENSOR | {"activation": "none", "compute_dtype": "BF16"}}, target="sm_86",
               says=["sm_86", "input_scale", "B4]"])]


@case("W11 B1", "sgl-project/sglang#28662")
def blocks_of_compressed_tensors_on_sm_100():
    """sm_100 takes power-of-two scales, whoever exported the blocks."""
    weights = {"num_bits": 8, "type": "float", "strategy": "block", "symmetric": True,
               "block_structure": [128, 128], "dynamic": False}
    inputs = {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128,
              "symmetric": True, "dynamic": True}
    model = llama(ct(weights, inputs), grid(128, 128, "weight_scale", "BF16"))
    both = FP8 | {"activation": "dynamic-token-group-128", "scale_shape": [4, 4]}
    return model, [accept({O: both | {"scale_format": "ue8m0"}}, target="sm_100", says=["W11]"]),
                   accept({O: both | {"scale_dtype": "BF16"}}, silent=["W11]"])]


@case("B1 P3", "vllm-project/vllm#38083")
def stored_powers_of_two():
    """scale_fmt ue8m0: F32 scales that are powers of two stay, on every target."""
    block_ue8m0 = FP8 | {"scale_dtype": "F32", "scale_format": "ue8m0",
                         "activation": "dynamic-token-group-128"}
    model = deepseek(skip("lm_head") | {"scale_fmt": "ue8m0"})
    path = f"{LAYER}.self_attn.o_proj"
    return model, [accept({path: block_ue8m0}, target=target, silent=["W11]"])
                   for target in ("sm_90", "sm_100", "cpu")]


@case("B2")
def other_blocks():
    """[64, 64]: the generic kernel, and its own splits."""
    model = llama(BLOCK | {"weight_block_size": [64, 64]}, grid(64, 64))
    return model, [accept({O: FP8 | {"scale_shape": [8, 8], "activation": "dynamic-token-group-64"}},
                          says=["B2]"]),
                   accept({O: FP8 | {"scale_shape": [8, 2]}}, tp=4)]


@case("B2")
def blocks_of_one_row():
    """[1, 128] is block FP8 too."""
    model = llama(BLOCK | {"weight_block_size": [1, 128]}, grid(1, 128))
    return model, [accept({O: FP8 | {"scale_shape": [512, 4],
                                     "activation": "dynamic-token-group-128"}})]


@case("W9 W5", "vllm-project/vllm#5915")
def scales_of_each_expert():
    """Mixtral, static: a scale for each of w1, w3, w2 of each expert."""
    model = experts("MixtralForCausalLM", STATIC, static)
    tensors = {"method": "fp8-tensor", "num_local_experts": 4, "activation": "static-tensor",
               "w13_weight_shape": [4, 512, 512], "w13_scale_shape": [4, 2],
               "w2_weight_shape": [4, 512, 256], "w2_scale_shape": [4]}
    return model, [accept({f"{LAYER}.block_sparse_moe.experts": tensors,
                           f"{LAYER}.block_sparse_moe.gate": PLAIN})]


@case("N7 B4", "NVIDIA/Model-Optimizer#1313")
def nvfp4_by_target():
    """FP4 products from sm_100 on; elsewhere weight-only, and W4A16 everywhere."""
    config = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16,
              "exclude_modules": ["lm_head"]}
    fp4 = {"method": "nvfp4", "weight_dtype": "U8", "weight_shape": [512, 256],
           "scale_dtype": "F8_E4M3", "scale_shape": [512, 32], "group_size": 16}
    return llama(config, nvfp4), [
        accept({O: fp4 | {"activation": "dynamic-token-group-16"}}, target="sm_100"),
        accept({O: fp4 | {"activation": "none", "compute_dtype": "BF16"}}, says=["sm_90", "FP4"]),
        accept({O: fp4 | {"activation": "none"}}, target="sm_80")]


@case("W6 N7", "vllm-project/vllm#12520")
def nvfp4_without_its_second_scale():
    """weight_scale_2 is missing, or input_scale."""
    config = {"quant_method": "modelopt_fp4", "quant_algo": "NVFP4", "ignore": ["lm_head"]}
    model = llama(config, nvfp4)
    del model.tensors[f"{O}.weight_scale_2"]
    return model, [reject("W6", O, "weight_scale_2")]


@case("N8", "vllm-project/vllm#26431")
def e5m2_weights():
    """E5M2 is requantised while loading, at its own granularity."""
    model = llama({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e5m2"}, channel)
    for name, tensor in model.tensors.items():
        if tensor[0] == "F8_E4M3":
            model.tensors[name] = ("F8_E5M2", tensor[1])
    return model, [accept({O: {"method": "fp8-channel", "scale_shape": [512, 1],
                               "compute_dtype": "F8_E4M3"}}, says=["N8]", "E5M2"])]


# W13-W15.

@case("W13", "sgl-project/sglang#34857")
def dtypes_of_the_router():
    """The router's weight and bias keep the dtypes that are stored."""
    model = deepseek(skip("lm_head"))
    gate = "model.layers.1.mlp.gate"
    model.tensors[f"{gate}.weight"] = ("F32", [4, 512])
    return model, [accept({gate: {"method": "unquantized", "weight_dtype": "F32",
                                  "weight_shape": [4, 512]},
                           f"{gate}.e_score_correction_bias": {"storage_dtype": "F32"}}, tp=2)]


@case("W13 C13")
def bias_of_the_router_is_missing():
    """noaux_tc, and no e_score_correction_bias."""
    model = deepseek()
    del model.tensors["model.layers.1.mlp.gate.e_score_correction_bias"]
    return model, [reject("C13", "model.layers.1.mlp.gate", "e_score_correction_bias")]


@case("W13", "vllm-project/vllm#48506")
def router_with_scales():
    """A router in FP8."""
    model = deepseek()
    model.linear("model.layers.1.mlp.gate", 4, 512, block)
    return model, [reject("W13", "model.layers.1.mlp.gate", "F8_E4M3")]


@case("W14", "vllm-project/vllm#49187")
def plain_draft_layer():
    """The draft layer is BF16 and no list names it: not built, not read."""
    model = deepseek(skip("lm_head"), drafts=1)
    store(model, bf16, *[key[:-7] for key, (dtype, *_) in list(model.tensors.items())
                         if key.startswith("model.layers.2.") and dtype == "F8_E4M3"])
    return model, [accept({"model.layers.2.mlp.experts": None, "model.layers.2.eh_proj": None,
                           "model.layers.1.self_attn.o_proj": FP8},
                          says=["W14]"], silent=["C13]"])]


@case("W15", "sgl-project/sglang#2935")
def head_that_is_missing():
    """Untied, and no lm_head.weight."""
    model = llama()
    del model.tensors["lm_head.weight"]
    return model, [reject("W15", "lm_head")]


@case("W15")
def quantised_copy_of_a_tied_head():
    """A tied model stores an FP8 copy of the head with its scale."""
    model = llama(tie_word_embeddings=True)
    model.linear("lm_head", 512, 512, block)
    return model, [accept({"lm_head": {"tied_to": "model.embed_tokens"}}, says=["W15]"],
                          silent=["W14]"])]


@case("P16")
def quantised_head():
    """The checkpoint itself quantises lm_head."""
    model = llama()
    model.linear("lm_head", 512, 512, block)
    return model, [accept({"lm_head": FP8 | {"scale_shape": [4, 4]}})]


# P7-P9: caches.

@case("P8 W2", "sgl-project/sglang#39942")
def every_name_of_cache_scales():
    """Five spellings in five layers, declared by nothing but themselves."""
    model = llama(skip("lm_head"), layers=5)
    cache(model, {"k_scale": 0.5, "v_scale": 0.25}, 0)
    cache(model, {"k_proj.k_scale": 0.5, "v_proj.v_scale": 0.25}, 1)
    cache(model, {"qkv_proj.k_scale": 0.5, "qkv_proj.v_scale": 0.25}, 2)
    cache(model, {"k_proj.output_scale": 0.5, "v_proj.output_scale": 0.25}, 3)
    cache(model, {"kv_scale": 0.5}, 4)
    want = {f"model.layers.{i}.self_attn.attn": kv("checkpoint", 0.5, 0.25) for i in range(4)}
    want["model.layers.4.self_attn.attn"] = kv("checkpoint", 0.5, 0.5)
    return model, [accept(want, silent=["W14]", "P8]"])]


@case("P7b P8")
def cache_scales_of_one_layer():
    """Scales of one layer declare the cache of all; the others take 1.0."""
    model = llama(skip("lm_head"), layers=2)
    cache(model, {"k_scale": 0.5, "v_scale": 0.25}, 1)
    return model, [accept({"model.layers.0.self_attn.attn": kv("default", 1, 1),
                           "model.layers.1.self_attn.attn": kv("checkpoint", 0.5, 0.25)},
                          says=["P8]", "model.layers.0.self_attn"],
                          silent=["model.layers.1.self_attn:"])]


@case("P8", "sgl-project/sglang#27131")
def cache_scales_that_are_none():
    """0 and -1 are no scales: the other one is for both, or 1.0 with a warning."""
    model = llama(BLOCK | {"kv_cache_scheme": "static"}, layers=3)
    cache(model, {"k_scale": -1.0, "v_scale": 0.25}, 0)
    cache(model, {"k_scale": 0.0, "v_scale": 0.0}, 1)
    cache(model, {"k_scale": 0.5}, 2)
    return model, [accept({"model.layers.0.self_attn.attn": kv("checkpoint", 0.25, 0.25),
                           "model.layers.1.self_attn.attn": kv("default", 1, 1),
                           "model.layers.2.self_attn.attn": kv("checkpoint", 0.5, 0.5)},
                          says=["P8]", "model.layers.1.self_attn"],
                          silent=["model.layers.0.self_attn:", "model.layers.2.self_attn:"])]


@case("P7b", "vllm-project/vllm#6081")
def cache_of_what_is_declared():
    """Nothing declared: the activation dtype. The flag wins over the config."""
    plain, attn = llama(skip("lm_head")), f"{LAYER}.self_attn.attn"
    return plain, [accept({attn: {"kv_cache": {"dtype": "BF16"}}}, silent=["P8]"]),
                   accept({attn: kv("default", 1, 1)}, kv="fp8_e4m3", says=[f"{LAYER}.self_attn"])]


@case("C4 P7b")
def cache_as_an_object():
    """kv_cache_scheme of 8 float bits, and a flag against it."""
    model = llama(BLOCK | {"kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    cache(model, {"k_scale": 0.5, "v_scale": 0.5})
    attn = f"{LAYER}.self_attn.attn"
    return model, [accept({attn: kv("checkpoint", 0.5, 0.5)}),
                   accept({attn: {"kv_cache": {"dtype": "BF16"}}}, kv="bf16", silent=["W14]"])]


@case("C4 P7b")
def cache_of_another_format():
    """A declared INT8 cache is refused, unless a flag says what to do."""
    model = llama(BLOCK | {"kv_cache_quant_algo": "INT8"})
    return model, [reject("C4", "kv_cache_quant_algo", "INT8"),
                   accept({f"{LAYER}.self_attn.attn": {"kv_cache": {"dtype": "BF16"}}}, kv="bf16")]


@case("C4")
def cache_of_four_bits():
    """kv_cache_scheme of 4 integer bits."""
    model = llama(BLOCK | {"kv_cache_scheme": {"num_bits": 4, "type": "int"}})
    return model, [reject("C4", "kv_cache_scheme", '"num_bits":4')]


@case("P7", "sgl-project/sglang#35291")
def cache_of_latent_attention():
    """128 codes, one scale, 64 of RoPE; and a layout that has no latent."""
    attn = f"{LAYER}.self_attn.attn"
    return deepseek(skip("lm_head")), [
        accept({attn: {"kv_cache": {"dtype": "BF16", "bytes_per_token": 384}}}, tp=2),
        accept({attn: {"kv_cache": {"dtype": "F8_E4M3", "bytes_per_token": 260}}}, tp=2,
               kv="fp8_ds_mla")]


@case("P9 C7", "sgl-project/sglang#34857")
def indexers_of_some_layers():
    """Layers that share own no indexer; the alias of its head weights is known."""
    model = deepseek(skip("lm_head", "model.layers.0.self_attn.indexers_proj"))
    model.config |= {"architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
                     "index_n_heads": 2, "index_head_dim": 128, "index_topk": 64,
                     "indexer_types": ["full", "shared"]}
    indexer = f"{LAYER}.self_attn.indexer"
    model.linear(f"{indexer}.wq_b", 256, 256, block)
    model.linear(f"{indexer}.wk", 128, 512, block)
    model.plain(f"{indexer}.k_norm.weight", 128)
    model.plain(f"{indexer}.k_norm.bias", 128)
    model.plain(f"{indexer}.weights_proj.weight", 2, 512)
    return model, [accept({f"{indexer}.wq_b": FP8 | {"weight_shape": [256, 256],
                                                     "parallel": "replicated"},
                           f"{indexer}.wk": FP8 | {"scale_shape": [1, 4]},
                           f"{indexer}.weights_proj": {"method": "unquantized"},
                           "model.layers.1.self_attn.indexer.wq_b": None}, tp=2,
                          silent=["C7]", "C13]"])]
