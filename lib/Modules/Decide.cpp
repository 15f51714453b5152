//===- Decide.cpp - Every module of a checkpoint decided ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Modules/Decide.h"
#include "DecoderShape.h"
#include "MissingHead.h"
#include "SizeReasons.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

using namespace octet;

namespace {

/// Most instances of one mistake that an error names (STYLE 7).
constexpr size_t kShown = 10;
/// Mistakes after which nobody looks for more.
constexpr size_t kHopeless = 1000;

/// Decides the modules of one checkpoint in the order of the list.
class Decider {
public:
  Decider(const TensorTable *table, const DecideOptions &options)
      : table(table), options(options) {
    if (table)
      consumed.resize(table->all().size());
  }

  Result<CheckpointDecisions> run(const nlohmann::json &config,
                                  const nlohmann::json &hfQuantConfig);

private:
  Status readConfig(const nlohmann::json &config,
                    const nlohmann::json &hfQuantConfig);
  bool hasDraft(const ModuleEntry &module) const;
  Status decideModule(size_t index);
  Status declare(const ModuleEntry &module, ModuleDecision &decision,
                 std::optional<Scheme> &scheme);
  Status resolve(const ModuleEntry &module, ModuleDecision &decision);
  Status resolveExpert(const ModuleEntry &module, int64_t expert,
                       ModuleDecision &decision);
  StoredTensors collect(const ModuleEntry &module, int64_t expert);
  void consume(const ModuleEntry &module, bool isFailed,
               const std::set<std::string, std::less<>> &known);
  Status checkPlain(const ModuleEntry &module, const StoredTensors &tensors);
  std::string describeSides(const ModuleEntry &module) const;
  void checkBias(const ModuleEntry &module, int64_t expert,
                 const StoredTensors &tensors);
  void checkOthers(const ModuleEntry &module, const StoredTensors &tensors);
  Status checkFused();
  Status checkShards(const std::string &fused,
                     const std::vector<ModuleDecision *> &shards);
  Status makeContracts();
  Status keep(Status status, ModuleDecision *decision = nullptr);
  Status takeProblems();
  /// Enough was found to stop looking: a config may count 2^31 experts.
  bool isHopeless() const {
    return problems.size() + result.errors.size() >= kHopeless;
  }
  Status reportNames();
  void reportTensors();

  const TensorTable *table;
  const DecideOptions &options;
  CheckpointDecisions result;
  std::vector<bool> consumed; ///< by index in the table
  /// Of the tensors that `collect` found: name in the module, index.
  std::vector<std::pair<std::string, size_t>> indexes;
  std::vector<ErrorInfo> problems;
};

bool isPlain(StoredType type) {
  return type == StoredType::BF16 || type == StoredType::F16 ||
         type == StoredType::F32;
}

/// Who is asked for a method (C11).
bool asksMethod(ModuleKind kind) {
  return kind == ModuleKind::Linear || kind == ModuleKind::RoutedExpert ||
         kind == ModuleKind::LmHead;
}

std::string_view lastComponent(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == path.npos ? path : path.substr(dot + 1);
}

ErrorInfo makeInfo(std::string subject, std::string message, std::string rule) {
  ErrorInfo info;
  info.subject = std::move(subject);
  info.message = std::move(message);
  info.rule = std::move(rule);
  return info;
}

/// A scheme as a stored module would have it, for config.json alone.
ResolvedModule toResolved(const std::optional<QuantConfig> &config,
                          const std::optional<Scheme> &scheme) {
  ResolvedModule module;
  if (!scheme)
    return module;
  module.quantized = true;
  module.method = config->method;
  module.weight = scheme->weight;
  module.activation = scheme->activation;
  module.format = scheme->format;
  module.input = scheme->input;
  module.ue8m0 = config->ue8m0;
  module.whileLoading = !config->serialized;
  return module;
}

/// The tensors of a table whose names start with `prefix`.
std::span<const TensorInfo> findBelow(const TensorTable &table,
                                      std::string_view prefix) {
  std::span<const TensorInfo> all = table.all();
  auto begin =
      std::lower_bound(all.begin(), all.end(), prefix,
                       [](const TensorInfo &tensor, std::string_view name) {
                         return tensor.name < name;
                       });
  auto end = begin;
  while (end != all.end() && end->name.starts_with(prefix))
    ++end;
  return {begin, end};
}

} // namespace

