//===- ResolveQuantMethods.cpp - Method and contract of each linear -------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Relies on: import says for each weight what is stored and declared, and the
// module has `model.settings` and, if the checkpoint is quantised, `q.config`.
//
// Holds after: each model.linear and model.lm_head has a method (what the
// stored codes mean, C1-C15) and a contract (what its kernel reads, B1-B4), and
// a quantised weight has the !q.tensor type of its method. What config and
// headers contradict was refused (C11, C13, W1, W2, W6).
//
//   %w = model.weight ["a.b"] "weight" stored [
//          #q.stored<{weight = tensor<384x256xf8E4M3FN>,
//                     weight_scale_inv = tensor<3x2xf32>}, "">]
//        : tensor<384x256xf8E4M3FN>
//   %y = model.linear %x, %w {module = "a.b"} : …
//
//   %w = … : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
//   %y = model.linear %x, %w {
//          contract = #q.contract<weight = block<128x128>, scale = f32,
//                                 activation = block<1x128>>,
//          method = #q.method<"fp8", weight = block<128x128>, scale = f32,
//                             activation = dynamic>, module = "a.b"} : …
//
// The rules are functions of lib/QuantMethods, which `octet check` shares.
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "octet/Diagnostics/Diagnostics.h"
#include "octet/QuantAttrs/QuantAttrs.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"

namespace octet {
#define GEN_PASS_DEF_RESOLVEQUANTMETHODS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

constexpr llvm::StringLiteral kFlag = "octet-resolve-quant-methods";

/// What the module says once, for all its linears.
struct Choices {
  Target target, numerics;
  std::optional<QuantConfig> quant;
  ContractQuery query;
};

/// The decision for one operator with weights, before anything is rewritten.
struct Decision {
  Operation *op;
  /// One, or gate, up and down of experts.
  SmallVector<model::WeightOp, 1> weights;
  ResolvedModule method;
  Contract contract;
  /// Experts, N and K of weights whose codes share words.
  struct Sides {
    int64_t experts, n, k;
  };
  SmallVector<Sides, 1> sides = {};
};

StringRef getDtypeName(Type type) {
  return type.isBF16() ? "bf16" : type.isF16() ? "f16" : "f32";
}

/// Target, dtype and method go together (C9).
Status checkTargets(const Choices &choices, model::SettingsAttr settings) {
  std::string method = choices.quant ? choices.quant->method : "unquantized";
  OCTET_TRY(checkMethodTarget(method, choices.target, "--target",
                              settings.getMxfp8As().str()));
  OCTET_TRY(
      checkActivationDtype(choices.target, getDtypeName(settings.getDtype())));
  return checkMethodTarget(method, choices.numerics, "--numerics",
                           settings.getMxfp8As().str());
}

Result<Choices> readChoices(ModuleOp module, model::SettingsAttr settings) {
  Choices choices;
  OCTET_TRY_ASSIGN(choices.target,
                   parseTarget(settings.getTarget(), "--target"));
  OCTET_TRY_ASSIGN(choices.numerics,
                   parseTarget(settings.getNumerics(), "--numerics"));
  std::optional<FoundConfig> found;
  if (auto config = module->getAttrOfType<q::ConfigAttr>("q.config"))
    found = FoundConfig{toJson(config.getFields()), config.getSource().str()};
  OCTET_TRY_ASSIGN(choices.quant,
                   readQuantConfig(found ? &*found : nullptr,
                                   settings.getQuantization(), choices.target));
  OCTET_TRY(checkTargets(choices, settings));
  choices.query.quantizeActivation = settings.getActivationQuant() != "off";
  choices.query.requantMax = settings.getRequantMax();
  choices.query.mxfp8As = settings.getMxfp8As().str();
  choices.query.keepScales = settings.getScaleFormat() == "keep";
  choices.query.kernels = choices.target;
  return choices;
}

std::string getFileName(Location loc) {
  auto file = loc->findInstanceOf<FileLineColLoc>();
  return file ? file.getFilename().str() : std::string();
}

/// The path of a weight; the first expert stands for all of them.
std::string nameWeight(model::WeightOp weight) {
  auto path = cast<StringAttr>(weight.getPaths()[0]);
  std::string name = nameModule(path.getValue(), weight.getLayer());
  if (size_t at = name.find("{e}"); at != std::string::npos)
    name.replace(at, 3, "0");
  return name;
}

/// The first layer of the operator's kind stands for all of them.
ModuleFacts getFacts(Operation *op, model::WeightOp weight) {
  ModuleFacts facts;
  auto stored = cast<q::StoredAttr>(weight.getStored()[0]);
  bool isOwn = isa<model::LinearOp, model::LmHeadOp>(op);
  facts.module = isOwn ? nameModule(op) : nameWeight(weight);
  facts.isExpert = isa<model::ExpertsOp>(op);
  facts.file = getFileName(weight.getLoc());
  facts.tensors = toTensors(stored);
  facts.declared = stored.getDeclared().str();
  facts.isLmHead = isa<model::LmHeadOp>(op);
  // Codes that share words do not show their sides.
  auto widthOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(1);
  };
  auto stores = dyn_cast<RankedTensorType>(weight.getResult().getType());
  if (isOwn && isa<RankedTensorType>(op->getOperand(0).getType())) {
    facts.n = widthOf(op->getResult(0));
    facts.k = widthOf(op->getOperand(0));
  } else if (stores && stores.getRank() == 4) { // blocks of all experts
    facts.experts = stores.getDimSize(0);
    facts.n = stores.getDimSize(1);
    facts.k = stores.getDimSize(2) * stores.getDimSize(3) * 2;
  }
  return facts;
}

