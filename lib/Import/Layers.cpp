//===- Layers.cpp - What each layer of a checkpoint stores ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Layers.h"
#include "lib/Modules/MissingHead.h"
#include "lib/Modules/SizeReasons.h"
#include "lib/QuantMethods/Resolve.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <array>
#include <set>

using namespace octet;

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// Names that methods have for a weight's codes.
static constexpr std::array<std::string_view, 4> kCodes = {
    "weight", "qweight", "weight_packed", "_blocks"};

std::string_view StoredModule::getCodes() const {
  for (std::string_view name : kCodes)
    if (tensors.contains(name))
      return name;
  return "";
}

const StoredModule *LayerFacts::find(std::string_view name) const {
  for (const StoredModule &module : modules)
    if (module.module == name)
      return &module;
  return nullptr;
}

const StoredModule &LayerFacts::get(std::string_view name) const {
  const StoredModule *module = find(name);
  assert(module && "the architecture's list has this module");
  return *module;
}

const StoredModule *LayerFacts::findRouter() const {
  for (const StoredModule &module : modules)
    if (module.kind == ModuleKind::Router)
      return &module;
  return nullptr;
}

std::vector<const StoredModule *> LayerFacts::getExperts() const {
  std::vector<const StoredModule *> experts;
  for (const StoredModule &module : modules)
    if (module.kind == ModuleKind::RoutedExpert)
      experts.push_back(&module);
  return experts;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// Reads the modules of one layer, or of the whole model with an empty prefix.
class FactsReader {
public:
  FactsReader(const DecoderConfig &config, QuantConfig *quant,
              Inventory &inventory)
      : config(config), quant(quant), inventory(inventory) {}

  Result<LayerFacts> readLayer(const ModuleList &list, int64_t layer);
  Result<StoredModule> readLmHead(const std::optional<StoredTensor> &embedding);

private:
  Status readModule(const ModuleEntry &entry, const std::string &prefix,
                    LayerFacts &facts);
  Status readExperts(const ModuleEntry &entry, StoredModule &facts);
  Status readPacked(const ModuleEntry &entry, StoredModule &facts);
  Status readPlain(const ModuleEntry &entry, StoredModule &facts);
  /// A linear [n, k] at `path` with the tensors that its module holds.
  Status readLinear(const ModuleEntry &entry, const std::string &path,
                    StoredModule &facts);
  Status readBias(const std::string &path, Bias bias, const TensorInfo *stored,
                  StoredModule &facts);
  Status declare(const std::string &path, const std::string &fused,
                 StoredModule &facts);
  void readKvScales(const std::string &attention, LayerFacts &facts);
  const std::set<std::string, std::less<>> &getMethodNames();

  const DecoderConfig &config;
  QuantConfig *quant;
  Inventory &inventory;
  std::optional<std::set<std::string, std::less<>>> methodNames;
};

} // namespace

static std::string describeShape(int64_t n, int64_t k) {
  return "[" + std::to_string(n) + ", " + std::to_string(k) + "]";
}

/// The names of the tensors that the config's schemes have beside the usual.
const std::set<std::string, std::less<>> &FactsReader::getMethodNames() {
  if (methodNames)
    return *methodNames;
  methodNames.emplace();
  auto add = [&](const Scheme &scheme) {
    constexpr int64_t kAnySide = 1024;
    for (const ExpectedTensor &tensor :
         expectTensors(quant->method, scheme, kAnySide, kAnySide))
      methodNames->insert(tensor.names.begin(), tensor.names.end());
  };
  if (quant && quant->scheme)
    add(*quant->scheme);
  if (quant)
    for (const SchemeGroup &group : quant->groups)
      add(group.scheme);
  return *methodNames;
}

Status FactsReader::readBias(const std::string &path, Bias bias,
                             const TensorInfo *stored, StoredModule &facts) {
  if (!stored && bias != Bias::Yes)
    return Status::success();
  if (stored && bias == Bias::No)
    return inputError(escapePath(inventory.getFile(*stored)),
                      "has tensor " + quoteName(stored->name) + " " +
                          stored->describe() +
                          ", and config.json says that there is no bias; one "
                          "of the two",
                      "C13");
  facts.bias = inventory.requirePlain(path + ".bias", {facts.n},
                                      "(the bias of its linear)");
  return Status::success();
}

Status FactsReader::declare(const std::string &path, const std::string &fused,
                            StoredModule &facts) {
  if (!quant)
    return Status::success();
  OCTET_TRY_ASSIGN(facts.declared,
                   declareModule(*quant, path, fused,
                                 !fused.empty() && inventory.hasModule(fused)));
  return Status::success();
}

