//===- DecideTest.cpp - Config and headers together -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Small checkpoints with one peculiarity each, as bug reports of serving
// engines have them: lists with short, fused or prefixed names, routers that no
// list names, scales that are missing, experts that differ.
//
//===----------------------------------------------------------------------===//

#include "octet/Modules/Decide.h"
#include <gtest/gtest.h>

using namespace octet;
using nlohmann::json;

namespace {

std::string text(const Status &status) {
  if (status.ok())
    return "no error";
  std::string formatted = status.info().format();
  return formatted.substr(0, formatted.find('\n'));
}

/// A checkpoint whose tensors are those that its config implies, until a test
/// changes some.
struct Checkpoint {
  json config, sidecar;
  std::map<std::string, StoredTensor> tensors;

  /// \param quantisation  fields of quantization_config, or null.
  Checkpoint(json base, json quantisation) : config(std::move(base)) {
    if (!quantisation.is_null())
      config["quantization_config"] = std::move(quantisation);
    store();
  }

  /// The tensors that config.json alone implies.
  void store() {
    DecideOptions options;
    options.unfuseMixed = true;
    Result<CheckpointDecisions> implied =
        decideCheckpoint(config, sidecar, nullptr, options);
    ASSERT_TRUE(implied.ok()) << text(implied.status());
    tensors.clear();
    for (const ModuleDecision &decision : implied->modules) {
      const ModuleEntry &module = implied->getModule(decision);
      if (module.isOptional)
        continue;
      std::optional<Scheme> scheme;
      if (decision.method.quantized)
        scheme =
            Scheme{decision.method.weight, false, decision.method.activation,
                   decision.method.format, decision.method.input};
      for (const ImpliedTensor &tensor :
           implyTensors(module, decision.method.method, scheme))
        for (int64_t e = 0; e < std::max<int64_t>(tensor.experts, 1); ++e)
          if (tensor.expected.required) {
            StoredTensor stored;
            stored.type = tensor.expected.types.front();
            stored.shape = tensor.expected.shapes.front();
            tensors[tensor.getName(tensor.expected.names.front(), e)] = stored;
          }
    }
  }

  /// A matrix in BF16 without scales.
  void storePlain(const std::string &module) {
    tensors.at(module + ".weight").type = StoredType::BF16;
    tensors.erase(module + ".weight_scale_inv");
    tensors.erase(module + ".weight_scale");
  }

