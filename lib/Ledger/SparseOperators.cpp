//===- SparseOperators.cpp - Boundaries inside of operators ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Latent attention, indexers and experts are one operator each in the IR and
// several boundaries of SPEC section 5. What is between them follows from the
// operator's types, attributes and contract.
//
//===----------------------------------------------------------------------===//

#include "Operators.h"
#include "Values.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/PackedTypes.h"
#include "dialects/Quant/QuantOps.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace octet;

/// Rows of a step, of one dtype.
static RankedTensorType makeRows(Type elementType, ArrayRef<int64_t> widths) {
  SmallVector<int64_t> shape{ShapedType::kDynamic};
  llvm::append_range(shape, widths);
  return RankedTensorType::get(shape, elementType);
}

/// What a contract makes of an activation inside of an operator: null if it
/// stays as it is.
static q::TensorType getRounded(q::ContractAttr contract, int64_t width) {
  if (!contract || !contract.quantizesActivation())
    return {};
  return q::getActivationType(contract, {ShapedType::kDynamic, width});
}

/// The same part `times` over, for the rows of a token's experts.
static LedgerPart repeat(LedgerPart part, int64_t times) {
  part.shape.insert(part.shape.begin(), times);
  part.elements *= times;
  part.codeBytes *= times;
  if (part.scales && !part.scales->isStatic) {
    part.scales->shape.insert(part.scales->shape.begin(), times);
    part.scales->count *= times;
    part.scales->bytes *= times;
  }
  return part;
}

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

static std::string nameForm(size_t matrices) {
  return matrices == 1   ? "explicit form"
         : matrices == 2 ? "absorbed form"
                         : "explicit or absorbed form, by the number of rows";
}

/// kv_b as a linear over the latents that attention reads (P4), with the
/// rounding that the absorbed form does not have (W12).
static void addExplicitForm(model::MlaAttentionOp op,
                            std::vector<LedgerEntry> &entries) {
  Type dtype = q::getStorage(op.getResult().getType());
  std::string path = findModulePath(op) + ".kv_b_proj";
  Type weight = op.getKvB().front().getType();
  int64_t rank = op.getRank();
  q::SliceAttr padded = op.getKvBRowsAttr();
  int64_t own = op.getHeads() * (op.getNopeDim() + op.getValueDim());
  int64_t width = padded ? padded.getSize() : own;
  Type input = makeRows(dtype, {rank});
  q::ContractAttr contract = op.getContractAttr();
  if (q::TensorType codes = getRounded(contract, rank)) {
    LedgerEntry entry = makeEntry(op, "P3 W12", "quantise");
    entry.module = path;
    entry.in.push_back(makeTokenPart(input));
    entry.in.back().name = "latent";
    entry.out.push_back(makeTokenPart(codes));
    entry.out.back().scales->powerOfTwo |= contract.getUe8m0();
    describeQuantize(entry, codes, contract.getIsStatic(), contract.getUe8m0());
    entry.notes.push_back("the absorbed form has no such rounding: this is "
                          "what the two differ by");
    entries.push_back(std::move(entry));
    input = codes;
  }
  Type result = makeRows(dtype, {width});
  LedgerEntry entry = makeEntry(
      op, isa<q::TensorType>(weight) ? "P4 W12" : "C11 W12", "linear");
  entry.module = path;
  entry.in.push_back(makeTokenPart(input));
  entry.weights.push_back(makeWeightOperand(op.getKvB().front()));
  describeProduct(entry, input, weight, rank, result);
  entry.out.push_back(makeTokenPart(result));
  entry.error = describeRounding(dtype);
  entry.notes.push_back("of each token that attention reads");
  if (padded)
    entry.notes.push_back(std::to_string(own) + " of the " +
                          std::to_string(width) +
                          " columns are the rank's own, the others zero (W3)");
  entries.push_back(std::move(entry));
}