/// The experts of a layer are tensors of their own: what one stores, in its
/// layout, says the sides that all have.
void addExpertSides(model::WeightOp weight, const WeightFormat &format,
                    ModuleFacts &facts) {
  auto codes = dyn_cast<RankedTensorType>(weight.getResult().getType());
  if (facts.n > 0 || !facts.isExpert || !codes || codes.getRank() != 3)
    return;
  const int64_t rows = codes.getDimSize(1), columns = codes.getDimSize(2);
  const int64_t perWord = 32 / getBits(format.code);
  facts.experts = codes.getDimSize(0);
  facts.n = rows;
  facts.k = columns;
  switch (format.layout) {
  case WeightLayout::NibbleRows:
    facts.k = 2 * columns;
    break;
  case WeightLayout::WordRows:
    facts.k = perWord * columns;
    break;
  case WeightLayout::GptqWords:
    facts.n = columns;
    facts.k = perWord * rows;
    break;
  case WeightLayout::AwqWords:
    facts.n = perWord * columns;
    facts.k = rows;
    break;
  case WeightLayout::Rows:
  case WeightLayout::NibbleExperts:
    break;
  }
}

/// Bytes of experts under a method of FP8 may be two codes each (C14); import
/// has compared their sides with config.json.
void addNibbleSides(model::WeightOp weight, const QuantConfig *quant,
                    ModuleFacts &facts) {
  auto found = facts.tensors.find("weight");
  if (!quant || quant->method != "fp8" || found == facts.tensors.end() ||
      (found->second.type != StoredType::U8 &&
       found->second.type != StoredType::I8))
    return;
  WeightFormat nibbles;
  nibbles.code = CodeType::E2M1;
  nibbles.layout = WeightLayout::NibbleRows;
  addExpertSides(weight, nibbles, facts);
}

/// Where nothing is stored in FP8, a block size asks for what no loading does.
/// A module that the config lists, or that was extracted from its model, says
/// nothing about the checkpoint.
Status checkSerialized(ModuleOp module, const Choices &choices,
                       ArrayRef<Decision> decisions) {
  auto info = module->getAttrOfType<DictionaryAttr>("model.info");
  auto kind = info ? info.getAs<StringAttr>("kind") : StringAttr();
  if (kind && kind.getValue() == "module")
    return Status::success();
  if (!choices.quant || !choices.quant->scheme ||
      sharesWords(choices.quant->scheme->format) ||
      !choices.quant->scheme->weight.isBlock())
    return Status::success();
  bool anyUnlisted = false;
  for (Decision decision : decisions) {
    if (decision.method.quantized)
      return Status::success();
    auto stored = cast<q::StoredAttr>(decision.weights[0].getStored()[0]);
    anyUnlisted |= !isa<model::LmHeadOp>(decision.op) &&
                   !decision.op->hasAttr("precise") && !stored.isIgnored();
  }
  if (!anyUnlisted)
    return Status::success();
  const Granularity &block = choices.quant->scheme->weight;
  return inputError(choices.quant->source + ".weight_block_size",
                    "is [" + std::to_string(block.blockN) + ", " +
                        std::to_string(block.blockK) +
                        "] but no linear is stored in F8_E4M3; convert the "
                        "checkpoint offline first with 'octet quantize CKPT "
                        "-o DIR --to fp8-block', or drop the "
                        "quantization_config",
                    "C5");
}

