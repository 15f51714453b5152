//===- Operators.cpp - The boundaries of one operator ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operators.h"

#include "Values.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace octet;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// The path without its last component.
static StringRef dropLast(StringRef path) { return path.rsplit('.').first; }

/// What reads a value, in the order of the block.
static SmallVector<Operation *> listReaders(Operation *op) {
  SmallVector<Operation *> readers(op->getUsers());
  llvm::sort(readers, [](Operation *a, Operation *b) {
    return a->getBlock() == b->getBlock() && a->isBeforeInBlock(b);
  });
  return readers;
}

std::string octet::findModulePath(Operation *op) {
  if (auto path = op->getAttrOfType<StringAttr>("module"))
    return path.str();
  // A rounding belongs to what reads it, and so does a write to a cache.
  if (auto write = dyn_cast<q::KvWriteOp>(op)) {
    for (Operation *user : write.getCache().getUsers())
      if (user != op)
        return findModulePath(user);
    return "";
  }
  if (isa<q::QuantizeOp>(op)) {
    for (Operation *user : listReaders(op))
      if (std::string path = findModulePath(user); !path.empty())
        return path;
    return "";
  }
  if (auto table = dyn_cast<model::EmbeddingOp>(op)) {
    auto weight = table.getWeight().getDefiningOp<q::WeightOp>();
    if (!weight)
      return "";
    StringRef slot = weight.getSlot();
    bool isLayered = slot.consume_front("layers.");
    return (isLayered ? "model.layers.{l}." : "model.") + slot.str();
  }
  // An activation is part of the block whose matrices it stands between.
  for (Operation *user : op->getUsers()) {
    if (isa<q::QuantizeOp>(user))
      return dropLast(findModulePath(user)).str();
    if (isa<model::SwigluOp>(op) && user->hasAttr("module"))
      return dropLast(findModulePath(user)).str();
  }
  return "";
}

LedgerEntry octet::makeEntry(Operation *op, StringRef rules, StringRef name) {
  LedgerEntry entry;
  for (StringRef rule : llvm::split(rules, ' '))
    entry.rules.push_back(rule.str());
  entry.op = name.str();
  entry.module = findModulePath(op);
  return entry;
}

std::string octet::formatNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

LedgerPart octet::makeWeightOperand(Value value) {
  auto weight = value.getDefiningOp<q::WeightOp>();
  return makeWeightPart(value.getType(),
                        weight ? weight.getSlot() : StringRef());
}

//===----------------------------------------------------------------------===//
// Products and roundings
//===----------------------------------------------------------------------===//

/// What the result is rounded to, once.
static void roundResult(LedgerEntry &entry, Type result) {
  entry.out.push_back(makeTokenPart(result));
  entry.error =
      describeRounding(cast<RankedTensorType>(result).getElementType());
}

void octet::describeProduct(LedgerEntry &entry, Type input, Type weight,
                            int64_t k, Type result) {
  auto codes = dyn_cast<q::TensorType>(weight);
  auto read = dyn_cast<q::TensorType>(input);
  entry.sumBound = boundSum(k);
  if (!codes) {
    entry.arithmetic = "FP32 sum";
    return;
  }
  std::string name = nameElementType(codes.getElementType());
  if (!read) {
    entry.rules.push_back("B4");
    std::string plain = nameElementType(q::getStorage(input));
    // Codes of FP8 are exact in the activation dtype; the block product of
    // GGUF rounds what code and scale are, the tiled one does not.
    bool isExact = isa<FloatType>(codes.getElementType()) || !codes.isGguf();
    entry.arithmetic = name + " widened, FP32 sum";
    if (!isExact && plain != "F32")
      entry.notes.push_back("weights are rounded to " + plain +
                            " where they are widened");
    return;
  }
  if (codes.getElementType().isInteger()) {
    entry.rules.push_back("N6b");
    entry.arithmetic = "exact INT32 sum, times sx·sw once";
    entry.sumBound = 0;
  } else if (codes.getGranularity().isGroup()) {
    entry.rules.push_back("N7");
    entry.arithmetic = llvm::formatv(
        "FP32 sums of {0} products, each times sx·sw, times gx·gw once",
        codes.getGranularity().getBlockK());
  } else if (codes.getGranularity().isBlock()) {
    entry.rules.push_back("N6");
    entry.arithmetic =
        llvm::formatv("FP32 sums of {0} products, each times sx·sw",
                      codes.getGranularity().getBlockK());
  } else {
    entry.rules.push_back("N6b");
    entry.arithmetic = "FP32 sum, times sx·sw once";
  }
}

