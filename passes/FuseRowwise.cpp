//===- FuseRowwise.cpp - Fused row kernels --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on insert-quantization: every rounding is an operator. After it the
// operators that work on single rows are `kernel.rowwise`, and what is left is
// products, attention, traces and the output.
//
//   %h1 = model.add %h, %o                 %h1, %q = kernel.rowwise
//   %n  = model.rms_norm %h1, %g     ──►       "add+rms_norm+quantize" tokens
//   of %b %q  = q.quantize %n                        ins(%h, %o, %g : …) … { …
//   }
//
// First each operator becomes a kernel of its own (RowwiseConversion.cpp), then
// neighbours are merged by joining their regions. A value that the first kernel
// rounds has been through `kernel.round` in its region, and the second one
// reads it from there: a fusion changes no number (N9).
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/Passes.h"
#include "passes/RowDomain.h"
#include "passes/RowwiseConversion.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

namespace octet {
#define GEN_PASS_DEF_FUSEROWWISE
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;
using kernel::RowwiseOp;

//===----------------------------------------------------------------------===//
// May they fuse?
//===----------------------------------------------------------------------===//

/// A kernel that only moves parts of rows: its readers do that as cheaply.
static bool isMove(RowwiseOp op) {
  if (op.getCache())
    return false;
  for (kernel::AccessAttr access :
       op.getAccess().getAsRange<kernel::AccessAttr>())
    if (access.getValue() != kernel::Access::Row)
      return false;
  for (Operation &body : op.getBody().front())
    if (!isa<kernel::SliceOp, kernel::YieldOp>(body))
      return false;
  return true;
}

/// `reader` reads all results of `maker` that it uses row by row: no row of the
/// one needs another row of the other (B5).
static bool readsByRow(RowwiseOp reader, RowwiseOp maker) {
  bool found = false;
  for (auto [operand, attr] :
       llvm::zip(reader.getInputs(),
                 reader.getAccess().getAsRange<kernel::AccessAttr>())) {
    if (operand.getDefiningOp() != maker)
      continue;
    if (attr.getValue() != kernel::Access::Row ||
        !isa<RankedTensorType>(operand.getType()))
      return false;
    found = true;
  }
  for (Value operand : reader.getIndices())
    if (operand.getDefiningOp() == maker)
      return false;
  return found;
}

static bool sameRows(RowwiseOp a, RowwiseOp b) {
  return a->getBlock() == b->getBlock() && a.getDomain() == b.getDomain() &&
         a.getBatch() == b.getBatch() && !(a.getCache() && b.getCache());
}

/// The block's operations between two positions, both excluded.
static auto between(Operation *first, Operation *second) {
  return llvm::make_range(std::next(first->getIterator()),
                          second->getIterator());
}

/// Something between reads the cache, so a write to it may not cross.
static bool mayCross(RowwiseOp moved, Operation *first, Operation *second) {
  if (!moved.getCache())
    return true;
  for (Operation &op : between(first, second))
    if (isa<model::AttentionOp, kernel::AttentionOp>(op) ||
        op.getNumRegions() > 0 || isa<func::CallOp>(op))
      return isa<RowwiseOp>(op) && !cast<RowwiseOp>(op).getCache();
  return true;
}

/// Where a kernel of both would stand: at the later one if nothing between
/// needs the first, else at the first if the second needs nothing between.
static Operation *findPlace(RowwiseOp first, RowwiseOp second) {
  Block *block = first->getBlock();
  bool canSink = mayCross(first, first, second);
  for (Operation *user : first->getUsers()) {
    Operation *outer = block->findAncestorOpInBlock(*user);
    canSink &= outer == second || !outer || second->isBeforeInBlock(outer);
  }
  if (canSink)
    return second;
  bool canRise = mayCross(second, first, second);
  for (Value operand : second->getOperands()) {
    Operation *maker = operand.getDefiningOp();
    if (!maker || maker == first || maker->getBlock() != block)
      continue;
    canRise &= maker->isBeforeInBlock(first);
  }
  return canRise ? first : nullptr;
}

static bool shareInput(RowwiseOp a, RowwiseOp b) {
  for (auto [operand, attr] :
       llvm::zip(a.getInputs(), a.getAccess().getAsRange<kernel::AccessAttr>()))
    if (attr.getValue() == kernel::Access::Row &&
        llvm::is_contained(b.getInputs(), operand))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// "add+rms_norm", each word once; moves say nothing.
static std::string joinLabels(RowwiseOp a, RowwiseOp b) {
  llvm::SmallSetVector<StringRef, 8> words;
  for (StringRef label : {a.getLabel(), b.getLabel()})
    for (StringRef word : llvm::split(label, '+'))
      if (word != "split")
        words.insert(word);
  if (words.empty())
    words.insert("split");
  return llvm::join(words, "+");
}

namespace {
/// Builds the operands, region and results of a merged kernel.
class Merger {
public:
  Merger(OpBuilder &b, RowwiseOp first, RowwiseOp second)
      : b(b), first(first), second(second) {}

  RowwiseOp merge(bool keepFirst);

private:
  void addInputs(RowwiseOp op, Block *body, IRMapping &map);
  SmallVector<Value> cloneBody(RowwiseOp op, IRMapping &map);

  OpBuilder &b;
  RowwiseOp first, second;
  SmallVector<Value> inputs, indices;
  SmallVector<Attribute> access;
  SmallVector<Value> indexOf; ///< of each input; null unless indexed
  SmallVector<BlockArgument> arguments;
};
} // namespace

/// An operand that both read alike is read once.
void Merger::addInputs(RowwiseOp op, Block *body, IRMapping &map) {
  auto nextIndex = op.getIndices().begin();
  for (auto [operand, attr, argument] : llvm::zip(
           op.getInputs(), op.getAccess().getAsRange<kernel::AccessAttr>(),
           op.getBody().getArguments())) {
    bool isIndexed = attr.getValue() == kernel::Access::Indexed;
    Value index = isIndexed ? Value(*nextIndex++) : Value();
    if (op == second && operand.getDefiningOp() == first)
      continue;
    unsigned at = 0;
    while (at < inputs.size() && !(inputs[at] == operand &&
                                   access[at] == attr && indexOf[at] == index))
      ++at;
    if (at == inputs.size()) {
      inputs.push_back(operand);
      access.push_back(attr);
      indexOf.push_back(index);
      if (isIndexed)
        indices.push_back(index);
      arguments.push_back(
          body->addArgument(argument.getType(), argument.getLoc()));
    }
    map.map(argument, arguments[at]);
  }
}

/// \returns what the region yielded.
SmallVector<Value> Merger::cloneBody(RowwiseOp op, IRMapping &map) {
  SmallVector<Value> yielded;
  for (Operation &body : op.getBody().front()) {
    if (auto yield = dyn_cast<kernel::YieldOp>(body)) {
      for (Value value : yield.getValues())
        yielded.push_back(map.lookup(value));
    } else {
      b.clone(body, map);
    }
  }
  return yielded;
}

RowwiseOp Merger::merge(bool keepFirst) {
  Region region;
  Block *body = &region.emplaceBlock();
  IRMapping map;
  addInputs(first, body, map);
  addInputs(second, body, map);

  SmallVector<Value> fromFirst, fromSecond;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(body);
    fromFirst = cloneBody(first, map);
    for (auto [operand, argument] :
         llvm::zip(second.getInputs(), second.getBody().getArguments()))
      if (operand.getDefiningOp() == first)
        map.map(argument, fromFirst[cast<OpResult>(operand).getResultNumber()]);
    fromSecond = cloneBody(second, map);
  }

  // Results that somebody else reads stay, then those of the second kernel.
  SmallVector<Value> results, yielded;
  auto addResults = [&](RowwiseOp op, ArrayRef<Value> values, bool all) {
    for (OpResult result : op->getResults()) {
      bool isRead = llvm::any_of(
          result.getUsers(), [&](Operation *user) { return user != second; });
      if (!isRead && !(all && op == second))
        continue;
      results.push_back(result);
      yielded.push_back(values[result.getResultNumber()]);
    }
  };
  if (keepFirst)
    addResults(first, fromFirst, /*all=*/false);
  addResults(second, fromSecond, /*all=*/true);
  RowwiseOp cached = first.getCache() ? first : second;
  ArrayRef<Value> cachedValues = first.getCache() ? fromFirst : fromSecond;
  if (cached.getCache())
    llvm::append_range(yielded, cachedValues.take_back(2));

  SmallVector<Attribute> modules;
  for (RowwiseOp op : {first, second})
    for (Attribute module : op.getModules())
      if (!llvm::is_contained(modules, module))
        modules.push_back(module);
  auto merged = RowwiseOp::create(
      b, b.getFusedLoc({first.getLoc(), second.getLoc()}),
      ValueRange(results).getTypes(), joinLabels(first, second),
      first.getDomain(), first.getBatch(), inputs, b.getArrayAttr(access),
      indices, ValueRange(), cached.getCache(), cached.getSlots(),
      b.getArrayAttr(modules));
  merged.getBody().takeBody(region);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&merged.getBody().front());
    kernel::YieldOp::create(b, merged.getLoc(), yielded);
  }
  for (auto [old, now] : llvm::zip(results, merged.getResults()))
    old.replaceAllUsesWith(now);
  return merged;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// A kernel without a reader, as a move is when all readers have taken it in.