/// Queries to the latent's space, and latents to values, head by head.
static void addAbsorbedForm(model::MlaAttentionOp op,
                            std::vector<LedgerEntry> &entries) {
  Type dtype = q::getStorage(op.getResult().getType());
  OperandRange matrices = op.getKvB().take_back(2);
  int64_t heads = op.getHeads(), rank = op.getRank();
  int64_t nope = op.getNopeDim(), value = op.getValueDim();
  struct Half {
    const char *name;
    int64_t from, to;
  } halves[] = {{"q·w_kc", nope, rank}, {"latent·w_vc", rank, value}};
  for (auto [half, matrix] : llvm::zip_equal(halves, matrices)) {
    LedgerEntry entry = makeEntry(op, "W12", half.name);
    entry.module += ".kv_b_proj";
    entry.in.push_back(makeTokenPart(makeRows(dtype, {heads, half.from})));
    entry.weights.push_back(makeWeightOperand(matrix));
    entry.arithmetic = "FP32 sum, head by head";
    entry.sumBound = boundSum(half.from);
    entry.out.push_back(makeTokenPart(makeRows(dtype, {heads, half.to})));
    entry.error = describeRounding(dtype);
    entries.push_back(std::move(entry));
  }
}

static Status addLatentAttention(model::MlaAttentionOp op,
                                 std::vector<LedgerEntry> &entries) {
  Type result = op.getResult().getType();
  Type dtype = q::getStorage(result);
  if (op.getCache()) {
    LedgerEntry entry = makeEntry(op, "P7", "KV write");
    for (auto [value, name] : {std::pair(op.getLatent(), "latent"),
                               std::pair(op.getKRope(), "rotated key")})
      if (value) {
        entry.in.push_back(makeTokenPart(value.getType()));
        entry.in.back().name = name;
      }
    OCTET_TRY(addCacheWrite(std::move(entry), result, op.getCache().getType(),
                            entries));
  }
  size_t matrices = op.getKvB().size();
  if (matrices != 2)
    addExplicitForm(op, entries);
  if (matrices >= 2)
    addAbsorbedForm(op, entries);
  LedgerEntry entry = makeEntry(op, "P11", "attention");
  entry.in.push_back(makeTokenPart(op.getQ().getType()));
  entry.in.back().name = "queries";
  if (op.getCache())
    llvm::append_range(entry.in, makeCacheParts(op.getCache().getType()));
  std::string name = nameElementType(dtype);
  entry.arithmetic =
      "FP32 scores, maximum and sum" +
      (name == "F32" ? "" : "; probabilities in " + name + " before P·V");
  entry.out.push_back(makeTokenPart(result));
  entry.error = describeRounding(dtype);
  entry.notes.push_back(nameForm(matrices) + " of kv_b_proj (W12)");
  if (op.getSelected())
    entry.notes.push_back(
        "reads " +
        std::to_string(cast<RankedTensorType>(op.getSelected().getType())
                           .getShape()
                           .back()) +
        " rows at most, those that an indexer chose (P9)");
  entries.push_back(std::move(entry));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Indexer
//===----------------------------------------------------------------------===//

static Status addIndexer(model::IndexerOp op,
                         std::vector<LedgerEntry> &entries) {
  MLIRContext *context = op.getContext();
  int64_t heads = op.getHeads(), dim = op.getHeadDim();
  q::KvType cache = op.getCache() ? op.getCache().getType() : q::KvType();
  bool isFp8 = cache && cache.getLayout() == q::KvLayout::FP8Indexer;
  LedgerPart queries = makeTokenPart(op.getQ().getType());
  if (isFp8) {
    // One scale for each head of 128, a power of two (N4).
    LedgerEntry entry = makeEntry(op, "P9 N4", "quantise queries");
    auto codes = q::TensorType::get(
        {1, heads * dim}, Float8E4M3FNType::get(context),
        q::GranularityAttr::get(context, q::GranularityKind::Block, 1, dim),
        Float32Type::get(context));
    entry.in.push_back(queries);
    queries = makeTokenPart(codes);
    queries.shape = {heads, dim};
    queries.scales->shape = {heads};
    queries.scales->powerOfTwo = true;
    entry.out.push_back(queries);
    entry.arithmetic = "FP32, s = 2^ceil(log2(amax / 448))";
    entry.error = describeRounding(codes, /*powerOfTwo=*/true);
    entry.notes.push_back("scales go into the head weights, not to a later "
                          "product");
    entries.push_back(std::move(entry));
  }
  if (cache) {
    LedgerEntry entry = makeEntry(op, "P9", "index key write");
    entry.in.push_back(makeTokenPart(op.getK().getType()));
    OCTET_TRY(
        addCacheWrite(std::move(entry), op.getK().getType(), cache, entries));
  }
  LedgerEntry entry = makeEntry(op, "P9", "index scores");
  entry.in.push_back(queries);
  if (cache)
    llvm::append_range(entry.in, makeCacheParts(cache));
  entry.in.push_back(makeTokenPart(op.getWeights().getType()));
  entry.in.back().name = "head weights";
  entry.arithmetic = llvm::formatv(
      "FP32: sum of w·relu(q·k) over {0} heads of {1}", heads, dim);
  entry.sumBound = boundSum(dim + heads);
  entry.out.push_back(
      makePart("logit of a key", Float32Type::get(context), {1}));
  entries.push_back(std::move(entry));

  LedgerEntry choice = makeEntry(op, "P9", "top-k");
  choice.in.push_back(
      makePart("logit of a key", Float32Type::get(context), {1}));
  choice.arithmetic = "comparison, ties to the lower position";
  choice.out.push_back(makeTokenPart(op.getRows().getType()));
  choice.out.back().name = "rows";
  entries.push_back(std::move(choice));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

static void addRouter(model::MoeRouterOp op,
                      std::vector<LedgerEntry> &entries) {
  MLIRContext *context = op.getContext();
  auto weight = cast<RankedTensorType>(op.getWeight().getType());
  int64_t experts = weight.getDimSize(0), width = weight.getDimSize(1);
  Type f32 = Float32Type::get(context);
  LedgerEntry entry = makeEntry(op, "P12 W13", "router");
  entry.in.push_back(makeTokenPart(op.getInput().getType()));
  entry.weights.push_back(makeWeightOperand(op.getWeight()));
  if (op.getBias())
    entry.weights.push_back(makeWeightOperand(op.getBias()));
  entry.arithmetic =
      ("FP32 sum, " + (op.getScore() == model::Score::ChosenSoftmax
                           ? StringRef("softmax of the chosen")
                           : model::stringifyScore(op.getScore())))
          .str();
  entry.sumBound = boundSum(width);
  entry.out.push_back(makePart("scores", f32, {experts}));
  entries.push_back(std::move(entry));

  LedgerEntry choice = makeEntry(op, "P12", "choose experts");
  choice.in.push_back(makePart("scores", f32, {experts}));
  if (op.getCorrection()) {
    choice.weights.push_back(makeWeightOperand(op.getCorrection()));
    choice.notes.push_back("the correction steers the choice only");
  }
  choice.arithmetic =
      ("FP32, top " + Twine(op.getTopK()) + " of " + Twine(experts)).str();
  if (op.getGroups() > 1)
    choice.arithmetic += (" in " + Twine(op.getTopGroups()) + " of " +
                          Twine(op.getGroups()) + " groups")
                             .str();
  if (op.getNormalize())
    choice.arithmetic += ", divided by their sum";
  if (double scale = op.getScale().convertToDouble(); scale != 1)
    choice.arithmetic += ", times " + formatNumber(scale);
  choice.out.push_back(makeTokenPart(op.getIds().getType()));
  choice.out.back().name = "experts";
  choice.out.push_back(makeTokenPart(op.getWeights().getType()));
  choice.out.back().name = "their weights";
  entries.push_back(std::move(choice));
}

/// Rows on their way to the experts of this rank (P13): tokens stand on all of
/// them, or were gathered before.
static void addDispatch(model::DispatchOp op,
                        std::vector<LedgerEntry> &entries) {
  model::DispatchedType type = op.getResult().getType();
  LedgerEntry entry = makeEntry(op, "P13 B7", "dispatch");
  entry.in.push_back(makeTokenPart(op.getInput().getType()));
  entry.out.push_back(repeat(makeTokenPart(type.getRows()), type.getChoices()));
  entry.arithmetic =
      ("none, rows by " + model::stringifyOrder(type.getOrder())).str();
  if (op.getEp() > 1)
    entry.notes.push_back("as many at most: the experts of one of " +
                          std::to_string(op.getEp()) + " groups of ranks");
  entries.push_back(std::move(entry));
}

/// Rows and width of an expert's matrices, 0 where words hold several codes.
static int64_t findExpertWidth(model::ExpertsOp op) {
  if (auto codes = dyn_cast<q::TensorType>(op.getDown().getType()))
    return codes.getK();
  auto plain = cast<RankedTensorType>(op.getDown().getType());
  return plain.getRank() == 3 && q::isPlainFloat(plain.getElementType())
             ? plain.getDimSize(2)
             : 0;
}

static void addBias(LedgerEntry &entry, Value bias) {
  if (!bias)
    return;
  entry.weights.push_back(makeWeightOperand(bias));
  entry.arithmetic += ", bias in FP32";
}

static void addExperts(model::ExpertsOp op, std::vector<LedgerEntry> &entries) {
  auto result = cast<RankedTensorType>(op.getResult().getType());
  Type dtype = result.getElementType();
  int64_t chosen =
      cast<RankedTensorType>(op.getIds().getType()).getShape().back();
  int64_t hidden = result.getShape().back(), width = findExpertWidth(op);
  Type rows = op.getInput().getType();
  if (auto dispatched = dyn_cast<model::DispatchedType>(rows))
    rows = dispatched.getRows();
  q::ContractAttr contract = op.getContractAttr();
  auto makeProduct = [&](StringRef name, Type input, int64_t k, Type output) {
    LedgerEntry entry = makeEntry(op, "P14", name);
    entry.in.push_back(repeat(makeTokenPart(input), chosen));
    entry.out.push_back(repeat(makeTokenPart(output), chosen));
    entry.sumBound = boundSum(k);
    entry.error = describeRounding(dtype);
    return entry;
  };

  /// As the contract rounds it, else as it is.
  auto round = [&](Type plain, int64_t columns) -> Type {
    q::TensorType codes = getRounded(contract, columns);
    if (!codes)
      return plain;
    LedgerEntry entry = makeProduct("quantise", plain, 0, codes);
    entry.rules.push_back("P3");
    for (LedgerPart &part : entry.out)
      part.scales->powerOfTwo |= contract.getUe8m0();
    describeQuantize(entry, codes, contract.getIsStatic(), contract.getUe8m0());
    entries.push_back(std::move(entry));
    return codes;
  };

  // Static scales are each expert's, and its kernel rounds its rows (W9).
  if (!isa<q::TensorType>(rows))
    rows = round(rows, hidden);
  Type both = makeRows(dtype, {2 * width}), one = makeRows(dtype, {width});
  LedgerEntry up = makeProduct("experts gate, up", rows, hidden, both);
  for (Value weight : op.getGateUp())
    up.weights.push_back(makeWeightOperand(weight));
  describeProduct(up, rows, op.getGateUp().front().getType(), hidden, both);
  addBias(up, op.getGateUpBias());
  entries.push_back(std::move(up));

  LedgerEntry gating = makeProduct("SwiGLU", both, 0, one);
  gating.rules.push_back("N9");
  gating.arithmetic = "FP32";
  entries.push_back(std::move(gating));

  Type input = round(one, width);
  LedgerEntry down = makeProduct("experts down", input, width, result);
  down.weights.push_back(makeWeightOperand(op.getDown()));
  describeProduct(down, input, op.getDown().getType(), width, result);
  addBias(down, op.getDownBias());
  entries.push_back(std::move(down));

  LedgerEntry combine = makeEntry(op, "P15 N9", "combine");
  combine.in.push_back(repeat(makeTokenPart(result), chosen));
  combine.in.push_back(makeTokenPart(op.getWeights().getType()));
  combine.in.back().name = "their weights";
  combine.arithmetic = "FP32 sum in ascending expert order";
  combine.sumBound = boundSum(chosen);
  combine.out.push_back(makeTokenPart(result));
  combine.error = describeRounding(dtype);
  entries.push_back(std::move(combine));
}

Result<bool> octet::addSparseBoundaries(Operation *op,
                                        std::vector<LedgerEntry> &entries) {
  if (auto attention = dyn_cast<model::MlaAttentionOp>(op)) {
    OCTET_TRY(addLatentAttention(attention, entries));
    return true;
  }
  if (auto indexer = dyn_cast<model::IndexerOp>(op)) {
    OCTET_TRY(addIndexer(indexer, entries));
    return true;
  }
  if (auto router = dyn_cast<model::MoeRouterOp>(op)) {
    addRouter(router, entries);
    return true;
  }
  if (auto dispatch = dyn_cast<model::DispatchOp>(op)) {
    addDispatch(dispatch, entries);
    return true;
  }
  if (auto experts = dyn_cast<model::ExpertsOp>(op)) {
    addExperts(experts, entries);
    return true;
  }
  return false;
}