Status FactsReader::readLinear(const ModuleEntry &entry,
                               const std::string &path, StoredModule &facts) {
  std::string_view why = explainSize(facts.module, config.latent.has_value());
  const TensorInfo *storedBias = nullptr;
  for (const auto &[name, tensor] : inventory.getBelow(path)) {
    // Deeper modules, and scales of the cache that stand below a projection.
    if (name.find('.') != std::string::npos || name == "k_scale" ||
        name == "v_scale" || name == "kv_scale" || name == "output_scale")
      continue;
    // DeepSeek-V4 has `.scale` (W2).
    if (isKnownLinearTensor(name) || name == "scale" ||
        getMethodNames().contains(name))
      inventory.consume(*tensor);
    if (name == "bias") {
      storedBias = tensor;
      continue;
    }
    facts.tensors[name] = inventory.describe(*tensor);
    if (name == "weight")
      facts.file = inventory.getFile(*tensor);
    // Codes that share a byte have a shape of their own.
    bool packs = tensor->type == StoredType::U8 && getMethodNames().size() > 0;
    if (name == "weight" && quant) {
      ModuleFacts sides;
      sides.isExpert = entry.kind == ModuleKind::RoutedExpert;
      sides.n = entry.n;
      sides.k = entry.k;
      StoredTensor stored;
      stored.type = tensor->type;
      stored.shape = tensor->shape;
      packs |= isPackedExpert(&*quant, sides, stored);
    }
    // Words of another dtype would be read as they are not.
    if (quant && quant->scheme && name == facts.getCodes() && name != "weight")
      for (const ExpectedTensor &codes :
           expectTensors(quant->method, *quant->scheme, entry.n, entry.k))
        if (codes.names[0] == name &&
            std::ranges::count(codes.types, tensor->type) == 0)
          inventory.addMismatch(*tensor, codes.describe());
    if (name == "weight" && !packs &&
        tensor->shape != std::vector<int64_t>{entry.n, entry.k})
      inventory.addMismatch(*tensor, describeShape(entry.n, entry.k) + " " +
                                         std::string(why));
  }
  if (facts.getCodes().empty())
    inventory.addMissing(path + ".weight", {entry.n, entry.k}, why);
  OCTET_TRY(readBias(path, entry.bias, storedBias, facts));
  return declare(path, entry.fused, facts);
}

/// Every expert has to store what the first one does: they are one operator.
Status FactsReader::readExperts(const ModuleEntry &entry, StoredModule &facts) {
  ModuleEntry one = entry;
  for (int64_t expert = 0; expert < entry.experts; ++expert) {
    std::string path = entry.getPath(expert);
    one.fused = entry.fused;
    if (size_t at = one.fused.find("{e}"); at != std::string::npos)
      one.fused.replace(at, 3, std::to_string(expert));
    StoredModule read = facts;
    if (expert > 0) {
      read.tensors.clear();
      read.bias.reset();
      read.declared.clear();
    }
    OCTET_TRY(readLinear(one, path, read));
    if (expert == 0) {
      facts = std::move(read);
      continue;
    }
    if (inventory.isHopeless())
      return Status::success();
    if (read.tensors != facts.tensors)
      inventory.addDifference(path, entry.getPath(0));
    auto isIgnored = [](const StoredModule &module) {
      return module.declared.starts_with("ignored");
    };
    if (isIgnored(read) != isIgnored(facts) ||
        (!isIgnored(read) && read.declared != facts.declared))
      return inputError(path,
                        "is " +
                            (read.declared.empty() ? "in no list of the config"
                                                   : read.declared) +
                            ", expert 0 is " +
                            (facts.declared.empty() ? "in no list of the config"
                                                    : facts.declared) +
                            "; the experts of a layer are quantised alike",
                        "C8");
  }
  return Status::success();
}