void octet::describeQuantize(LedgerEntry &entry, q::TensorType type,
                             bool isStatic, bool powerOfTwo) {
  if (isa<Float4E2M1FNType>(type.getElementType())) {
    entry.rules.push_back("N7");
    entry.arithmetic = "FP32, s = e4m3(amax / 6 / g), codes e2m1(x / (s·g)), g "
                       "the checkpoint's scale";
    entry.error = describeRounding(type, powerOfTwo);
    entry.notes.push_back("s beyond 448 saturates, and its values with it");
    return;
  }
  bool isInteger = type.getElementType().isInteger();
  if (isInteger)
    entry.rules.push_back("N7");
  else
    entry.rules.insert(entry.rules.end(),
                       isStatic     ? std::initializer_list<std::string>{"N2"}
                       : powerOfTwo ? std::initializer_list<std::string>{"N4"}
                                    : std::initializer_list<std::string>{"N3"});
  std::string largest = "127";
  if (auto format = dyn_cast<FloatType>(type.getElementType()))
    largest = llvm::formatv(
        "{0}", int64_t(llvm::APFloat::getLargest(format.getFloatSemantics())
                           .convertToDouble()));
  entry.arithmetic = isStatic ? "FP32, the checkpoint's scale"
                     : powerOfTwo
                         ? "FP32, s = 2^ceil(log2(amax / " + largest + "))"
                         : "FP32, s = amax / " + largest;
  entry.error = describeRounding(type, powerOfTwo);
  if (isStatic)
    entry.notes.push_back("a value beyond " + largest + " s saturates");
}

/// An activation with what its rounding says of the scales.
static LedgerPart makeInputPart(Value value) {
  LedgerPart part = makeTokenPart(value.getType());
  if (auto rounded = value.getDefiningOp<q::QuantizeOp>())
    part.scales->powerOfTwo |= rounded.getUe8m0();
  return part;
}

static void addQuantize(q::QuantizeOp op, std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, "P3", "quantise");
  auto type = cast<q::TensorType>(op.getResult().getType());
  entry.in.push_back(makeTokenPart(op.getInput().getType()));
  entry.out.push_back(makeTokenPart(type));
  entry.out.back().scales->powerOfTwo |= op.getUe8m0();
  describeQuantize(entry, type, bool(op.getScale()), op.getUe8m0());
  if (std::optional<llvm::APFloat> bound = op.getBound()) {
    std::string text = formatNumber(bound->convertToDouble());
    entry.arithmetic += ", amax at most " + text;
    entry.notes.push_back("a value beyond " + text + " saturates");
  }
  for (Operation *user : llvm::drop_begin(listReaders(op)))
    if (std::string path = findModulePath(user); path != entry.module)
      entry.notes.push_back("also read by " + path);
  entries.push_back(std::move(entry));
}

