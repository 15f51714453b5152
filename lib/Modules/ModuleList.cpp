//===- ModuleList.cpp - From a shape to a list of modules ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Modules/ModuleList.h"
#include "DecoderShape.h"
#include "octet/Support/Escape.h"
#include <array>

using namespace octet;

namespace {

struct Family {
  std::string_view name;
  ShapeReader read;
};
struct Unsupported {
  std::string_view name, part;
};

constexpr std::array kFamilies = {
#define OCTET_FAMILY(NAME, READER) Family{NAME, READER},
#define OCTET_UNSUPPORTED(NAME, PART)
#include "Families.def"
};
constexpr std::array kUnsupported = {
#define OCTET_FAMILY(NAME, READER)
#define OCTET_UNSUPPORTED(NAME, PART) Unsupported{NAME, PART},
#include "Families.def"
};

/// GLM-5 lists modules under a name that no tensor has.
constexpr std::array kSparseAliases = {
    NameAlias{"indexers_proj", "indexer.weights_proj"}};

/// Appends the modules of a decoder.
class Lister {
public:
  Lister(const DecoderShape &shape, ModuleList &list)
      : shape(shape), list(list) {}

  void run();

private:
  ModuleEntry &add(std::string name, ModuleKind kind, int64_t n, int64_t k);
  ModuleEntry &addLinear(std::string name, int64_t n, int64_t k, Split split,
                         Bias bias = Bias::No, std::string fused = "");
  void addNorm(std::string name, int64_t width);
  void addLayer(int64_t layer);
  void addAttention(const HeadAttention &attention);
  void addLatent(const LatentAttention &latent, int64_t layer);
  void addIndexer(const Indexer &indexer, int64_t rank);
  void addMlp(std::string name, int64_t width, Bias bias);
  void addExperts(const Experts &experts);
  void addPackedExperts(const Experts &experts);
  void addDraft();

  const DecoderShape &shape;
  ModuleList &list;
  std::string prefix; ///< of the layer, "model.layers.3."
  bool isDraft = false;
};

} // namespace

ModuleEntry &Lister::add(std::string name, ModuleKind kind, int64_t n,
                         int64_t k) {
  ModuleEntry &entry = list.modules.emplace_back();
  entry.path = prefix + name;
  entry.kind = kind;
  entry.n = n;
  entry.k = k;
  entry.isDraft = isDraft;
  return entry;
}

ModuleEntry &Lister::addLinear(std::string name, int64_t n, int64_t k,
                               Split split, Bias bias, std::string fused) {
  ModuleEntry &entry = add(std::move(name), ModuleKind::Linear, n, k);
  entry.split = split;
  entry.bias = bias;
  if (!fused.empty())
    entry.fused = prefix + fused;
  return entry;
}

void Lister::addNorm(std::string name, int64_t width) {
  add(std::move(name), ModuleKind::Norm, width, 0);
}

void Lister::addAttention(const HeadAttention &attention) {
  const int64_t hidden = shape.hidden;
  const int64_t width = attention.heads * attention.headDim;
  const int64_t kvWidth = attention.kvHeads * attention.headDim;
  ModuleEntry &entry = add("self_attn", ModuleKind::Attention, 0, 0);
  entry.heads = attention.kvHeads;
  if (attention.sinks)
    entry.others.push_back({"sinks", {attention.heads}});
  const char *fused = "self_attn.qkv_proj";
  addLinear("self_attn.q_proj", width, hidden, Split::Columns,
            attention.qkvBias, fused)
      .heads = attention.heads;
  for (const char *name : {"self_attn.k_proj", "self_attn.v_proj"})
    addLinear(name, kvWidth, hidden, Split::Columns, attention.qkvBias, fused)
        .heads = attention.kvHeads;
  addLinear("self_attn.o_proj", hidden, width, Split::Rows,
            attention.outputBias)
      .heads = attention.heads;
  if (!attention.qkNorm)
    return;
  addNorm("self_attn.q_norm", attention.headDim);
  addNorm("self_attn.k_norm", attention.headDim);
}