const ModuleDecision *CheckpointDecisions::find(std::string_view path) const {
  for (const ModuleDecision &decision : modules)
    if (getModule(decision).path == path)
      return &decision;
  return nullptr;
}

Status Decider::readConfig(const nlohmann::json &config,
                           const nlohmann::json &hfQuantConfig) {
  OCTET_TRY_ASSIGN(result.list, listModules(config, options.textPart));
  OCTET_TRY_ASSIGN(std::optional<FoundConfig> found,
                   findQuantConfig(config, hfQuantConfig));
  OCTET_TRY_ASSIGN(result.config,
                   readQuantConfig(found ? &*found : nullptr,
                                   options.quantization, options.target,
                                   Purpose::Describe));
  OCTET_TRY(checkExperts(result.list, result.config));
  std::string method = result.config ? result.config->method : "unquantized";
  OCTET_TRY(checkMethodTarget(method, options.target, "--target",
                              options.query.mxfp8As));
  OCTET_TRY(checkMethodTarget(method, options.numerics, "--numerics",
                              options.query.mxfp8As));
  if (!result.config)
    return Status::success();
  for (NameList *names : result.config->getLists())
    names->addAliases(result.list.aliases);
  result.warnings = result.config->warnings;
  result.notes = result.config->remarks;
  return Status::success();
}

/// An error stops everything, or is collected.
Status Decider::keep(Status status, ModuleDecision *decision) {
  if (status.ok() || !options.collectErrors)
    return status;
  result.errors.push_back(status.takeInfo());
  if (decision)
    decision->failed = true;
  return Status::success();
}

/// The number of the layer that a path names, or -1.
static int64_t getLayer(std::string_view path, std::string_view prefix) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!path.starts_with(prefix) ||
      !path.substr(prefix.size()).starts_with(kLayers))
    return -1;
  path.remove_prefix(prefix.size() + kLayers.size());
  int64_t layer = -1;
  std::from_chars(path.data(), path.data() + path.size(), layer);
  return layer;
}

/// A checkpoint may come without the draft layers that its config counts, and
/// not all are asked for (W14).
bool Decider::hasDraft(const ModuleEntry &module) const {
  int64_t draft =
      getLayer(module.path, result.list.prefix) - result.list.layers;
  if (draft >= options.drafts || !table)
    return draft < options.drafts;
  constexpr std::string_view kLayers = "layers.";
  size_t at = module.path.find(kLayers) + kLayers.size();
  std::string prefix = module.path.substr(0, module.path.find('.', at) + 1);
  return !findBelow(*table, prefix).empty();
}

//===----------------------------------------------------------------------===//
// One module
//===----------------------------------------------------------------------===//

Status Decider::declare(const ModuleEntry &module, ModuleDecision &decision,
                        std::optional<Scheme> &scheme) {
  if (!result.config)
    return Status::success();
  bool fusedIsStored = table && !module.fused.empty() &&
                       !findBelow(*table, module.fused + ".").empty();
  OCTET_TRY_ASSIGN(Declaration declaration,
                   declareKind(*result.config, module.getPath(0), module.fused,
                               module.kind, fusedIsStored));
  decision.declared = std::move(declaration.declared);
  scheme = std::move(declaration.scheme);
  return Status::success();
}