static bool isDead(RowwiseOp op) { return op->use_empty() && !op.getCache(); }

/// One fusion in the block.
static bool fuseOne(Block &block) {
  SmallVector<RowwiseOp> kernels(block.getOps<RowwiseOp>());
  for (RowwiseOp op : kernels)
    if (isDead(op)) {
      op.erase();
      return true;
    }
  for (RowwiseOp second : kernels)
    for (RowwiseOp first : kernels) {
      if (first == second || !first->isBeforeInBlock(second) ||
          !sameRows(first, second) || !readsByRow(second, first))
        continue;
      if (isMove(first)) { // its other readers keep the original
        OpBuilder b(second);
        Merger(b, first, second).merge(/*keepFirst=*/false);
        second.erase();
        return true;
      }
      Operation *place = findPlace(first, second);
      if (!place)
        continue;
      OpBuilder b(place);
      Merger(b, first, second).merge(/*keepFirst=*/true);
      second.erase();
      first.erase();
      return true;
    }
  return false;
}

/// One fusion of kernels that do not read each other but the same rows.
static bool fuseSiblings(Block &block) {
  SmallVector<RowwiseOp> kernels(block.getOps<RowwiseOp>());
  for (auto [i, second] : llvm::enumerate(kernels))
    for (RowwiseOp first : ArrayRef(kernels).take_front(i)) {
      if (!sameRows(first, second) || !shareInput(first, second))
        continue;
      bool depends = llvm::any_of(second->getOperands(), [&](Value operand) {
        return operand.getDefiningOp() == first;
      });
      Operation *place = depends ? nullptr : findPlace(first, second);
      if (!place)
        continue;
      OpBuilder b(place);
      Merger(b, first, second).merge(/*keepFirst=*/true);
      second.erase();
      first.erase();
      return true;
    }
  return false;
}

