//===- Layers.cpp - What each layer of a checkpoint stores ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layers.h"
#include "octet/Support/Escape.h"

using namespace octet;

namespace {

/// Reads the modules of one layer, or of the whole model with an empty prefix.
class FactsReader {
public:
  FactsReader(const DecoderConfig &config, QuantConfig *quant,
              Inventory &inventory)
      : config(config), quant(quant), inventory(inventory) {}

  Result<LayerFacts> readLayer(int64_t layer);
  Result<LinearFacts> readLmHead(const std::optional<StoredTensor> &embedding);

private:
  /// A linear [n, k] with the tensors that its module holds.
  Status readLinear(const std::string &prefix, const char *module,
                    const char *fused, int64_t n, int64_t k,
                    std::string_view why, Bias bias, LinearFacts &facts);
  Status readBias(const std::string &module, Bias bias,
                  const TensorInfo *stored, LinearFacts &facts);
  Status readLayerLinears(const std::string &prefix, LayerFacts &facts);
  void readKvScales(const std::string &attention, LayerFacts &facts);

  const DecoderConfig &config;
  QuantConfig *quant;
  Inventory &inventory;
};

} // namespace

Status FactsReader::readBias(const std::string &module, Bias bias,
                             const TensorInfo *stored, LinearFacts &facts) {
  if (!stored && bias != Bias::Yes)
    return Status::success();
  if (stored && bias == Bias::No)
    return inputError(escapePath(inventory.getFile(*stored)),
                      "has tensor " + quoteName(stored->name) + " " +
                          stored->describe() +
                          ", and config.json says that there is no bias; one "
                          "of the two",
                      "C13");
  facts.bias = inventory.requirePlain(module + ".bias", {facts.n},
                                      "(the bias of its linear)");
  return Status::success();
}

Status FactsReader::readLinear(const std::string &prefix, const char *module,
                               const char *fused, int64_t n, int64_t k,
                               std::string_view why, Bias bias,
                               LinearFacts &facts) {
  facts.module = module;
  facts.fused = fused;
  facts.n = n;
  facts.k = k;
  std::string path = prefix + module;
  const TensorInfo *storedBias = nullptr;
  for (const auto &[name, tensor] : inventory.getBelow(path)) {
    // Deeper modules, and scales of the cache that stand below a projection.
    if (name.find('.') != std::string::npos || name == "k_scale" ||
        name == "v_scale" || name == "kv_scale" || name == "output_scale")
      continue;
    if (isKnownLinearTensor(name))
      inventory.consume(*tensor);
    if (name == "bias") {
      storedBias = tensor;
      continue;
    }
    facts.tensors[name] = inventory.describe(*tensor);
    if (name == "weight")
      facts.file = inventory.getFile(*tensor);
    if (name == "weight" && tensor->shape != std::vector<int64_t>{n, k})
      inventory.addMismatch(*tensor, "[" + std::to_string(n) + ", " +
                                         std::to_string(k) + "] " +
                                         std::string(why));
  }
  if (!facts.tensors.contains("weight"))
    inventory.addMissing(path + ".weight", {n, k}, why);
  OCTET_TRY(readBias(path, bias, storedBias, facts));
  if (!quant)
    return Status::success();
  std::string fusedPath = facts.fused.empty() ? "" : prefix + fused;
  OCTET_TRY_ASSIGN(
      facts.declared,
      declareModule(*quant, path, fusedPath,
                    !fusedPath.empty() && inventory.hasModule(fusedPath)));
  return Status::success();
}

