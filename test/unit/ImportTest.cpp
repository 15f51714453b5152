//===- ImportTest.cpp - Checkpoint to IR ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Import/Import.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/Verifier.h"
#include "octet/Support/Checked.h"
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using nlohmann::json;

namespace {

//===----------------------------------------------------------------------===//
// A checkpoint made of headers alone
//===----------------------------------------------------------------------===//

json baseConfig(const char *architecture = "LlamaForCausalLM") {
  return {{"architectures", {architecture}},
          {"model_type", "x"},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 32},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 3},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 8},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"max_position_embeddings", 4096},
          {"tie_word_embeddings", false},
          {"bos_token_id", 1},
          {"eos_token_id", 2}};
}

class TinyCheckpoint {
public:
  explicit TinyCheckpoint(json config) {
    checkpoint.path = "tiny";
    checkpoint.config = std::move(config);
    checkpoint.tensors.files = {"tiny/model.safetensors"};
    checkpoint.tensors.fileBytes = {0};
    add("model.embed_tokens.weight", StoredType::BF16, {32, 16});
    add("model.norm.weight", StoredType::BF16, {16});
    add("lm_head.weight", StoredType::BF16, {32, 16});
    for (int layer = 0; layer < 3; ++layer) {
      std::string prefix = "model.layers." + std::to_string(layer) + ".";
      add(prefix + "input_layernorm.weight", StoredType::BF16, {16});
      add(prefix + "post_attention_layernorm.weight", StoredType::BF16, {16});
      add(prefix + "self_attn.q_proj.weight", StoredType::BF16, {32, 16});
      add(prefix + "self_attn.k_proj.weight", StoredType::BF16, {16, 16});
      add(prefix + "self_attn.v_proj.weight", StoredType::BF16, {16, 16});
      add(prefix + "self_attn.o_proj.weight", StoredType::BF16, {16, 32});
      add(prefix + "mlp.gate_proj.weight", StoredType::BF16, {24, 16});
      add(prefix + "mlp.up_proj.weight", StoredType::BF16, {24, 16});
      add(prefix + "mlp.down_proj.weight", StoredType::BF16, {16, 24});
    }
  }

  void add(const std::string &name, StoredType type,
           std::vector<int64_t> shape) {
    tensors[name] = {type, std::move(shape)};
  }
  void remove(const std::string &name) { tensors.erase(name); }
  /// For each layer `first` .. `last`.
  void addLayers(const char *name, StoredType type, std::vector<int64_t> shape,
                 int first = 0, int last = 2) {
    for (int layer = first; layer <= last; ++layer)
      add("model.layers." + std::to_string(layer) + "." + name, type, shape);
  }

  const Checkpoint &get() {
    checkpoint.tensors.tensors.clear();
    int64_t offset = 0;
    for (const auto &[name, tensor] : tensors) { // sorted by name
      int64_t bytes = *checkedProduct(tensor.second) * byteWidth(tensor.first);
      checkpoint.tensors.tensors.push_back(
          {name, tensor.first, tensor.second, 0, offset, bytes});
      offset += bytes;
    }
    return checkpoint;
  }
  Checkpoint checkpoint;

private:
  std::map<std::string, std::pair<StoredType, std::vector<int64_t>>> tensors;
};

class ImportTest : public ::testing::Test {
protected:
  mlir::MLIRContext context;
  ImportOptions options;
  ImportNotes notes;
  mlir::OwningOpRef<mlir::ModuleOp> module;

  /// The whole error, or "".
  std::string import(const Checkpoint &checkpoint) {
    notes = {};
    Result<mlir::OwningOpRef<mlir::ModuleOp>> result =
        importCheckpoint(checkpoint, options, context, notes);
    if (!result)
      return result.status().info().format();
    module = result.take();
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    return "";
  }
  std::string import(TinyCheckpoint &checkpoint) {
    return import(checkpoint.get());
  }
  /// The first line of the error of a config.
  std::string refuse(const json &config) {
    TinyCheckpoint checkpoint(config);
    std::string error = import(checkpoint);
    return error.substr(0, error.find('\n'));
  }

