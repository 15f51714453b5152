//===- RowPrinter.cpp - kernel.rowwise to vector code ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is computed by a sequence of *nests*, loops over chunks of kLanes
// elements (the last chunk of a row is shorter, W4). Reductions and
// quantisations cut the region into nests: what follows needs all of what came
// before. RowPlan.h says which values a nest leaves in the scratch row for
// later nests; all others are computed where they are needed:
//
//   sum of squares of x + y ──► one loop: loads x and y, adds, rounds, keeps the
//                               sum in scratch and stores it, accumulates
//   quantise (x + y) * r * w ─► per group: a loop for the largest magnitude, the
//                               scale, a loop for the codes
//
// `valueAt` gives the elements of a value at a position by walking up its
// definition. The order of every reduction depends on the width alone.
//
//===----------------------------------------------------------------------===//

#include "RowPrinter.h"
#include "RowPlan.h"
#include "RowTypes.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "octet/Support/Checked.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace octet;
using namespace octet::host;

//===----------------------------------------------------------------------===//
// The frame
//===----------------------------------------------------------------------===//

RowFrame RowFrame::of(kernel::RowwiseOp op) {
  RowFrame frame;
  for (size_t i = 0; i < op.getInputs().size(); ++i)
    frame.inputs.push_back(frame.size++);
  for (size_t i = 0; i < op.getIndices().size(); ++i)
    frame.indices.push_back(frame.size++);
  for (Value out : op.getOuts()) {
    frame.outs.push_back(frame.size++);
    bool quantized = isa<q::TensorType>(kernel::getValueType(out.getType()));
    frame.scales.push_back(quantized ? frame.size++ : -1);
  }
  if (op.getCache()) {
    frame.cacheK = frame.size++;
    frame.cacheV = frame.size++;
    frame.slots = frame.size++;
  }
  return frame;
}

static int64_t rowBytes(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return quantized.getK();
  auto tensor = cast<RankedTensorType>(type);
  int64_t width = tensor.getRank() == 0 ? 1 : tensor.getShape().back();
  return width * q::getElementBytes(tensor.getElementType());
}