static void addProduct(Operation *op, StringRef rule, StringRef name,
                       std::vector<LedgerEntry> &entries) {
  Value input = op->getOperand(0), weight = op->getOperand(1);
  Type result = op->getResult(0).getType();
  auto codes = dyn_cast<q::TensorType>(weight.getType());
  int64_t k = codes ? codes.getK()
                    : cast<RankedTensorType>(weight.getType()).getDimSize(1);
  LedgerEntry entry = makeEntry(op, rule, name);
  entry.in.push_back(makeInputPart(input));
  entry.weights.push_back(makeWeightOperand(weight));
  describeProduct(entry, input.getType(), weight.getType(), k, result);
  roundResult(entry, result);
  if (auto linear = dyn_cast<model::LinearOp>(op); linear && linear.getBias()) {
    entry.weights.push_back(makeWeightOperand(linear.getBias()));
    entry.arithmetic += ", bias in FP32";
  }
  entries.push_back(std::move(entry));
}

//===----------------------------------------------------------------------===//
// Row operators
//===----------------------------------------------------------------------===//

/// Operators that read rows, compute in FP32 and round once.
static LedgerEntry makeRowEntry(Operation *op, StringRef rules, StringRef name,
                                StringRef arithmetic) {
  LedgerEntry entry = makeEntry(op, rules, name);
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    if (isa_and_nonnull<q::WeightOp>(def))
      entry.weights.push_back(makeWeightOperand(operand));
    else if (auto rows = dyn_cast<RankedTensorType>(operand.getType());
             rows && isa<FloatType>(rows.getElementType()))
      entry.in.push_back(makeTokenPart(operand.getType()));
  }
  entry.arithmetic = arithmetic.str();
  roundResult(entry, op->getResult(0).getType());
  return entry;
}

/// The residual stream is what layers pass on and add to.
static bool isResidual(Value value) {
  return isa<BlockArgument>(value) ||
         isa_and_nonnull<model::AddOp>(value.getDefiningOp());
}

static StringRef findNormRule(Operation *op) {
  // The last norm's rows are selected for the logits.
  if (llvm::any_of(op->getUsers(), [](Operation *user) {
        return isa<model::SelectRowsOp, model::LmHeadOp>(user);
      }))
    return "P16";
  return isResidual(op->getOperand(0)) ? "P2" : "P5";
}

static void addEmbedding(model::EmbeddingOp op,
                         std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, "P1", "embedding");
  entry.in.push_back(makeTokenPart(op.getIds().getType()));
  entry.in.back().name = "token id";
  entry.in.back().shape = {1};
  entry.weights.push_back(makeWeightOperand(op.getWeight()));
  Type result = op.getResult().getType();
  entry.arithmetic = "none";
  if (isa<q::TensorType>(op.getWeight().getType())) {
    entry.arithmetic = "FP32, one row widened";
    roundResult(entry, result);
  } else if (q::getStorage(op.getWeight().getType()) == q::getStorage(result)) {
    entry.out.push_back(makeTokenPart(result));
  } else {
    roundResult(entry, result);
  }
  entries.push_back(std::move(entry));
}

static void addAdd(model::AddOp op, std::vector<LedgerEntry> &entries) {
  bool joinsExperts =
      isa_and_nonnull<model::ExpertsOp>(op.getLhs().getDefiningOp());
  entries.push_back(makeRowEntry(
      op, joinsExperts ? "P15 N9" : "P2 N9",
      joinsExperts ? "add shared experts" : "residual add", "FP32"));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Status octet::addCacheWrite(LedgerEntry entry, Type input, q::KvType cache,
                            std::vector<LedgerEntry> &entries) {
  entry.out = makeCacheParts(cache);
  entry.isCache = true;
  int64_t sum = 0;
  for (const LedgerPart &part : entry.out)
    sum += part.getBytes();
  if (sum != cache.getBytesPerToken())
    return internalError(entry.module,
                         "the parts of its cache are " + std::to_string(sum) +
                             " bytes a token, its type has " +
                             std::to_string(cache.getBytesPerToken()));
  Type element = cache.getElementType();
  if (element == q::getStorage(input)) {
    entry.arithmetic = "none";
  } else {
    entry.error = describeRounding(element);
    bool isDynamic = entry.out.front().scales.has_value();
    entry.arithmetic = isDynamic ? "FP32, s = amax / 448" : "FP32, x / s";
    if (!isDynamic && isa<Float8E4M3FNType>(element))
      entry.notes.push_back("one scale each of the layer, from the checkpoint "
                            "or 1.0 (P8); a value beyond 448 s saturates");
  }
  entries.push_back(std::move(entry));
  return Status::success();
}

static Status addKvWrite(q::KvWriteOp op, std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, "P7a P7b", "KV write");
  for (auto [value, name] :
       {std::pair(op.getK(), "keys"), std::pair(op.getV(), "values")}) {
    entry.in.push_back(makeTokenPart(value.getType()));
    entry.in.back().name = name;
  }
  if (op.getKScale())
    entry.rules.push_back("P8");
  return addCacheWrite(std::move(entry), op.getK().getType(),
                       op.getCache().getType(), entries);
}