void Lister::addIndexer(const Indexer &indexer, int64_t rank) {
  addLinear("self_attn.indexer.wq_b", indexer.heads * indexer.dim, rank,
            Split::Replicated);
  addLinear("self_attn.indexer.wk", indexer.dim, shape.hidden,
            Split::Replicated);
  // Head weights decide the top-k and stay as they are (P9).
  add("self_attn.indexer.weights_proj", ModuleKind::Other, indexer.heads,
      shape.hidden);
  addNorm("self_attn.indexer.k_norm", indexer.dim);
  list.modules.back().bias = Bias::Yes; // a LayerNorm
}

void Lister::addLatent(const LatentAttention &latent, int64_t layer) {
  const int64_t hidden = shape.hidden;
  const int64_t queryDim = latent.nopeDim + latent.ropeDim;
  const char *fused = "self_attn.fused_qkv_a_proj_with_mqa";
  add("self_attn", ModuleKind::Attention, 0, 0).heads = latent.heads;
  if (latent.qRank > 0) {
    addLinear("self_attn.q_a_proj", latent.qRank, hidden, Split::Replicated,
              latent.bias, fused);
    addNorm("self_attn.q_a_layernorm", latent.qRank);
    addLinear("self_attn.q_b_proj", latent.heads * queryDim, latent.qRank,
              Split::Columns)
        .heads = latent.heads;
  } else {
    addLinear("self_attn.q_proj", latent.heads * queryDim, hidden,
              Split::Columns)
        .heads = latent.heads;
    fused = "";
  }
  addLinear("self_attn.kv_a_proj_with_mqa", latent.kvRank + latent.ropeDim,
            hidden, Split::Replicated, latent.bias, fused);
  addNorm("self_attn.kv_a_layernorm", latent.kvRank);
  addLinear("self_attn.kv_b_proj",
            latent.heads * (latent.nopeDim + latent.valueDim), latent.kvRank,
            Split::Columns)
      .heads = latent.heads;
  addLinear("self_attn.o_proj", hidden, latent.heads * latent.valueDim,
            Split::Rows, latent.bias)
      .heads = latent.heads;
  if (shape.indexer && shape.indexer->owns[size_t(layer)])
    addIndexer(*shape.indexer, latent.qRank);
}

void Lister::addMlp(std::string name, int64_t width, Bias bias) {
  for (const char *each : {".gate_proj", ".up_proj"})
    addLinear(name + each, width, shape.hidden, Split::Columns, bias,
              name + ".gate_up_proj");
  addLinear(name + ".down_proj", shape.hidden, width, Split::Rows, bias);
}

/// Gate and up alternate by rows in one matrix.
void Lister::addPackedExperts(const Experts &experts) {
  std::string stem = std::string(experts.block) + ".experts.";
  for (auto [name, n, k, split] :
       {std::tuple("gate_up_proj", 2 * experts.width, shape.hidden,
                   Split::Columns),
        std::tuple("down_proj", shape.hidden, experts.width, Split::Rows)}) {
    ModuleEntry &entry = add(stem + name, ModuleKind::RoutedExpert, n, k);
    entry.experts = experts.count;
    entry.packed = true;
    entry.split = split;
    entry.others.push_back({"_bias", {experts.count, n}});
  }
}

void Lister::addExperts(const Experts &experts) {
  std::string block(experts.block);
  ModuleEntry &router = add(block + "." + std::string(experts.router),
                            ModuleKind::Router, experts.count, shape.hidden);
  router.bias = experts.packed ? Bias::Yes : Bias::No;
  if (experts.correction)
    router.others.push_back({"e_score_correction_bias",
                             {experts.count},
                             /*isFloat32=*/true});
  if (experts.packed) {
    addPackedExperts(experts);
    return;
  }
  std::string stem = block + ".experts.{e}.";
  std::string fused = stem + std::string(experts.fused);
  auto addExpert = [&](std::string_view name, int64_t n, int64_t k, Split split,
                       const std::string &whole) {
    ModuleEntry &entry =
        addLinear(stem + std::string(name), n, k, split, Bias::No, whole);
    entry.kind = ModuleKind::RoutedExpert;
    entry.experts = experts.count;
  };
  addExpert(experts.gate, experts.width, shape.hidden, Split::Columns, fused);
  addExpert(experts.up, experts.width, shape.hidden, Split::Columns, fused);
  addExpert(experts.down, shape.hidden, experts.width, Split::Rows, "");
  if (experts.sharedWidth > 0)
    addMlp(block + ".shared_experts", experts.sharedWidth, Bias::No);
}