int64_t octet::host::countRowBytes(kernel::RowwiseOp op) {
  int64_t bytes = 0;
  for (Value value : llvm::concat<Value>(op.getInputs(), op.getOuts()))
    bytes += rowBytes(kernel::getValueType(value.getType()));
  if (op.getCache())
    bytes += op.getCache().getType().getBytesPerToken();
  return bytes;
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

namespace {

/// An element index, `base + add`, and what is known of its divisors.
struct Position {
  Value base;        ///< i64; null: `add` is all
  int64_t add = 0;
  int64_t align = 0; ///< divides base; 0 for no base

  Position plus(int64_t offset) const { return {base, add + offset, align}; }
  /// Divides the index; 0 for index 0, which everything divides.
  int64_t alignment() const { return std::gcd(align, add); }
  /// The `lanes` elements from here do not cross a multiple of `unit`.
  bool staysInside(int64_t unit, int64_t lanes) const {
    return lanes <= std::gcd(alignment(), unit);
  }
};

using ChunkFn = llvm::function_ref<void(Position, int64_t lanes)>;

//===----------------------------------------------------------------------===//
// The printer
//===----------------------------------------------------------------------===//

class RowPrinter {
public:
  RowPrinter(ImplicitLocOpBuilder &b, kernel::RowwiseOp op, const RowPlan &plan)
      : b(b), t(b), op(op), plan(plan), frame(RowFrame::of(op)) {}

  void print(LLVM::LLVMFuncOp function);

private:
  /// Where rows of a yielded value go, for the current row.
  struct Destination {
    Value pointer;
    Type element;
  };
  /// The same of a quantised one.
  struct Codes {
    Value codes;  ///< pointer
    Value scales; ///< pointer; null for a cache, whose scale is known
  };

  // Frame and row (set up once a call and once a row).
  Value framePointer(int64_t slot);
  void openCall(Value argument);
  void openRow(Value row);
  void addDestination(Value yielded, Type type, Value pointer, Value scales,
                      Value row);

  // Loops.
  void forChunks(Position start, int64_t width, ChunkFn body);
  void forGroups(int64_t width, int64_t group,
                 llvm::function_ref<void(Value, Position, int64_t)> body);
  Value i64(int64_t value) { return t.constantIndex(value); }
  Value indexOf(Position p);

  // Values.
  Value valueAt(Value value, Position p, int64_t lanes);
  Value computeAt(Value value, Position p, int64_t lanes);
  Value argumentAt(BlockArgument argument, Position p, int64_t lanes);
  Value ropeAt(kernel::RopeOp rope, Position p, int64_t lanes);
  Value ropeChunk(kernel::RopeOp rope, Position p, int64_t lanes);
  Value gather(Value value, Position p, int64_t lanes);
  Value elementwise(Operation *op, ValueRange operands, int64_t lanes);
  Value scalarOf(Value value);

  // Nests.
  SmallVector<Value> prepare(Value root);
  void prepareOperand(Value value, bool identity, SmallVector<Value> &kept);
  void keep(ArrayRef<Value> kept, Position p, int64_t lanes);
  void finish(ArrayRef<Value> kept);
  void storeChunk(Value value, Value elements, Position p);
  void writeWhole(Value value);
  void storeYielded(Value value);
  Value reduceRange(Value value, Position start, int64_t width, bool isMax,
                    bool magnitude, ArrayRef<Value> kept);
  void printReduce(kernel::ReduceOp reduce);
  void printQuantize(q::QuantizeOp quantize);
  void writeCodes(q::QuantizeOp quantize, Value scale, Position start,
                  int64_t width, ArrayRef<Value> kept);

  ImplicitLocOpBuilder &b;
  RowTypes t;
  kernel::RowwiseOp op;
  const RowPlan &plan;
  RowFrame frame;

  // Of the call.
  SmallVector<Value> pointers;
  Value scratch;
  // Of the row.
  SmallVector<Value> inputRows; ///< a pointer to the row, one an input
  Value row;
  DenseMap<Value, SmallVector<Destination>> destinations;
  DenseMap<Value, SmallVector<Codes>> codeDestinations;
  DenseMap<Value, Value> scalars;
  DenseSet<Value> written; ///< in scratch (if planned) and stored where loops
                           ///< passed them
  DenseSet<Value> stored;  ///< at all their destinations
  // Of the chunk.
  DenseMap<std::tuple<Value, Value, int64_t, int64_t>, Value> chunk;
};

} // namespace

//===----------------------------------------------------------------------===//
// Frame and row
//===----------------------------------------------------------------------===//

Value RowPrinter::framePointer(int64_t slot) { return pointers[slot]; }

void RowPrinter::openCall(Value argument) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  for (int64_t i = 0; i < frame.size; ++i) {
    Value address = LLVM::GEPOp::create(b, pointer, pointer, argument,
                                        ArrayRef<LLVM::GEPArg>{int32_t(i)});
    pointers.push_back(LLVM::LoadOp::create(b, pointer, address, 8));
  }
  if (plan.scratchElements > 0)
    scratch = LLVM::AllocaOp::create(b, pointer, b.getF32Type(),
                                     i64(plan.scratchElements), 64);
}

/// One yielded value's place in this row.
void RowPrinter::addDestination(Value yielded, Type type, Value pointer,
                                Value scales, Value row) {
  if (auto quantized = dyn_cast<q::TensorType>(type)) {
    Value offset = arith::MulIOp::create(b, row, i64(quantized.getK()));
    Codes codes{t.address(pointer, offset, quantized.getElementType()), scales};
    codeDestinations[yielded].push_back(codes);
    return;
  }
  auto tensor = cast<RankedTensorType>(type);
  Value offset = arith::MulIOp::create(b, row, i64(tensor.getDimSize(1)));
  destinations[yielded].push_back(
      {t.address(pointer, offset, tensor.getElementType()),
       tensor.getElementType()});
}

