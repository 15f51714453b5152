//===- GgufConfig.cpp - A GGUF file as a checkpoint -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Metadata to the config.json that a folder of the same model has, and tensor
// names to those of a folder (W16):
//
//   ARCH.embedding_length                   hidden_size
//   ARCH.feed_forward_length                intermediate_size
//   ARCH.block_count                        num_hidden_layers
//   ARCH.attention.head_count, head_count_kv, key_length
//   ARCH.attention.layer_norm_rms_epsilon   rms_norm_eps
//   ARCH.rope.freq_base, rope.scaling.*     rope_theta, rope_scaling
//   rope_freqs.weight                       rope_scaling of Llama 3.1
//   no output.weight                        tie_word_embeddings
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Gguf.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>

using namespace octet;
using nlohmann::json;

namespace {

struct Architecture {
  std::string_view name; ///< general.architecture
  std::string_view className, modelType;
  bool permuted; ///< rows of q and k are stored in pairs (W16)
};

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama", true},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false},
};

struct Rename {
  std::string_view from, to;
};
constexpr Rename kOuterNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
constexpr Rename kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

template <size_t kCount>
std::string rename(const Rename (&table)[kCount], std::string_view name) {
  for (const Rename &row : table)
    if (row.from == name)
      return std::string(row.to);
  return "";
}

/// The name in a folder; the file's own if there is none (reported by whoever
/// finds no use for it, W14).
std::string folderName(const std::string &name) {
  size_t dot = name.rfind('.');
  if (dot == name.npos)
    return name;
  std::string_view module(name.data(), dot);
  std::string leaf = name.substr(dot);
  if (leaf != ".weight" && leaf != ".bias")
    return name;
  if (!module.starts_with("blk.")) {
    std::string to = rename(kOuterNames, module);
    return to.empty() ? name : to + leaf;
  }
  module.remove_prefix(4);
  size_t end = module.find('.');
  if (end == module.npos)
    return name;
  std::string_view layer = module.substr(0, end);
  bool isNumber = !layer.empty() && layer.size() < 6 &&
                  layer.find_first_not_of("0123456789") == layer.npos &&
                  (layer == "0" || layer[0] != '0');
  std::string to = rename(kLayerNames, module.substr(end + 1));
  if (!isNumber || to.empty())
    return name;
  return "model.layers." + std::string(layer) + "." + to + leaf;
}

/// Builds config.json and renames tensors.
class Opener {
public:
  Opener(GgufFile file, const std::string &path)
      : metadata(*file.metadata), table(std::move(file.tensors)), path(path) {
    checkpoint.gguf = std::move(file.metadata);
  }
  Result<Checkpoint> run();

private:
  std::string key(std::string_view rest) const {
    return std::string(architecture->name) + "." + std::string(rest);
  }
  Status fail(std::string_view key, std::string message) const {
    return inputError(metadata.subject, "metadata key " + quoteName(key) +
                                            ": " + std::move(message));
  }
  Status findArchitecture();
  Result<std::optional<int64_t>> findSize(std::string_view rest, int64_t least);
  Result<int64_t> needSize(std::string_view rest);
  Result<std::optional<double>> findFinite(std::string_view rest);
  Status readShape();
  Status readRope();
  Status readRopeScaling(std::string type);
  Status readRopeFactors();
  Status readIds();
  Status renameTensors();

  const GgufMetadata &metadata;
  TensorTable table;
  const std::string &path;
  const Architecture *architecture = nullptr;
  int64_t headDim = 0;
  Checkpoint checkpoint;
};