  template <typename Op>
  std::vector<Op> find(llvm::StringRef function = "") {
    std::vector<Op> ops;
    module->walk([&](Op op) {
      auto parent = op->template getParentOfType<mlir::func::FuncOp>();
      if (function.empty() || parent.getSymName() == function)
        ops.push_back(op);
    });
    return ops;
  }
  model::SettingsAttr settings() { return model::getSettings(*module); }
  mlir::Attribute info(const char *name) {
    return (*module)
        ->getAttrOfType<mlir::DictionaryAttr>("model.info")
        .get(name);
  }
};

std::string print(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream os(text);
  attribute.print(os);
  return text;
}

//===----------------------------------------------------------------------===//
// What is built
//===----------------------------------------------------------------------===//

TEST_F(ImportTest, OneFunctionForEqualLayers) {
  TinyCheckpoint checkpoint(baseConfig());
  ASSERT_EQ(import(checkpoint), "");
  int functions = 0;
  for (auto function : module->getOps<mlir::func::FuncOp>()) {
    ++functions;
    EXPECT_TRUE(function.getSymName() == "step" ||
                function.getSymName() == "decoder_layer_0");
  }
  EXPECT_EQ(functions, 2);
  EXPECT_EQ(find<mlir::scf::ForOp>("step").size(), 1u);
  EXPECT_EQ(find<model::LinearOp>("decoder_layer_0").size(), 7u);
  EXPECT_EQ(find<model::LinearOp>()[0].getFused(),
            "model.layers.{l}.self_attn.qkv_proj");
  EXPECT_FALSE(find<model::LinearOp>()[3].getFused().has_value()); // o_proj
  EXPECT_TRUE(notes.warnings.empty());
  // Fused location of module path and file.
  std::string location;
  llvm::raw_string_ostream(location) << find<model::LinearOp>()[0].getLoc();
  EXPECT_NE(location.find("model.layers.{l}.self_attn.q_proj"),
            std::string::npos);
  EXPECT_NE(location.find("model.safetensors"), std::string::npos);
}

TEST_F(ImportTest, RunsOfLayersThatAreStoredAlike) {
  json config = baseConfig();
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"ignored_layers", {"lm_head"}}};
  TinyCheckpoint checkpoint(config);
  // Layer 1 alone has an FP8 down_proj.
  checkpoint.addLayers("mlp.down_proj.weight", StoredType::F8_E4M3, {16, 24}, 1,
                       1);
  checkpoint.addLayers("mlp.down_proj.weight_scale", StoredType::F32, {}, 1, 1);
  ASSERT_EQ(import(checkpoint), "");
  auto calls = find<mlir::func::CallOp>("step");
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].getCallee(), "decoder_layer_0");
  EXPECT_EQ(calls[1].getCallee(), "decoder_layer_1");
  EXPECT_EQ(calls[2].getCallee(), "decoder_layer_0");
}

TEST_F(ImportTest, EntriesOfDifferentLayersAreOneKindC7) {
  json config = baseConfig();
  json ignored = json::array({"lm_head"});
  for (int layer = 0; layer < 3; ++layer)
    ignored.push_back("model.layers." + std::to_string(layer) + ".mlp");
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"modules_to_not_convert", ignored}};
  TinyCheckpoint checkpoint(config);
  for (const char *linear : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    std::string name = std::string("self_attn.") + linear;
    int64_t n = linear[0] == 'q' ? 32 : 16, k = linear[0] == 'o' ? 32 : 16;
    checkpoint.addLayers((name + ".weight").c_str(), StoredType::F8_E4M3,
                         {n, k});
    checkpoint.addLayers((name + ".weight_scale").c_str(), StoredType::F32, {});
  }
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(find<mlir::func::CallOp>("step").size(), 1u);
  auto down = find<model::WeightOp>("decoder_layer_0").back();
  EXPECT_EQ(mlir::cast<q::StoredAttr>(down.getStored()[0]).getDeclared(),
            "ignored: modules_to_not_convert[1] 'model.layers.0.mlp'");
  EXPECT_TRUE(notes.warnings.empty());
}

TEST_F(ImportTest, ModuleAttributes) {
  TinyCheckpoint checkpoint(baseConfig());
  checkpoint.checkpoint.generationConfig = {{"eos_token_id", {3, 4}}};
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(print(info("eos")), "[3, 4]"); // generation_config.json wins
  EXPECT_EQ(print(info("bos")), "[1]");
  EXPECT_EQ(print(info("kind")), "\"model\"");
  EXPECT_EQ(print(info("layers")), "3 : i64");
  EXPECT_EQ(settings().getMaxContext(), 4096);
  EXPECT_TRUE(settings().getDtype().isBF16());
  EXPECT_EQ(settings().getNumerics(), "cpu");
  EXPECT_FALSE((*module)->hasAttr("q.config"));
}