struct ResolveQuantMethodsPass
    : octet::impl::ResolveQuantMethodsBase<ResolveQuantMethodsPass> {
  void runOnOperation() override;

private:
  LogicalResult decide(Operation *op, ValueRange weights,
                       const Choices &choices,
                       SmallVectorImpl<Decision> &decisions);
  LogicalResult decideOne(Operation *op, Value weight, const Choices &choices,
                          Decision &decision);
  void report(const Decision &decision);
  void reportUnfollowed(model::SettingsAttr settings,
                        ArrayRef<Decision> decisions);
  void rewrite(Decision &decision, bool makesTiles, bool runsOnCpu);
};

} // namespace

/// P9: the head weights of an indexer, in which dtype whatsoever.
static Status checkPrecise(const ModuleFacts &facts) {
  auto weight = facts.tensors.find("weight");
  if (weight != facts.tensors.end() &&
      (weight->second.type == StoredType::BF16 ||
       weight->second.type == StoredType::F16 ||
       weight->second.type == StoredType::F32))
    return Status::success();
  return inputError(facts.module,
                    "weight is " +
                        (weight == facts.tensors.end()
                             ? std::string("absent")
                             : weight->second.describe()) +
                        "; it decides which keys are read and is BF16, F16 or "
                        "F32",
                    "P9");
}

LogicalResult ResolveQuantMethodsPass::decideOne(Operation *op, Value weight,
                                                 const Choices &choices,
                                                 Decision &decision) {
  auto source = weight.getDefiningOp<model::WeightOp>();
  if (!source || source.getPaths().size() != 1)
    return op->emitOpError() << "weight is not one model.weight of one module; "
                                "methods are resolved before projections are "
                                "fused [C11]";
  decision.weights.push_back(source);
  auto packed = dyn_cast<q::TensorType>(weight.getType());
  if (packed && packed.isGguf() && !op->hasAttr("method"))
    return success();
  if (packed || op->hasAttr("method"))
    return op->emitOpError() << "has a method already [C11]";
  ModuleFacts facts = getFacts(op, source);
  const QuantConfig *quant = choices.quant ? &*choices.quant : nullptr;
  auto refuse = [&](const Status &status) {
    InFlightDiagnostic diag = emitError(op->getLoc());
    const ErrorInfo &info = status.info();
    diag << info.subject << ": " << info.message << " [" << info.rule << "]";
    for (const std::string &note : info.notes)
      diag.attachNote() << note;
    noteOtherLayers(*diag.getUnderlyingDiagnostic(), source.getLayer());
    return failure();
  };
  if (op->hasAttr("precise")) {
    Status precise = checkPrecise(facts);
    return precise.ok() ? success() : refuse(precise);
  }
  addNibbleSides(source, quant, facts);
  Result<ResolvedModule> method = resolveModule(quant, facts);
  if (!method)
    return refuse(method.status());
  if (sharesWords(method->format))
    addExpertSides(source, method->format, facts);
  ContractQuery query = choices.query;
  query.k = facts.k;
  Result<Contract> contract =
      contractFor(*method, choices.numerics, query, facts.module);
  if (!contract)
    return refuse(contract.status());
  MLIRContext *context = &getContext();
  if (decision.weights.size() > 1 &&
      (toAttr(*method, context) != toAttr(decision.method, context) ||
       toAttr(*contract, context) != toAttr(decision.contract, context)))
    return refuse(inputError(facts.module,
                             "is " + print(toAttr(*method, context)) + ", '" +
                                 nameWeight(decision.weights[0]) + "' is " +
                                 print(toAttr(decision.method, context)) +
                                 "; the matrices of an expert have one method",
                             "C8"));
  if (sharesWords(method->format)) {
    decision.sides.push_back({facts.experts, facts.n, facts.k});
    if (contract->activation && (method->format.code != CodeType::E2M1 ||
                                 method->input.code != CodeType::E2M1))
      return refuse(inputError(
          facts.module,
          "is " + nameFormat(*method) + ", whose activations " +
              choices.numerics.name +
              " quantises, which is not built yet; --activation-quant off "
              "runs its weights",
          "B4"));
  }
  if (decision.weights.size() == 1)
    decision.method.notes.clear();
  std::vector<ErrorInfo> notes = std::move(decision.method.notes);
  decision.method = method.take();
  decision.contract = contract.take();
  decision.method.notes.insert(decision.method.notes.begin(), notes.begin(),
                               notes.end());
  return success();
}