void RowPrinter::openRow(Value currentRow) {
  row = currentRow;
  auto loadIndex = [&](Value pointer) -> Value {
    Value address = t.address(pointer, row, b.getI32Type());
    Value index = LLVM::LoadOp::create(b, b.getI32Type(), address, 4);
    return arith::ExtSIOp::create(b, b.getI64Type(), index);
  };
  int64_t nextIndex = 0;
  for (auto [i, input, attr] :
       llvm::enumerate(op.getInputs(),
                       op.getAccess().getAsRange<kernel::AccessAttr>())) {
    Value pointer = framePointer(frame.inputs[i]);
    if (attr.getValue() != kernel::Access::Uniform) {
      auto type = cast<RankedTensorType>(kernel::getValueType(input.getType()));
      Value line =
          attr.getValue() == kernel::Access::Row
              ? row
              : loadIndex(framePointer(frame.indices[nextIndex++]));
      Value offset = arith::MulIOp::create(b, line, i64(type.getDimSize(1)));
      pointer = t.address(pointer, offset, type.getElementType());
    }
    inputRows.push_back(pointer);
  }
  // Here and not where one is first read, which may be inside of a loop.
  for (BlockArgument argument : op.getBody().getArguments())
    if (RowPlan::widthOf(argument) == 1)
      scalarOf(argument);

  ValueRange yielded = op.getBody().front().getTerminator()->getOperands();
  for (auto [i, out] : llvm::enumerate(op.getOuts()))
    addDestination(yielded[i], kernel::getValueType(out.getType()),
                   framePointer(frame.outs[i]),
                   frame.scales[i] < 0 ? Value() : framePointer(frame.scales[i]),
                   row);
  if (!op.getCache())
    return;
  q::KvType cache = op.getCache().getType();
  int64_t width = cache.getHeads() * cache.getDim();
  Value slot = loadIndex(framePointer(frame.slots));
  for (auto [value, pointer] :
       {std::pair(yielded[yielded.size() - 2], frame.cacheK),
        std::pair(yielded[yielded.size() - 1], frame.cacheV)}) {
    Value offset = arith::MulIOp::create(b, slot, i64(width));
    Value place =
        t.address(framePointer(pointer), offset, cache.getElementType());
    if (isa<q::TensorType>(value.getType()))
      codeDestinations[value].push_back({place, Value()});
    else
      destinations[value].push_back({place, cache.getElementType()});
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Value RowPrinter::indexOf(Position p) {
  if (!p.base)
    return i64(p.add);
  return p.add == 0 ? p.base
                    : Value(arith::AddIOp::create(b, p.base, i64(p.add)));
}

/// Whole chunks in a loop, then one shorter chunk.
void RowPrinter::forChunks(Position start, int64_t width, ChunkFn body) {
  int64_t whole = width / kLanes * kLanes;
  if (whole == kLanes) {
    chunk.clear();
    body(start, kLanes);
  } else if (whole > 0) {
    auto loop = scf::ForOp::create(b, i64(0), i64(whole), i64(kLanes));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value i = loop.getInductionVar();
    Position p{start.base ? Value(arith::AddIOp::create(b, start.base, i)) : i,
               start.add, std::gcd(start.align, kLanes)};
    chunk.clear();
    body(p, kLanes);
  }
  chunk.clear();
  if (whole < width)
    body(start.plus(whole), width - whole);
  chunk.clear();
}

/// Groups of `group` elements; the last one may be short (W4).
void RowPrinter::forGroups(
    int64_t width, int64_t group,
    llvm::function_ref<void(Value, Position, int64_t)> body) {
  int64_t whole = width / group;
  if (whole == 1) {
    body(i64(0), Position{}, group);
  } else if (whole > 1) {
    auto loop = scf::ForOp::create(b, i64(0), i64(whole), i64(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value i = loop.getInductionVar();
    Value first = arith::MulIOp::create(b, i, i64(group));
    body(i, Position{first, 0, group}, group);
  }
  if (width % group)
    body(i64(whole), Position{Value(), whole * group, 0}, width % group);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value RowPrinter::valueAt(Value value, Position p, int64_t lanes) {
  if (RowPlan::widthOf(value) == 1)
    return t.splat(scalarOf(value), lanes);
  auto key = std::make_tuple(value, p.base, p.add, lanes);
  auto found = chunk.find(key);
  if (found != chunk.end())
    return found->second;
  Value result;
  if (written.contains(value) && plan.scratchOf(value) >= 0)
    result = t.load(
        t.address(scratch, indexOf(p.plus(plan.scratchOf(value))),
                  b.getF32Type()),
        b.getF32Type(), lanes);
  else
    result = computeAt(value, p, lanes);
  chunk[key] = result;
  return result;
}

Value RowPrinter::argumentAt(BlockArgument argument, Position p,
                             int64_t lanes) {
  Value operand = op.getInputs()[argument.getArgNumber()];
  Type element = cast<RankedTensorType>(kernel::getValueType(operand.getType()))
                     .getElementType();
  Value address =
      t.address(inputRows[argument.getArgNumber()], indexOf(p), element);
  return t.load(address, element, lanes);
}

Value RowPrinter::computeAt(Value value, Position p, int64_t lanes) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argumentAt(argument, p, lanes);
  Operation *definition = value.getDefiningOp();
  return TypeSwitch<Operation *, Value>(definition)
      .Case([&](arith::ConstantOp constant) {
        auto dense = cast<DenseElementsAttr>(constant.getValue());
        return t.constant(dense.getSplatValue<APFloat>().convertToFloat(),
                          lanes);
      })
      .Case([&](kernel::SliceOp slice) {
        return valueAt(slice.getInput(), p.plus(slice.getOffset()), lanes);
      })
      .Case([&](kernel::TileOp tile) {
        int64_t width = RowPlan::widthOf(tile.getInput());
        if (!p.staysInside(width, lanes))
          return gather(value, p, lanes);
        if (!p.base)
          return valueAt(tile.getInput(), {Value(), p.add % width, 0}, lanes);
        Value index = arith::RemUIOp::create(b, indexOf(p), i64(width));
        return valueAt(tile.getInput(),
                       {index, 0, std::gcd(p.alignment(), width)}, lanes);
      })
      .Case([&](kernel::BroadcastOp broadcast) {
        // One value for the whole row needs no index.
        if (!broadcast.getGroup())
          return t.splat(valueAt(broadcast.getInput(), {Value(), 0, 0}, 1),
                         lanes);
        int64_t group = *broadcast.getGroup();
        if (!p.staysInside(group, lanes))
          return gather(value, p, lanes);
        Position source{Value(), p.add / group, 0};
        if (p.base)
          source = {arith::DivUIOp::create(b, indexOf(p), i64(group)), 0, 1};
        return t.splat(valueAt(broadcast.getInput(), source, 1), lanes);
      })
      .Case([&](kernel::RopeOp rope) { return ropeAt(rope, p, lanes); })
      .Case([&](kernel::RoundOp round) {
        Value input = valueAt(round.getInput(), p, lanes);
        if (kernel::isRoundedTo(round.getInput(), round.getType()))
          return input;
        return t.round(input, round.getType());
      })
      .Default([&](Operation *other) {
        SmallVector<Value> operands;
        for (Value operand : other->getOperands())
          operands.push_back(valueAt(operand, p, lanes));
        return elementwise(other, operands, lanes);
      });
}

Value RowPrinter::elementwise(Operation *other, ValueRange operands,
                              int64_t lanes) {
  if (isa<math::ExpOp>(other))
    return t.exp(operands[0]);
  if (isa<math::RsqrtOp>(other))
    return arith::DivFOp::create(b, t.constant(1.0f, lanes),
                                 math::SqrtOp::create(b, operands[0]));
  // The same op on a vector; without its attributes, so that no fast-math flag
  // of an input file reaches the code.
  OperationState state(b.getLoc(), other->getName());
  state.addOperands(operands);
  state.addTypes(t.type(b.getF32Type(), lanes));
  return b.create(state)->getResult(0);
}

/// Lane by lane, where a chunk is not contiguous in what it reads.
Value RowPrinter::gather(Value value, Position p, int64_t lanes) {
  SmallVector<Value> elements;
  for (int64_t i = 0; i < lanes; ++i)
    elements.push_back(valueAt(value, {p.base, p.add + i, p.base ? 1 : 0}, 1));
  return vector::FromElementsOp::create(
      b, cast<VectorType>(t.type(b.getF32Type(), lanes)), elements);
}

Value RowPrinter::ropeAt(kernel::RopeOp rope, Position p, int64_t lanes) {
  int64_t half = RowPlan::widthOf(rope.getTable()) / 2;
  int64_t unit = std::gcd(half, static_cast<int64_t>(rope.getHeadDim()));
  bool contiguous = !rope.getInterleaved() && p.staysInside(unit, lanes);
  if (lanes == 1 || contiguous)
    return ropeChunk(rope, p, lanes);
  return gather(rope.getResult(), p, lanes);
}

/// All lanes are first elements of pairs, all are second ones, or all are in
/// the rest of the head that is not rotated: y = x c + partner (-s or s).
Value RowPrinter::ropeChunk(kernel::RopeOp rope, Position p, int64_t lanes) {
  int64_t half = RowPlan::widthOf(rope.getTable()) / 2;
  int64_t headDim = rope.getHeadDim();
  auto select = [&](Value c, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, c, x, y);
  };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, x, y);
  };
  auto less = [&](Value x, int64_t bound) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, i64(bound));
  };
  Value index = indexOf(p);
  Value inHead = arith::RemUIOp::create(b, index, i64(headDim));
  Value isRotated = less(inHead, 2 * half);
  Value isFirst, toPartner, pair;
  if (rope.getInterleaved()) {
    Value odd = arith::RemUIOp::create(b, inHead, i64(2));
    isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, odd, i64(0));
    toPartner = select(isFirst, i64(1), i64(-1));
    pair = arith::DivUIOp::create(b, inHead, i64(2));
  } else {
    isFirst = less(inHead, half);
    toPartner = select(isFirst, i64(half), i64(-half));
    pair = select(isFirst, inHead, add(inHead, i64(-half)));
  }
  // Outside of the rotated part nothing may be read beyond the table.
  if (2 * half < headDim) {
    toPartner = select(isRotated, toPartner, i64(0));
    pair = select(isRotated, pair, i64(0));
  }
  int64_t align = std::gcd(p.alignment(), half);
  Value x = valueAt(rope.getInput(), p, lanes);
  Value partner = valueAt(rope.getInput(),
                          {add(index, toPartner), 0, lanes == 1 ? 1 : align},
                          lanes);
  Position cosine{pair, 0, lanes == 1 ? 1 : align};
  Value c = valueAt(rope.getTable(), cosine, lanes);
  Value s = valueAt(rope.getTable(), cosine.plus(half), lanes);
  // a c - b s and a c + b (-s) are the same bits.
  s = select(isFirst, arith::NegFOp::create(b, s), s);
  Value y = arith::AddFOp::create(b, arith::MulFOp::create(b, x, c),
                                  arith::MulFOp::create(b, partner, s));
  return 2 * half < headDim ? select(isRotated, y, x) : y;
}