/// What a draft layer has around its decoder layer (W14).
void Lister::addDraft() {
  addNorm("enorm", shape.hidden);
  addNorm("hnorm", shape.hidden);
  add("eh_proj", ModuleKind::Other, shape.hidden, 2 * shape.hidden);
  addNorm("shared_head.norm", shape.hidden);
  // Copies of the model's own, which some checkpoints leave out.
  add("embed_tokens", ModuleKind::Embedding, shape.vocab, shape.hidden)
      .isOptional = true;
  add("shared_head.head", ModuleKind::Other, shape.vocab, shape.hidden)
      .isOptional = true;
}

void Lister::addLayer(int64_t layer) {
  prefix = list.prefix + "model.layers." + std::to_string(layer) + ".";
  isDraft = layer >= shape.layers;
  if (isDraft)
    addDraft();
  addNorm("input_layernorm", shape.hidden);
  if (shape.latent)
    addLatent(*shape.latent, layer);
  else
    addAttention(*shape.attention);
  addNorm("post_attention_layernorm", shape.hidden);
  if (shape.experts && shape.experts->sparse[size_t(layer)])
    addExperts(*shape.experts);
  else
    addMlp("mlp", shape.intermediate, shape.mlpBias);
}

void Lister::run() {
  prefix = list.prefix;
  add("model.embed_tokens", ModuleKind::Embedding, shape.vocab, shape.hidden)
      .split = Split::Vocabulary;
  for (int64_t layer = 0; layer < shape.layers + shape.drafts; ++layer)
    addLayer(layer);
  prefix = list.prefix;
  isDraft = false;
  addNorm("model.norm", shape.hidden);
  if (shape.tied)
    return;
  add("lm_head", ModuleKind::LmHead, shape.vocab, shape.hidden).split =
      Split::Vocabulary;
}

//===----------------------------------------------------------------------===//
// The architecture
//===----------------------------------------------------------------------===//

/// The first name of `architectures`.
static Result<std::string> readName(ConfigReader &config) {
  const nlohmann::json *names = config.find("architectures");
  if (!names || !names->is_array() || names->empty() ||
      !(*names)[0].is_string())
    return inputError(config.getSubject(),
                      config.describe("architectures") +
                          "; expected a list with the name of one");
  return (*names)[0].get<std::string>();
}