/// The tensors of one module by the rest of their names. What stands below a
/// deeper module is not its own.
StoredTensors Decider::collect(const ModuleEntry &module, int64_t expert) {
  StoredTensors tensors;
  indexes.clear();
  std::string path = module.getPath(expert);
  for (const TensorInfo &tensor : findBelow(*table, path)) {
    std::string_view rest = std::string_view(tensor.name).substr(path.size());
    if (module.packed && (rest.empty() || rest.starts_with('_')))
      ; // goes on the module's own name
    else if (rest.starts_with('.'))
      rest.remove_prefix(1);
    else
      continue;
    bool isCacheScale =
        module.kind == ModuleKind::Attention && isKvScaleName(rest);
    // Scales of the cache below a projection are the attention's.
    bool isForeign = module.kind == ModuleKind::Linear &&
                     (rest == "k_scale" || rest == "v_scale" ||
                      rest == "kv_scale" || rest == "output_scale");
    if (isForeign || (rest.find('.') != rest.npos && !isCacheScale))
      continue;
    indexes.emplace_back(rest, size_t(&tensor - table->all().data()));
    StoredTensor stored;
    stored.type = tensor.type;
    stored.shape = tensor.shape;
    stored.packing = tensor.packing;
    stored.headRows = tensor.headRows;
    tensors[std::string(rest)] = std::move(stored);
  }
  return tensors;
}

/// Modules that are never quantised: each tensor is there, plain and of its
/// shape (C13, W13).
Status Decider::checkPlain(const ModuleEntry &module,
                           const StoredTensors &tensors) {
  for (const ImpliedTensor &implied :
       implyTensors(module, "unquantized", std::nullopt)) {
    const ExpectedTensor &expected = implied.expected;
    std::string name = implied.getName(expected.names.front(), 0);
    auto found = tensors.find(expected.names.front());
    if (found == tensors.end()) {
      if (expected.required && !module.isOptional)
        problems.push_back(makeInfo(module.path,
                                    "no tensor " + quoteName(name) +
                                        "; expected " + expected.describe(),
                                    "C13"));
      continue;
    }
    const StoredTensor &stored = found->second;
    if (!isPlain(stored.type))
      return inputError(module.path,
                        expected.names.front() + " is " + stored.describe() +
                            (module.kind == ModuleKind::Router
                                 ? "; a router is never quantised, expected "
                                   "BF16, F16 or F32"
                                 : "; expected BF16, F16 or F32, such modules "
                                   "are never quantised"),
                        module.kind == ModuleKind::Router ? "W13" : "C13");
    if (stored.shape != expected.shapes.front())
      problems.push_back(
          makeInfo(module.path,
                   expected.names.front() + " is " + stored.describe() +
                       "; config.json implies " + expected.describe(),
                   "C13"));
  }
  return Status::success();
}

void Decider::checkBias(const ModuleEntry &module, int64_t expert,
                        const StoredTensors &tensors) {
  auto found = tensors.find("bias");
  std::string path = module.getPath(expert);
  if (found == tensors.end()) {
    if (module.bias == Bias::Yes)
      problems.push_back(makeInfo(path,
                                  "no tensor 'bias', which config.json says "
                                  "is there",
                                  "C13"));
    return;
  }
  if (module.bias == Bias::No)
    problems.push_back(makeInfo(path,
                                "has a bias " + found->second.describe() +
                                    ", and config.json says that there is "
                                    "none; one of the two",
                                "C13"));
  else if (found->second.shape != std::vector<int64_t>{module.n} ||
           !isPlain(found->second.type))
    problems.push_back(makeInfo(path,
                                "bias is " + found->second.describe() +
                                    "; expected BF16 [" +
                                    std::to_string(module.n) + "]",
                                "C13"));
}

/// "[320, 256] (intermediate_size x hidden_size)".
std::string Decider::describeSides(const ModuleEntry &module) const {
  std::string_view name = module.path;
  name.remove_prefix(std::min(result.list.prefix.size(), name.size()));
  constexpr std::string_view kLayers = "model.layers.";
  if (name.starts_with(kLayers))
    if (size_t dot = name.find('.', kLayers.size()); dot != name.npos)
      name.remove_prefix(dot + 1);
  bool isLatent =
      std::ranges::any_of(result.list.modules, [](const ModuleEntry &each) {
        return std::string_view(each.path).ends_with(".kv_b_proj");
      });
  return "[" + std::to_string(module.n) + ", " + std::to_string(module.k) +
         "] " + std::string(explainSize(name, isLatent));
}

