//===- Boundaries.cpp - P: precision at operator boundaries ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RuleTexts.h"
#include <array>

using namespace octet;

/// BF16 in the texts is the activation dtype (--dtype).
static constexpr std::array kRules = {
    Rule{"P1", "The embedding look-up is never quantised",
         "A token id picks a row in BF16; there is no arithmetic.",
         "The table is read a row a token, so nothing is gained, and every "
         "later value would carry the error.",
         "an embedding table of type !q.tensor\n"
         "error: model.embedding: operand 1 is loaded from "
         "!q.tensor<16x8xf8E4M3FN, per_channel, f32>; the embedding is never "
         "quantised [P1]",
         "Store embed_tokens in BF16."},
    Rule{"P2", "Residual sum and RMSNorm",
         "BF16 in; the sum of squares and the reciprocal root in FP32; BF16 "
         "out, or directly FP8 with scales where the consumer is a quantised "
         "linear (static, or per token and group of 128).",
         "The residual stream is the one value that lives through all layers.",
         "a residual sum of a quantised value\n"
         "error: model.add: operand 1 was rounded to !q.tensor<?x8xf8E4M3FN, "
         "per_token, f32>; a residual sum is in the activation dtype [P2]",
         "None for a user: passes keep it."},
    Rule{
        "P3", "Where activations are quantised, and with which scale",
        "Static: the checkpoint's scalar. Dynamic: per token, or per token and "
        "group of bk along K. The scale is FP32 (N3); UE8M0 (N4) where the "
        "checkpoint says scale_fmt ue8m0, on every target, or the contract "
        "needs it (a note).",
        "The scale belongs to the kernel that reads it; a second quantisation "
        "anywhere doubles the error.",
        "a linear that reads BF16 under a per-token contract\n"
        "error: model.layers.0.o_proj: reads tensor<?x8xbf16>, its contract is "
        "#q.contract<weight = per_channel, scale = f32, activation = "
        "per_token>; the activation has to be quantised before it [P3]",
        "--activation-quant off leaves all activations as they are."},
    Rule{"P4", "A quantised linear gives the activation dtype",
         "FP8 times FP8 accumulates in FP32 (N6, N6b) and is rounded once to "
         "BF16.",
         "A second rounding, or an FP8 output, would add an error that no "
         "reference has.",
         "a result that is not what the weight's rows make\n"
         "error: 'model.linear' op result has N = 384, the weight has 256 [P4]",
         "None for a user."},
    Rule{"P5", "Norms are never quantised",
         "All norms, those of q_a and kv_a included: BF16 in and out, FP32 "
         "inside; their weights keep their dtype.",
         "A norm's weight multiplies every value of a row; it is small, and "
         "nothing is saved.",
         "a norm whose weight was rounded to FP8\n"
         "error: model.norm: operand 1 was rounded to !q.tensor<1x8xf8E4M3FN, "
         "per_tensor, f32>; a norm and its weight are never quantised [P5]",
         "Store norm weights in BF16 or F32."},
    Rule{
        "P6", "Rotary embedding is in the activation dtype",
        "Angles in FP32, values in BF16; never FP8 unless the 576-byte cache "
        "layout was asked for.",
        "Positions are told apart by small differences of angles.",
        "rope of a quantised q\n"
        "error: a: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, "
        "f32>; rotary embedding is in the activation dtype [P6]",
        "None for a user."},
    Rule{"P7", "Layouts of the MLA cache",
         "Per token and layer: bf16 1152 bytes; fp8_ds_mla 656 = 512 E4M3 + 4 "
         "FP32 scales (one per 128) + 64 BF16 of rope; fp8_e4m3 576 with one "
         "scale a tensor. The layout is a type; an attention kernel that reads "
         "another layout does not verify.",
         "Writers and readers of a cache are different kernels; bytes alone do "
         "not say which layout they are in.",
         "an attention over the cache of another\n"
         "error: 'model.attention' op reads 2 heads of 64, the cache is "
         "'!q.kv<bf16, page = 64, heads = 4, dim = 32>' [P7]",
         "--kv-cache with a layout of the model's attention."},
    Rule{"P7a", "The cache of GQA and MHA",
         "The activation dtype, or fp8_e4m3: e4m3(k / k_scale) and "
         "e4m3(v / v_scale), one scale each a layer (P8).",
         "Keys and values are rounded once, where they are written.",
         "keys that were quantised before the cache\n"
         "error: model.layers.3.self_attn: k was rounded to "
         "!q.tensor<?x8xf8E4M3FN, per_token, f32>; keys and values are rounded "
         "once, in the cache's layout [P7a]",
         "--kv-cache bf16 or fp8_e4m3."},
    Rule{"P7b", "Who chooses the cache's layout",
         "--kv-cache auto takes what the checkpoint declares (C4) or stores "
         "scales for, in any layer (P8 gives the others theirs), else the "
         "activation dtype. The flag wins, with a remark.",
         "Scales in a checkpoint say that it was calibrated for an FP8 cache.",
         "k_scale is stored, and --kv-cache is bf16\n"
         "remark: model.layers.0.self_attn: the KV cache is bf16 as --kv-cache "
         "says; the stored k_scale declares fp8_e4m3 [P7b]",
         "--kv-cache fp8_e4m3 or --kv-cache bf16."},
    Rule{"P8", "Scales of the KV cache",
         "Both positive: as given. One positive: copied to both. None: 1.0, "
         "with a warning that names the layer if the cache is FP8. Kept per "
         "layer.",
         "Exporters store both, one or neither; 1.0 is right for models whose "
         "keys are small and saturates others.",
         "an FP8 cache and no k_scale in layer 2\n"
         "warning: model.layers.2.self_attn: no scale of its FP8 KV cache; "
         "1.0 is used [P8]",
         "Calibrate the cache, or --kv-cache bf16."},
    Rule{
        "P9", "The sparse-attention indexer",
        "q in FP8 with UE8M0 scales (N4), k in FP8 with an FP32 scale per 128, "
        "132 bytes a token (--index-cache fp8; or bf16; F32 with --dtype f32). "
        "No Hadamard rotation. FP32 accumulation of sum_j w_j relu(q_j k_s); "
        "the scales of query, softmax and heads are folded into w_j. Logits "
        "FP32, top-k INT32, ties to the lower position. weights_proj and "
        "k_norm are not quantised. Layers that own an indexer: indexer_types; "
        "else index_topk_pattern (S shares); else L is full iff max(L - "
        "index_skip_topk_offset + 1, 0) % index_topk_freq == 0. The others "
        "reuse the rows of the last full layer.",
        "A top-k is a decision: rounding moves its border, so where it rounds "
        "is fixed.",
        "head weights of an indexer that were quantised\n"
        "error: model.layers.3.self_attn.indexer.weights_proj: its weight is "
        "!q.tensor<64x7168xf8E4M3FN, per_channel, f32>; the head weights of an "
        "indexer are never quantised [P9]",
        "--index-cache bf16 keeps keys unrounded."},
    Rule{"P10", "All ranks select the same rows",
         "Rank 0's top-k is broadcast to the ranks of a tensor-parallel group; "
         "this can be switched off. INT32.",
         "Ranks that attend to different rows add up parts of different "
         "answers.",
         "an indexer at tp=8 whose choice is not broadcast\n"
         "error: model.layers.3.self_attn.indexer: with tp=8 each rank reads "
         "the keys that it chose itself; rank 0's choice is broadcast, or "
         "--no-index-broadcast [P10]",
         "--no-index-broadcast, where ranks compute bit for bit alike."},
    Rule{
        "P11", "Attention",
        "BF16 q, k, v; FP32 scores, running maximum and sum; probabilities "
        "rounded to BF16 before the product with V (not with --dtype f32); "
        "BF16 out.",
        "The exponential of a rounded score is off by a factor.",
        "attention of a quantised q\n"
        "error: a: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, "
        "f32>; attention reads q in the activation dtype [P11]",
        "None for a user."},
    Rule{"P12", "The router decides in FP32",
         "BF16 weight, FP32 accumulation and sigmoid or softmax; "
         "e_score_correction_bias (FP32) steers the choice only, the weight is "
         "the score without bias; groups, top-k, normalisation; "
         "routed_scaling_factor on the router's weight, not folded into "
         "experts. INT32 and FP32 out.",
         "A discrete decision in low precision picks another expert, and the "
         "error is no longer small.",
         "a router that reads FP8\n"
         "error: model.layers.3.mlp.gate: operand 0 was rounded to "
         "!q.tensor<?x8xf8E4M3FN, per_token, f32>; a router decides in high "
         "precision [P12]",
         "Store the router in BF16 (W13)."},
    Rule{"P13", "Rows may travel to experts in FP8",
         "Dispatch quantises BF16 rows in groups of 128 and moves codes with "
         "scales.",
         "Moving data may be quantised: each receiver reads it as its product "
         "would have quantised it anyway.",
         "rows that move as BF16 to experts that read codes\n"
         "error: model.layers.3.mlp.experts: its rows arrive as "
         "tensor<?x7168xbf16>, its contract is #q.contract<weight = "
         "block<128x128>, scale = f32, activation = block<1x128>>; rows move "
         "as the product reads them [P13]",
         "None for a user: insert-quantization writes it."},
    Rule{"P14", "Experts multiply in FP8 and give BF16",
         "Grouped products of FP8 with FP32 accumulation; SwiGLU's output is "
         "rounded to BF16 and quantised in the same kernel for w2.",
         "The rounding points are those of a dense MLP, so that the same model "
         "in one expert gives the same numbers.",
         "experts whose result is in F32 in a BF16 program\n"
         "error: model.layers.3.mlp.experts: its result is in f32, the "
         "activation dtype is bf16 [P14]",
         "None for a user."},
    Rule{"P15", "Sums across ranks are never in FP8",
         "Combine and all-reduce move BF16; the local combine is that of N9.",
         "Moving may be lossy, summing may not: errors of 2^-4 would add up "
         "with the number of ranks.",
         "an all-reduce of !q.tensor\n"
         "error: a: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, "
         "per_token, f32>; a sum over ranks is never in FP8 [P15]",
         "None for a user."},
    Rule{
        "P16", "Final norm and lm_head",
        "BF16 in, FP32 accumulation, BF16 or FP32 logits; split over the "
        "vocabulary, gathered in the order of ranks. lm_head is quantised only "
        "if the checkpoint itself says so.",
        "Logits are compared with each other: 3 % of a logit is another token.",
        "lm_head stored in BF16 and quantised by a pass\n"
        "error: lm_head: its weight is !q.tensor<16x8xf8E4M3FN, per_channel, "
        "f32>, which the checkpoint does not store; lm_head is quantised only "
        "if the checkpoint says so [P16]",
        "List lm_head in modules_to_not_convert, or store it quantised."},
    Rule{"P17", "Sampling is in FP32",
         "Temperature, top-k, top-p, min-p, softmax and log-probabilities in "
         "FP32; a forbidden token is -inf before the softmax. INT32 out.",
         "Probabilities of a large vocabulary are below BF16's resolution.",
         "--temperature nan is refused by the command line. A pass that rounds "
         "logits:\n"
         "error: model.output: @step returns logits in bf16; a token is "
         "sampled in FP32, expected f32 [P17]",
         "A finite temperature; 0 is greedy."},
    Rule{"P18", "Draft tokens are accepted by a ratio in FP32",
         "The probabilities of draft and model are FP32, and so is the ratio "
         "test.",
         "A rounded ratio changes the distribution that speculation promises "
         "to keep.",
         "A pass that rounds a draft layer's logits:\n"
         "error: model.output: @draft_0 returns logits in bf16; a draft is "
         "accepted by a ratio of FP32 probabilities, expected f32 [P18]",
         "None for a user: --mtp 1 builds draft layers with FP32 logits, and "
         "whoever samples accepts."},
};

std::span<const Rule> octet::getBoundaryRules() { return kRules; }
