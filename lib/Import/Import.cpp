//===- Import.cpp - Checkpoint to the model dialect -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Import/Import.h"
#include "Decoder.h"
#include "dialects/Model/ModelDialect.h"
#include "dialects/Quant/QuantDialect.h"
#include "lib/Modules/ActivationDtype.h"
#include "lib/Modules/DecoderShape.h"
#include "lib/Modules/RuleSteps.h"
#include "mlir/IR/Verifier.h"
#include "octet/Modules/Decide.h"
#include "octet/QuantAttrs/QuantAttrs.h"
#include "octet/Support/Escape.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using namespace mlir;
using namespace octet;

namespace {

/// Defaults of DESIGN ("Defaults").
constexpr int64_t kDefaultContext = 8192, kDefaultSeqs = 8,
                  kDefaultStepTokens = 2048;
/// Positions beyond this have no exact float32.
constexpr int64_t kMaxContext = int64_t(1) << 24;

/// A single table or buffer that a user would want to know of.
constexpr double kLargeBytes = 0x1p32;

/// One import: the config, the options and what is reported on the way.
class Importer {
public:
  Importer(const Checkpoint &checkpoint, const ImportOptions &options,
           MLIRContext &context, ImportNotes &notes)
      : checkpoint(checkpoint), options(options), context(context),
        notes(notes), config(checkpoint.config, "config.json"),
        inventory(checkpoint) {}

  Result<OwningOpRef<ModuleOp>> run();

private:
  Result<OwningOpRef<ModuleOp>> build();
  std::optional<ErrorInfo> findStoredError() const;
  /// `--quantization`, but where it only says what a GGUF file is (C3).
  std::string getQuantization() const {
    bool isGguf = checkpoint.gguf &&
                  StringRef(options.quantization).equals_insensitive("gguf");
    return isGguf ? "" : options.quantization;
  }
  Status readOptions();
  Status readQuantisation();
  void noteUnserialized();
  Result<std::string> chooseDtype();
  Result<int64_t> chooseContext();
  Status chooseSettings();
  Result<Attribute> readIds(std::string_view key);
  Status addInfo(ModuleOp module);
  Status buildModel(ModuleOp module);
  Status buildExtract(ModuleOp module);
  Status reportNames();
  void reportTensors();

  const Checkpoint &checkpoint;
  const ImportOptions &options;
  MLIRContext &context;
  ImportNotes &notes;
  ConfigReader config;
  Inventory inventory;

  std::string architecture;
  ModuleList list;
  DecoderConfig decoder;
  Target target, numerics;
  std::optional<FoundConfig> found;
  std::optional<QuantConfig> quant;
  DecoderOptions decoderOptions;
  model::SettingsAttr settings;
  std::optional<ExtractedModule> extracted;
};

} // namespace