/// Plain tensors beside the codes of packed experts: their biases (C13).
void Decider::checkOthers(const ModuleEntry &module,
                          const StoredTensors &tensors) {
  for (const PlainTensor &other : module.others) {
    const StoredTensor expected{
        other.isFloat32 ? StoredType::F32 : StoredType::BF16, other.shape};
    const std::string name =
        module.path + (other.name.starts_with('_') ? "" : ".") + other.name;
    auto found = tensors.find(other.name);
    if (found == tensors.end())
      problems.push_back(makeInfo(module.path,
                                  "no tensor " + quoteName(name) +
                                      "; expected " + expected.describe(),
                                  "C13"));
    else if (!isPlain(found->second.type) || found->second.shape != other.shape)
      problems.push_back(
          makeInfo(module.path,
                   quoteName(name) + " is " + found->second.describe() +
                       "; config.json implies " + expected.describe(),
                   "C13"));
  }
}

Status Decider::resolveExpert(const ModuleEntry &module, int64_t expert,
                              ModuleDecision &decision) {
  ModuleFacts facts;
  facts.module = module.getPath(expert);
  facts.declared = decision.declared;
  facts.isLmHead = module.kind == ModuleKind::LmHead;
  facts.isExpert = module.kind == ModuleKind::RoutedExpert;
  facts.n = module.n;
  facts.k = module.k;
  facts.experts = module.packed ? module.experts : 0;
  facts.tensors = collect(module, expert);
  if (facts.tensors.empty()) {
    if (module.isOptional)
      return Status::success();
    if (facts.isLmHead)
      problems.push_back(describeMissingHead());
    else
      problems.push_back(makeInfo(facts.module,
                                  "has no tensors; config.json implies a "
                                  "weight " +
                                      describeSides(module),
                                  "C13"));
    return Status::success();
  }
  checkBias(module, expert, facts.tensors);
  // Experts that are stored alike are decided alike.
  if (expert > 0 && facts.tensors == decision.tensors)
    return Status::success();
  // Unquantised experts in one tensor have no `weight`.
  if (module.packed && facts.tensors.contains("")) {
    decision.tensors = std::move(facts.tensors);
    return checkPlain(module, decision.tensors);
  }
  auto weight = facts.tensors.find("weight");
  bool isMatrix = weight != facts.tensors.end() &&
                  (isPlain(weight->second.type) ||
                   weight->second.type == StoredType::F8_E4M3);
  if (isMatrix &&
      weight->second.shape != std::vector<int64_t>{module.n, module.k})
    return inputError(facts.module,
                      "weight is " + weight->second.describe() +
                          "; config.json implies " + describeSides(module),
                      "C13");
  Result<ResolvedModule> resolved =
      resolveModule(result.config ? &*result.config : nullptr, facts);
  // No method has an answer for what is not there (C11, C12).
  if (!resolved && !module.packed && weight == facts.tensors.end() &&
      (resolved.status().info().rule == "C11" ||
       resolved.status().info().rule == "C12")) {
    problems.push_back(
        makeInfo(facts.module,
                 "no tensor " + quoteName(facts.module + ".weight") +
                     "; config.json implies " + describeSides(module),
                 "C13"));
    return Status::success();
  }
  OCTET_TRY_ASSIGN(ResolvedModule method, std::move(resolved));
  if (module.packed)
    checkOthers(module, facts.tensors);
  for (ErrorInfo &note : method.notes)
    result.notes.push_back(std::move(note));
  method.notes.clear();
  if (expert == 0) {
    decision.method = std::move(method);
    decision.tensors = std::move(facts.tensors);
    return Status::success();
  }
  if (decision.failed)
    return Status::success();
  if (nameFormat(method) != nameFormat(decision.method) ||
      method.weight != decision.method.weight)
    return inputError(facts.module,
                      "is " + nameFormat(method) + " and expert 0 " +
                          nameFormat(decision.method) +
                          "; the experts of a layer have one format",
                      "C8");
  return Status::success();
}