/// A value of one element, computed once a row.
Value RowPrinter::scalarOf(Value value) {
  auto found = scalars.find(value);
  if (found != scalars.end())
    return found->second;
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(value))
    result = argumentAt(argument, {}, 1);
  else
    result = TypeSwitch<Operation *, Value>(value.getDefiningOp())
                 .Case([&](arith::ConstantOp constant) {
                   auto dense = cast<DenseElementsAttr>(constant.getValue());
                   return t.constant(
                       (*dense.value_begin<APFloat>()).convertToFloat(), 1);
                 })
                 .Case([&](kernel::SliceOp slice) {
                   Value input = slice.getInput();
                   if (RowPlan::widthOf(input) == 1)
                     return scalarOf(input);
                   chunk.clear();
                   Position at{Value(), int64_t(slice.getOffset()), 0};
                   Value element = valueAt(input, at, 1);
                   chunk.clear();
                   return element;
                 })
                 .Case<kernel::TileOp, kernel::BroadcastOp>(
                     [&](Operation *same) { return scalarOf(same->getOperand(0)); })
                 .Case([&](kernel::RoundOp round) {
                   return t.round(scalarOf(round.getInput()), round.getType());
                 })
                 .Default([&](Operation *other) {
                   SmallVector<Value> operands;
                   for (Value operand : other->getOperands())
                     operands.push_back(scalarOf(operand));
                   return elementwise(other, operands, 1);
                 });
  scalars[value] = result;
  return result;
}

