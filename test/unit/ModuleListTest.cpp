//===- ModuleListTest.cpp - Modules of each architecture ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Modules/ModuleList.h"
#include <gtest/gtest.h>
#include <map>

using namespace octet;
using nlohmann::json;

namespace {

std::string text(const Result<ModuleList> &result) {
  if (result.ok())
    return "no error";
  std::string formatted = result.status().info().format();
  return formatted.substr(0, formatted.find('\n'));
}

json dense(const char *architecture) {
  json config = json::parse(R"({"vocab_size": 512, "hidden_size": 256,
    "intermediate_size": 384, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64})");
  config["architectures"] = {architecture};
  return config;
}

json latent(const char *architecture) {
  json config = json::parse(R"({"vocab_size": 512, "hidden_size": 256,
    "intermediate_size": 384, "num_hidden_layers": 3,
    "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
    "num_attention_heads": 4, "q_lora_rank": 96, "kv_lora_rank": 64,
    "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 48,
    "n_routed_experts": 8, "n_shared_experts": 2,
    "moe_intermediate_size": 128, "index_n_heads": 4, "index_head_dim": 32})");
  config["architectures"] = {architecture};
  return config;
}

/// Modules by path.
std::map<std::string, ModuleEntry> list(const json &config) {
  Result<ModuleList> list = listModules(config);
  EXPECT_TRUE(list.ok()) << text(list);
  std::map<std::string, ModuleEntry> byPath;
  if (list)
    for (ModuleEntry &entry : list->modules) {
      EXPECT_FALSE(byPath.contains(entry.path)) << entry.path << " twice";
      byPath[entry.path] = entry;
    }
  return byPath;
}

/// The names of the tensors of one unquantised module, the optional in
/// brackets.
std::vector<std::string> nameTensors(const ModuleEntry &module) {
  std::vector<std::string> names;
  for (const ImpliedTensor &tensor :
       implyTensors(module, "unquantized", std::nullopt)) {
    std::string name = tensor.getName(tensor.expected.names.front(), 0) + " " +
                       StoredTensor{tensor.expected.types.front(),
                                    tensor.expected.shapes.front()}
                           .describe();
    names.push_back(tensor.expected.required ? name : "(" + name + ")");
  }
  return names;
}

using Names = std::vector<std::string>;

TEST(ModuleList, Dense) {
  auto modules = list(dense("LlamaForCausalLM"));
  // 2 x (2 norms, attention, 4 + 3 linears), embedding, norm, lm_head.
  EXPECT_EQ(modules.size(), 2u * 10 + 3);
  const ModuleEntry &q = modules.at("model.layers.1.self_attn.q_proj");
  EXPECT_EQ(q.kind, ModuleKind::Linear);
  EXPECT_EQ(q.n, 256);
  EXPECT_EQ(q.fused, "model.layers.1.self_attn.qkv_proj");
  EXPECT_EQ(q.split, Split::Columns);
  EXPECT_EQ(q.heads, 4);
  EXPECT_EQ(q.bias, Bias::AsStored); // attention_bias is absent
  const ModuleEntry &k = modules.at("model.layers.0.self_attn.k_proj");
  EXPECT_EQ(k.n, 128);
  EXPECT_EQ(k.heads, 2);
  EXPECT_EQ(modules.at("model.layers.0.mlp.down_proj").split, Split::Rows);
  EXPECT_EQ(modules.at("model.layers.0.mlp.up_proj").fused,
            "model.layers.0.mlp.gate_up_proj");
  EXPECT_EQ(modules.at("lm_head").kind, ModuleKind::LmHead);
  EXPECT_EQ(nameTensors(q),
            (Names{"model.layers.1.self_attn.q_proj.weight BF16 [256, 256]",
                   "(model.layers.1.self_attn.q_proj.bias BF16 [256])"}));
}