void FactsReader::readKvScales(const std::string &attention,
                               LayerFacts &facts) {
  for (const auto &[name, tensor] : inventory.getBelow(attention)) {
    if (!isKvScaleName(name))
      continue;
    inventory.consume(*tensor);
    facts.kvScales[name] = {tensor->type, tensor->shape};
    bool scalar = tensor->shape.size() <= 1 &&
                  (tensor->shape.empty() || tensor->shape[0] == 1);
    bool plain = tensor->type == StoredType::F32 ||
                 tensor->type == StoredType::BF16 ||
                 tensor->type == StoredType::F16;
    if (!scalar || !plain)
      inventory.addMismatch(*tensor, "F32 [] (one scale of the KV cache)");
  }
}

Status FactsReader::readLayerLinears(const std::string &prefix,
                                     LayerFacts &facts) {
  const int64_t hidden = config.hidden, width = config.heads * config.headDim;
  const int64_t kvWidth = config.kvHeads * config.headDim;
  const int64_t inner = config.intermediate;
  constexpr const char *kQkv = "self_attn.qkv_proj";
  constexpr const char *kGateUp = "mlp.gate_up_proj";
  OCTET_TRY(readLinear(prefix, "self_attn.q_proj", kQkv, width, hidden,
                       "(num_attention_heads * head_dim x hidden_size)",
                       config.qkvBias, facts.q));
  OCTET_TRY(readLinear(prefix, "self_attn.k_proj", kQkv, kvWidth, hidden,
                       "(num_key_value_heads * head_dim x hidden_size)",
                       config.qkvBias, facts.k));
  OCTET_TRY(readLinear(prefix, "self_attn.v_proj", kQkv, kvWidth, hidden,
                       "(num_key_value_heads * head_dim x hidden_size)",
                       config.qkvBias, facts.v));
  OCTET_TRY(readLinear(prefix, "self_attn.o_proj", "", hidden, width,
                       "(hidden_size x num_attention_heads * head_dim)",
                       config.outputBias, facts.o));
  OCTET_TRY(readLinear(prefix, "mlp.gate_proj", kGateUp, inner, hidden,
                       "(intermediate_size x hidden_size)", config.mlpBias,
                       facts.gate));
  OCTET_TRY(readLinear(prefix, "mlp.up_proj", kGateUp, inner, hidden,
                       "(intermediate_size x hidden_size)", config.mlpBias,
                       facts.up));
  return readLinear(prefix, "mlp.down_proj", "", hidden, inner,
                    "(hidden_size x intermediate_size)", config.mlpBias,
                    facts.down);
}

Result<LayerFacts> FactsReader::readLayer(int64_t layer) {
  LayerFacts facts;
  std::string prefix = "model.layers." + std::to_string(layer) + ".";
  auto readNorm = [&](const char *module, int64_t width, std::string_view why) {
    return inventory.requirePlain(prefix + module + ".weight", {width}, why);
  };
  facts.inputNorm = readNorm("input_layernorm", config.hidden, "(hidden_size)");
  facts.postNorm =
      readNorm("post_attention_layernorm", config.hidden, "(hidden_size)");
  if (config.qkNorm) {
    facts.qNorm = readNorm("self_attn.q_norm", config.headDim, "(head_dim)");
    facts.kNorm = readNorm("self_attn.k_norm", config.headDim, "(head_dim)");
  }
  OCTET_TRY(readLayerLinears(prefix, facts));
  readKvScales(prefix + "self_attn", facts);
  facts.window = config.windows[size_t(layer)];
  if (const TensorInfo *norm =
          inventory.find(prefix + "input_layernorm.weight"))
    facts.file = inventory.getFile(*norm);
  // Older files store what follows from the config.
  if (const TensorInfo *table =
          inventory.find(prefix + "self_attn.rotary_emb.inv_freq"))
    inventory.consume(*table);
  return facts;
}