//===----------------------------------------------------------------------===//
// Nests
//===----------------------------------------------------------------------===//

/// Makes everything available that a loop over `root` reads, and \returns the
/// values that this loop itself passes element by element and must keep in
/// scratch or store.
SmallVector<Value> RowPrinter::prepare(Value root) {
  SmallVector<Value> kept;
  prepareOperand(root, /*identity=*/true, kept);
  llvm::erase_if(kept, [&](Value value) { return written.contains(value); });
  return kept;
}

void RowPrinter::prepareOperand(Value value, bool identity,
                                SmallVector<Value> &kept) {
  if (written.contains(value) || llvm::is_contained(kept, value))
    return;
  if (RowPlan::widthOf(value) == 1) // computed when its op was reached
    return;
  if (!identity && plan.scratchOf(value) >= 0)
    return writeWhole(value);
  if (identity && (plan.scratchOf(value) >= 0 || destinations.count(value)))
    kept.push_back(value);
  Operation *definition = value.getDefiningOp();
  if (!definition)
    return;
  for (Value operand : definition->getOperands())
    prepareOperand(operand, identity && RowPlan::isElementwise(definition),
                   kept);
}

/// In a chunk: keeps and stores what its loop passes.
void RowPrinter::keep(ArrayRef<Value> kept, Position p, int64_t lanes) {
  for (Value value : kept) {
    Value elements = valueAt(value, p, lanes);
    if (int64_t offset = plan.scratchOf(value); offset >= 0)
      t.store(elements,
              t.address(scratch, indexOf(p.plus(offset)), b.getF32Type()),
              b.getF32Type());
    storeChunk(value, elements, p);
  }
}