TEST(ModuleList, DenseFamiliesDifferInBiasesAndNorms) {
  auto qwen2 = list(dense("Qwen2ForCausalLM"));
  EXPECT_EQ(qwen2.at("model.layers.0.self_attn.v_proj").bias, Bias::Yes);
  EXPECT_EQ(qwen2.at("model.layers.0.self_attn.o_proj").bias, Bias::AsStored);
  EXPECT_FALSE(qwen2.contains("model.layers.0.self_attn.q_norm"));
  json config = dense("Qwen3ForCausalLM");
  config["tie_word_embeddings"] = true;
  config["attention_bias"] = false;
  auto qwen3 = list(config);
  EXPECT_EQ(nameTensors(qwen3.at("model.layers.0.self_attn.q_norm")),
            (Names{"model.layers.0.self_attn.q_norm.weight BF16 [64]"}));
  EXPECT_FALSE(qwen3.contains("lm_head")); // W15
  EXPECT_EQ(qwen3.at("model.layers.0.self_attn.q_proj").bias, Bias::No);
  // Without head_dim the heads share the hidden size.
  json plain = dense("MistralForCausalLM");
  plain.erase("head_dim");
  plain.erase("num_key_value_heads");
  EXPECT_EQ(list(plain).at("model.layers.0.self_attn.k_proj").n, 256);
}

TEST(ModuleList, Mixtral) {
  json config = dense("MixtralForCausalLM");
  config["num_local_experts"] = 4;
  auto modules = list(config);
  const ModuleEntry &gate =
      modules.at("model.layers.1.block_sparse_moe.experts.{e}.w1");
  EXPECT_EQ(gate.kind, ModuleKind::RoutedExpert);
  EXPECT_EQ(gate.count(), 4);
  EXPECT_EQ(gate.getPath(3), "model.layers.1.block_sparse_moe.experts.3.w1");
  EXPECT_EQ(gate.fused, "model.layers.1.block_sparse_moe.experts.{e}.w13");
  EXPECT_EQ(modules.at("model.layers.1.block_sparse_moe.experts.{e}.w2").k,
            384);
  EXPECT_EQ(modules.at("model.layers.0.block_sparse_moe.gate").kind,
            ModuleKind::Router);
}

TEST(ModuleList, Qwen3MoeStepsAndDenseLayers) {
  json config = dense("Qwen3MoeForCausalLM");
  config["num_hidden_layers"] = 6;
  config["num_experts"] = 4;
  config["moe_intermediate_size"] = 96;
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = {3};
  auto modules = list(config);
  for (int64_t layer = 0; layer < 6; ++layer) {
    std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.";
    bool sparse = layer == 1 || layer == 5;
    EXPECT_EQ(modules.contains(prefix + "gate"), sparse) << layer;
    EXPECT_EQ(modules.contains(prefix + "up_proj"), !sparse) << layer;
  }
  EXPECT_EQ(modules.at("model.layers.1.mlp.experts.{e}.up_proj").n, 96);
}