Status Opener::findArchitecture() {
  OCTET_TRY_ASSIGN(std::optional<std::string> name,
                   metadata.findString("general.architecture"));
  if (!name)
    return inputError(metadata.subject,
                      "has no metadata key 'general.architecture'");
  std::string known;
  for (const Architecture &row : kArchitectures) {
    if (row.name == *name)
      architecture = &row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  if (!architecture)
    return fail("general.architecture", "is " + quoteName(*name) +
                                            "; GGUF files of " + known +
                                            " are read");
  return Status::success();
}

/// An integer, also given as a list that has it for every layer.
Result<std::optional<int64_t>> Opener::findSize(std::string_view rest,
                                                int64_t least) {
  std::string name = key(rest);
  std::optional<int64_t> value;
  const GgufValue *found = metadata.find(name);
  const auto *list = found ? std::get_if<std::vector<int64_t>>(found) : nullptr;
  if (list && !list->empty()) {
    value = list->front();
    for (int64_t each : *list)
      if (each != *value)
        return fail(name, "differs between layers, " + std::to_string(*value) +
                              " and " + std::to_string(each) +
                              "; only models with equal layers are read");
  } else {
    OCTET_TRY_ASSIGN(value, metadata.findInteger(name));
  }
  if (value && (*value < least || *value > INT32_MAX))
    return fail(name, "is " + std::to_string(*value) + "; " +
                          std::to_string(least) + " to 2^31 - 1 is needed");
  return value;
}

Result<int64_t> Opener::needSize(std::string_view rest) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> value, findSize(rest, 1));
  if (!value)
    return inputError(metadata.subject,
                      "has no metadata key " + quoteName(key(rest)));
  return *value;
}

Result<std::optional<double>> Opener::findFinite(std::string_view rest) {
  OCTET_TRY_ASSIGN(std::optional<double> value, metadata.findNumber(key(rest)));
  if (value && !std::isfinite(*value))
    return fail(key(rest), "is not finite");
  return value;
}