TEST_F(ImportTest, QuantConfigIsUnchangedC7) {
  json config = baseConfig();
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"ignored_layers", nullptr},
                                   {"modules_to_not_convert", json::array()},
                                   {"version", 1.5}};
  TinyCheckpoint checkpoint(config);
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(print((*module)->getAttr("q.config")),
            "#q.config<{ignored_layers, modules_to_not_convert = [], "
            "quant_method = \"fp8\", version = 1.500000e+00 : f64}, "
            "\"config.json: quantization_config\">");
}

TEST_F(ImportTest, Fp8NamedByTheUserQuantisesWhatIsStoredPlainW10) {
  json config = baseConfig();
  config["quantization_config"] = {
      {"quant_method", "fp8"},
      {"activation_scheme", "dynamic"},
      {"modules_to_not_convert", {"model.layers.1.mlp.down_proj"}}};
  const char *serialized = "is_checkpoint_fp8_serialized = false";
  auto found = [&] {
    return llvm::StringRef(print((*module)->getAttr("q.config")))
        .contains(serialized);
  };
  // The checkpoint's own word is no order to quantise (C13).
  TinyCheckpoint checkpoint(config);
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_FALSE(found());
  options.quantization = "FP8";
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_TRUE(found());
  ASSERT_EQ(notes.notes.size(), 1u);
  EXPECT_EQ(notes.notes[0],
            "--quantization fp8: no tensor is stored in F8_E4M3, so the "
            "linears that config.json: quantization_config does not list are "
            "quantised while loading [W10]");
  EXPECT_TRUE(notes.warnings.empty());
  // One stored module is enough to take the checkpoint as it is (C13).
  checkpoint.add("model.layers.0.mlp.down_proj.weight", StoredType::F8_E4M3,
                 {16, 24});
  checkpoint.add("model.layers.0.mlp.down_proj.weight_scale", StoredType::F32,
                 {});
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_FALSE(found());
}