/// All experts of a layer in one tensor of codes and one of scales.
Status FactsReader::readPacked(const ModuleEntry &entry, StoredModule &facts) {
  OCTET_TRY(declare(entry.path, "", facts));
  std::optional<Scheme> scheme;
  if (quant) {
    OCTET_TRY_ASSIGN(Declaration declaration,
                     declareKind(*quant, entry.path, "", entry.kind));
    scheme = declaration.scheme;
  }
  if (!scheme && inventory.find(entry.path))
    return inputError(entry.path,
                      "is unquantised; experts that stand transposed in one "
                      "tensor are not built yet, 'mxfp4' runs",
                      "C11");
  for (const ImpliedTensor &implied :
       implyTensors(entry, quant ? quant->method : "", scheme)) {
    const ExpectedTensor &expected = implied.expected;
    std::string name = implied.getName(expected.names[0], 0);
    const TensorInfo *tensor = inventory.find(name);
    if (!tensor) {
      if (expected.required)
        inventory.addMissing(name, expected.shapes[0], "(by config.json)");
      continue;
    }
    inventory.consume(*tensor);
    bool fits = std::ranges::count(expected.types, tensor->type) > 0 &&
                std::ranges::count(expected.shapes, tensor->shape) > 0;
    if (!fits)
      inventory.addMismatch(*tensor, expected.describe());
    facts.tensors[expected.names[0]] = inventory.describe(*tensor);
    facts.file = inventory.getFile(*tensor);
  }
  return Status::success();
}

/// Norms, routers and what else is never quantised.
Status FactsReader::readPlain(const ModuleEntry &entry, StoredModule &facts) {
  std::string_view why = explainSize(facts.module, config.latent.has_value());
  auto require = [&](const std::string &name,
                     const std::vector<int64_t> &shape) {
    if (auto tensor =
            inventory.requirePlain(entry.path + "." + name, shape, why))
      facts.tensors[name] = *tensor;
    if (const TensorInfo *tensor = inventory.find(entry.path + "." + name))
      facts.file = inventory.getFile(*tensor);
  };
  if (entry.n > 0 && entry.k > 0)
    require("weight", {entry.n, entry.k});
  else if (entry.n > 0)
    require("weight", {entry.n});
  if (entry.bias == Bias::Yes)
    require("bias", {entry.n});
  for (const PlainTensor &other : entry.others)
    require(other.name, other.shape);
  return Status::success();
}

void FactsReader::readKvScales(const std::string &attention,
                               LayerFacts &facts) {
  for (const auto &[name, tensor] : inventory.getBelow(attention)) {
    if (!isKvScaleName(name))
      continue;
    inventory.consume(*tensor);
    // What is wrong with them matters where the cache is FP8 (W2).
    facts.kvScales[name] = {tensor->type, tensor->shape};
  }
}

Status FactsReader::readModule(const ModuleEntry &entry,
                               const std::string &prefix, LayerFacts &facts) {
  StoredModule &module = facts.modules.emplace_back();
  module.module = entry.path.substr(prefix.size());
  if (!entry.fused.empty())
    module.fused = entry.fused.substr(prefix.size());
  module.kind = entry.kind;
  module.n = entry.n;
  module.k = entry.k;
  module.experts = entry.experts;
  module.packed = entry.packed;
  if (entry.packed)
    return readPacked(entry, module);
  if (entry.isOptional && !inventory.hasModule(entry.path)) {
    facts.modules.pop_back();
    return Status::success();
  }
  switch (entry.kind) {
  case ModuleKind::RoutedExpert:
    return readExperts(entry, module);
  case ModuleKind::Linear:
    return readLinear(entry, entry.path, module);
  case ModuleKind::Attention:
    readKvScales(entry.path, facts);
    return readPlain(entry, module);
  default:
    return readPlain(entry, module);
  }
}

Result<LayerFacts> FactsReader::readLayer(const ModuleList &list,
                                          int64_t layer) {
  LayerFacts facts;
  std::string prefix = "model.layers." + std::to_string(layer) + ".";
  std::span<const ModuleEntry> entries = findLayer(list, layer);
  facts.modules.reserve(entries.size());
  for (const ModuleEntry &entry : entries) {
    if (inventory.isHopeless())
      break;
    OCTET_TRY(readModule(entry, prefix, facts));
  }
  // A draft layer sees all keys.
  facts.window = layer < config.layers ? config.windows[size_t(layer)] : 0;
  if (const TensorInfo *norm =
          inventory.find(prefix + "input_layernorm.weight"))
    facts.file = inventory.getFile(*norm);
  // Older files store what follows from the config.
  if (const TensorInfo *table =
          inventory.find(prefix + "self_attn.rotary_emb.inv_freq"))
    inventory.consume(*table);
  return facts;
}

