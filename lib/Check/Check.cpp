//===- Check.cpp - octet check ------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "lib/Import/Architecture.h"
#include "lib/Modules/ActivationDtype.h"
#include "lib/QuantMethods/Fields.h"
#include "octet/Checkpoint/Gguf.h"
#include "octet/Support/ConfigSubject.h"
#include "octet/Support/Escape.h"
#include <sys/stat.h>

using namespace octet;

static ErrorInfo makeInfo(std::string subject, std::string message,
                          std::string rule) {
  ErrorInfo info;
  info.subject = std::move(subject);
  info.message = std::move(message);
  info.rule = std::move(rule);
  return info;
}

/// `SUBJECT: text [RULE]` as its parts.
static ErrorInfo splitLine(const std::string &line) {
  size_t colon = line.find(": "), bracket = line.rfind(" [");
  if (colon == line.npos)
    return makeInfo("config.json", line, "");
  std::string rule;
  if (bracket != line.npos && line.ends_with(']') && bracket > colon)
    rule = line.substr(bracket + 2, line.size() - bracket - 3);
  else
    bracket = line.size();
  return makeInfo(line.substr(0, colon),
                  line.substr(colon + 2, bracket - colon - 2), rule);
}

/// What is read for --config-only: no header, no index.
static Result<Checkpoint> openConfig(const std::string &path) {
  if (isGgufName(path))
    return openCheckpoint(path);
  Checkpoint checkpoint;
  checkpoint.path = path;
  struct stat info = {};
  bool isFile = ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  OCTET_TRY_ASSIGN(checkpoint.config,
                   readJsonFile(isFile ? path : path + "/config.json"));
  if (!checkpoint.config.is_object())
    return inputError(escapePath(path) + "/config.json",
                      "is no JSON object; expected one");
  std::string sidecar = path + "/hf_quant_config.json";
  if (!isFile && ::stat(sidecar.c_str(), &info) == 0) {
    OCTET_TRY_ASSIGN(checkpoint.hfQuantConfig, readJsonFile(sidecar));
  }
  return checkpoint;
}

//===----------------------------------------------------------------------===//
// Targets and dtype
//===----------------------------------------------------------------------===//

static void readTargets(CheckContext &context) {
  const CheckOptions &options = context.options;
  auto read = [&](const std::string &text, std::string_view flag,
                  Target &target) {
    Result<Target> parsed = parseTarget(text, flag);
    if (parsed)
      target = parsed.take();
    else
      context.addError(parsed.takeStatus().takeInfo());
  };
  // The command line puts the machine's target in the place of `native`.
  read(options.target == "native" ? "cpu" : options.target, "--target",
       context.target);
  context.numerics = context.target;
  if (!options.numerics.empty())
    read(options.numerics, "--numerics", context.numerics);
}

static void readDtype(CheckContext &context, const nlohmann::json &json) {
  ConfigReader config(json, "config.json");
  const TensorInfo *norm =
      context.checkpoint ? context.checkpoint->tensors.find("model.norm.weight")
                         : nullptr;
  std::string note;
  Result<std::string> dtype =
      chooseActivationDtype(config, context.options.dtype, context.target,
                            norm && norm->type == StoredType::F16, note);
  if (!dtype) {
    context.addError(dtype.takeStatus().takeInfo());
    return;
  }
  context.dtype = dtype.take();
  if (size_t colon = note.find(": "); colon != note.npos)
    context.report.notes.push_back(splitLine(note));
}

/// What the importer of the architecture does not know of the config, or
/// refuses (C15). A wrapper's text part is its own architecture.
static void reportConfig(CheckContext &context, const nlohmann::json &json,
                         std::vector<std::string> &warnings) {
  ConfigReader config(json, "config.json");
  Result<const Architecture *> family = findArchitecture(config);
  if (!family)
    return;
  std::vector<std::string> found;
  Result<DecoderConfig> decoder = (*family)->read(config, found);
  if (decoder) {
    config.reportUnknown(found);
    warnings = std::move(found);
    return;
  }
  context.addError(decoder.takeStatus().takeInfo());
}