TEST_F(ImportTest, DtypeDefaults) {
  auto dtype = [&](const char *word) {
    json config = baseConfig();
    config.erase("torch_dtype");
    if (word)
      config["dtype"] = word;
    TinyCheckpoint checkpoint(config);
    checkpoint.add("model.norm.weight", StoredType::F16, {16});
    EXPECT_EQ(import(checkpoint), "");
    mlir::Type type = settings().getDtype();
    return std::string(type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32");
  };
  EXPECT_EQ(dtype("bfloat16"), "bf16");
  EXPECT_EQ(dtype("float16"), "f16");
  EXPECT_EQ(dtype("torch.float16"), "f16");
  EXPECT_EQ(dtype("float32"), "bf16");
  EXPECT_EQ(notes.notes.size(), 1u);
  EXPECT_EQ(dtype(nullptr), "f16"); // the norm weights'
  options.dtype = "f32";
  EXPECT_EQ(dtype("bfloat16"), "f32");
}

TEST_F(ImportTest, QwenBiasesAndNorms) {
  TinyCheckpoint qwen2(baseConfig("Qwen2ForCausalLM"));
  std::string error = import(qwen2);
  EXPECT_EQ(error.substr(0, error.find('\n')),
            "error: model.layers.0.self_attn.q_proj: no tensor 'bias', which "
            "config.json says is there [C13]");
  qwen2.addLayers("self_attn.q_proj.bias", StoredType::BF16, {32});
  qwen2.addLayers("self_attn.k_proj.bias", StoredType::BF16, {16});
  qwen2.addLayers("self_attn.v_proj.bias", StoredType::BF16, {16});
  ASSERT_EQ(import(qwen2), "");
  auto linears = find<model::LinearOp>();
  EXPECT_TRUE(linears[0].getBias() && linears[1].getBias() &&
              linears[2].getBias());
  EXPECT_FALSE(linears[3].getBias());

  TinyCheckpoint qwen3(baseConfig("Qwen3ForCausalLM"));
  qwen3.addLayers("self_attn.q_norm.weight", StoredType::F32, {8});
  qwen3.addLayers("self_attn.k_norm.weight", StoredType::F32, {8});
  ASSERT_EQ(import(qwen3), "");
  auto norms = find<model::RmsNormOp>("decoder_layer_0");
  ASSERT_EQ(norms.size(), 4u);
  EXPECT_EQ(norms[1].getHeads(), 4);
  EXPECT_EQ(norms[2].getHeads(), 2);
}

TEST_F(ImportTest, LlamaBiasAsStoredOrAsTheConfigSays) {
  json config = baseConfig();
  TinyCheckpoint stored(config);
  stored.addLayers("mlp.down_proj.bias", StoredType::BF16, {16});
  ASSERT_EQ(import(stored), "");
  EXPECT_TRUE(find<model::LinearOp>().back().getBias());
  config["mlp_bias"] = false;
  TinyCheckpoint contradicting(config);
  contradicting.addLayers("mlp.down_proj.bias", StoredType::BF16, {16});
  std::string error = import(contradicting);
  EXPECT_EQ(error.substr(0, error.find('\n')),
            "error: model.layers.0.mlp.down_proj: has a bias BF16 [16], and "
            "config.json says that there is none; one of the two [C13]");
}

TEST_F(ImportTest, SlidingWindows) {
  json config = baseConfig("MistralForCausalLM");
  config["sliding_window"] = 64;
  TinyCheckpoint mistral(config);
  ASSERT_EQ(import(mistral), "");
  EXPECT_EQ(find<model::AttentionOp>()[0].getWindow(), 64);
  // Absent is the architecture's default, null is none.
  config["max_position_embeddings"] = 8192;
  config.erase("sliding_window");
  TinyCheckpoint absent(config);
  ASSERT_EQ(import(absent), "");
  EXPECT_EQ(find<model::AttentionOp>()[0].getWindow(), 4096);
  config["sliding_window"] = nullptr;
  TinyCheckpoint null(config);
  ASSERT_EQ(import(null), "");
  EXPECT_EQ(find<model::AttentionOp>()[0].getWindow(), 0);
  // A window that no context fills is none.
  options.maxContext = 64;
  ASSERT_EQ(import(mistral), "");
  EXPECT_EQ(find<model::AttentionOp>()[0].getWindow(), 0);
  options.maxContext.reset();

  config = baseConfig("Qwen3ForCausalLM");
  config["sliding_window"] = 64;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 2;
  auto windows = [&](json config) {
    TinyCheckpoint qwen3(std::move(config));
    qwen3.addLayers("self_attn.q_norm.weight", StoredType::BF16, {8});
    qwen3.addLayers("self_attn.k_norm.weight", StoredType::BF16, {8});
    EXPECT_EQ(import(qwen3), "");
    std::vector<int64_t> result;
    for (auto attention : find<model::AttentionOp>())
      result.push_back(attention.getWindow());
    return result;
  };
  EXPECT_EQ(windows(config), (std::vector<int64_t>{0, 64})); // two kinds
  config["use_sliding_window"] = false;
  EXPECT_EQ(windows(config), std::vector<int64_t>{0});
  config["use_sliding_window"] = true;
  config["layer_types"] = {"sliding_attention", "full_attention",
                           "sliding_attention"};
  EXPECT_EQ(windows(config), (std::vector<int64_t>{64, 0}));
  config["layer_types"] = {"full_attention"};
  EXPECT_EQ(refuse(config),
            "error: config.json: layer_types is a list of 1; expected a list "
            "of num_hidden_layers, which is 3 [C15]");
}

TEST_F(ImportTest, KvScalesInTheirSpellingW2) {
  json config = baseConfig();
  TinyCheckpoint checkpoint(config);
  checkpoint.addLayers("self_attn.k_scale", StoredType::F32, {});
  checkpoint.addLayers("self_attn.v_proj.v_scale", StoredType::F32, {1});
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(print(find<model::AttentionOp>()[0].getKvAttr()),
            "#q.stored<{k_scale = tensor<f32>, v_proj.v_scale = "
            "tensor<1xf32>}, \"\">");
  EXPECT_TRUE(notes.warnings.empty());
}

//===----------------------------------------------------------------------===//
// lm_head and what is left over
//===----------------------------------------------------------------------===//

TEST_F(ImportTest, TiedEmbeddingsW15) {
  json config = baseConfig();
  config["tie_word_embeddings"] = true;
  TinyCheckpoint checkpoint(config);
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(notes.notes.size(), 1u);
  EXPECT_EQ(notes.notes[0], "model.safetensors: tensor 'lm_head.weight' is not "
                            "used, because the embedding is tied [W15]");
  auto head = find<model::LmHeadOp>()[0];
  auto weight = head.getWeight().getDefiningOp<model::WeightOp>();
  EXPECT_EQ(print(weight.getPaths()), "[\"model.embed_tokens\"]");
  checkpoint.remove("lm_head.weight");
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_TRUE(notes.notes.empty());
}

TEST_F(ImportTest, UntiedWithoutLmHeadW15) {
  TinyCheckpoint checkpoint(baseConfig());
  checkpoint.remove("lm_head.weight");
  EXPECT_EQ(import(checkpoint),
            "error: lm_head: no tensor 'lm_head.weight', and config.json says "
            "that the embedding is not tied; the tensor, or "
            "tie_word_embeddings true [W15]\n");
}

TEST_F(ImportTest, TensorsThatNothingConsumesW14) {
  TinyCheckpoint checkpoint(baseConfig());
  checkpoint.add("model.layers.0.self_attn.rotary_emb.inv_freq",
                 StoredType::F32, {4});
  checkpoint.add("model.layers.3.eh_proj.weight", StoredType::BF16, {16, 32});
  checkpoint.add("model.layers.1.mlp.router.weight", StoredType::BF16, {4, 16});
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_EQ(notes.warnings[0], "tiny: 1 tensor is used by nothing: "
                               "'model.layers.1.mlp.router.weight' [W14]");
  ASSERT_EQ(notes.notes.size(), 1u);
  EXPECT_NE(notes.notes[0].find("1 tensor of layers from 3 on"),
            std::string::npos);
  options.strict = true;
  EXPECT_EQ(import(checkpoint),
            "error: --strict: tiny: 1 tensor is used by nothing: "
            "'model.layers.1.mlp.router.weight' [W14]\n");
}

TEST_F(ImportTest, ConfigEntriesThatMatchNothingC7) {
  json config = baseConfig();
  config["quantization_config"] = {
      {"quant_method", "fp8"},
      {"modules_to_not_convert",
       {"model.language_model.layers.0.self_attn.o_proj", "model.visual",
        "model.embed_tokens", "lm_head"}}};
  TinyCheckpoint checkpoint(config);
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_EQ(notes.warnings[0],
            "config.json: quantization_config: modules_to_not_convert[1] "
            "'model.visual' matches no module or tensor of this checkpoint "
            "[C7]");
}

TEST_F(ImportTest, UnknownKeysAreReportedC15) {
  json config = baseConfig();
  config["logit_scale"] = 0.5;
  config["use_cache"] = true;
  config["something_off"] = false;
  TinyCheckpoint checkpoint(config);
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_EQ(notes.warnings[0], "config.json: unknown key 'logit_scale' with "
                               "value 0.5 is not used; it could change "
                               "results [C15]");
}

//===----------------------------------------------------------------------===//
// Headers against config
//===----------------------------------------------------------------------===//

TEST_F(ImportTest, ShapesDisagreeC13) {
  TinyCheckpoint checkpoint(baseConfig());
  checkpoint.addLayers("mlp.up_proj.weight", StoredType::BF16, {25, 16});
  EXPECT_EQ(import(checkpoint),
            "error: model.layers.0.mlp.up_proj: weight is BF16 [25, 16]; "
            "config.json implies [24, 16] (intermediate_size x hidden_size) "
            "[C13]\n"
            "note:  model.layers.1.mlp.up_proj: weight is BF16 [25, 16]; "
            "config.json implies [24, 16] (intermediate_size x hidden_size)\n"
            "note:  model.layers.2.mlp.up_proj: weight is BF16 [25, 16]; "
            "config.json implies [24, 16] (intermediate_size x "
            "hidden_size)\n");
}

TEST_F(ImportTest, DtypesDisagreeC13) {
  TinyCheckpoint checkpoint(baseConfig());
  checkpoint.add("model.norm.weight", StoredType::I64, {16});
  EXPECT_EQ(import(checkpoint),
            "error: model.norm: weight is I64 [16]; expected BF16, F16 or F32, "
            "such modules are never quantised [C13]\n");
}

TEST_F(ImportTest, MissingTensorsTenAndTheRest) {
  json config = baseConfig();
  config["num_hidden_layers"] = 7;
  TinyCheckpoint checkpoint(config);
  std::string error = import(checkpoint);
  EXPECT_TRUE(error.starts_with("error: model.layers.3.input_layernorm: no "
                                "tensor "
                                "'model.layers.3.input_layernorm.weight'; "
                                "expected BF16 [16] [C13]\n"))
      << error;
  // 9 modules in each of 4 layers.
  EXPECT_NE(error.find("note:  and 26 more\n"), std::string::npos) << error;
}

TEST_F(ImportTest, AbsurdLayerCountEndsSoon) {
  json config = baseConfig();
  config["num_hidden_layers"] = 16384;
  TinyCheckpoint checkpoint(config);
  std::string error = import(checkpoint);
  EXPECT_NE(error.find("or more"), std::string::npos) << error;
  config["num_hidden_layers"] = 65536;
  EXPECT_EQ(refuse(config), "error: config.json: num_hidden_layers is 65536; "
                            "expected at most 16384 [C15]");
}

//===----------------------------------------------------------------------===//
// A config that lies
//===----------------------------------------------------------------------===//

TEST_F(ImportTest, Architectures) {
  EXPECT_EQ(refuse(baseConfig("GPT2LMHeadModel")),
            "error: config.json: unknown architecture 'GPT2LMHeadModel'; known "
            "are DeepseekV2ForCausalLM, DeepseekV32ForCausalLM, "
            "DeepseekV3ForCausalLM, Glm4MoeForCausalLM, GlmMoeDsaForCausalLM, "
            "GptOssForCausalLM, LlamaForCausalLM, MistralForCausalLM, "
            "MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
            "Qwen3MoeForCausalLM");
  json config = baseConfig();
  config["architectures"] = json::array();
  EXPECT_EQ(refuse(config),
            "error: config.json: architectures is []; expected a list with the "
            "name of one");
}

TEST_F(ImportTest, SizesOfTheWrongTypeOrRange) {
  for (const char *key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim",
        "max_position_embeddings"})
    for (const json &value :
         {json(0), json(-1), json(4.5), json(4096.0), json("16"), json(true),
          json(int64_t(1) << 31), json(UINT64_MAX), json(INT64_MIN),
          json::array({16})}) {
      json config = baseConfig();
      config[key] = value;
      std::string error = refuse(config);
      EXPECT_TRUE(
          error.starts_with(std::string("error: config.json: ") + key + " is "))
          << key << " " << value << ": " << error;
      EXPECT_NE(error.find("; expected an integer from 1 to 2147483647 [C15]"),
                std::string::npos)
          << error;
    }
}