Result<LinearFacts>
FactsReader::readLmHead(const std::optional<StoredTensor> &embedding) {
  LinearFacts facts;
  if (!config.tied) {
    if (!inventory.find("lm_head.weight"))
      return inputError("lm_head",
                        "no tensor 'lm_head.weight', and config.json says that "
                        "the embedding is not tied; the tensor, or "
                        "tie_word_embeddings true",
                        "W15");
    OCTET_TRY(readLinear("", "lm_head", "", config.vocab, config.hidden,
                         "(vocab_size x hidden_size)", Bias::No, facts));
    return facts;
  }
  facts.module = "model.embed_tokens";
  facts.n = config.vocab;
  facts.k = config.hidden;
  if (embedding)
    facts.tensors["weight"] = *embedding;
  // The embedding is never quantised, so an entry for its second use only
  // counts as matched.
  if (quant) {
    OCTET_TRY_ASSIGN(std::string word,
                     declareModule(*quant, "lm_head", "", false));
    (void)word;
  }
  return facts;
}

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

static void addKey(std::string &key,
                   const std::optional<StoredTensor> &tensor) {
  key += tensor ? tensor->describe() : "-";
  key += ';';
}

static void addKey(std::string &key, const StoredTensors &tensors) {
  for (const auto &[name, tensor] : tensors)
    key += name + "=" + tensor.describe() + ",";
  key += ';';
}

static void addKey(std::string &key, const LinearFacts &facts) {
  addKey(key, facts.tensors);
  addKey(key, facts.bias);
  key += facts.declared.starts_with("ignored") ? "ignored" : facts.declared;
  key += ';';
}

std::string LayerFacts::getKey() const {
  std::string key = std::to_string(window) + ";";
  for (const auto *norm : {&inputNorm, &postNorm, &qNorm, &kNorm})
    addKey(key, *norm);
  for (const auto *linear : {&q, &k, &v, &o, &gate, &up, &down})
    addKey(key, *linear);
  addKey(key, kvScales);
  return key;
}

Result<LayerFacts> octet::readLayerFacts(const DecoderConfig &config,
                                         int64_t layer, QuantConfig *quant,
                                         Inventory &inventory) {
  return FactsReader(config, quant, inventory).readLayer(layer);
}

static std::optional<StoredTensor> readEmbedding(const DecoderConfig &config,
                                                 Inventory &inventory) {
  return inventory.requirePlain("model.embed_tokens.weight",
                                {config.vocab, config.hidden},
                                "(vocab_size x hidden_size)");
}

Result<LinearFacts> octet::readLmHeadFacts(const DecoderConfig &config,
                                           QuantConfig *quant,
                                           Inventory &inventory) {
  std::optional<StoredTensor> embedding;
  if (config.tied)
    embedding = readEmbedding(config, inventory);
  return FactsReader(config, quant, inventory).readLmHead(embedding);
}

Result<ModelFacts> octet::readModelFacts(const DecoderConfig &config,
                                         QuantConfig *quant,
                                         Inventory &inventory) {
  FactsReader reader(config, quant, inventory);
  ModelFacts facts;
  facts.embedding = readEmbedding(config, inventory);
  facts.norm = inventory.requirePlain("model.norm.weight", {config.hidden},
                                      "(hidden_size)");
  OCTET_TRY_ASSIGN(facts.lmHead, reader.readLmHead(facts.embedding));
  for (auto [name, file] :
       {std::pair("model.embed_tokens.weight", &facts.embeddingFile),
        std::pair("model.norm.weight", &facts.normFile)})
    if (const TensorInfo *tensor = inventory.find(name))
      *file = inventory.getFile(*tensor);

  std::map<std::string, size_t> kindOf;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    OCTET_TRY_ASSIGN(LayerFacts read, reader.readLayer(layer));
    if (inventory.isHopeless())
      break;
    auto [at, isNew] = kindOf.try_emplace(read.getKey(), facts.kinds.size());
    size_t kind = at->second;
    if (isNew)
      facts.kinds.push_back(std::move(read));
    if (!facts.runs.empty() && facts.runs.back().kind == kind)
      ++facts.runs.back().count;
    else
      facts.runs.push_back({layer, 1, kind});
  }
  return facts;
}
