//===- RowNests.cpp - The loops of a row kernel ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "octet/Numerics/Fp4.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;
using namespace octet::host;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

Value RowEmitter::indexOf(Position p) {
  if (!p.base)
    return i64(p.add);
  return p.add == 0 ? p.base
                    : Value(arith::AddIOp::create(b, p.base, i64(p.add)));
}

/// Whole chunks in a loop, then one shorter chunk.
void RowEmitter::forChunks(Position start, int64_t width, ChunkFn body) {
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
void RowEmitter::forGroups(
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
// Nests
//===----------------------------------------------------------------------===//

/// Makes everything available that a loop over `root` reads, and \returns the
/// values that this loop itself passes element by element and must keep in
/// scratch or store.
SmallVector<Value> RowEmitter::prepare(Value root) {
  SmallVector<Value> kept;
  prepareOperand(root, /*identity=*/true, kept);
  llvm::erase_if(kept, [&](Value value) { return written.contains(value); });
  return kept;
}

void RowEmitter::prepareOperand(Value value, bool identity,
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
void RowEmitter::keep(ArrayRef<Value> kept, Position p, int64_t lanes) {
  for (Value value : kept) {
    Value elements = valueAt(value, p, lanes);
    if (int64_t offset = plan.scratchOf(value); offset >= 0)
      t.store(elements,
              t.address(scratch, indexOf(p.plus(offset)), b.getF32Type()),
              b.getF32Type());
    storeChunk(value, elements, p);
  }
}

void RowEmitter::storeChunk(Value value, Value elements, Position p) {
  auto found = destinations.find(value);
  if (found == destinations.end())
    return;
  for (Destination destination : found->second)
    t.store(elements,
            t.address(destination.pointer, indexOf(p), destination.element),
            destination.element);
}

void RowEmitter::finish(ArrayRef<Value> kept) {
  written.insert(kept.begin(), kept.end());
  stored.insert(kept.begin(), kept.end());
}

/// A loop whose only purpose is `value`.
void RowEmitter::writeWhole(Value value) {
  SmallVector<Value> kept = prepare(value);
  forChunks({}, RowPlan::widthOf(value),
            [&](Position p, int64_t lanes) { keep(kept, p, lanes); });
  finish(kept);
}

/// Stores a yielded value that no loop has passed.
void RowEmitter::storeYielded(Value value) {
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
Value RowEmitter::reduceRange(Value value, Position start, int64_t width,
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

void RowEmitter::printReduce(kernel::ReduceOp reduce) {
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

/// code = e4m3(x / s) for one group (N2), or the nearest integer (N7).
void RowEmitter::writeCodes(q::QuantizeOp quantize, Value scale, Position start,
                            int64_t width, ArrayRef<Value> kept) {
  forChunks(start, width, [&](Position p, int64_t lanes) {
    Value x = valueAt(quantize.getInput(), p, lanes);
    keep(kept, p, lanes);
    Value quotient = arith::DivFOp::create(b, x, t.splat(scale, lanes));
    Value codes = quantize.getType().getElementType().isInteger(8)
                      ? t.encodeInt8(quotient)
                      : t.encodeE4M3(quotient);
    for (Codes destination : codeDestinations[quantize.getResult()])
      t.storeCodes(codes, t.address(destination.codes, indexOf(p),
                                    quantize.getType().getElementType()));
  });
}

/// A static scale is one value for all rows: the first row writes it (P3).
void RowEmitter::storeOnce(Value scale, Value pointer) {
  Value first = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, row, i64(0));
  auto branch = scf::IfOp::create(b, first, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  t.store(scale, pointer, b.getF32Type());
}

/// Groups of E2M1 (N7): below a stored scale of the tensor (NVFP4), which
/// stands in the 4 bytes before the groups', or with a power of two each
/// (MXFP4).
void RowEmitter::printFp4(q::QuantizeOp quantize) {
  Value input = quantize.getInput();
  int64_t width = RowPlan::widthOf(input), group = RowPlan::groupOf(quantize);
  SmallVector<Value> kept = prepare(input);
  ArrayRef<Codes> places = codeDestinations[quantize.getResult()];
  Type i8 = b.getI8Type();
  Value above;
  if (quantize.getScale()) {
    above = scalarOf(quantize.getScale());
    for (Codes place : places)
      storeOnce(above, t.address(place.scales, i64(-4), i8));
  }
  Value firstScale = arith::MulIOp::create(b, row, i64(width / group));
  DenseSet<Value> before = written;
  forGroups(width, group, [&](Value index, Position start, int64_t length) {
    written = before;
    Value amax = reduceRange(input, start, length, /*isMax=*/true,
                             /*magnitude=*/true, kept);
    Value code, scale;
    if (above) {
      Value sixth = arith::DivFOp::create(b, amax, t.constant(kE2M1Max, 1));
      code = t.encodeE4M3(arith::DivFOp::create(b, sixth, above));
      scale = arith::MulFOp::create(b, t.decodeE4M3(code), above);
    } else {
      std::tie(code, scale) = t.dynamicScaleE2M1(amax);
    }
    for (Codes place : places)
      t.storeCodes(code,
                   t.address(place.scales,
                             arith::AddIOp::create(b, firstScale, index), i8));
    finish(kept);
    // Below a scale of zero all codes are zero.
    Value isZero = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, scale,
                                         t.constant(0, 1));
    forChunks(start, length, [&](Position p, int64_t lanes) {
      Value quotient = arith::DivFOp::create(b, valueAt(input, p, lanes),
                                             t.splat(scale, lanes));
      quotient =
          arith::SelectOp::create(b, isZero, t.constant(0, lanes), quotient);
      Value bytes = t.packNibbles(t.encodeE2M1(quotient));
      Value at = arith::ShRUIOp::create(b, indexOf(p), i64(1));
      for (Codes place : places)
        t.storeCodes(bytes, t.address(place.codes, at, i8));
    });
  });
  finish(kept);
}

void RowEmitter::printQuantize(q::QuantizeOp quantize) {
  if (isa<Float4E2M1FNType>(quantize.getType().getElementType()))
    return printFp4(quantize);
  Value input = quantize.getInput();
  int64_t width = RowPlan::widthOf(input);
  SmallVector<Value> kept = prepare(input);
  ArrayRef<Codes> places = codeDestinations[quantize.getResult()];

  if (quantize.getScale()) {
    Value scale = scalarOf(quantize.getScale());
    for (Codes place : places)
      if (place.scales)
        storeOnce(scale, place.scales);
    writeCodes(quantize, scale, {}, width, kept);
    return finish(kept);
  }

  int64_t group = RowPlan::groupOf(quantize);
  Value firstScale = arith::MulIOp::create(b, row, i64(cdiv(width, group)));
  // The first loop of a group keeps its elements, the second reads them back.
  DenseSet<Value> before = written;
  forGroups(width, group, [&](Value index, Position start, int64_t length) {
    written = before;
    Value amax = reduceRange(input, start, length, /*isMax=*/true,
                             /*magnitude=*/true, kept);
    Value scale =
        quantize.getType().getElementType().isInteger(8)
            ? t.dynamicScaleInt8(amax)
            : t.dynamicScale(amax, quantize.getUe8m0(), quantize.getBound());
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