TEST_F(ImportTest, MissingKeysAreNamed) {
  for (const char *key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "max_position_embeddings", "rms_norm_eps"}) {
    json config = baseConfig();
    config.erase(key);
    EXPECT_TRUE(refuse(config).starts_with(
        std::string("error: config.json: has no ") + key + ";"))
        << refuse(config);
  }
}

TEST_F(ImportTest, HeadsThatDoNotDivide) {
  json config = baseConfig();
  config["num_key_value_heads"] = 3;
  EXPECT_EQ(refuse(config),
            "error: config.json: num_attention_heads is 4 and "
            "num_key_value_heads is 3; the first has to be a multiple of the "
            "second [W3b]");
  config = baseConfig();
  config.erase("head_dim");
  config["hidden_size"] = 18;
  EXPECT_EQ(refuse(config),
            "error: config.json: has no head_dim, and hidden_size 18 is not a "
            "multiple of num_attention_heads 4 [C15]");
  config = baseConfig();
  config["num_attention_heads"] = config["num_key_value_heads"] = 1 << 20;
  config["head_dim"] = 1 << 20;
  EXPECT_EQ(refuse(config),
            "error: config.json: the width of all heads is 1048576 x 1048576; "
            "expected at most 2147483647 [C15]");
  // head_dim = hidden_size / num_attention_heads where it is absent.
  config = baseConfig();
  config.erase("head_dim");
  config["num_attention_heads"] = config["num_key_value_heads"] = 2;
  TinyCheckpoint checkpoint(config);
  checkpoint.addLayers("self_attn.q_proj.weight", StoredType::BF16, {16, 16});
  checkpoint.addLayers("self_attn.o_proj.weight", StoredType::BF16, {16, 16});
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(find<model::AttentionOp>()[0].getHeadDim(), 8);
}