Status Opener::readShape() {
  json &config = checkpoint.config;
  config["architectures"] = json::array({std::string(architecture->className)});
  config["model_type"] = std::string(architecture->modelType);
  config["torch_dtype"] = "bfloat16";
  config["hidden_act"] = "silu";
  OCTET_TRY_ASSIGN(int64_t layers, needSize("block_count"));
  if (layers > kMaxGgufLayers)
    return fail(key("block_count"), "is " + std::to_string(layers) +
                                        ", over the limit of " +
                                        std::to_string(kMaxGgufLayers));
  OCTET_TRY_ASSIGN(int64_t hidden, needSize("embedding_length"));
  OCTET_TRY_ASSIGN(int64_t intermediate, needSize("feed_forward_length"));
  OCTET_TRY_ASSIGN(int64_t context, needSize("context_length"));
  OCTET_TRY_ASSIGN(int64_t heads, needSize("attention.head_count"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> kvHeads,
                   findSize("attention.head_count_kv", 1));
  OCTET_TRY_ASSIGN(std::optional<int64_t> keyLength,
                   findSize("attention.key_length", 1));
  OCTET_TRY_ASSIGN(std::optional<int64_t> valueLength,
                   findSize("attention.value_length", 1));
  OCTET_TRY_ASSIGN(std::optional<int64_t> experts, findSize("expert_count", 0));
  if (experts.value_or(0) > 0)
    return fail(key("expert_count"),
                "is " + std::to_string(*experts) +
                    "; GGUF files of mixtures of experts are not read");
  if (!keyLength && hidden % heads)
    return fail(key("attention.head_count"),
                "is " + std::to_string(heads) + ", which does not divide the " +
                    "embedding_length " + std::to_string(hidden));
  headDim = keyLength.value_or(hidden / heads);
  if (valueLength.value_or(headDim) != headDim)
    return fail(key("attention.value_length"),
                "is " + std::to_string(*valueLength) + ", keys have " +
                    std::to_string(headDim) + "; only equal ones are read");
  OCTET_TRY_ASSIGN(std::optional<double> epsilon,
                   findFinite("attention.layer_norm_rms_epsilon"));
  if (!epsilon)
    return inputError(metadata.subject,
                      "has no metadata key " +
                          quoteName(key("attention.layer_norm_rms_epsilon")));
  config["num_hidden_layers"] = layers;
  config["hidden_size"] = hidden;
  config["intermediate_size"] = intermediate;
  config["max_position_embeddings"] = context;
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = kvHeads.value_or(heads);
  config["head_dim"] = headDim;
  config["rms_norm_eps"] = *epsilon;
  OCTET_TRY_ASSIGN(std::optional<int64_t> window,
                   findSize("attention.sliding_window", 0));
  if (window.value_or(0) > 0 && *window < context)
    return fail(key("attention.sliding_window"),
                "is " + std::to_string(*window) +
                    ", shorter than the context " + "of " +
                    std::to_string(context) +
                    "; which layers it is for is not in the file");
  return Status::success();
}

Status Opener::readRope() {
  json &config = checkpoint.config;
  OCTET_TRY_ASSIGN(std::optional<double> theta, findFinite("rope.freq_base"));
  config["rope_theta"] = theta.value_or(10000.0);
  OCTET_TRY_ASSIGN(std::optional<int64_t> rotated,
                   findSize("rope.dimension_count", 1));
  if (rotated.value_or(headDim) != headDim)
    config["partial_rotary_factor"] = double(*rotated) / double(headDim);
  config["rope_scaling"] = nullptr;
  OCTET_TRY_ASSIGN(std::optional<std::string> type,
                   metadata.findString(key("rope.scaling.type")));
  OCTET_TRY_ASSIGN(std::optional<double> oldFactor,
                   findFinite("rope.scale_linear"));
  if (type && *type != "none")
    return readRopeScaling(*type);
  if (oldFactor && *oldFactor != 1.0)
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", *oldFactor}};
  return readRopeFactors();
}

Status Opener::readRopeScaling(std::string type) {
  if (type != "linear" && type != "yarn")
    return fail(key("rope.scaling.type"),
                "is " + quoteName(type) + "; none, linear and yarn are read");
  OCTET_TRY_ASSIGN(std::optional<double> factor,
                   findFinite("rope.scaling.factor"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> original,
                   findSize("rope.scaling.original_context_length", 1));
  if (!factor)
    return inputError(metadata.subject,
                      "has no metadata key " +
                          quoteName(key("rope.scaling.factor")));
  json scaling = {{"rope_type", type}, {"factor", *factor}};
  if (original && type == "yarn")
    scaling["original_max_position_embeddings"] = *original;
  checkpoint.config["rope_scaling"] = std::move(scaling);
  return Status::success();
}

/// What Llama 3.1 multiplies the wavelength of pair `i` with.
double llama3Factor(double theta, int64_t dim, int64_t i, double factor,
                    double low, double high, double original) {
  double wavelength =
      2 * std::numbers::pi * std::pow(theta, 2.0 * double(i) / double(dim));
  if (wavelength < original / high)
    return 1;
  if (wavelength > original / low)
    return factor;
  double smooth = (original / wavelength - low) / (high - low);
  return 1 / ((1 - smooth) / factor + smooth);
}

/// rope_freqs.weight holds the factors that Llama 3.1's config describes with
/// four numbers. Three of them are the same in all its models, the fourth is
/// the largest factor: if they give the table they are the ones.
Status Opener::readRopeFactors() {
  const TensorInfo *tensor = table.find(kRopeFactors);
  if (!tensor)
    return Status::success();
  auto bad = [&](std::string message) {
    return inputError(metadata.subject, "tensor " + quoteName(kRopeFactors) +
                                            ": " + std::move(message));
  };
  int64_t pairs = headDim / 2;
  if (tensor->type != StoredType::F32 || !tensor->isPlain() ||
      tensor->shape != std::vector<int64_t>{pairs})
    return bad("is " + tensor->describe() + "; F32 [" + std::to_string(pairs) +
               "] is needed for heads of " + std::to_string(headDim));
  std::vector<float> factors(size_t(pairs), 0.0f);
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  OCTET_TRY(file.read(tensor->offset, {reinterpret_cast<char *>(factors.data()),
                                       factors.size() * sizeof(float)}));
  double largest = 1;
  for (float factor : factors)
    largest = std::max(largest, double(factor));
  if (largest == 1)
    return Status::success();
  constexpr double kLow = 1, kHigh = 4, kOriginal = 8192;
  double theta = checkpoint.config["rope_theta"].get<double>();
  for (int64_t i = 0; i < pairs; ++i) {
    double expected =
        llama3Factor(theta, headDim, i, largest, kLow, kHigh, kOriginal);
    if (!(std::fabs(double(factors[size_t(i)]) - expected) <= 1e-4 * expected))
      return bad("factor " + std::to_string(i) + " is " +
                 std::to_string(factors[size_t(i)]) +
                 ", that of Llama 3.1 is " + std::to_string(expected) +
                 "; other tables of factors are not read");
  }
  checkpoint.config["rope_scaling"] = {
      {"rope_type", "llama3"},
      {"factor", largest},
      {"low_freq_factor", kLow},
      {"high_freq_factor", kHigh},
      {"original_max_position_embeddings", int64_t(kOriginal)}};
  return Status::success();
}

/// bos and eos; the end of a turn ends a generation too.
Status Opener::readIds() {
  json &generation = checkpoint.generationConfig;
  generation = json::object();
  OCTET_TRY_ASSIGN(std::optional<int64_t> bos,
                   metadata.findInteger("tokenizer.ggml.bos_token_id"));
  if (bos)
    checkpoint.config["bos_token_id"] = generation["bos_token_id"] = *bos;
  std::vector<int64_t> ends;
  for (const char *name : {"eos", "eot", "eom"}) {
    OCTET_TRY_ASSIGN(std::optional<int64_t> id,
                     metadata.findInteger("tokenizer.ggml." +
                                          std::string(name) + "_token_id"));
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end())
      ends.push_back(*id);
  }
  if (ends.empty())
    return Status::success();
  json value = ends.size() == 1 ? json(ends[0]) : json(ends);
  checkpoint.config["eos_token_id"] = value;
  generation["eos_token_id"] = value;
  return Status::success();
}

Status Opener::renameTensors() {
  bool hasHead = false, hasQBias = false;
  std::erase_if(table.tensors, [](const TensorInfo &tensor) {
    return tensor.name == kRopeFactors; // now in the config
  });
  for (TensorInfo &tensor : table.tensors) {
    std::string stored = std::exchange(tensor.name, folderName(tensor.name));
    hasHead |= stored == "output.weight";
    bool isQ = tensor.name.ends_with(".q_proj.weight") ||
               tensor.name.ends_with(".q_proj.bias");
    bool isK = tensor.name.ends_with(".k_proj.weight") ||
               tensor.name.ends_with(".k_proj.bias");
    hasQBias |= isQ && tensor.name.ends_with(".bias");
    if (!architecture->permuted || (!isQ && !isK))
      continue;
    int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
    if (headDim % 2 || rows % headDim || tensor.shape.size() > 2)
      return inputError(metadata.subject,
                        "tensor " + quoteName(stored) + ": " +
                            tensor.describe() + " is not made of heads of " +
                            std::to_string(headDim) + " rows",
                        "W16");
    tensor.headRows = headDim;
  }
  json &config = checkpoint.config;
  config["tie_word_embeddings"] = !hasHead;
  if (architecture->name == "llama") {
    config["attention_bias"] = hasQBias;
    config["mlp_bias"] = false;
  } else if (architecture->name == "qwen3") {
    config["attention_bias"] = hasQBias;
  }
  OCTET_TRY(table.finish());
  const TensorInfo *embedding = table.find("model.embed_tokens.weight");
  if (!embedding || embedding->shape.size() != 2)
    return inputError(metadata.subject,
                      embedding ? "tensor 'token_embd.weight': is " +
                                      embedding->describe() +
                                      "; it must have two sides"
                                : "has no tensor 'token_embd.weight'");
  config["vocab_size"] = embedding->shape[0];
  return Status::success();
}

Result<Checkpoint> Opener::run() {
  checkpoint.path = path;
  checkpoint.config = json::object();
  OCTET_TRY(findArchitecture());
  OCTET_TRY(readShape());
  OCTET_TRY(readRope());
  OCTET_TRY(readIds());
  OCTET_TRY(renameTensors());
  checkpoint.hasTokenizer = metadata.find("tokenizer.ggml.tokens") != nullptr;
  checkpoint.tensors = std::move(table);
  return std::move(checkpoint);
}

} // namespace

bool octet::isGgufName(std::string_view path) {
  constexpr std::string_view kEnding = ".gguf";
  return path.size() >= kEnding.size() &&
         std::ranges::equal(
             path.substr(path.size() - kEnding.size()), kEnding, {},
             [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
}

Result<Checkpoint> octet::openGguf(const std::string &path) {
  OCTET_TRY_ASSIGN(GgufFile file, readGguf(path));
  return Opener(std::move(file), path).run();
}
