//===- Configs.cpp - C: finding and reading the quantisation config -------===//
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
        "C1", "Where the quantisation config is looked for",
        "First found wins: quantization_config, text_config."
        "quantization_config and compression_config in config.json, then "
        "hf_quant_config.json beside it. None means an unquantised checkpoint.",
        "Exporters put it in four places. Some checkpoints say nothing in "
        "config.json, and only the sidecar tells that the bytes are FP8.",
        "\"quantization_config\": \"fp8\"\n"
        "error: config.json: quantization_config: is 'fp8', expected an object "
        "[C1]",
        "Give the config as an object; `null` counts as absent. --quantization "
        "names a method where there is none (C3)."},
    Rule{"C2", "Methods have names, and each name one reader",
         "The names are fp8, mxfp8, w8a8_fp8, w8a8_int8, compressed-tensors, "
         "fbgemm_fp8, modelopt, modelopt_fp4, mxfp4, awq, awq_marlin, gptq, "
         "gptq_marlin, auto-round, quark and gguf. Entries are keyed by name "
         "and target family. An unknown name, and a format of a known method "
         "that is not read, is an error that lists what is.",
         "A method that is guessed from tensor names works until two methods "
         "share them; a name says what the codes mean.",
         "\"quant_method\": \"fp9\"\n"
         "error: config.json: quantization_config.quant_method: no method is "
         "called 'fp9'; valid for target cpu are 'auto-round', ... [C2]",
         "Correct quant_method, or name the method with --quantization."},
    Rule{
        "C3", "The user's method wins if it can read the layout",
        "--quantization overrides the checkpoint's method and has to be able "
        "to read what is stored. A name selects the semantics when running, "
        "not a bit width: fp8 covers one scale a tensor, a channel or a block.",
        "The same bytes may be run in two ways; reading a layout by the wrong "
        "one gives numbers without an error.",
        "octet compile CKPT --quantization w8a8_fp8   (block FP8 stored)\n"
        "error: --quantization w8a8_fp8: cannot read this checkpoint's layout, "
        "which is 'fp8' (config.json: quantization_config); it reads "
        "per-channel FP8 of 'w8a8_fp8' and 'compressed-tensors' checkpoints "
        "[C3]",
        "Leave --quantization out, or name a method of the same layout: "
        "per-channel compressed-tensors reads as w8a8_fp8 or fp8, FP8 of any "
        "scale as fp8."},
    Rule{
        "C4", "The fields of the FP8 family",
        "quant_method, activation_scheme (static or dynamic), "
        "weight_block_size, ignored_layers = modules_to_not_convert, "
        "kv_cache_quant_algo or kv_cache_scheme (a word such as static or FP8, "
        "or an object with num_bits 8 and type float), scale_fmt (ue8m0), and "
        "whether the checkpoint is FP8-serialised. A field of another type or "
        "value is an error with both.",
        "A field that is passed over because its type was unexpected changes "
        "results silently.",
        "\"weight_block_size\": [128, 0]\n"
        "error: config.json: quantization_config.weight_block_size: is "
        "[128,0], expected two positive integers [bn, bk] [C4]",
        "Correct the field. --kv-cache decides the cache whatever the config "
        "says (P7b)."},
    Rule{
        "C5", "Blocks need stored codes and dynamic activations",
        "weight_block_size requires an FP8-serialised checkpoint and the "
        "dynamic activation scheme.",
        "Weights are quantised while loading per channel only (W10), and one "
        "static scale cannot describe activations that have one scale a token "
        "and block.",
        "\"activation_scheme\": \"static\", \"weight_block_size\": [128, 128]\n"
        "error: config.json: quantization_config.weight_block_size: is "
        "[128, 128] and activation_scheme is 'static'; one static scale cannot "
        "describe per-block activations, activation_scheme 'dynamic' can [C5]",
        "activation_scheme dynamic; or convert a BF16 checkpoint offline with "
        "'octet quantize CKPT -o DIR --to fp8-block'."},
    Rule{"C6", "mxfp8 has blocks of [1, 32]",
         "The method mxfp8 forces the block to [1, 32]. Another value in the "
         "config is replaced with a warning; with --strict it is an error.",
         "The group is part of the format (N7). Exporters copy the field from "
         "an FP8 config.",
         "\"quant_method\": \"mxfp8\", \"weight_block_size\": [128, 128]\n"
         "warning: config.json: quantization_config.weight_block_size: is "
         "[128, 128] and is taken as [1, 32], the group of 'mxfp8' [C6]",
         "Remove the field, or use fp8 if the scales really are one a block."},
    Rule{
        "C7", "What an entry of an ignore list matches",
        "An entry matches a module if it equals a run of whole dotted "
        "components of its path: mlp.gate never matches mlp.gate_proj, and a "
        "dot is a dot. An entry that names a tensor, or a layer that this "
        "compile does not build, counts as matched. Both sides are compared "
        "with and without model., language_model. and model.language_model. "
        "Only entries marked re: are regular expressions. Where the exporter "
        "writes globs (ModelOpt, Quark, gpt-oss) * stands for any characters, "
        "dots included, and matching the module or a prefix of it that ends at "
        "a dot counts. Each architecture has aliases (indexers_proj is "
        "indexer.weights_proj). null, absent and [] are three things. Entries "
        "that match nothing are reported.",
        "Lists are written for another program's module names. A prefix test "
        "takes mlp.gate for mlp.gate_up_proj, or layers.1 for layers 10 to 19, "
        "and a large part of the model is left unquantised or misread.",
        "\"modules_to_not_convert\": [\"model.layers.0.mlp.gat\"]\n"
        "warning: config.json: quantization_config: modules_to_not_convert[0] "
        "'model.layers.0.mlp.gat' matches no module or tensor of this "
        "checkpoint [C7]",
        "Correct the entry; an entry for a module that is not there does no "
        "harm."},
    Rule{
        "C8", "A fused module is skipped whole or not at all",
        "qkv_proj, gate_up_proj and fused_qkv_a_proj_with_mqa are skipped only "
        "if all their shards are. Some but not all is an error that names the "
        "shards on each side. A fused name in the list is tested before it is "
        "unfolded, and only names that are no tensors of the checkpoint are "
        "unfolded; a shard that the checkpoint does not have does not vote. "
        "For experts a match on a prefix of their layer is enough.",
        "One matrix has one dtype. Reading a BF16 shard as FP8 codes, or the "
        "other way round, gives noise.",
        "\"modules_to_not_convert\": [\"model.layers.0.self_attn.v_proj\"]\n"
        "error: model.layers.0.self_attn.qkv_proj: q_proj and k_proj are "
        "quantised but v_proj is on the ignore list; a fused module is skipped "
        "whole or not at all [C8]",
        "List all shards or none; --unfuse-mixed keeps such shards apart "
        "instead."},
    Rule{
        "C9", "The target has to run the method and the dtype",
        "Compute capability at least 8.0 for fp8, 8.9 for w8a8_fp8, 10.0 for "
        "native mxfp8 (below: B6); activations in BF16 or FP16, F32 on the CPU "
        "only. The CPU runs every method. A pair that cannot run is an error "
        "before any code is made; it lists what the target runs and which "
        "targets run the method. Any sm_NN is judged by its number, sm_90 "
        "means sm_90a.",
        "A kernel that does not exist is better known before an hour of "
        "loading than after it.",
        "octet compile CKPT --target sm_80 --quantization w8a8_fp8\n"
        "error: --target sm_80: method 'w8a8_fp8' needs compute capability 8.9 "
        "or higher, sm_80 is 8.0; 'compressed-tensors', 'fp8', ... run there, "
        "FP8 with weights widened to BF16, and method 'w8a8_fp8' runs on cpu "
        "and from sm_89 on [C9]",
        "Another --target, or another method that reads the layout (C3). sm_80 "
        "runs FP8 weight-only (B4)."},
    Rule{"C10", "gptq becomes gptq_marlin only where the user named none",
         "A gptq checkpoint is run as gptq_marlin on a GPU if no method was "
         "named and bits, group size, sym and desc_act are convertible. If the "
         "user named gptq it stays gptq, with a remark. The same for awq and "
         "awq_marlin.",
         "The repacked kernel is faster and gives the same values; a user who "
         "names a method asks for exactly that one.",
         "--quantization gptq_marlin with \"bits\": 8, \"group_size\": 96\n"
         "error: --quantization gptq_marlin: cannot repack this checkpoint: "
         "group_size is 96; it takes 4 or 8 bits, groups of 32, 64, 128 or all "
         "of K, sym true [C10]",
         "Leave --quantization out, or name gptq."},
    Rule{
        "C11", "Every operator has an answer, by its kind",
        "A linear asks the linear method, routed experts the method of "
        "experts, attention the method of the KV cache, anything else is "
        "unquantised. A linear for which the method has no answer is an error "
        "that names the module.",
        "A module that falls through to a default is quantised, or not, by "
        "accident.",
        "targets of the only group: [\"re:.*up_proj\"], and a FP8 weight "
        "elsewhere\n"
        "error: a.b: weight is F8_E4M3 and no target of config_groups names "
        "it; a group with target 'Linear', its path or a pattern [C11]",
        "Add the module to a group's targets or to ignore, whichever is true."},
    Rule{
        "C12", "mxfp4 quantises routed experts only",
        "Under mxfp4 dense linears, attention, routers and embeddings keep the "
        "checkpoint's dtype, whatever the list says.",
        "The gpt-oss checkpoints name what is not converted; read as a list "
        "of all exceptions it would leave nothing of the attention.",
        "model.layers.0.self_attn.q_proj stored as U8 blocks\n"
        "error: model.layers.0.self_attn.q_proj: weight is U8; method "
        "'mxfp4' quantises routed experts only, expected BF16, F16 or F32 "
        "[C12]",
        "Use a method that covers linears (quark, modelopt_fp4)."},
    Rule{"C13", "What is declared is checked against what is stored",
         "Module by module: dtype, shape and presence of scales. A module that "
         "is stored in BF16 without scales is unquantised even if no entry "
         "lists it, and a listed module that is stored in FP8 with scales is "
         "used as stored, each with a note. An FP8 weight without a recognised "
         "scale, or FP8 weights where no method is declared, is an error. "
         "Nothing is inferred from sibling modules.",
         "Lists and tensors disagree in published checkpoints (draft layers, "
         "routers). The tensors are what will be multiplied.",
         "an F8_E4M3 weight in a checkpoint without a quantisation config\n"
         "error: a.b: weight is F8_E4M3 but the checkpoint declares no "
         "quantisation method; a quantization_config, or '--quantization fp8' "
         "[C13]",
         "Add the config, or the missing scales; correct the stored dtype."},
    Rule{"C14", "Names are compared whole, ignoring case",
         "MXFP8 is not FP8. A config without quant_method but with quant_algo "
         "is ModelOpt; modelopt with NVFP4 is modelopt_fp4, with MXFP8 it is "
         "mxfp8. Packed experts under fp8 (expert_dtype fp4) are recognised by "
         "stored dtype and shape and take the contract of mxfp4 (B4).",
         "A test for the substring FP8 takes MXFP8's exponent bytes for FP8 "
         "scales.",
         "\"quant_algo\": \"FP8X\"\n"
         "error: config.json: quantization_config.quant_algo: is 'FP8X'; "
         "expected one of 'fp8', 'fp8_pb_real', ..., in any letter case [C14]",
         "Write the name as the exporter has it, in any letter case."},
    Rule{
        "C15", "Fields of the model are read in both spellings",
        "rope_scaling and rope_parameters (with rope_theta, rope_type and YaRN "
        "fields inside, or nested by attention type) mean the same; both are "
        "read and a contradiction is an error. Sizes are positive integers. "
        "Unknown keys that could change results are reported.",
        "A rotary embedding with the wrong base runs, and is wrong from the "
        "first long prompt on.",
        "\"rope_theta\": 10000, \"rope_parameters\": {\"rope_theta\": "
        "1000000}\n"
        "error: config.json: rope_theta is 10000 and in config.json: "
        "rope_parameters rope_theta is 1000000; they mean the same thing "
        "[C15]",
        "Correct the config. An unknown key is a warning; --strict makes it an "
        "error."},
};

std::span<const Rule> octet::getConfigRules() { return kRules; }