void RowPrinter::storeChunk(Value value, Value elements, Position p) {
  auto found = destinations.find(value);
  if (found == destinations.end())
    return;
  for (Destination destination : found->second)
    t.store(elements,
            t.address(destination.pointer, indexOf(p), destination.element),
            destination.element);
}

void RowPrinter::finish(ArrayRef<Value> kept) {
  written.insert(kept.begin(), kept.end());
  stored.insert(kept.begin(), kept.end());
}

/// A loop whose only purpose is `value`.
void RowPrinter::writeWhole(Value value) {
  SmallVector<Value> kept = prepare(value);
  forChunks({}, RowPlan::widthOf(value),
            [&](Position p, int64_t lanes) { keep(kept, p, lanes); });
  finish(kept);
}

/// Stores a yielded value that no loop has passed.
void RowPrinter::storeYielded(Value value) {
  if (stored.contains(value))
    return;
  bool isSmall = RowPlan::widthOf(value) == 1 || written.contains(value);
  if (!isSmall)
    return writeWhole(value);
  // One element, or the results of a reduction, which are in scratch.
  forChunks({}, RowPlan::widthOf(value), [&](Position p, int64_t lanes) {
    storeChunk(value, valueAt(value, p, lanes), p);
  });
  stored.insert(value);
}