/// The names that the module's tensors have, as it was decided.
static std::set<std::string, std::less<>>
getKnownNames(const ModuleEntry &module, const ResolvedModule &method) {
  std::set<std::string, std::less<>> known;
  std::optional<Scheme> scheme;
  if (method.quantized && !method.whileLoading) {
    scheme.emplace();
    scheme->weight = method.weight;
    scheme->activation = method.activation;
    scheme->format = method.format;
    scheme->input = method.input;
  }
  for (const ImpliedTensor &implied :
       implyTensors(module, method.method, scheme))
    known.insert(implied.expected.names.begin(), implied.expected.names.end());
  if (method.whileLoading && method.activation == Activation::Static)
    known.insert("input_scale");
  return known;
}

/// Marks what the module uses of the tensors collected last (W14). One that has
/// an error is told of that alone.
void Decider::consume(const ModuleEntry &module, bool isFailed,
                      const std::set<std::string, std::less<>> &known) {
  for (const auto &[name, index] : indexes)
    if (isFailed || known.contains(name) ||
        (asksMethod(module.kind) && isKnownLinearTensor(name)) ||
        (module.kind == ModuleKind::Attention && isKvScaleName(name)))
      consumed[index] = true;
}

Status Decider::resolve(const ModuleEntry &module, ModuleDecision &decision) {
  std::set<std::string, std::less<>> known;
  for (int64_t expert = 0; expert < module.count() && !isHopeless(); ++expert) {
    if (asksMethod(module.kind)) {
      OCTET_TRY(keep(resolveExpert(module, expert, decision), &decision));
    } else {
      decision.tensors = collect(module, 0);
      OCTET_TRY(checkPlain(module, decision.tensors));
    }
    if (expert == 0)
      known = getKnownNames(module, decision.method);
    consume(module, decision.failed, known);
  }
  return Status::success();
}