TEST_F(ImportTest, OtherFields) {
  auto with = [](const char *key, json value) {
    json config = baseConfig();
    config[key] = std::move(value);
    return config;
  };
  EXPECT_EQ(refuse(with("hidden_act", "gelu")),
            "error: config.json: hidden_act is 'gelu'; 'silu' is built for "
            "this architecture [C15]");
  EXPECT_EQ(refuse(with("rms_norm_eps", 0)),
            "error: config.json: rms_norm_eps is 0; expected a finite number "
            "greater than 0 [C15]");
  for (double eps : {1e308, 1e-320})
    EXPECT_NE(refuse(with("rms_norm_eps", eps))
                  .find("expected a number that float32 can hold [C15]"),
              std::string::npos);
  EXPECT_EQ(refuse(with("tie_word_embeddings", 1)),
            "error: config.json: tie_word_embeddings is 1; expected true or "
            "false [C15]");
  EXPECT_EQ(refuse(with("eos_token_id", 32)),
            "error: config.json: eos_token_id is 32; expected token ids below "
            "vocab_size, which is 32");
  EXPECT_EQ(refuse(with("torch_dtype", "int8")),
            "error: config.json: dtype is 'int8'; expected bfloat16, float16 "
            "or float32, or --dtype [C9]");
  EXPECT_EQ(
      refuse(with("quantization_config", {{"quant_method", "fp8"}, {"", 1}})),
      "error: config.json: quantization_config: has a field without a "
      "name [C4]");
}