/// Sum or maximum of `width` elements: as many accumulators of kLanes lanes as
/// the width has room for (four, or one), joined pairwise at the end.
Value RowPrinter::reduceRange(Value value, Position start, int64_t width,
                              bool isMax, bool magnitude,
                              ArrayRef<Value> kept) {
  constexpr int64_t kUnroll = 4;
  int64_t count = width >= kUnroll * kLanes ? kUnroll : 1;
  int64_t step = count * kLanes;
  int64_t whole = width / step * step;
  auto accumulate = [&](Value into, Position p, int64_t lanes) {
    chunk.clear();
    Value elements = valueAt(value, p, lanes);
    keep(kept, p, lanes);
    if (magnitude)
      elements = math::AbsFOp::create(b, elements);
    return t.combine(into, t.padTail(elements, isMax), isMax);
  };

  float neutral = isMax ? (magnitude ? 0.0f : -INFINITY) : 0.0f;
  SmallVector<Value> sums(count, t.constant(neutral, kLanes));
  if (whole == step) {
    for (int64_t i = 0; i < count; ++i)
      sums[i] = accumulate(sums[i], start.plus(i * kLanes), kLanes);
  } else if (whole > 0) {
    auto loop = scf::ForOp::create(b, i64(0), i64(whole), i64(step), sums);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value i = loop.getInductionVar();
    Position p{start.base ? Value(arith::AddIOp::create(b, start.base, i)) : i,
               start.add, std::gcd(start.align, step)};
    SmallVector<Value> next(loop.getRegionIterArgs());
    for (int64_t i = 0; i < count; ++i)
      next[i] = accumulate(next[i], p.plus(i * kLanes), kLanes);
    scf::YieldOp::create(b, next);
    sums.assign(loop.getResults().begin(), loop.getResults().end());
  }
  int64_t next = 0;
  for (int64_t done = whole; done < width; done += kLanes) {
    int64_t lanes = std::min(kLanes, width - done);
    Value &sum = sums[next++ % count];
    sum = accumulate(sum, start.plus(done), lanes);
  }
  chunk.clear();
  while (sums.size() > 1) {
    SmallVector<Value> joined;
    for (size_t i = 0; i < sums.size(); i += 2)
      joined.push_back(t.combine(sums[i], sums[i + 1], isMax));
    sums = joined;
  }
  return t.reduceLanes(sums[0], isMax);
}

void RowPrinter::printReduce(kernel::ReduceOp reduce) {
  Value input = reduce.getInput();
  bool isMax = reduce.getKind() == kernel::Reduction::Max;
  int64_t width = RowPlan::widthOf(input);
  SmallVector<Value> kept = prepare(input);
  if (RowPlan::widthOf(reduce.getResult()) == 1) {
    scalars[reduce.getResult()] =
        reduceRange(input, {}, width, isMax, /*magnitude=*/false, kept);
    return finish(kept);
  }
  int64_t offset = plan.scratchOf(reduce.getResult());
  forGroups(width, *reduce.getGroup(),
            [&](Value group, Position start, int64_t length) {
              Value result = reduceRange(input, start, length, isMax,
                                         /*magnitude=*/false, kept);
              Value place = arith::AddIOp::create(b, group, i64(offset));
              t.store(result, t.address(scratch, place, b.getF32Type()),
                      b.getF32Type());
            });
  finish(kept);
  written.insert(reduce.getResult());
}

