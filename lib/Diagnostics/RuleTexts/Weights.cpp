//===- Weights.cpp - W: weights, scales, splits ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RuleTexts.h"
#include <array>

using namespace octet;

static constexpr std::array kRules = {
    Rule{
        "W1", "The shape of a scale follows from the weight",
        "Per tensor: one scale a logical matrix (a fused module keeps a slot a "
        "shard). Per channel: [N, 1]. Block: [cdiv(N, bn), cdiv(K, bk)]. A "
        "7168x2048 weight at 128x128 has 56x16 scales.",
        "A scale of another shape belongs to another block size or another "
        "matrix; broadcasting it hides that.",
        "F8_E4M3 [18432, 4096] with 'weight_scale_inv' F32 [144, 31]\n"
        "error: a.b: 'weight_scale_inv' is F32 [144, 31]; expected F32 "
        "[144, 32] (18432x4096 in 128x128 blocks) [W1]",
        "Correct weight_block_size, or export the scales again."},
    Rule{"W2", "The names of scales",
         "weight_scale_inv for blocks, weight_scale otherwise, input_scale for "
         "static activations, k_scale and v_scale (or one kv_scale; also "
         "k_proj.k_scale, qkv_proj.k_scale, k_proj.output_scale) for the KV "
         "cache, .scale in DeepSeek-V4. Either spelling of the weight's scale "
         "goes with either granularity, never both at once; a grid may be "
         "stored as [a, 1, b, 1]. inv does not mean inverted: the value "
         "multiplies.",
         "Exporters name the same thing differently; two scales for one weight "
         "leave open which one is true.",
         "both 'weight_scale' and 'weight_scale_inv' beside one weight\n"
         "error: a.b: has both 'weight_scale' F32 [1] and 'weight_scale_inv' "
         "F32 [3, 2]; one of the two spellings [W2]",
         "Remove the scale that does not belong to the weight."},
    Rule{
        "W3", "A split may not cut a block of scales",
        "For a module that is split over tensor-parallel ranks. Row-parallel "
        "(input split): K % tp == 0 and (K / tp) % bk == 0. Column-parallel "
        "(output split): for every shard i of a fused module N_i % tp == 0 and "
        "(N_i / tp) % bn == 0. For AWQ, GPTQ, MX and NVFP4 bk is the group "
        "size, and a packed dimension stays a multiple of the pack factor. A "
        "module that is not split (MLA's A projections, the indexer) is not "
        "checked and may have a ragged last block.",
        "Half a block of weights with a whole scale works for the block and "
        "breaks the arithmetic of the kernel, which finds a scale by dividing "
        "the index.",
        "octet check CKPT --tp 16, down_proj of 3072 columns, blocks 128x128\n"
        "error: model.layers.3.mlp.shared_experts.down_proj: input dimension "
        "3072 over tp=16 is 192 per rank, not a multiple of the block "
        "(bk=128); tp=1, 2, 3, 4, 6, 8, 12 or 24 would work [W3]",
        "One of the tp values that the error lists; --ep, which keeps experts "
        "whole; --split-blocks pad, where each rank loads the whole blocks "
        "that it touches."},
    Rule{
        "W3b", "Heads are split evenly, or KV heads replicated",
        "heads % tp == 0. KV heads are split if kv_heads % tp == 0, replicated "
        "(each on tp / kv_heads ranks) if tp % kv_heads == 0, else an error; "
        "the N_i of W3 are those after replication. A vocabulary that tp does "
        "not divide leaves the last rank short.",
        "A head is the unit of attention: half a head has no softmax.",
        "octet check CKPT --tp 16 with 24 heads and 6 KV heads\n"
        "error: a: 24 heads and 6 KV heads over tp=16: heads are split evenly; "
        "tp=1, 2, 3, 6, 12 or 24 would work [W3b]",
        "One of the tp values that the error lists; --dp for the rest of the "
        "ranks."},
    Rule{"W3c", "Ranks are tp times dp, and ep divides them",
         "ranks = tp * dp; ep divides tp * dp; the experts are divided into ep "
         "groups, and inside a group each expert is split tp * dp / ep ways, "
         "under W3.",
         "Attention and experts use the same ranks in different ways; the "
         "product has to be the same.",
         "octet compile CKPT --tp 4 --ep 3\n"
         "error: --ep 3: does not divide the 4 ranks of tp=4 and dp=1 [W3c]",
         "An ep that divides tp * dp."},
    Rule{"W4", "The last block may be ragged",
         "Kernels mask the rows and columns that a last block does not have; "
         "weights are never padded in memory, except by --split-blocks pad.",
         "Padding would change the shapes that everything else is checked "
         "against, and costs memory in each of thousands of matrices.",
         "576 x 7168 in 128x128 blocks has 5 x 56 scales; the last row of "
         "blocks has 64 rows.\n"
         "No input breaks it.",
         "None is needed."},
    Rule{"W5", "Experts are stacked, gate before up",
         "w13 is [E, 2 I_p, H] with scale [E, 2 cdiv(I_p, bn), cdiv(H, bk)], "
         "each shard rounded up on its own; w2 is [E, H, I_p] with "
         "[E, cdiv(H, bn), cdiv(I_p, bk)]. I_p is the intermediate size of one "
         "rank, E its local experts.",
         "A scale grid of cdiv(2 I_p, bn) rows is a row short whenever I_p is "
         "no multiple of bn.",
         "I_p = 192, bn = 128: 2 + 2 scale rows, not 3. In IR, a gate of 60 "
         "rows beside a down of 64 columns:\n"
         "error: 'model.experts' op gate_up is 'tensor<8x60x256xbf16>', "
         "expected 8 x 64 x 256 [W5]",
         "None for a checkpoint: its experts are stored one by one."},
    Rule{
        "W5b", "Each shard of a fused matrix starts its own scale rows",
        "Rows 0 .. N_0-1 use ceil(N_0 / bn) scale rows, the next shard the "
        "following ones. Scale row = weight row / bn over the fused matrix is "
        "wrong when a shard is ragged: 2048 + 576 rows need 16 + 5 scale rows.",
        "The shards were quantised apart. One row of scales that covers the "
        "end of one shard and the start of the next would be the scale of "
        "neither.",
        "!q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = "
        "[2048, 512]>\n"
        "error: shards add up to 2560, the matrix has 2624 rows [W5b]",
        "The widths of all shards, in order."},
    Rule{
        "W6", "Every scale is there, and is a scale",
        "Scales start as a sentinel, the lowest finite FP32, and each sentinel "
        "left after loading is an error (but see W8); a missing scale is found "
        "when compiling, from the headers. A scale that is NaN, infinite, "
        "negative, or zero with a block that is not zero, is an error with its "
        "tensor and index.",
        "A scale that was never loaded is garbage of a plausible size.",
        "F8_E4M3 [18432, 4096] without a scale\n"
        "error: model.layers.5.mlp.gate_proj: no 'weight_scale_inv' for its "
        "F8_E4M3 weight; expected F32 [144, 32] (18432x4096 in 128x128 "
        "blocks) [W6]",
        "Add the scale, or store the module in BF16 and list it (C7)."},
    Rule{
        "W7", "One scale a shard becomes one scale a channel",
        "Per-tensor shards with scales of their own, under a per-channel "
        "contract: each scale is repeated over the rows of its shard. A single "
        "scale of a fused matrix is broadcast. Exact.",
        "The channel-wise kernel reads any mixture of scales, so no shard has "
        "to be requantised.",
        "q with 0.5, k with 0.25: sw = 0.5 on q's rows, 0.25 on k's.\n"
        "error: a: stores !q.tensor<32x32xf8E4M3FN, block<128x128>, f32>, the "
        "contract is #q.contract<weight = per_channel, scale = f32, activation "
        "= per_token>; scales are only ever spread from one a tensor to one a "
        "channel [W7]",
        "None is needed for per-tensor checkpoints; blocks have a contract of "
        "their own (B1, B2)."},
    Rule{"W8", "Requantising to the largest scale",
         "Where the contract is one scale (B3), each per-tensor shard is "
         "dequantised and requantised with the largest of the scales. If the "
         "checkpoint stored the fused matrix with one scale, the other slots "
         "still hold the sentinel and nothing is requantised.",
         "Lossy: codes of the shard with the small scale lose bits. Only where "
         "the kernel leaves no choice; the ledger shows the error.",
         "octet compile CKPT --requant-max, or --numerics sm_120f: gate with "
         "scale 0.02 and up with 0.03 become codes below 0.03.\n"
         "error: a.gate_up_proj: 2 shards of i8 have a scale each, the "
         "contract has one; only FP8 is requantised [W8]",
         "Without --requant-max every target but sm_120 keeps the shards' "
         "scales."},
    Rule{"W9", "A fused module's input scale is the largest of its shards",
         "The static input_scale of a fused module is the maximum of its "
         "shards' values; for experts the maximum of w1 and w3 of one expert, "
         "never over experts. The same holds for the scale above the groups of "
         "NVFP4 weights where both operands are multiplied in FP4; the shards' "
         "group scales are rounded again below it, their codes stay.",
         "The fused product reads one quantised input. The largest scale "
         "saturates least; one over all experts would waste range in most.",
         "q: 0.02, k: 0.03, v: 0.01: the input is quantised with 0.03.\n"
         "No input breaks it.",
         "None is needed."},
    Rule{
        "W10", "An unquantised checkpoint is quantised while loading",
        "BF16 or FP16 weights under fp8 are quantised per output channel with "
        "activations per token (B3), on every target; one scale a tensor only "
        "with --requant-max. Under mxfp4 only the routed experts are (C12).",
        "Per channel is as fast as per tensor and more exact, and needs one "
        "pass over a row.",
        "activation_scheme static over BF16 weights without input_scale\n"
        "error: a.b: no 'input_scale', which activation_scheme 'static' reads, "
        "for its BF16 weight that is quantised while loading; "
        "activation_scheme 'dynamic' needs none [W10]",
        "activation_scheme dynamic; or convert offline with 'octet quantize'."},
    Rule{"W11",
         "FP32 block scales become powers of two where the contract wants them",
         "Dequantise and requantise with N4 if the contract takes UE8M0 scales "
         "only and the stored ones are not powers of two already. "
         "--scale-format keep refuses that contract and takes the next kernel.",
         "The block-scaled instructions of sm_100 read exponents. The rewrite "
         "is lossy, so it is visible and can be refused.",
         "octet compile CKPT --numerics sm_100f: a block with scale 0.011 and "
         "largest code 448 gets 2^-6.\n"
         "No input breaks it; octet ledger shows the error.",
         "--scale-format keep; a checkpoint with scale_fmt ue8m0, whose scales "
         "are powers of two."},
    Rule{"W12", "MLA absorption splits kv_b_proj by heads, after dequantising",
         "kv_b_proj is split per head into w_kc and w_vc after its blocks were "
         "dequantised with their global row index, also where a head's rows do "
         "not start on the edge of a block. In the explicit form kv_b_proj "
         "quantises its input like any linear, in the absorbed form it does "
         "not; the ledger shows the difference of one rounding.",
         "Splitting first and looking up the scale of row / bn within the head "
         "reads the neighbour's scale.",
         "heads of 192 + 256 rows, blocks of 128: head 1 starts in the middle "
         "of scale row 3. Codes that are split before\n"
         "error: 'model.mla_attention' op w_kc is '!q.tensor<128x192x512xf8E4"
         "M3FN, block<128x128>, f32>', expected f32, bf16 or f16: kv_b is "
         "dequantised before it is split [W12]",
         "--mla explicit or --mla absorbed."},
    Rule{"W13",
         "Routers keep their dtypes and the checkpoint's order of experts",
         "Router weights (BF16) and e_score_correction_bias (FP32) are loaded "
         "as they are stored and never quantised.",
         "A router decides; an error of 3 % in a score picks another expert "
         "(P12).",
         "model.layers.3.mlp.gate stored in F8_E4M3\n"
         "error: model.layers.3.mlp.gate: weight is F8_E4M3 [256, 7168]; a "
         "router is never quantised, expected BF16, F16 or F32 [W13]",
         "Store the router in BF16."},
    Rule{
        "W14", "Draft layers are known, and nothing is dropped in silence",
        "Layers with an index from num_hidden_layers on are ignored by a plain "
        "compile and used by --mtp. Tensors that nothing consumes are "
        "reported, after renames.",
        "A tensor that nobody reads is a module that was not built or a name "
        "that was not understood.",
        "--mtp 2 for a model with one draft layer\n"
        "error: --mtp 2: config.json has 1 draft layer "
        "(num_nextn_predict_layers); 0 to 1 work [W14]",
        "Nothing for draft layers. For other tensors: is it the architecture "
        "that config.json names?"},
    Rule{
        "W15", "Tied embeddings",
        "With tie_word_embeddings lm_head uses embed_tokens and a duplicate "
        "lm_head.weight is ignored with a note; untied without lm_head.weight "
        "is an error.",
        "A head that is silently tied gives fluent nonsense.",
        "no tensor 'lm_head.weight', tie_word_embeddings false\n"
        "error: lm_head: no tensor 'lm_head.weight', and config.json says that "
        "the embedding is not tied; the tensor, or tie_word_embeddings true "
        "[W15]",
        "Add the tensor, or set tie_word_embeddings."},
    Rule{"W16", "GGUF stores q and k permuted",
         "GGUF files of Llama-family models hold the rows of q and k in the "
         "order of neighbour-pair RoPE; reading undoes it. Tensor names and "
         "hyper-parameters map to the same modules as safetensors checkpoints.",
         "Read as they are, the rotary embedding turns the wrong pairs and "
         "attention looks at the wrong places.",
         "blk.0.attn_q.weight: row 2 i + j of a head is row j d / 2 + i of "
         "model.layers.0.self_attn.q_proj.\n"
         "No input breaks it.",
         "None is needed."},
};

std::span<const Rule> octet::getWeightRules() { return kRules; }