static void addAttention(model::AttentionOp op,
                         std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, "P11", "attention");
  Type result = op.getResult().getType();
  entry.in.push_back(makeTokenPart(op.getQ().getType()));
  entry.in.back().name = "queries";
  if (op.getCache())
    llvm::append_range(entry.in, makeCacheParts(op.getCache().getType()));
  std::string dtype = nameElementType(q::getStorage(result));
  if (op.getSinks())
    entry.weights.push_back(makeWeightOperand(op.getSinks()));
  entry.arithmetic =
      "FP32 scores, maximum and sum" +
      (dtype == "F32" ? "" : "; probabilities in " + dtype + " before P·V");
  roundResult(entry, result);
  entries.push_back(std::move(entry));
}

//===----------------------------------------------------------------------===//
// All operators
//===----------------------------------------------------------------------===//

static void addSampling(model::OutputOp op, std::vector<LedgerEntry> &entries) {
  if (!isa_and_nonnull<model::LmHeadOp, model::AllGatherOp>(
          op.getInput().getDefiningOp()))
    return; // of an extracted module
  LedgerEntry entry = makeEntry(op, "P17", "sampling");
  entry.in.push_back(makeTokenPart(op.getInput().getType()));
  entry.in.back().name = "logits";
  entry.arithmetic = "FP32 temperature, top-k, top-p, min-p, softmax";
  LedgerPart id =
      makePart("token id", IntegerType::get(op.getContext(), 32), {1});
  entry.out.push_back(id);
  entries.push_back(std::move(entry));
  if (!op->getParentOfType<func::FuncOp>().getSymName().starts_with("draft"))
    return;
  LedgerEntry accept = makeEntry(op, "P18 W14", "acceptance");
  LedgerPart odds =
      makePart("probability", Float32Type::get(op.getContext()), {1});
  accept.in = {odds, odds};
  accept.arithmetic = "FP32 ratio of the model's to the draft's, against a "
                      "random number";
  accept.out.push_back(id);
  entries.push_back(std::move(accept));
}

/// An operator that nothing here knows: its types speak for themselves.
static void addUnknown(Operation *op, std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, "", op->getName().getStringRef());
  entry.rules.clear();
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType, q::TensorType>(operand.getType()))
      (operand.getDefiningOp<q::WeightOp>() ? entry.weights : entry.in)
          .push_back(makeWeightOperand(operand));
  for (Value result : op->getResults())
    if (isa<RankedTensorType, q::TensorType>(result.getType()))
      entry.out.push_back(makeTokenPart(result.getType()));
  if (!entry.out.empty())
    entries.push_back(std::move(entry));
}