Status Decider::decideModule(size_t index) {
  const ModuleEntry &module = result.list.modules[index];
  if (module.isDraft && !hasDraft(module))
    return Status::success();
  ModuleDecision decision;
  decision.module = index;
  std::optional<Scheme> scheme;
  OCTET_TRY(declare(module, decision, scheme));
  if (table)
    OCTET_TRY(keep(resolve(module, decision), &decision));
  else
    decision.method = toResolved(result.config, scheme);
  bool isThere = !table || !decision.tensors.empty() ||
                 module.kind == ModuleKind::Attention;
  if (isThere)
    result.modules.push_back(std::move(decision));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Fused modules (C8), contracts
//===----------------------------------------------------------------------===//

Status Decider::checkShards(const std::string &fused,
                            const std::vector<ModuleDecision *> &shards) {
  std::vector<ShardVote> votes;
  for (const ModuleDecision *shard : shards)
    votes.push_back({std::string(lastComponent(result.getModule(*shard).path)),
                     shard->method.quantized, shard->declared});
  std::string why = describeMixedShards(votes);
  std::string rule = "a fused module is skipped whole or not at all";
  for (size_t i = 1; i < shards.size() && why.empty(); ++i)
    if (nameFormat(shards[i]->method) != nameFormat(shards[0]->method) ||
        shards[i]->method.weight != shards[0]->method.weight ||
        shards[i]->method.activation != shards[0]->method.activation) {
      why = votes[0].name + " is " + nameFormat(shards[0]->method) + " but " +
            votes[i].name + " is " + nameFormat(shards[i]->method);
      rule = "the shards of a fused module have one method";
    }
  if (why.empty())
    return Status::success();
  if (!options.unfuseMixed)
    return inputError(fused, why + "; " + rule, "C8");
  for (ModuleDecision *shard : shards)
    shard->keptApart = true;
  result.notes.push_back(
      makeInfo(fused, why + "; --unfuse-mixed keeps them apart", "C8"));
  return Status::success();
}

Status Decider::checkFused() {
  std::map<std::string, std::vector<ModuleDecision *>> shards;
  for (ModuleDecision &decision : result.modules)
    if (const std::string &fused = result.getModule(decision).fused;
        !fused.empty())
      shards[fused].push_back(&decision);
  for (const auto &[fused, parts] : shards)
    if (std::ranges::none_of(
            parts, [](const ModuleDecision *part) { return part->failed; }))
      OCTET_TRY(keep(checkShards(fused, parts)));
  return Status::success();
}

Status Decider::makeContracts() {
  for (ModuleDecision &decision : result.modules) {
    const ModuleEntry &module = result.getModule(decision);
    ContractQuery query = options.query;
    query.fused = !module.fused.empty() && !decision.keptApart;
    query.k = module.k;
    Result<Contract> contract =
        contractFor(decision.method, options.numerics, query, module.path);
    if (contract)
      decision.contract = contract.take();
    else
      OCTET_TRY(keep(contract.takeStatus(), &decision));
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// One error for all missing and mismatched tensors.
Status Decider::takeProblems() {
  if (options.collectErrors)
    for (ErrorInfo &problem : problems)
      result.errors.push_back(std::move(problem));
  if (problems.empty() || options.collectErrors)
    return Status::success();
  ErrorInfo first = problems.front();
  for (size_t i = 1; i < problems.size() && i < kShown; ++i)
    first.notes.push_back(problems[i].subject + ": " + problems[i].message);
  if (problems.size() > kShown)
    first.notes.push_back("and " + std::to_string(problems.size() - kShown) +
                          " more");
  return first;
}

/// "'a', 'b' and 3 more".
static std::string listNames(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

/// Entries of the config that name neither a module nor a tensor (C7).
Status Decider::reportNames() {
  if (!result.config || !table)
    return Status::success();
  std::vector<std::string> unused;
  for (NameList *names : result.config->getLists()) {
    // A tied head is a module without a tensor, and lists name it.
    if (result.list.tied)
      OCTET_TRY(names->markTensor(result.list.prefix + "lm_head.weight"));
    for (const TensorInfo &tensor : table->all()) {
      if (names->allUsed())
        break;
      OCTET_TRY(names->markTensor(tensor.name));
    }
    for (std::string &entry : names->getUnused())
      unused.push_back(std::move(entry));
  }
  if (!unused.empty())
    result.warnings.push_back(makeInfo(
        result.config->source,
        listNames(unused) + (unused.size() == 1 ? " matches" : " match") +
            " no module or tensor of this checkpoint",
        "C7"));
  return Status::success();
}

/// Tensors that no module of the list has (W14, W15).
void Decider::reportTensors() {
  if (!table)
    return;
  std::vector<std::string> unused;
  int64_t later = 0;
  for (size_t i = 0; i < consumed.size(); ++i) {
    const std::string &name = table->all()[i].name;
    if (consumed[i] || name.ends_with(".rotary_emb.inv_freq"))
      continue;
    if (result.list.tied && name.starts_with(result.list.prefix + "lm_head."))
      result.notes.push_back(
          makeInfo("lm_head",
                   quoteName(name.substr(result.list.prefix.size())) +
                       " is not used, because the embedding is tied",
                   "W15"));
    else if (getLayer(name, result.list.prefix) >= result.list.layers)
      ++later;
    else
      unused.push_back(quoteName(name));
  }
  if (later > 0)
    result.notes.push_back(
        makeInfo("tensors",
                 std::to_string(later) + " of layers from " +
                     std::to_string(result.list.layers) +
                     " on, which num_hidden_layers does not count, are not "
                     "used",
                 "W14"));
  if (!unused.empty())
    result.warnings.push_back(
        makeInfo("tensors",
                 std::to_string(unused.size()) +
                     (unused.size() == 1 ? " tensor is" : " tensors are") +
                     " used by nothing: " + listNames(unused),
                 "W14"));
}

Result<CheckpointDecisions> Decider::run(const nlohmann::json &config,
                                         const nlohmann::json &hfQuantConfig) {
  OCTET_TRY(readConfig(config, hfQuantConfig));
  for (size_t i = 0; i < result.list.modules.size(); ++i)
    OCTET_TRY(decideModule(i));
  result.endedEarly = isHopeless();
  OCTET_TRY(takeProblems());
  OCTET_TRY(checkFused());
  OCTET_TRY(makeContracts());
  OCTET_TRY(reportNames());
  reportTensors();
  return std::move(result);
}

Result<CheckpointDecisions> octet::decideCheckpoint(
    const nlohmann::json &config, const nlohmann::json &hfQuantConfig,
    const TensorTable *table, const DecideOptions &options) {
  return Decider(table, options).run(config, hfQuantConfig);
}