  Result<CheckpointDecisions> decide(DecideOptions options = {}) const {
    TensorTable table;
    table.files = {"model.safetensors"};
    table.fileBytes = {0};
    for (const auto &[name, tensor] : tensors) {
      TensorInfo info{};
      info.name = name;
      info.type = tensor.type;
      info.shape = tensor.shape;
      table.tensors.push_back(std::move(info));
    }
    EXPECT_TRUE(table.finish().ok());
    return decideCheckpoint(config, sidecar, &table, options);
  }
};

json dense() {
  return json::parse(R"({"architectures": ["LlamaForCausalLM"],
    "vocab_size": 512, "hidden_size": 256, "intermediate_size": 384,
    "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64})");
}

json experts() {
  json config = dense();
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  config["num_experts"] = 4;
  config["moe_intermediate_size"] = 192;
  config["mlp_only_layers"] = {0};
  return config;
}

json block(json ignored = nullptr) {
  return {{"quant_method", "fp8"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {128, 128}},
          {"modules_to_not_convert", std::move(ignored)}};
}

std::string format(const CheckpointDecisions &decisions, const char *path) {
  const ModuleDecision *decision = decisions.find(path);
  return decision ? nameFormat(decision->method) : "no module";
}

/// Rules of warnings or notes, in order.
std::vector<std::string> rules(const std::vector<ErrorInfo> &infos) {
  std::vector<std::string> result;
  for (const ErrorInfo &info : infos)
    result.push_back(info.rule);
  return result;
}

using Rules = std::vector<std::string>;

TEST(Decide, EverythingAgrees) {
  Checkpoint checkpoint(experts(), block({"lm_head", "mlp.gate"}));
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.0.mlp.gate_proj"), "fp8-block");
  EXPECT_EQ(format(*decided, "model.layers.1.mlp.gate"), "unquantized");
  EXPECT_EQ(format(*decided, "model.layers.1.mlp.experts.{e}.up_proj"),
            "fp8-block");
  EXPECT_EQ(nameActivation(
                decided->find("model.layers.0.self_attn.o_proj")->contract),
            "dynamic-token-group-128");
  EXPECT_EQ(rules(decided->warnings), Rules());
  EXPECT_EQ(rules(decided->notes), Rules());
}

TEST(Decide, ShortEntryKeepsTheRouterAndNothingElseC7) {
  // "mlp.gate" is neither mlp.gate_proj nor mlp.gate_up_proj.
  Checkpoint checkpoint(experts(), block({"mlp.gate"}));
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.0.mlp.gate_proj"), "fp8-block");
  checkpoint.tensors.at("model.layers.1.mlp.gate.weight").type =
      StoredType::F8_E4M3;
  EXPECT_EQ(text(checkpoint.decide().status()),
            "error: model.layers.1.mlp.gate: weight is F8_E4M3 [4, 256]; a "
            "router is never quantised, expected BF16, F16 or F32 [W13]");
}

TEST(Decide, PartOfAFusedModuleIsRefusedC8) {
  Checkpoint checkpoint(dense(),
                        block({"lm_head", "model.layers.0.self_attn.q_proj"}));
  EXPECT_EQ(text(checkpoint.decide().status()),
            "error: model.layers.0.self_attn.qkv_proj: k_proj and v_proj are "
            "quantised but q_proj is on the ignore list; a fused module is "
            "skipped whole or not at all [C8]");
  DecideOptions options;
  options.unfuseMixed = true;
  Result<CheckpointDecisions> apart = checkpoint.decide(options);
  ASSERT_TRUE(apart.ok()) << text(apart.status());
  EXPECT_TRUE(apart->find("model.layers.0.self_attn.k_proj")->keptApart);
  EXPECT_FALSE(apart->find("model.layers.1.self_attn.k_proj")->keptApart);
  EXPECT_EQ(rules(apart->notes), Rules{"C8"});
}

TEST(Decide, FusedNamesInTheListC8) {
  Checkpoint checkpoint(dense(),
                        block({"lm_head", "model.layers.0.mlp.gate_up_proj"}));
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.0.mlp.up_proj"), "unquantized");
  EXPECT_EQ(format(*decided, "model.layers.0.mlp.down_proj"), "fp8-block");
  EXPECT_EQ(format(*decided, "model.layers.1.mlp.up_proj"), "fp8-block");
  EXPECT_EQ(rules(decided->warnings), Rules());
}

TEST(Decide, WrapperPrefixesAndWhatMatchesNothingC7) {
  Checkpoint checkpoint(
      dense(),
      block({"lm_head", "model.language_model.layers.0.self_attn.o_proj",
             "model.visual"}));
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.0.self_attn.o_proj"), "unquantized");
  ASSERT_EQ(rules(decided->warnings), Rules{"C7"});
  EXPECT_EQ(decided->warnings[0].message,
            "modules_to_not_convert[2] 'model.visual' matches no module or "
            "tensor of this checkpoint");
}

TEST(Decide, HeadersWinOverTheListC13) {
  Checkpoint checkpoint(dense(), block({"model.layers.1.self_attn.o_proj"}));
  // Stored plain though no entry lists it, and the other way round.
  checkpoint.storePlain("model.layers.0.self_attn.o_proj");
  checkpoint.tensors.at("model.layers.1.self_attn.o_proj.weight").type =
      StoredType::F8_E4M3;
  StoredTensor scale;
  scale.type = StoredType::F32;
  scale.shape = {2, 2};
  checkpoint.tensors["model.layers.1.self_attn.o_proj.weight_scale_inv"] =
      scale;
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.0.self_attn.o_proj"), "unquantized");
  EXPECT_EQ(format(*decided, "model.layers.1.self_attn.o_proj"), "fp8-block");
  EXPECT_EQ(rules(decided->notes), (Rules{"C13", "C13"}));
}

TEST(Decide, MissingScaleAndMissingTensorsW6) {
  Checkpoint checkpoint(dense(), block());
  std::string scale = "model.layers.0.self_attn.o_proj.weight_scale_inv";
  checkpoint.tensors.erase(scale);
  EXPECT_EQ(text(checkpoint.decide().status()),
            "error: model.layers.0.self_attn.o_proj: no 'weight_scale_inv' for "
            "its F8_E4M3 weight; expected F32 [2, 2] (256x256 in 128x128 "
            "blocks) [W6]");
  Checkpoint other(dense(), block());
  other.tensors.erase("model.norm.weight");
  other.tensors.erase("model.layers.1.mlp.up_proj.weight");
  other.tensors.erase("model.layers.1.mlp.up_proj.weight_scale_inv");
  Status status = other.decide().takeStatus();
  EXPECT_EQ(text(status),
            "error: model.layers.1.mlp.up_proj: has no tensors; config.json "
            "implies a weight [384, 256] (intermediate_size x hidden_size) "
            "[C13]");
  ASSERT_EQ(status.info().notes.size(), 1u);
  EXPECT_EQ(status.info().notes[0], "model.norm: no tensor "
                                    "'model.norm.weight'; expected BF16 [256]");
}

TEST(Decide, ShapesAndBiasesAreTheConfigsC13) {
  Checkpoint checkpoint(dense(), block());
  checkpoint.tensors.at("model.layers.0.mlp.up_proj.weight").shape = {256, 256};
  EXPECT_EQ(text(checkpoint.decide().status()),
            "error: model.layers.0.mlp.up_proj: weight is F8_E4M3 [256, 256]; "
            "config.json implies [384, 256] (intermediate_size x hidden_size) "
            "[C13]");
  json config = dense();
  config["attention_bias"] = false;
  Checkpoint biased(config, block());
  StoredTensor bias;
  bias.type = StoredType::BF16;
  bias.shape = {256};
  biased.tensors["model.layers.0.self_attn.o_proj.bias"] = bias;
  EXPECT_EQ(
      text(biased.decide().status()),
      "error: model.layers.0.self_attn.o_proj: has a bias BF16 [256], and "
      "config.json says that there is none; one of the two [C13]");
}

TEST(Decide, ExpertsHaveOneFormatC8) {
  Checkpoint checkpoint(experts(), block({"mlp.gate"}));
  checkpoint.storePlain("model.layers.1.mlp.experts.2.up_proj");
  EXPECT_EQ(text(checkpoint.decide().status()),
            "error: model.layers.1.mlp.experts.2.up_proj: is unquantized and "
            "expert 0 fp8-block; the experts of a layer have one format [C8]");
  // One entry for a layer's experts is enough.
  Checkpoint listed(experts(), block({"model.layers.1.mlp.experts"}));
  Result<CheckpointDecisions> decided = listed.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(format(*decided, "model.layers.1.mlp.experts.{e}.down_proj"),
            "unquantized");
  EXPECT_EQ(format(*decided, "model.layers.0.mlp.down_proj"), "fp8-block");
}

TEST(Decide, UnusedTensorsAreReportedW14) {
  Checkpoint checkpoint(dense(), block());
  StoredTensor extra;
  extra.type = StoredType::BF16;
  extra.shape = {4};
  checkpoint.tensors["model.layers.0.self_attn.g_proj.weight"] = extra;
  checkpoint.tensors["model.layers.0.mlp.up_proj.qzeros"] = extra;
  checkpoint.tensors["model.layers.0.self_attn.k_proj.k_scale"] = extra;
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  ASSERT_EQ(rules(decided->warnings), Rules{"W14"});
  EXPECT_EQ(decided->warnings[0].message,
            "2 tensors are used by nothing: "
            "'model.layers.0.mlp.up_proj.qzeros', "
            "'model.layers.0.self_attn.g_proj.weight'");
}

TEST(Decide, TiedAndMissingHeadsW15) {
  json config = dense();
  config["tie_word_embeddings"] = true;
  Checkpoint tied(config, block());
  EXPECT_FALSE(tied.tensors.contains("lm_head.weight"));
  // A list may name the head that has no tensor (C7).
  Checkpoint listed(config, block({"lm_head"}));
  Result<CheckpointDecisions> named = listed.decide();
  ASSERT_TRUE(named.ok()) << text(named.status());
  EXPECT_EQ(rules(named->warnings), Rules());
  StoredTensor head;
  head.type = StoredType::BF16;
  head.shape = {512, 256};
  tied.tensors["lm_head.weight"] = head;
  Result<CheckpointDecisions> decided = tied.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(rules(decided->notes), Rules{"W15"});
  EXPECT_EQ(rules(decided->warnings), Rules());
  Checkpoint untied(dense(), block());
  untied.tensors.erase("lm_head.weight");
  EXPECT_TRUE(text(untied.decide().status()).ends_with("[W15]"));
}

TEST(Decide, WeightOnlyWithoutTensorCoresB4) {
  Checkpoint checkpoint(dense(), block());
  DecideOptions options;
  options.target = *parseTarget("sm_80", "--target");
  options.numerics = options.target;
  Result<CheckpointDecisions> decided = checkpoint.decide(options);
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(
      nameActivation(decided->find("model.layers.0.mlp.down_proj")->contract),
      "none");
  options.target = *parseTarget("sm_70", "--target");
  EXPECT_TRUE(text(checkpoint.decide(options).status()).ends_with("[C9]"));
}

TEST(Decide, PerTensorShardsBecomeChannelsB3) {
  Checkpoint checkpoint(dense(), {{"quant_method", "fp8"},
                                  {"activation_scheme", "static"},
                                  {"ignored_layers", {"lm_head"}}});
  Result<CheckpointDecisions> decided = checkpoint.decide();
  ASSERT_TRUE(decided.ok()) << text(decided.status());
  EXPECT_EQ(decided->find("model.layers.0.self_attn.q_proj")->contract.weight,
            Granularity::perChannel());
  EXPECT_EQ(decided->find("model.layers.0.self_attn.o_proj")->contract.weight,
            Granularity::perTensor());
}

/// All methods on a dense model: what config.json implies is what is accepted.
TEST(Decide, EachMethodAcceptsWhatItImplies) {
  const std::pair<const char *, const char *> methods[] = {
      {"mxfp8", R"({"quant_method": "mxfp8"})"},
      {"fp8-channel", R"({"quant_method": "fbgemm_fp8"})"},
      {"fp8-channel", R"({"quant_method": "w8a8_fp8"})"},
      {"int8-channel", R"({"quant_method": "w8a8_int8"})"},
      {"fp8-tensor", R"({"quant_algo": "FP8"})"},
      {"nvfp4", R"({"quant_algo": "NVFP4"})"},
      {"awq-int4", R"({"quant_method": "awq", "group_size": 64})"},
      {"gptq-int4", R"({"quant_method": "gptq", "bits": 4})"},
      {"gptq-int8", R"({"quant_method": "gptq", "bits": 8,
                        "group_size": 32, "desc_act": true})"},
      {"awq-int4", R"({"quant_method": "auto-round", "bits": 4,
                       "packing_format": "auto_round:auto_awq"})"},
      {"mxfp4", R"({"quant_method": "quark", "global_quant_config": {"weight":
                    {"dtype": "fp4", "qscheme": "per_group",
                     "group_size": 32}}})"},
      {"int4-group", R"({"quant_method": "compressed-tensors",
         "format": "pack-quantized", "ignore": ["lm_head"], "config_groups":
         {"g": {"targets": ["Linear"], "weights": {"num_bits": 4,
          "type": "int", "group_size": 32, "symmetric": false}}}})"},
      {"nvfp4", R"({"quant_method": "compressed-tensors",
         "format": "nvfp4-pack-quantized", "ignore": ["lm_head"],
         "config_groups": {"g": {"targets": ["Linear"], "weights":
         {"num_bits": 4, "type": "float", "group_size": 16}}}})"},
  };
  for (const auto &[name, fields] : methods) {
    SCOPED_TRACE(fields);
    Checkpoint checkpoint(dense(), json::parse(fields));
    Result<CheckpointDecisions> decided = checkpoint.decide();
    ASSERT_TRUE(decided.ok()) << text(decided.status());
    EXPECT_EQ(format(*decided, "model.layers.1.mlp.down_proj"), name);
    EXPECT_EQ(format(*decided, "lm_head"), "unquantized");
    EXPECT_EQ(rules(decided->warnings), Rules());
    // Without any one of its tensors a module is refused.
    for (const auto &[tensor, stored] : checkpoint.tensors) {
      if (tensor.find("layers.1.mlp.down_proj") == std::string::npos)
        continue;
      Checkpoint broken = checkpoint;
      broken.tensors.erase(tensor);
      EXPECT_FALSE(broken.decide().ok()) << tensor;
    }
  }
}