/// Step 2: the rotary embedding, in whichever of its spellings (C15).
static void readPositions(CheckContext &context, const nlohmann::json &json) {
  ConfigReader config(json, "config.json");
  Result<int64_t> positions = config.getSize("max_position_embeddings");
  if (!positions) {
    context.addError(positions.takeStatus().takeInfo());
    return;
  }
  std::vector<std::string> warnings;
  Result<RopeParameters> rope = readRope(config, *positions, warnings);
  if (!rope)
    return context.addError(rope.takeStatus().takeInfo());
  reportConfig(context, json, warnings);
  for (const std::string &warning : warnings)
    context.report.warnings.push_back(splitLine(warning));
}

//===----------------------------------------------------------------------===//
// Step 7: what a contract does to a checkpoint
//===----------------------------------------------------------------------===//

namespace {

/// Modules of one kind, by the reason for which they are counted.
struct Tally {
  int64_t modules = 0;
  bool drops = false; ///< some have an input_scale that nothing reads

  /// "252 modules".
  std::string describe() const {
    return std::to_string(modules) + (modules == 1 ? " module" : " modules");
  }
};

} // namespace

/// Decisions that cost speed or precision are said (B2, B4, W7-W11).
static void reportContracts(CheckContext &context) {
  Tally widened, widenedFp4, rescaled, collapsed, loaded, generic;
  for (const Unit &unit : context.units) {
    const ModuleDecision &decision = *unit.first().decision;
    const ResolvedModule &method = decision.method;
    const Contract &contract = decision.contract;
    if (!method.quantized)
      continue;
    bool isOff = context.options.activationQuant == "off";
    if (method.activation != Activation::None && !contract.activation &&
        !isOff) {
      Tally &tally =
          method.format.code == CodeType::E2M1 ? widenedFp4 : widened;
      ++tally.modules;
      tally.drops |= method.activation == Activation::Static;
    }
    loaded.modules += method.whileLoading;
    bool isTensor = method.weight.kind == Granularity::Kind::PerTensor;
    collapsed.modules += unit.parts.size() > 1 && isTensor &&
                         contract.weight.kind == Granularity::Kind::PerTensor;
    bool exponents = contract.format.scale == ScaleFormat::Exponents;
    rescaled.modules +=
        exponents && !method.ue8m0 && method.format.scale == ScaleFormat::Float;
    const Granularity &weight = contract.weight;
    bool isFast = weight.blockK == 128 || weight == Granularity::block(32, 32);
    generic.modules += contract.activation && weight.isBlock() &&
                       contract.format == WeightFormat() && !isFast;
  }
  const std::string target =
      (context.options.numerics.empty() ? "--target " : "--numerics ") +
      context.numerics.name;
  auto warn = [&](const Tally &tally, std::string text, std::string rule) {
    if (tally.modules)
      context.report.warnings.push_back(
          makeInfo(target, std::move(text), std::move(rule)));
  };
  auto note = [&](const Tally &tally, std::string text, std::string rule) {
    if (tally.modules)
      context.report.notes.push_back(
          makeInfo(target, std::move(text), std::move(rule)));
  };
  const std::string wide = nameDtype(context.dtype);
  auto describeWidened = [&](const Tally &tally, std::string_view what) {
    return "no " + std::string(what) + " products; the weights of " +
           tally.describe() + " stay " + std::string(what) +
           " in memory and are widened to " + wide +
           " in the kernel, activations are not quantised" +
           (tally.drops ? " and 'input_scale' is not read" : "");
  };
  warn(widened, describeWidened(widened, "FP8"), "B4");
  note(widenedFp4, describeWidened(widenedFp4, "FP4"), "B4");
  note(generic,
       generic.describe() + " have blocks whose K side is not 128 and use the "
                            "generic kernel",
       "B2");
  note(rescaled,
       "takes power-of-two scales; the stored ones of " + rescaled.describe() +
           " are requantised while loading where they are none",
       "W11");
  note(collapsed,
       "takes one scale for a fused matrix; the shards of " +
           collapsed.describe() + " are requantised with the largest of theirs",
       "W8");
  note(loaded,
       loaded.describe() + " are quantised while loading, activations a token",
       "W10");
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

/// Steps 1 to 4 and 6. \returns false if nothing was decided.
static bool decide(CheckContext &context, const Checkpoint &checkpoint) {
  const CheckOptions &options = context.options;
  DecideOptions decide;
  // It only says what such a file is (C3).
  if (!checkpoint.gguf || toLower(options.quantization) != "gguf")
    decide.quantization = options.quantization;
  decide.target = context.target;
  decide.numerics = context.numerics;
  decide.query.quantizeActivation = options.activationQuant != "off";
  decide.query.requantMax = options.requantMax;
  decide.query.keepScales = options.keepScales;
  decide.query.mxfp8As = options.mxfp8As;
  decide.unfuseMixed = options.unfuseMixed;
  decide.drafts = options.mtp;
  decide.collectErrors = true;
  Result<CheckpointDecisions> decisions = decideCheckpoint(
      checkpoint.config, checkpoint.hfQuantConfig,
      options.configOnly ? nullptr : &checkpoint.tensors, decide);
  if (!decisions) {
    context.addError(decisions.takeStatus().takeInfo());
    return false;
  }
  context.decisions = decisions.take();
  if (Status drafts = checkDrafts(context.decisions.list, options.mtp);
      !drafts.ok())
    context.addError(drafts.takeInfo());
  for (ErrorInfo &error : context.decisions.errors)
    context.addError(std::move(error));
  for (ErrorInfo &warning : context.decisions.warnings)
    context.report.warnings.push_back(std::move(warning));
  for (ErrorInfo &note : context.decisions.notes)
    context.report.notes.push_back(std::move(note));
  return true;
}

/// A cache that is none of ours, unless the user chose one (C4, P7b).
static void checkCache(CheckContext &context, const Checkpoint &checkpoint) {
  if (context.options.kvCache != "auto")
    return;
  Result<std::optional<FoundConfig>> found =
      findQuantConfig(checkpoint.config, checkpoint.hfQuantConfig);
  if (!found || !*found)
    return; // decided before
  if (Status status = checkKvDeclaration(**found); !status.ok())
    context.addError(status.takeInfo());
}

/// With --strict what is otherwise reported is an error.
static void makeStrict(CheckContext &context) {
  for (ErrorInfo &warning : context.report.warnings) {
    warning.notes.push_back("it is an error because of --strict");
    context.addError(std::move(warning));
  }
  context.report.warnings.clear();
}

static CheckReport walkSteps(const std::string &path,
                             const CheckOptions &options) {
  CheckReport report;
  nameSteps(report);
  Result<Checkpoint> checkpoint =
      options.configOnly ? openConfig(path) : openCheckpoint(path);
  if (!checkpoint) {
    report.errors.push_back(checkpoint.takeStatus().takeInfo());
    return report;
  }
  CheckContext context(options, report);
  if (!options.configOnly) {
    context.checkpoint = &*checkpoint;
    context.scalars.emplace(*checkpoint);
  }
  readTargets(context);
  readDtype(context, checkpoint->config);
  context.decided = decide(context, *checkpoint);
  if (context.decided)
    checkCache(context, *checkpoint);
  if (context.decided)
    readPositions(context, checkpoint->config);
  if (context.decided) {
    context.buildIndex();
    context.units = makeUnits(context.decisions);
    splitUnits(context);
    if (context.checkpoint)
      checkScalars(context);
    describeUnits(context);
    reportContracts(context);
  }
  if (options.strict)
    makeStrict(context);
  if (options.withWeights && context.checkpoint && context.errors.empty())
    measureNumerics(context);
  summarize(context);
  if (options.memory && report.accepted())
    measureMemory(context, checkpoint->config);
  return report;
}

CheckReport octet::checkCheckpoint(const std::string &path,
                                   const CheckOptions &options) {
  CheckReport report = walkSteps(path, options);
  for (auto *list : {&report.errors, &report.warnings, &report.notes})
    for (ErrorInfo &info : *list)
      info.subject = placeConfig(info.subject, path);
  return report;
}