namespace {
struct FuseRowwise : octet::impl::FuseRowwiseBase<FuseRowwise> {
  using FuseRowwiseBase::FuseRowwiseBase;
  void runOnOperation() override;
};
} // namespace

/// Values that only name things stand first, so that they keep no two kernels
/// apart.
static void hoistNames(Block &block) {
  Operation *last = nullptr;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (!isa<q::WeightOp, q::KvCacheOp, model::FieldOp>(op) &&
        !op.hasTrait<OpTrait::ConstantLike>())
      continue;
    Operation *after = last;
    for (Value operand : op.getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && maker->getBlock() == &block &&
          (!after || after->isBeforeInBlock(maker)))
        after = maker;
    if (after)
      op.moveAfter(after);
    else
      op.moveBefore(&block, block.begin());
    if (!last || last->isBeforeInBlock(&op))
      last = &op;
  }
}

void FuseRowwise::runOnOperation() {
  SmallVector<Block *> blocks;
  SmallVector<Operation *> ops;
  for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
    if (!findBatch(function))
      continue; // the load function computes no rows
    function.walk([&](Operation *op) {
      ops.push_back(op);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          blocks.push_back(&block);
    });
  }
  for (Block *block : blocks)
    hoistNames(*block);
  int64_t converted = 0;
  for (Operation *op : ops) {
    FailureOr<bool> done = convertToRowwise(op);
    if (failed(done))
      return signalPassFailure();
    converted += *done;
  }
  if (fuse)
    for (Block *block : blocks)
      while (fuseOne(*block) || fuseSiblings(*block)) {
      }
  int64_t kernels = 0;
  getOperation().walk([&](RowwiseOp op) {
    ++kernels;
    // Parts of a split that this kernel does not read.
    for (Operation &body :
         llvm::make_early_inc_range(llvm::reverse(op.getBody().front())))
      if (isOpTriviallyDead(&body))
        body.erase();
  });
  numKernels += kernels;
  numFused += converted - std::min(converted, kernels);
}