Result<StoredModule>
FactsReader::readLmHead(const std::optional<StoredTensor> &embedding) {
  StoredModule facts;
  facts.module = config.tied ? "model.embed_tokens" : "lm_head";
  facts.kind = ModuleKind::LmHead;
  facts.n = config.vocab;
  facts.k = config.hidden;
  if (!config.tied) {
    if (!inventory.hasModule("lm_head")) // its codes have names of their own
      return Status(describeMissingHead());
    ModuleEntry entry;
    entry.n = facts.n;
    entry.k = facts.k;
    OCTET_TRY(readLinear(entry, "lm_head", facts));
    return facts;
  }
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

static void addKey(std::string &key, const StoredTensors &tensors) {
  for (const auto &[name, tensor] : tensors)
    key += name + "=" + tensor.describe() + ",";
  key += ';';
}

std::string LayerFacts::getKey() const {
  std::string key = std::to_string(window) + ";";
  for (const StoredModule &module : modules) {
    key += module.module + ":";
    addKey(key, module.tensors);
    key += module.bias ? module.bias->describe() : "-";
    key += module.declared.starts_with("ignored") ? "ignored" : module.declared;
    key += ';';
  }
  addKey(key, kvScales);
  return key;
}

std::span<const ModuleEntry> octet::findLayer(const ModuleList &list,
                                              int64_t layer) {
  std::string prefix = "model.layers." + std::to_string(layer) + ".";
  auto isIn = [&](const ModuleEntry &entry) {
    return entry.path.starts_with(prefix);
  };
  auto first = std::ranges::find_if(list.modules, isIn);
  auto last = std::find_if_not(first, list.modules.end(), isIn);
  return {first, last};
}

Result<LayerFacts> octet::readLayerFacts(const DecoderConfig &config,
                                         const ModuleList &list, int64_t layer,
                                         QuantConfig *quant,
                                         Inventory &inventory) {
  return FactsReader(config, quant, inventory).readLayer(list, layer);
}

static std::optional<StoredTensor> readEmbedding(const DecoderConfig &config,
                                                 Inventory &inventory) {
  return inventory.requirePlain("model.embed_tokens.weight",
                                {config.vocab, config.hidden},
                                "(vocab_size x hidden_size)");
}

Result<StoredModule> octet::readLmHeadFacts(const DecoderConfig &config,
                                            QuantConfig *quant,
                                            Inventory &inventory) {
  std::optional<StoredTensor> embedding;
  if (config.tied)
    embedding = readEmbedding(config, inventory);
  return FactsReader(config, quant, inventory).readLmHead(embedding);
}

/// What a draft layer has around its decoder layer.
static bool isDraftModule(std::string_view name) {
  return name == "enorm" || name == "hnorm" || name == "eh_proj" ||
         name == "embed_tokens" || name.starts_with("shared_head.");
}

/// The draft layers asked for exist in config and files (W14).
static Status checkStoredDrafts(const ModuleList &list,
                                const Inventory &inventory, int64_t drafts) {
  OCTET_TRY(checkDrafts(list, drafts));
  std::string subject = "--mtp " + std::to_string(drafts);
  for (int64_t draft = 0; draft < drafts; ++draft) {
    std::string path = "model.layers." + std::to_string(list.layers + draft);
    if (!inventory.hasModule(path))
      return inputError(subject,
                        "the checkpoint stores no tensor of draft layer '" +
                            path + "'; " + std::to_string(draft) + " works",
                        "W14");
  }
  return Status::success();
}

Result<ModelFacts> octet::readModelFacts(const DecoderConfig &config,
                                         const ModuleList &list,
                                         QuantConfig *quant,
                                         Inventory &inventory, int64_t drafts) {
  OCTET_TRY(checkStoredDrafts(list, inventory, drafts));
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
  auto addKind = [&](LayerFacts read) {
    auto [at, isNew] = kindOf.try_emplace(read.getKey(), facts.kinds.size());
    if (isNew)
      facts.kinds.push_back(std::move(read));
    return at->second;
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    OCTET_TRY_ASSIGN(LayerFacts read, reader.readLayer(list, layer));
    if (inventory.isHopeless())
      break;
    size_t kind = addKind(std::move(read));
    if (!facts.runs.empty() && facts.runs.back().kind == kind)
      ++facts.runs.back().count;
    else
      facts.runs.push_back({layer, 1, kind});
  }
  for (int64_t layer = config.layers; layer < config.layers + drafts; ++layer) {
    OCTET_TRY_ASSIGN(LayerFacts read, reader.readLayer(list, layer));
    DraftFacts &draft = facts.drafts.emplace_back();
    draft.layer = layer;
    draft.modules.file = read.file;
    for (const StoredModule &module : read.modules)
      if (isDraftModule(module.module))
        draft.modules.modules.push_back(module);
    std::erase_if(read.modules, [](const StoredModule &module) {
      return isDraftModule(module.module);
    });
    draft.kind = addKind(std::move(read));
  }
  return facts;
}