static void addCollective(Operation *op, StringRef rule, StringRef name,
                          StringRef arithmetic,
                          std::vector<LedgerEntry> &entries) {
  LedgerEntry entry = makeEntry(op, rule, name);
  Type input = op->getOperand(0).getType();
  Type result = op->getResult(0).getType();
  entry.in.push_back(makeTokenPart(input));
  entry.out.push_back(makeTokenPart(result));
  entry.arithmetic = arithmetic.str();
  entry.isMoved = true;
  // One rank has the row of a token and the others zeros: the sum is exact.
  if (op->getOperand(0).getDefiningOp<model::EmbeddingOp>())
    entry.arithmetic = "one rank's row, zeros of the others";
  else if (isa<model::AllReduceOp, model::ScatterSumOp>(op))
    entry.error = describeRounding(q::getStorage(result));
  if (auto ranks = op->getAttrOfType<IntegerAttr>("ranks"))
    entry.notes.push_back(std::to_string(ranks.getInt()) + " ranks");
  if (auto groups = op->getAttrOfType<IntegerAttr>("groups"))
    entry.notes.push_back(std::to_string(groups.getInt()) +
                          " data-parallel groups");
  entries.push_back(std::move(entry));
}

Status octet::addBoundaries(Operation *op, std::vector<LedgerEntry> &entries) {
  if (auto write = dyn_cast<q::KvWriteOp>(op))
    return addKvWrite(write, entries);
  OCTET_TRY_ASSIGN(bool isSparse, addSparseBoundaries(op, entries));
  if (isSparse)
    return Status::success();
  llvm::TypeSwitch<Operation *>(op)
      // What names values, or moves columns and rows inside a rank.
      .Case<q::WeightOp, q::KvCacheOp, model::FieldOp, model::TraceOp,
            model::SplitOp, model::JoinOp, model::SelectRowsOp,
            model::OwnColumnsOp, model::PlaceColumnsOp>([](Operation *) {})
      .Case([&](model::EmbeddingOp op) { addEmbedding(op, entries); })
      .Case([&](q::QuantizeOp op) { addQuantize(op, entries); })
      .Case([&](model::LinearOp op) {
        bool isQuantized = isa<q::TensorType>(op.getWeight().getType());
        bool isIndexer =
            op.getPrecise() && op.getModule().contains(".indexer.");
        addProduct(op,
                   isIndexer     ? "P9"
                   : isQuantized ? "P4"
                                 : "C11",
                   "linear", entries);
      })
      .Case(
          [&](model::LmHeadOp op) { addProduct(op, "P16", "logits", entries); })
      .Case([&](model::RmsNormOp op) {
        entries.push_back(makeRowEntry(op, findNormRule(op), "RMSNorm",
                                       "FP32 mean of squares, root"));
      })
      .Case([&](model::LayerNormOp op) {
        entries.push_back(makeRowEntry(op, "P5", "layer norm",
                                       "FP32 mean and variance, root"));
      })
      .Case([&](model::RopeOp op) {
        entries.push_back(makeRowEntry(op, "P6", "RoPE", "FP32 angles"));
        // The table is no layer's own.
        entries.back().weights.clear();
      })
      .Case([&](model::SwigluOp op) {
        entries.push_back(makeRowEntry(op, "N9", "SwiGLU", "FP32"));
      })
      .Case([&](model::AddOp op) { addAdd(op, entries); })
      .Case([&](model::AttentionOp op) { addAttention(op, entries); })
      .Case([&](model::OutputOp op) { addSampling(op, entries); })
      .Case([&](model::AllReduceOp op) {
        addCollective(op, "P15", "all-reduce", "FP32 sum in rank order",
                      entries);
      })
      .Case([&](model::AllGatherOp op) {
        addCollective(op, "P16", "all-gather", "none, in rank order", entries);
      })
      .Case([&](model::GatherTokensOp op) {
        addCollective(op, "P13", "gather tokens", "none, in rank order",
                      entries);
      })
      .Case([&](model::ScatterSumOp op) {
        addCollective(op, "P15", "scatter sum", "FP32 sum in rank order",
                      entries);
      })
      .Case([&](model::BroadcastOp op) {
        addCollective(op, "P10", "broadcast", "none, rank 0's choice", entries);
      })
      .Default([&](Operation *op) { addUnknown(op, entries); });
  return Status::success();
}