/// code = e4m3(x / s) for one group (N2).
void RowPrinter::writeCodes(q::QuantizeOp quantize, Value scale, Position start,
                            int64_t width, ArrayRef<Value> kept) {
  forChunks(start, width, [&](Position p, int64_t lanes) {
    Value x = valueAt(quantize.getInput(), p, lanes);
    keep(kept, p, lanes);
    Value codes = t.encodeE4M3(
        arith::DivFOp::create(b, x, t.splat(scale, lanes)));
    for (Codes destination : codeDestinations[quantize.getResult()])
      t.storeCodes(codes, t.address(destination.codes, indexOf(p),
                                    quantize.getType().getElementType()));
  });
}

void RowPrinter::printQuantize(q::QuantizeOp quantize) {
  Value input = quantize.getInput();
  int64_t width = RowPlan::widthOf(input);
  SmallVector<Value> kept = prepare(input);
  ArrayRef<Codes> places = codeDestinations[quantize.getResult()];

  if (quantize.getScale()) {
    // A static scale is one value for all rows: the first row writes it (P3).
    Value scale = scalarOf(quantize.getScale());
    for (Codes place : places) {
      if (!place.scales)
        continue;
      Value first =
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq, row, i64(0));
      auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&branch.getThenRegion().front());
      t.store(scale, place.scales, b.getF32Type());
    }
    writeCodes(quantize, scale, {}, width, kept);
    return finish(kept);
  }

  int64_t group = RowPlan::groupOf(quantize);
  Value firstScale =
      arith::MulIOp::create(b, row, i64(cdiv(width, group)));
  // The first loop of a group keeps its elements, the second reads them back.
  DenseSet<Value> before = written;
  forGroups(width, group, [&](Value index, Position start, int64_t length) {
    written = before;
    Value amax = reduceRange(input, start, length, /*isMax=*/true,
                             /*magnitude=*/true, kept);
    Value scale = t.dynamicScale(amax, quantize.getUe8m0());
    for (Codes place : places)
      t.store(scale,
              t.address(place.scales,
                        arith::AddIOp::create(b, firstScale, index),
                        b.getF32Type()),
              b.getF32Type());
    finish(kept);
    writeCodes(quantize, scale, start, length, /*kept=*/{});
  });
  finish(kept);
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void RowPrinter::print(LLVM::LLVMFuncOp function) {
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  openCall(entry->getArgument(0));
  auto loop = scf::ForOp::create(b, entry->getArgument(1),
                                 entry->getArgument(2), i64(1));
  LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPointToStart(loop.getBody());
  openRow(loop.getInductionVar());
  for (Operation &body : op.getBody().front()) {
    if (auto reduce = dyn_cast<kernel::ReduceOp>(body)) {
      printReduce(reduce);
    } else if (auto quantize = dyn_cast<q::QuantizeOp>(body)) {
      printQuantize(quantize);
    } else if (auto yield = dyn_cast<kernel::YieldOp>(body)) {
      for (Value value : yield.getValues())
        if (!isa<q::TensorType>(value.getType()))
          storeYielded(value);
    } else if (RowPlan::widthOf(body.getResult(0)) == 1) {
      for (Value operand : body.getOperands())
        if (RowPlan::widthOf(operand) > 1) {
          SmallVector<Value> none;
          prepareOperand(operand, /*identity=*/false, none);
        }
      scalarOf(body.getResult(0));
    }
  }
}

FailureOr<LLVM::LLVMFuncOp>
octet::host::printRowFunction(OpBuilder &builder, kernel::RowwiseOp op,
                              StringRef name) {
  FailureOr<RowPlan> plan = RowPlan::make(op);
  if (failed(plan))
    return failure();
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(b.getContext()),
      {pointer, b.getI64Type(), b.getI64Type()});
  auto function =
      LLVM::LLVMFuncOp::create(b, name, type, LLVM::Linkage::Internal);
  RowPrinter(b, op, *plan).print(function);
  return function;
}