TEST_F(ImportTest, OptionsOutOfRange) {
  TinyCheckpoint checkpoint(baseConfig());
  options.maxContext = 1 << 25;
  EXPECT_EQ(import(checkpoint), "error: --max-context 33554432: out of range; "
                                "1 to 16777216\n");
  options = {};
  options.kvCache = "int8";
  EXPECT_EQ(import(checkpoint), "error: --kv-cache int8: no such choice; auto, "
                                "bf16, f16, f32, fp8_e4m3, fp8_ds_mla\n");
  options = {};
  options.target = "tpu";
  EXPECT_NE(import(checkpoint).find("[C9]"), std::string::npos);
  options = {};
  options.maxContext = 8192; // more than the config's 4096
  EXPECT_EQ(import(checkpoint), "");
  EXPECT_EQ(notes.warnings.size(), 1u);
}

TEST_F(ImportTest, LimitsThatNoCacheHas) {
  TinyCheckpoint checkpoint(baseConfig());
  options.maxContext = 4096;
  options.maxSeqs = 524287; // 64 pages each: 2^31 - 4096 slots
  EXPECT_EQ(import(checkpoint), "");
  options.maxSeqs = 524288;
  EXPECT_EQ(import(checkpoint),
            "error: --max-seqs 524288: sequences of --max-context 4096 tokens "
            "need 2147483648 slots of the KV cache, which has fewer than 2^31; "
            "--max-seqs 524287 fits\n");
  // Whole pages count.
  options.maxContext = 65;
  options.maxSeqs = 1 << 20;
  EXPECT_EQ(import(checkpoint), "");
}

TEST_F(ImportTest, LargeTablesAreReported) {
  json config = baseConfig();
  config["max_position_embeddings"] = 1 << 24;
  config["head_dim"] = 64;
  TinyCheckpoint checkpoint(config);
  checkpoint.addLayers("self_attn.q_proj.weight", StoredType::BF16, {256, 16});
  checkpoint.addLayers("self_attn.k_proj.weight", StoredType::BF16, {128, 16});
  checkpoint.addLayers("self_attn.v_proj.weight", StoredType::BF16, {128, 16});
  checkpoint.addLayers("self_attn.o_proj.weight", StoredType::BF16, {16, 256});
  options.maxContext = 1 << 24;
  options.maxSeqs = 1;
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_TRUE(notes.warnings.empty()); // 4 GiB and not more
  config["head_dim"] = 66;
  checkpoint = TinyCheckpoint(config);
  checkpoint.addLayers("self_attn.q_proj.weight", StoredType::BF16, {264, 16});
  checkpoint.addLayers("self_attn.k_proj.weight", StoredType::BF16, {132, 16});
  checkpoint.addLayers("self_attn.v_proj.weight", StoredType::BF16, {132, 16});
  checkpoint.addLayers("self_attn.o_proj.weight", StoredType::BF16, {16, 264});
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(notes.warnings.size(), 1u);
  EXPECT_EQ(notes.warnings[0],
            "--max-context 16777216: its table of rotary embeddings takes 4.1 "
            "GiB of memory");
}