LogicalResult
ResolveQuantMethodsPass::decide(Operation *op, ValueRange weights,
                                const Choices &choices,
                                SmallVectorImpl<Decision> &decisions) {
  Decision decision{op, {}, {}, {}};
  for (Value weight : weights)
    if (failed(decideOne(op, weight, choices, decision)))
      return failure();
  decisions.push_back(std::move(decision));
  return success();
}

/// What the headers settled (C13), and what loading will do (W10).
void ResolveQuantMethodsPass::report(const Decision &decision) {
  for (const ErrorInfo &note : decision.method.notes) {
    InFlightDiagnostic diag = emitRemark(decision.op->getLoc());
    diag << note.subject << ": " << note.message << " [" << note.rule << "]";
  }
  if (decision.method.whileLoading)
    remark::passed(
        decision.op->getLoc(),
        remark::RemarkOpts::name("quantised-while-loading").category(kFlag))
        << nameModule(decision.op) + ": is stored plain and quantised while "
                                     "loading, one scale a channel [W10]";
}

/// Preferences that nothing here has a choice for: each says why.
void ResolveQuantMethodsPass::reportUnfollowed(model::SettingsAttr settings,
                                               ArrayRef<Decision> decisions) {
  ModuleOp module = getOperation();
  auto contains = [&](auto isOne) {
    return module
        .walk([&](Operation *op) {
          return isOne(op) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  };
  auto missed = [&](const Twine &text) {
    emitMissed(module, kFlag, "preference", text.str());
  };
  if (settings.getRequantMax() &&
      llvm::none_of(decisions, [](const Decision &d) {
        return d.method.quantized && d.method.format == WeightFormat() &&
               (d.method.whileLoading ||
                d.method.weight == Granularity::perTensor());
      }))
    missed("--requant-max: no matrix has one FP8 scale a tensor, so none takes "
           "the largest of its shards' [W8]");
  StringRef mxfp8As = settings.getMxfp8As();
  auto isMxfp8 = [](const Decision &d) {
    return d.method.quantized && d.method.format.code == CodeType::E4M3 &&
           d.method.format != WeightFormat();
  };
  if (!mxfp8As.empty() && llvm::none_of(decisions, isMxfp8))
    missed("--mxfp8-as " + mxfp8As + ": no module is MXFP8 [B6]");
  else if (!mxfp8As.empty() && llvm::any_of(decisions, [&](const Decision &d) {
             return isMxfp8(d) && d.contract.weight == d.method.weight &&
                    (mxfp8As == "block" || d.contract.activation);
           }))
    missed("--mxfp8-as " + mxfp8As + ": " + settings.getNumerics() +
           " multiplies MXFP8 as it is [B6]");
  if (settings.getMla() != "auto" &&
      !contains([](Operation *op) { return isa<model::MlaAttentionOp>(op); }))
    missed("--mla " + settings.getMla() +
           ": no attention here is latent [W12]");
  if (settings.getIndexCache() != "fp8" &&
      !contains([](Operation *op) { return isa<model::IndexerOp>(op); }))
    missed("--index-cache " + settings.getIndexCache() +
           ": no layer here has an indexer [P9]");
}

/// What a GGUF file packs says itself how: the method is the file's, not a
/// config's, and a weight only on every target (C2, B4).
static std::pair<q::MethodAttr, q::ContractAttr>
describeGguf(q::TensorType type) {
  MLIRContext *context = type.getContext();
  auto method =
      q::MethodAttr::get(context, "gguf", type.getGranularity(),
                         type.getScaleType(), q::ActivationScheme::None);
  if (type.getTiled())
    return {method, toWordContract(type, /*tiled=*/true)};
  return {method,
          q::ContractAttr::get(context, type.getGranularity(),
                               type.getScaleType(), q::GranularityAttr(),
                               /*isStatic=*/false, /*ue8m0=*/false)};
}

/// FP4 on both sides (N7): activations in groups of the weight's, below a
/// stored scale (NVFP4) or with a power of two each (MXFP4). \param tiled where
/// the CPU multiplies; other kernels read weights as they are stored.
static q::ContractAttr toFp4Contract(q::TensorType stored, bool tiled) {
  q::TensorType type = tiled ? stored.getTiled() : stored;
  const bool isMx = isa<Float8E8M0FNUType>(type.getScaleType());
  return q::ContractAttr::get(
      stored.getContext(), type.getGranularity(), type.getScaleType(),
      type.getGranularity(), /*isStatic=*/!isMx, /*ue8m0=*/isMx,
      type.getElementType(), FloatAttr(), type.getLayout());
}

void ResolveQuantMethodsPass::rewrite(Decision &decision, bool makesTiles,
                                      bool runsOnCpu) {
  MLIRContext *context = &getContext();
  q::MethodAttr method = toAttr(decision.method, context);
  q::ContractAttr contract = toAttr(decision.contract, context);
  auto packed =
      dyn_cast<q::TensorType>(decision.weights[0].getResult().getType());
  if (packed)
    std::tie(method, contract) = describeGguf(packed);
  decision.op->setAttr("method", method);
  decision.op->setAttr("contract", contract);
  if (packed) {
    ++numQuantized;
    return; // of its type since the import
  }
  if (!decision.method.quantized) {
    ++numUnquantized;
    return;
  }
  ++numQuantized;
  if (decision.method.whileLoading)
    return; // the checkpoint stores a plain weight, and the type says so
  for (auto [i, sides] : llvm::enumerate(decision.sides)) {
    q::TensorType type =
        toWordType(decision.method, sides.n, sides.k, sides.experts, context);
    decision.op->setAttr(
        "contract",
        decision.contract.activation
            ? toFp4Contract(type, runsOnCpu)
            : toWordContract(type, decision.contract.repacked || makesTiles));
    decision.weights[i].getResult().setType(type);
  }
  if (!decision.sides.empty())
    return;
  for (model::WeightOp weight : decision.weights) {
    auto stored = cast<RankedTensorType>(weight.getResult().getType());
    weight.getResult().setType(
        q::TensorType::get(stored.getShape(), stored.getElementType(),
                           method.getWeight(), method.getScale()));
  }
}

/// The weights that a method answers for (C11); a router's and an embedding's
/// are nobody's.
static SmallVector<Value> getWeights(Operation *op) {
  if (auto linear = dyn_cast<model::LinearOp>(op))
    return {linear.getWeight()};
  if (auto lmHead = dyn_cast<model::LmHeadOp>(op))
    return {lmHead.getWeight()};
  if (auto attention = dyn_cast<model::MlaAttentionOp>(op))
    return llvm::to_vector(attention.getKvB());
  SmallVector<Value> weights;
  if (auto experts = dyn_cast<model::ExpertsOp>(op)) {
    llvm::append_range(weights, experts.getGateUp());
    weights.push_back(experts.getDown());
  }
  return weights;
}

void ResolveQuantMethodsPass::runOnOperation() {
  ModuleOp module = getOperation();
  model::SettingsAttr settings = model::getSettings(module);
  if (!settings) {
    module.emitOpError() << "has no " << model::kSettingsName
                         << "; import writes it";
    return signalPassFailure();
  }
  Result<Choices> choices = readChoices(module, settings);
  if (!choices) {
    (void)emitStatus(module, choices.status());
    return signalPassFailure();
  }

  SmallVector<Decision, 0> decisions;
  bool refused = false;
  module.walk([&](Operation *op) {
    SmallVector<Value> weights = getWeights(op);
    if (!weights.empty())
      refused |= failed(decide(op, weights, *choices, decisions));
  });
  if (refused)
    return signalPassFailure();
  if (failed(emitStatus(module, checkSerialized(module, *choices, decisions))))
    return signalPassFailure();

  if (choices->quant)
    for (const ErrorInfo &remark : choices->quant->remarks)
      emitRemark(module.getLoc()) << remark.subject << ": " << remark.message
                                  << " [" << remark.rule << "]";
  // What widens words on the CPU reads tiles, whichever target's contracts it
  // follows (B4).
  const bool makesTiles = choices->target.isCpu() || choices->numerics.isCpu();
  for (Decision &decision : decisions) {
    report(decision);
    rewrite(decision, makesTiles, choices->target.isCpu());
  }
  reportUnfollowed(settings, decisions);
  bool anyFp8 = llvm::any_of(decisions, [](const Decision &d) {
    return d.method.quantized && d.method.format.code == CodeType::E4M3;
  });
  if (anyFp8 && choices->numerics.lacksFp8Products())
    emitWarning(module.getLoc())
        << (choices->numerics.name == choices->target.name ? "--target "
                                                           : "--numerics ")
        << choices->numerics.name
        << ": no FP8 tensor cores; weights stay F8_E4M3 and are widened to "
           "BF16 in the kernel, activations are not quantised [B4]";
}