TEST(Decide, SplitsLeaveBlocksGroupsAndWordsWholeW3) {
  auto alignment = [](const char *fields) {
    FoundConfig found{json::parse(fields), "x"};
    Result<std::optional<QuantConfig>> config =
        readQuantConfig(&found, "", Target(), Purpose::Describe);
    EXPECT_TRUE(config.ok());
    return getSplitAlignment(*(*config)->scheme);
  };
  EXPECT_EQ(alignment(R"({"quant_method": "fp8",
                          "weight_block_size": [64, 128]})"),
            (SplitAlignment{64, 128}));
  EXPECT_EQ(alignment(R"({"quant_method": "fp8"})"), (SplitAlignment{1, 1}));
  EXPECT_EQ(alignment(R"({"quant_method": "awq", "group_size": 64})"),
            (SplitAlignment{8, 64}));
  EXPECT_EQ(alignment(R"({"quant_method": "gptq", "bits": 8,
                          "group_size": 32})"),
            (SplitAlignment{4, 32}));
  EXPECT_EQ(alignment(R"({"quant_method": "gptq", "bits": 4,
                          "group_size": 32, "desc_act": true})"),
            (SplitAlignment{8, 8, true}));
  EXPECT_EQ(alignment(R"({"quant_algo": "NVFP4"})"), (SplitAlignment{1, 16}));
  EXPECT_EQ(alignment(R"({"quant_method": "mxfp4"})"), (SplitAlignment{1, 32}));
}

} // namespace