TEST(ModuleList, GptOssPacksItsExperts) {
  json config = dense("GptOssForCausalLM");
  config["num_local_experts"] = 4;
  auto modules = list(config);
  const ModuleEntry &experts =
      modules.at("model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(experts.count(), 1);
  EXPECT_EQ(nameTensors(experts),
            (Names{"model.layers.0.mlp.experts.gate_up_proj BF16 [4, 256, 768]",
                   "model.layers.0.mlp.experts.gate_up_proj_bias BF16 "
                   "[4, 768]"}));
  EXPECT_EQ(nameTensors(modules.at("model.layers.0.self_attn")),
            (Names{"model.layers.0.self_attn.sinks BF16 [4]"}));
  EXPECT_EQ(modules.at("model.layers.0.mlp.router").bias, Bias::Yes);
}

TEST(ModuleList, LatentAttention) {
  auto modules = list(latent("DeepseekV3ForCausalLM"));
  auto expect = [&](const char *name, int64_t n, int64_t k, Split split) {
    const ModuleEntry &entry =
        modules.at("model.layers.2.self_attn." + std::string(name));
    EXPECT_EQ(entry.n, n) << name;
    EXPECT_EQ(entry.k, k) << name;
    EXPECT_EQ(entry.split, split) << name;
  };
  expect("q_a_proj", 96, 256, Split::Replicated);
  expect("q_b_proj", 4 * 48, 96, Split::Columns);
  expect("kv_a_proj_with_mqa", 64 + 16, 256, Split::Replicated);
  expect("kv_b_proj", 4 * (32 + 48), 64, Split::Columns);
  expect("o_proj", 256, 4 * 48, Split::Rows);
  EXPECT_EQ(modules.at("model.layers.2.self_attn.q_a_proj").fused,
            "model.layers.2.self_attn.fused_qkv_a_proj_with_mqa");
  // One dense layer, then experts with a shared one of twice the width.
  EXPECT_TRUE(modules.contains("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(modules.contains("model.layers.1.mlp.up_proj"));
  EXPECT_EQ(modules.at("model.layers.1.mlp.shared_experts.up_proj").n, 256);
  EXPECT_EQ(nameTensors(modules.at("model.layers.1.mlp.gate")),
            (Names{"model.layers.1.mlp.gate.weight BF16 [8, 256]",
                   "model.layers.1.mlp.gate.e_score_correction_bias F32 [8]"}));
  EXPECT_FALSE(modules.contains("model.layers.0.self_attn.indexer.wk"));
}

TEST(ModuleList, DraftLayersW14) {
  auto modules = list(latent("DeepseekV3ForCausalLM"));
  const ModuleEntry &project = modules.at("model.layers.3.eh_proj");
  EXPECT_TRUE(project.isDraft);
  EXPECT_EQ(project.k, 512);
  EXPECT_EQ(project.kind, ModuleKind::Other);
  EXPECT_TRUE(modules.at("model.layers.3.shared_head.head").isOptional);
  EXPECT_TRUE(modules.contains("model.layers.3.mlp.experts.{e}.up_proj"));
  EXPECT_FALSE(modules.at("model.layers.2.self_attn.o_proj").isDraft);
}

TEST(ModuleList, DeepseekV2WithoutQueryRank) {
  json config = latent("DeepseekV2ForCausalLM");
  config["q_lora_rank"] = nullptr;
  config["topk_method"] = "greedy";
  auto modules = list(config);
  EXPECT_EQ(modules.at("model.layers.1.self_attn.q_proj").n, 4 * 48);
  EXPECT_EQ(modules.at("model.layers.1.self_attn.kv_a_proj_with_mqa").fused,
            "");
  EXPECT_TRUE(modules.at("model.layers.1.mlp.gate").others.empty());
}

/// Which layers of a config own an indexer, as a string of F and S.
std::string indexers(json config) {
  auto modules = list(config);
  std::string owners;
  for (int64_t layer = 0; modules.contains(
           "model.layers." + std::to_string(layer) + ".input_layernorm");
       ++layer)
    owners += modules.contains("model.layers." + std::to_string(layer) +
                               ".self_attn.indexer.wq_b")
                  ? 'F'
                  : 'S';
  return owners;
}

TEST(ModuleList, WhichLayersOwnAnIndexerP9) {
  json config = latent("GlmMoeDsaForCausalLM");
  config["num_hidden_layers"] = 8;
  EXPECT_EQ(indexers(config), "FFFFFFFFF"); // and the draft layer
  config["index_topk_freq"] = 4;
  config["index_skip_topk_offset"] = 3;
  EXPECT_EQ(indexers(config), "FFFSSSFSF");
  config["index_topk_pattern"] = "FSFSFSFS";
  EXPECT_EQ(indexers(config), "FSFSFSFSF");
  config["indexer_types"] = {"full",   "shared", "shared", "shared",
                             "shared", "shared", "shared", "full"};
  EXPECT_EQ(indexers(config), "FSSSSSSFF");
  auto modules = list(config);
  EXPECT_EQ(modules.at("model.layers.7.self_attn.indexer.weights_proj").kind,
            ModuleKind::Other);
  EXPECT_EQ(nameTensors(modules.at("model.layers.7.self_attn.indexer.k_norm")),
            (Names{"model.layers.7.self_attn.indexer.k_norm.weight BF16 [32]",
                   "model.layers.7.self_attn.indexer.k_norm.bias BF16 [32]"}));
  EXPECT_EQ(listModules(config)->aliases.size(), 1u);

  config["indexer_types"] = {"full"};
  EXPECT_NE(text(listModules(config))
                .find("a list of 1; expected a list of "
                      "num_hidden_layers, which is 8 "
                      "[P9]"),
            std::string::npos);
  config.erase("indexer_types");
  config["index_topk_pattern"] = "SFFFFFFF";
  EXPECT_NE(text(listModules(config)).find("layer 0 shares an indexer"),
            std::string::npos);
}

TEST(ModuleList, UnsupportedPartsAreNamed) {
  json config = dense("Qwen3NextForCausalLM");
  EXPECT_TRUE(text(listModules(config))
                  .starts_with("error: config.json: architecture "
                               "'Qwen3NextForCausalLM' has linear attention "
                               "layers (full_attention_interval), which is not "
                               "supported; supported are "));
  EXPECT_TRUE(text(listModules(dense("NoSuchModel")))
                  .starts_with("error: config.json: unknown architecture "
                               "'NoSuchModel'; known are DeepseekV2"));
  json wrapper = {{"architectures", {"SomeForConditionalGeneration"}},
                  {"vision_config", {{"depth", 3}}},
                  {"text_config", dense("LlamaForCausalLM")}};
  EXPECT_EQ(text(listModules(wrapper)),
            "error: config.json: architecture 'SomeForConditionalGeneration' "
            "has a vision part (vision_config), which is not supported; its "
            "text part is 'LlamaForCausalLM'");
  Result<ModuleList> part = listModules(wrapper, /*textPart=*/true);
  ASSERT_TRUE(part.ok()) << text(part);
  EXPECT_EQ(part->modules.front().path, "language_model.model.embed_tokens");
  EXPECT_EQ(part->modules.back().path, "language_model.lm_head");
}

TEST(ModuleList, LyingConfigsAreOneErrorEach) {
  auto refuse = [](const char *architecture, const char *key, json value) {
    json config = std::string(architecture).starts_with("Deep") ||
                          std::string(architecture).starts_with("GlmMoe")
                      ? latent(architecture)
                      : dense(architecture);
    config["num_experts"] = 4;
    config["moe_intermediate_size"] = 96;
    config[key] = std::move(value);
    return text(listModules(config));
  };
  const char *llama = "LlamaForCausalLM", *moe = "Qwen3MoeForCausalLM";
  const char *mla = "DeepseekV3ForCausalLM";
  for (auto [architecture, key, value] :
       {std::tuple(llama, "hidden_size", json(-1)),
        std::tuple(llama, "num_hidden_layers", json(1 << 20)),
        std::tuple(llama, "num_attention_heads", json(int64_t(1) << 30)),
        std::tuple(llama, "head_dim", json("64")),
        std::tuple(llama, "attention_bias", json(1)),
        std::tuple(moe, "mlp_only_layers", json("0")),
        std::tuple(moe, "mlp_only_layers", json({-1})),
        std::tuple(moe, "decoder_sparse_step", json(0)),
        std::tuple(mla, "num_nextn_predict_layers", json(1 << 20)),
        std::tuple(mla, "v_head_dim", json((int64_t(1) << 31) - 1)),
        std::tuple(mla, "n_shared_experts", json(int64_t(1) << 30)),
        std::tuple(mla, "mlp_layer_types", json({"dense"})),
        std::tuple(mla, "mlp_layer_types", json({"dense", "sparse", 3}))}) {
    std::string error = refuse(architecture, key, value);
    EXPECT_TRUE(error.starts_with("error: config.json: ")) << key << error;
    EXPECT_TRUE(error.ends_with("[C15]")) << key << ": " << error;
  }
  EXPECT_NE(text(listModules(json::array())).find("expected an object"),
            std::string::npos);
  EXPECT_NE(text(listModules(json::object())).find("architectures is absent"),
            std::string::npos);
}

} // namespace