//===----------------------------------------------------------------------===//
// --extract
//===----------------------------------------------------------------------===//

TEST_F(ImportTest, ExtractModules) {
  TinyCheckpoint checkpoint(baseConfig());
  for (const char *name : {"model.layers.1.self_attn", "layers.1.self_attn"}) {
    options.extract = name;
    ASSERT_EQ(import(checkpoint), "");
    EXPECT_EQ(find<model::LinearOp>("step").size(), 4u);
    EXPECT_EQ(print(info("kind")), "\"module\"");
    EXPECT_EQ(print(info("module")), "{in = 16 : i64, out = 16 : i64, path = "
                                     "\"model.layers.1.self_attn\"}");
  }
  options.extract = "model.layers.2.mlp.down_proj";
  ASSERT_EQ(import(checkpoint), "");
  ASSERT_EQ(find<model::LinearOp>("step").size(), 1u);
  auto weight = find<model::WeightOp>("step")[0];
  EXPECT_EQ(
      weight.getLayer().getDefiningOp<mlir::arith::ConstantIndexOp>().value(),
      2);
  // Alone it is no shard of a fused module.
  options.extract = "model.layers.0.self_attn.q_proj";
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_FALSE(find<model::LinearOp>("step")[0].getFused().has_value());
  options.extract = "lm_head";
  ASSERT_EQ(import(checkpoint), "");
  EXPECT_EQ(find<model::LmHeadOp>("step").size(), 1u);
}

TEST_F(ImportTest, ExtractRefusals) {
  TinyCheckpoint checkpoint(baseConfig());
  for (const char *name :
       {"model.layers.3.mlp", "model.layers.99999999999999999999.mlp",
        "model.layers.01.mlp", "model.layers.-1.mlp", "model.layers..mlp"}) {
    options.extract = name;
    EXPECT_EQ(import(checkpoint),
              "error: --extract " + std::string(name) +
                  ": no layer of that number; the model has layers 0 to 2\n");
  }
  for (const char *name : {"model.layers.1", "model.layers.1.",
                           "model.layers.1.mlp.router", "model.layers.1mlp"}) {
    options.extract = name;
    EXPECT_NE(import(checkpoint)
                  .find("below 'model.layers.1' there are self_attn, "
                        "self_attn.q_proj"),
              std::string::npos)
        << name;
  }
  options.extract = "model.embed_tokens";
  EXPECT_NE(import(checkpoint).find("no module of that name"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Real folders
//===----------------------------------------------------------------------===//

class GoldenImport : public ::testing::TestWithParam<const char *> {};

TEST_P(GoldenImport, IsImportedWhole) {
#ifdef OCTET_SHARED_DIR
  std::string folder = std::string(OCTET_SHARED_DIR) + "/golden/" + GetParam();
#else
  std::string folder;
#endif
  if (folder.empty() || !std::filesystem::is_directory(folder))
    GTEST_SKIP() << "OCTET_SHARED_DIR has no golden/" << GetParam();
  Result<Checkpoint> checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().info().format();
  mlir::MLIRContext context;
  ImportNotes notes;
  Result<mlir::OwningOpRef<mlir::ModuleOp>> module =
      importCheckpoint(*checkpoint, {}, context, notes);
  ASSERT_TRUE(module.ok()) << module.status().info().format();
  EXPECT_TRUE(notes.warnings.empty()) << notes.warnings[0];
  // Each tensor of the checkpoint is stored by exactly one weight.
  size_t stored = 0;
  (*module)->walk([&](model::WeightOp op) {
    size_t layers = op.getLayer() ? 2 : 1;
    for (auto facts : op.getStored().getAsRange<q::StoredAttr>())
      stored += layers * facts.getTensors().size();
  });
  bool tied = checkpoint->config.value("tie_word_embeddings", false);
  EXPECT_EQ(stored, checkpoint->tensors.all().size() + (tied ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenImport,
                         ::testing::Values("llama-bf16", "llama-fp8-static",
                                           "llama-fp8-ct-static",
                                           "llama-fp8-ct-channel",
                                           "qwen3-fp8-block",
                                           "qwen3-fp8-block-partial"));

} // namespace