/// `SUBJECT: text [RULE]`.
static std::string formatNote(const ErrorInfo &info) {
  return info.subject + ": " + info.message +
         (info.rule.empty() ? "" : " [" + info.rule + "]");
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// A word of a closed list.
static Status checkWord(std::string_view flag, const std::string &word,
                        std::initializer_list<std::string_view> words) {
  std::string expected;
  for (std::string_view each : words) {
    if (each == word)
      return Status::success();
    expected += (expected.empty() ? "" : ", ") + std::string(each);
  }
  return usageError(std::string(flag) + " " + escapeName(word),
                    "no such choice; " + expected);
}

static Status checkCount(std::string_view flag, int64_t value, int64_t limit) {
  if (value >= 1 && value <= limit)
    return Status::success();
  return usageError(std::string(flag) + " " + std::to_string(value),
                    "out of range; 1 to " + std::to_string(limit));
}

Status Importer::readOptions() {
  // The command line puts the machine's target in the place of `native`.
  OCTET_TRY_ASSIGN(
      target, parseTarget(options.target == "native" ? "cpu" : options.target,
                          "--target"));
  numerics = target;
  if (!options.numerics.empty()) {
    OCTET_TRY_ASSIGN(numerics, parseTarget(options.numerics, "--numerics"));
  }
  OCTET_TRY(checkWord("--activation-quant", options.activationQuant,
                      {"auto", "off"}));
  OCTET_TRY(
      checkWord("--kv-cache", options.kvCache,
                {"auto", "bf16", "f16", "f32", "fp8_e4m3", "fp8_ds_mla"}));
  if (!options.mxfp8As.empty())
    OCTET_TRY(
        checkWord("--mxfp8-as", options.mxfp8As, {"block", "weight-only"}));
  OCTET_TRY(checkWord("--scale-format", options.scaleFormat, {"auto", "keep"}));
  OCTET_TRY(checkWord("--mla", options.mla, {"auto", "explicit", "absorbed"}));
  OCTET_TRY(checkWord("--index-cache", options.indexCache, {"fp8", "bf16"}));
  if (options.mtp < 0 || options.mtp > (1 << 16))
    return usageError("--mtp " + std::to_string(options.mtp),
                      "out of range; 0 to 65536");
  for (auto [flag, value] :
       {std::pair("--tp", options.tp), std::pair("--ep", options.ep),
        std::pair("--dp", options.dp)})
    OCTET_TRY(checkCount(flag, value, 1 << 16));
  OCTET_TRY(
      checkCount("--max-context", options.maxContext.value_or(1), kMaxContext));
  OCTET_TRY(checkCount("--max-seqs", options.maxSeqs.value_or(1), 1 << 20));
  return checkCount("--max-step-tokens", options.maxStepTokens.value_or(1),
                    kMaxContext);
}

Result<std::string> Importer::chooseDtype() {
  const TensorInfo *norm = inventory.find("model.norm.weight");
  std::string note;
  Result<std::string> dtype =
      chooseActivationDtype(config, options.dtype, target,
                            norm && norm->type == StoredType::F16, note);
  if (!note.empty())
    notes.notes.push_back(std::move(note));
  return dtype;
}

Result<int64_t> Importer::chooseContext() {
  int64_t limit = std::min(decoder.maxPositions, kMaxContext);
  if (!options.maxContext) {
    int64_t context = std::min(limit, kDefaultContext);
    if (context < decoder.maxPositions)
      notes.notes.push_back("--max-context: " + std::to_string(context) +
                            " tokens by default; config.json allows " +
                            std::to_string(decoder.maxPositions));
    return context;
  }
  // A YaRN config may leave max_position_embeddings at the original length.
  double allowed = double(decoder.maxPositions);
  if (decoder.rope.type == RopeParameters::Type::Yarn)
    allowed = std::max(allowed,
                       decoder.rope.factor * decoder.rope.originalMaxPositions);
  if (double(*options.maxContext) > allowed)
    notes.warnings.push_back(
        "--max-context " + std::to_string(*options.maxContext) +
        ": more tokens than config.json allows, which is " +
        std::to_string(decoder.maxPositions));
  return *options.maxContext;
}

/// Slots of the KV cache are int32 (abi.h), and a sequence has whole pages.
static Status checkSlots(int64_t maxContext, int64_t maxSeqs) {
  constexpr int64_t kPage = 64;
  int64_t pages = (maxContext + kPage - 1) / kPage;
  int64_t most = INT32_MAX / kPage;
  if (pages * maxSeqs <= most) // 2^18 x 2^20 at most
    return Status::success();
  std::string seqs = std::to_string(maxSeqs),
              context = std::to_string(maxContext);
  return usageError("--max-seqs " + seqs,
                    "sequences of --max-context " + context + " tokens need " +
                        std::to_string(pages * maxSeqs * kPage) +
                        " slots of the KV cache, which has fewer than 2^31; "
                        "--max-seqs " +
                        std::to_string(most / pages) + " fits");
}

static std::string printGib(double bytes) {
  return llvm::formatv("{0:F1} GiB", bytes / 0x1p30).str();
}

Status Importer::chooseSettings() {
  OCTET_TRY_ASSIGN(std::string dtype, chooseDtype());
  OCTET_TRY_ASSIGN(int64_t maxContext, chooseContext());
  Builder builder(&context);
  Type type = dtype == "bf16"  ? Type(builder.getBF16Type())
              : dtype == "f16" ? Type(builder.getF16Type())
                               : Type(builder.getF32Type());
  decoderOptions.dtype = type;
  OCTET_TRY(checkSlots(maxContext, options.maxSeqs.value_or(kDefaultSeqs)));
  decoderOptions.maxContext = maxContext;
  OCTET_TRY_ASSIGN(decoderOptions.rope,
                   computeRope(decoder.rope, getRopeWidth(decoder)));
  double tableBytes =
      double(maxContext) * 2 * double(decoderOptions.rope.inverse.size()) * 4;
  if (tableBytes > kLargeBytes)
    notes.warnings.push_back("--max-context " + std::to_string(maxContext) +
                             ": its table of rotary embeddings takes " +
                             printGib(tableBytes) + " of memory");
  // A window that no context fills is none, and makes no kind of its own.
  for (int64_t &window : decoder.windows)
    if (window >= maxContext)
      window = 0;
  settings = model::SettingsAttr::get(
      &context, target.name, numerics.name, type, options.tp, options.ep,
      options.dp, maxContext, options.maxSeqs.value_or(kDefaultSeqs),
      options.maxStepTokens.value_or(kDefaultStepTokens),
      options.activationQuant, options.kvCache, getQuantization(),
      options.unfuseMixed, options.requantMax,
      options.batchInvariant.value_or(target.isCpu()), options.mla,
      options.indexCache, options.mtp, options.indexBroadcast, options.mxfp8As,
      options.scaleFormat, options.splitBlocks);
  return Status::success();
}

/// A config that says fp8 over a checkpoint that stores nothing in FP8: the
/// user who asks for fp8 gets it while loading (C3, W10), with the config's
/// list. The IR's config says so, for the passes that read it again.
void Importer::noteUnserialized() {
  constexpr const char *kField = "is_checkpoint_fp8_serialized";
  auto isFp8 = [](std::string_view word) {
    return StringRef(word).equals_insensitive("fp8");
  };
  if (!found || !isFp8(options.quantization))
    return;
  auto method = found->fields.find("quant_method");
  if (method == found->fields.end() || !method->is_string() ||
      !isFp8(method->get_ref<const std::string &>()))
    return;
  for (const TensorInfo &tensor : checkpoint.tensors.all())
    if (tensor.type == StoredType::F8_E4M3)
      return;
  auto field = found->fields.find(kField);
  if (field != found->fields.end() && *field == false)
    return;
  found->fields[kField] = false;
  notes.notes.push_back("--quantization fp8: no tensor is stored in F8_E4M3, "
                        "so the linears that " +
                        found->source +
                        " does not list are quantised while loading [W10]");
}

Status Importer::readQuantisation() {
  OCTET_TRY_ASSIGN(
      found, findQuantConfig(checkpoint.config, checkpoint.hfQuantConfig));
  noteUnserialized();
  // What no pass compiles yet is for resolve-quant-methods to refuse.
  OCTET_TRY_ASSIGN(quant,
                   readQuantConfig(found ? &*found : nullptr, getQuantization(),
                                   target, Purpose::Describe));
  OCTET_TRY(checkExperts(list, quant));
  if (quant)
    for (NameList *names : quant->getLists())
      names->addAliases(list.aliases);
  inventory.setKeepPacked(getQuantization().empty());
  if (quant)
    for (const ErrorInfo &warning : quant->warnings)
      notes.warnings.push_back(formatNote(warning));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Module attributes
//===----------------------------------------------------------------------===//

/// Token ids: generation_config.json wins over config.json. One or a list.
Result<Attribute> Importer::readIds(std::string_view key) {
  Builder builder(&context);
  for (const auto &[json, file] :
       {std::pair(&checkpoint.generationConfig, "generation_config.json"),
        std::pair(&checkpoint.config, "config.json")}) {
    if (!json->is_object())
      continue;
    auto value = json->find(key);
    if (value == json->end() || value->is_null())
      continue;
    nlohmann::json list =
        value->is_array() ? *value : nlohmann::json::array({*value});
    SmallVector<int64_t> ids;
    for (const nlohmann::json &id : list) {
      std::optional<int64_t> number = toInteger(id);
      if (!number || *number < 0 || *number >= decoder.vocab)
        return inputError(file,
                          std::string(key) + " is " + describeJson(*value) +
                              "; expected token ids below vocab_size, which "
                              "is " +
                              std::to_string(decoder.vocab));
      ids.push_back(*number);
    }
    return Attribute(builder.getI64ArrayAttr(ids));
  }
  return Attribute(builder.getI64ArrayAttr({}));
}

Status Importer::addInfo(ModuleOp module) {
  Builder builder(&context);
  OCTET_TRY_ASSIGN(Attribute bos, readIds("bos_token_id"));
  OCTET_TRY_ASSIGN(Attribute eos, readIds("eos_token_id"));
  NamedAttrList info;
  info.set("architecture", builder.getStringAttr(architecture));
  // The default of --weights, from whichever folder the executable is started.
  llvm::SmallString<128> folder(checkpoint.path);
  if (std::error_code ec = llvm::sys::fs::make_absolute(folder))
    return machineError(checkpoint.path, ec.message());
  info.set("checkpoint", builder.getStringAttr(folder));
  info.set("hash", builder.getStringAttr(checkpoint.tensors.hash()));
  info.set("vocab", builder.getI64IntegerAttr(decoder.vocab));
  info.set("hidden", builder.getI64IntegerAttr(decoder.hidden));
  info.set("layers", builder.getI64IntegerAttr(decoder.layers));
  info.set("bos", bos);
  info.set("eos", eos);
  info.set("kind", builder.getStringAttr(extracted ? "module" : "model"));
  if (extracted) {
    NamedAttrList part;
    part.set("path", builder.getStringAttr(extracted->path));
    part.set("in", builder.getI64IntegerAttr(extracted->in));
    part.set("out", builder.getI64IntegerAttr(extracted->out));
    info.set("module", part.getDictionary(&context));
  }
  module->setAttr("model.info", info.getDictionary(&context));
  module->setAttr(model::kSettingsName, settings);
  if (found) {
    OCTET_TRY_ASSIGN(Attribute fields,
                     toAttr(found->fields, found->source, &context));
    module->setAttr("q.config",
                    q::ConfigAttr::get(&context, cast<DictionaryAttr>(fields),
                                       found->source));
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Bodies
//===----------------------------------------------------------------------===//

Status Importer::buildModel(ModuleOp module) {
  OCTET_TRY_ASSIGN(ModelFacts facts,
                   readModelFacts(decoder, list, quant ? &*quant : nullptr,
                                  inventory, options.mtp));
  OCTET_TRY(inventory.takeProblems());
  buildDecoder(module, decoder, decoderOptions, facts);
  reportTensors();
  return reportNames();
}

Status Importer::buildExtract(ModuleOp module) {
  QuantConfig *words = quant ? &*quant : nullptr;
  if (extracted->layer < 0) {
    OCTET_TRY_ASSIGN(StoredModule lmHead,
                     readLmHeadFacts(decoder, words, inventory));
    OCTET_TRY(inventory.takeProblems());
    buildExtracted(module, decoder, decoderOptions, *extracted, nullptr,
                   &lmHead);
    return Status::success();
  }
  OCTET_TRY_ASSIGN(
      LayerFacts layer,
      readLayerFacts(decoder, list, extracted->layer, words, inventory));
  OCTET_TRY(inventory.takeProblems());
  buildExtracted(module, decoder, decoderOptions, *extracted, &layer, nullptr);
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Reports
//===----------------------------------------------------------------------===//

/// "'a', 'b' and 3 more", at most ten.
static std::string listNames(const std::vector<std::string> &names) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i)
    text += (i ? ", " : "") + names[i];
  if (names.size() > kShown)
    text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

/// The number of a decoder layer in a tensor's name, or -1.
static int64_t getLayerNumber(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers))
    return -1;
  std::string_view rest = name.substr(kLayers.size());
  size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || digits > 9)
    return -1;
  return std::stoll(std::string(rest.substr(0, digits)));
}

/// W14, W15: what nothing consumed.
void Importer::reportTensors() {
  std::vector<std::string> unused;
  int64_t later = 0;
  for (const TensorInfo *tensor : inventory.getUnconsumed()) {
    if (decoder.tied && tensor->name.starts_with("lm_head.")) {
      notes.notes.push_back(inventory.getFile(*tensor) + ": tensor " +
                            quoteName(tensor->name) +
                            " is not used, because the embedding is tied "
                            "[W15]");
      continue;
    }
    if (getLayerNumber(tensor->name) >= decoder.layers) {
      ++later;
      continue;
    }
    unused.push_back(quoteName(tensor->name));
  }
  if (later)
    notes.notes.push_back(
        escapePath(checkpoint.path) + ": " + std::to_string(later) +
        (later == 1 ? " tensor" : " tensors") + " of layers from " +
        std::to_string(decoder.layers) +
        " on, which num_hidden_layers does not count, are not used [W14]");
  if (!unused.empty())
    notes.warnings.push_back(
        escapePath(checkpoint.path) + ": " + std::to_string(unused.size()) +
        (unused.size() == 1 ? " tensor is" : " tensors are") +
        " used by nothing: " + listNames(unused) + " [W14]");
}

/// C7: entries of the config that match nothing.
Status Importer::reportNames() {
  if (!quant)
    return Status::success();
  std::vector<NameList *> lists = {&quant->ignore};
  for (SchemeGroup &group : quant->groups) {
    lists.push_back(&group.paths);
    lists.push_back(&group.patterns);
  }
  std::vector<std::string> unused;
  for (NameList *names : lists) {
    // A layer that shares the keys of another owns no indexer (P9), and a list
    // may name one all the same.
    for (int64_t layer = 0; decoder.indexer && layer < decoder.layers; ++layer)
      OCTET_TRY(names->markTensor("model.layers." + std::to_string(layer) +
                                  ".self_attn.indexer.weights_proj.weight"));
    for (const TensorInfo &tensor : checkpoint.tensors.all()) {
      if (names->allUsed())
        break;
      OCTET_TRY(names->markTensor(tensor.name));
    }
    for (std::string &entry : names->getUnused())
      unused.push_back(std::move(entry));
  }
  if (!unused.empty())
    notes.warnings.push_back(quant->source + ": " + listNames(unused) +
                             (unused.size() == 1 ? " matches" : " match") +
                             " no module or tensor of this checkpoint [C7]");
  return Status::success();
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

/// What `octet check` says of the stored tensors, so that a mistake in them has
/// one rule and one wording (C13, W1, W6, W13): the errors of the first step
/// that fails, as one. None of a module alone, whose checkpoint may be a part.
std::optional<ErrorInfo> Importer::findStoredError() const {
  if (!options.extract.empty())
    return std::nullopt;
  DecideOptions decide;
  decide.quantization = getQuantization();
  decide.target = target;
  decide.numerics = numerics;
  decide.query.quantizeActivation = options.activationQuant != "off";
  decide.query.requantMax = options.requantMax;
  decide.query.keepScales = options.scaleFormat == "keep";
  decide.query.mxfp8As = options.mxfp8As;
  decide.unfuseMixed = options.unfuseMixed;
  decide.drafts = options.mtp;
  decide.collectErrors = true;
  Result<CheckpointDecisions> decisions = decideCheckpoint(
      checkpoint.config, checkpoint.hfQuantConfig, &checkpoint.tensors, decide);
  if (!decisions)
    return decisions.takeStatus().takeInfo();
  std::vector<ErrorInfo> &errors = decisions->errors;
  if (errors.empty())
    return std::nullopt;
  auto stepOf = [](const ErrorInfo &error) { return getRuleStep(error.rule); };
  const int step = stepOf(*std::ranges::min_element(errors, {}, stepOf));
  std::erase_if(errors, [&](const ErrorInfo &e) { return stepOf(e) != step; });
  ErrorInfo first = errors.front();
  constexpr size_t kShown = 10;
  for (size_t i = 1; i < std::min(errors.size(), kShown); ++i)
    first.notes.push_back(errors[i].subject + ": " + errors[i].message);
  if (errors.size() > kShown)
    first.notes.push_back("and " + std::to_string(errors.size() - kShown) +
                          (decisions->endedEarly ? " or more" : " more"));
  return first;
}

Result<OwningOpRef<ModuleOp>> Importer::run() {
  Result<OwningOpRef<ModuleOp>> module = build();
  if (module.ok() || module.status().info().rule != "C13")
    return module;
  if (std::optional<ErrorInfo> error = findStoredError())
    return Result<OwningOpRef<ModuleOp>>(std::move(*error));
  return module;
}

Result<OwningOpRef<ModuleOp>> Importer::build() {
  OCTET_TRY(readOptions());
  OCTET_TRY_ASSIGN(list, listModules(checkpoint.config));
  OCTET_TRY_ASSIGN(const Architecture *family, findArchitecture(config));
  architecture = family->name;
  OCTET_TRY(readQuantisation());
  OCTET_TRY_ASSIGN(decoder, family->read(config, notes.warnings));
  OCTET_TRY(chooseSettings());
  config.reportUnknown(notes.warnings);
  if (!options.extract.empty()) {
    OCTET_TRY_ASSIGN(extracted, findExtracted(decoder, list, options.extract));
  }

  OwningOpRef<ModuleOp> module(ModuleOp::create(
      FileLineColLoc::get(&context, (checkpoint.path + "/config.json"), 0, 0)));
  OCTET_TRY(addInfo(*module));
  OCTET_TRY(extracted ? buildExtract(*module) : buildModel(*module));
  if (options.strict && !notes.warnings.empty())
    return inputError("--strict", notes.warnings.front());
  if (failed(verify(*module)))
    return internalError(escapePath(checkpoint.path),
                         "the imported module does not verify");
  return module;
}

Result<OwningOpRef<ModuleOp>>
octet::importCheckpoint(const Checkpoint &checkpoint,
                        const ImportOptions &options, MLIRContext &context,
                        ImportNotes &notes) {
  context.loadDialect<q::QuantDialect, model::ModelDialect, func::FuncDialect,
                      scf::SCFDialect, arith::ArithDialect>();
  return Importer(checkpoint, options, context, notes).run();
}