static Result<const Family *> findFamily(const ConfigReader &config,
                                         const std::string &name) {
  std::string known;
  for (const Family &family : kFamilies) {
    if (family.name == name)
      return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  for (const Unsupported &each : kUnsupported)
    if (each.name == name)
      return inputError(config.getSubject(),
                        "architecture " + quoteName(name) + " has " +
                            std::string(each.part) +
                            ", which is not supported; supported are " + known);
  return inputError(config.getSubject(), "unknown architecture " +
                                             quoteName(name) + "; known are " +
                                             known);
}

/// A wrapper's text model, whose tensors stand below `language_model.`.
static Result<std::optional<ConfigReader>>
findTextPart(ConfigReader &config, const std::string &name, bool textPart) {
  for (const Unsupported &each : kUnsupported)
    if (each.name == name)
      return std::optional<ConfigReader>();
  OCTET_TRY_ASSIGN(std::optional<ConfigReader> text,
                   config.findObject("text_config"));
  if (!text || !config.contains("vision_config"))
    return std::optional<ConfigReader>();
  OCTET_TRY_ASSIGN(std::string textName, readName(*text));
  if (!textPart)
    return inputError(config.getSubject(),
                      "architecture " + quoteName(name) +
                          " has a vision part (vision_config), which is not "
                          "supported; its text part is " +
                          quoteName(textName));
  return text;
}

Result<ModuleList> octet::listModules(const nlohmann::json &json,
                                      bool textPart) {
  if (!json.is_object())
    return inputError("config.json",
                      "is " + describeJson(json) + ", expected an object");
  ConfigReader config(json, "config.json");
  ModuleList list;
  OCTET_TRY_ASSIGN(list.architecture, readName(config));
  OCTET_TRY_ASSIGN(std::optional<ConfigReader> text,
                   findTextPart(config, list.architecture, textPart));
  if (text) {
    OCTET_TRY_ASSIGN(list.architecture, readName(*text));
    list.prefix = "language_model.";
  }
  ConfigReader &model = text ? *text : config;
  OCTET_TRY_ASSIGN(const Family *family, findFamily(model, list.architecture));
  OCTET_TRY_ASSIGN(DecoderShape shape, family->read(model));
  list.layers = shape.layers;
  list.draftLayers = shape.drafts;
  list.tied = shape.tied;
  if (shape.indexer)
    list.aliases.assign(kSparseAliases.begin(), kSparseAliases.end());
  Lister(shape, list).run();
  return list;
}

Status octet::checkExperts(const ModuleList &list,
                           const std::optional<QuantConfig> &config) {
  if (!config || !config->expertsOnly || config->serialized)
    return Status::success();
  for (const ModuleEntry &module : list.modules)
    if (module.kind == ModuleKind::RoutedExpert)
      return Status::success();
  return inputError("--quantization " + config->method,
                    "quantises routed experts only, and " + list.architecture +
                        " with this config.json has none; 'fp8' quantises "
                        "linears while loading",
                    "C12");
}

Status octet::checkDrafts(const ModuleList &list, int64_t drafts) {
  if (drafts <= list.draftLayers)
    return Status::success();
  std::string count = std::to_string(list.draftLayers);
  return inputError(
      "--mtp " + std::to_string(drafts),
      "config.json has " + count +
          (list.draftLayers == 1 ? " draft layer" : " draft layers") +
          " (num_nextn_predict_layers); " +
          (list.draftLayers == 0 ? "0 works" : "0 to " + count + " work"),
      "W14");
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static std::string replaceExpert(std::string path, int64_t expert) {
  constexpr std::string_view kPlace = "{e}";
  size_t at = path.find(kPlace);
  if (at != std::string::npos)
    path.replace(at, kPlace.size(), std::to_string(expert));
  return path;
}

std::string ModuleEntry::getPath(int64_t expert) const {
  return replaceExpert(path, expert);
}

std::string ImpliedTensor::getName(const std::string &name,
                                   int64_t expert) const {
  std::string whole = replaceExpert(path, expert);
  if (!name.empty() && !name.starts_with('_'))
    whole += '.';
  return whole + name;
}

std::vector<ImpliedTensor>
octet::implyTensors(const ModuleEntry &module, std::string_view method,
                    const std::optional<Scheme> &scheme) {
  const std::vector<StoredType> plain = {StoredType::BF16, StoredType::F16,
                                         StoredType::F32};
  const int64_t numPaths = module.packed ? 0 : module.experts;
  std::vector<ImpliedTensor> tensors;
  auto add = [&](ExpectedTensor expected) {
    tensors.push_back(
        {module.path, std::move(expected), numPaths, module.isOptional});
  };
  auto addPlain = [&](std::string name, std::vector<int64_t> shape,
                      bool required = true) {
    add({{std::move(name)}, plain, {std::move(shape)}, required, ""});
  };
  if (scheme)
    for (ExpectedTensor &expected :
         expectTensors(method, *scheme, module.n, module.k,
                       module.packed ? module.experts : 0))
      add(std::move(expected));
  else if (module.n > 0 && module.packed)
    // Unquantised experts in one tensor are transposed: [E, K, N].
    addPlain("", {module.experts, module.k, module.n});
  else if (module.n > 0 && module.k > 0)
    addPlain("weight", {module.n, module.k});
  else if (module.n > 0)
    addPlain("weight", {module.n});
  if (module.bias != Bias::No)
    addPlain("bias", {module.n}, module.bias == Bias::Yes);
  for (const PlainTensor &other : module.others) {
    ExpectedTensor expected{{other.name}, plain, {other.shape}, true, ""};
    if (other.isFloat32)
      expected.types = {StoredType::F32, StoredType::BF16, StoredType::F16};
    add(std::move(expected));
  }
  return tensors;
}
