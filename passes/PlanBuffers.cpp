//===- PlanBuffers.cpp - A place in the arena for each activation ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on select-kernels: activations are made by kernel operators alone.
// After it no function, loop or call passes one; each operator writes the
// places it was given, and the module says how large the arena is.
//
//   %y = kernel.gemm "cpu.gemm" %x, %w of %b tokens {…} : … -> tensor<?x256xbf16>
//     ──►
//   %p = kernel.place 4096 : !kernel.buffer<tensor<?x256xbf16>>
//   kernel.gemm "cpu.gemm" %q, %w into %p : … of %b tokens {…} : …
//
// A value that loops and calls carry (the hidden state) has one place that is
// nobody else's: the callers' and the callee's names for it are tied together,
// and copied where two of them would be alive at once. The others share: in a
// function by lifetime, and a callee's frame stands above what its callers keep
// alive over the call.
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "octet/Support/Checked.h"
#include "passes/Passes.h"
#include "passes/RowDomain.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

namespace octet {
#define GEN_PASS_DEF_PLANBUFFERS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

/// Buffers start at a cache line.
static constexpr int64_t kAlignment = 64;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

namespace {
struct Size {
  int64_t bytes = 0;       ///< of all, a multiple of kAlignment
  int64_t scaleOffset = -1; ///< of the scales from the start; -1 for none
};
} // namespace

/// Bytes of `rows` rows; nothing if they do not fit an int64_t.
static std::optional<Size> measure(Type type, int64_t rows) {
  auto product = [](std::initializer_list<int64_t> sides) {
    return checkedProduct(std::span(sides.begin(), sides.size()));
  };
  auto align = [](std::optional<int64_t> bytes) {
    if (bytes && *bytes > INT64_MAX - kAlignment)
      bytes.reset();
    return bytes ? std::optional(alignTo(*bytes, kAlignment)) : bytes;
  };
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    auto bytes =
        align(product({rows, tensor.getDimSize(1),
                       q::getElementBytes(tensor.getElementType())}));
    return bytes ? std::optional(Size{*bytes, -1}) : std::nullopt;
  }
  auto quantized = cast<q::TensorType>(type);
  int64_t k = quantized.getK();
  q::GranularityAttr granularity = quantized.getGranularity();
  int64_t scaleRows =
      granularity.getKind() == q::GranularityKind::PerTensor ? 1 : rows;
  int64_t scaleCols =
      granularity.isBlock() ? cdiv(k, granularity.getBlockK()) : 1;
  auto codes = align(product(
      {rows, k, q::getElementBytes(quantized.getElementType())}));
  auto scales = align(product({scaleRows, scaleCols,
                               q::getElementBytes(quantized.getScaleType())}));
  auto bytes = codes && scales ? checkedAdd(*codes, *scales) : std::nullopt;
  return bytes ? std::optional(Size{*bytes, *codes}) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Ties: names of one value
//===----------------------------------------------------------------------===//

/// The operation of `block` that is or holds `op`.
static Operation *inBlock(Block *block, Operation *op) {
  return block->findAncestorOpInBlock(*op);
}

/// `value` is read by something of `block` at or after `op`, other than `op`
/// itself if `except` is that use.
static bool isReadFrom(Value value, Operation *op, OpOperand *except) {
  for (OpOperand &use : value.getUses()) {
    if (&use == except)
      continue;
    Operation *user = inBlock(op->getBlock(), use.getOwner());
    if (user && !user->isBeforeInBlock(op))
      return true;
  }
  return false;
}

namespace {
/// Ties the names that loops and calls give to one value, inserting copies
/// where two names of it would be alive together.
class Ties {
public:
  Ties(ModuleOp module) : module(module) {}

  LogicalResult tie();
  /// The name that stands for all, and whether a loop or call carries it.
  Value leaderOf(Value value) const {
    auto it = classes.findLeader(value.getAsOpaquePointer());
    return it == classes.member_end() ? value
                                      : Value::getFromOpaquePointer(*it);
  }
  bool isTied(Value value) const {
    return classes.findLeader(value.getAsOpaquePointer()) !=
           classes.member_end();
  }

private:
  void tieTogether(Value a, Value b) {
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }
  LogicalResult tieLoop(scf::ForOp loop);
  LogicalResult tieCall(func::CallOp call);
  LogicalResult separateReturn(func::FuncOp function);
  LogicalResult copyOperand(OpOperand &use);

  ModuleOp module;
  llvm::EquivalenceClasses<void *> classes;
};
} // namespace

LogicalResult Ties::copyOperand(OpOperand &use) {
  Operation *user = use.getOwner();
  Value value = use.get();
  auto function = user->getParentOfType<func::FuncOp>();
  Value batch = findBatch(function);
  if (!batch || !isa<RankedTensorType>(value.getType()))
    return user->emitError() << "carries " << value.getType()
                             << ", which cannot be copied";
  OpBuilder builder(user);
  use.set(makeRowCopy(builder, user->getLoc(), value, value.getType(), batch,
                      "copy"));
  return success();
}

LogicalResult Ties::tieLoop(scf::ForOp loop) {
  Block *body = loop.getBody();
  auto yield = cast<scf::YieldOp>(body->getTerminator());
  for (unsigned i = 0; i < loop.getNumResults(); ++i) {
    BlockArgument argument = loop.getRegionIterArg(i);
    if (!isActivation(argument))
      return loop.emitError() << "carries " << argument.getType()
                              << ", expected an activation";
    OpOperand &init = loop.getInitsMutable()[i];
    if (!isActivation(init.get()) || isReadFrom(init.get(), loop, &init))
      if (failed(copyOperand(init)))
        return failure();
    OpOperand &next = yield.getResultsMutable()[i];
    Operation *maker = next.get().getDefiningOp();
    bool isFree = next.get() == argument;
    if (maker && maker->getBlock() == body) {
      // A call may take the old value and return the new one; its body is
      // checked in separateReturn.
      OpOperand *taken = nullptr;
      if (isa<func::CallOp>(maker))
        for (OpOperand &operand : maker->getOpOperands())
          if (operand.get() == argument)
            taken = &operand;
      isFree = !isReadFrom(argument, maker, taken);
    }
    for (unsigned j = 0; j < i; ++j) // one value cannot be in two places
      isFree &= next.get() != yield.getResults()[j];
    if (!isFree && failed(copyOperand(next)))
      return failure();
    tieTogether(init.get(), argument);
    tieTogether(argument, next.get());
    tieTogether(argument, loop.getResult(i));
  }
  return success();
}

LogicalResult Ties::tieCall(func::CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return call.emitError() << "calls @" << call.getCallee()
                            << ", which has no body";
  auto ret = cast<func::ReturnOp>(callee.getBody().front().getTerminator());
  for (auto [i, operand] : llvm::enumerate(call->getOpOperands())) {
    if (!isa<TensorType, q::TensorType>(operand.get().getType()))
      continue;
    // The callee may write its result over what it was given.
    if (!isActivation(operand.get()) ||
        isReadFrom(operand.get(), call, &operand))
      if (failed(copyOperand(operand)))
        return failure();
    tieTogether(operand.get(), callee.getArgument(i));
  }
  for (auto [result, returned] :
       llvm::zip(call.getResults(), ret.getOperands()))
    tieTogether(result, returned);
  return success();
}

/// A function's result is not made while an argument is still needed.
LogicalResult Ties::separateReturn(func::FuncOp function) {
  Operation *ret = function.getBody().front().getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Operation *maker = operand.get().getDefiningOp();
    bool isFree = maker && maker->getBlock() == ret->getBlock() &&
                  !isa<scf::ForOp>(maker);
    for (BlockArgument argument : function.getArguments())
      if (isFree && isActivation(argument))
        isFree = !isReadFrom(argument, maker, nullptr);
    for (unsigned j = 0; j < operand.getOperandNumber(); ++j)
      isFree &= operand.get() != ret->getOperand(j);
    if (!isFree && failed(copyOperand(operand)))
      return failure();
  }
  return success();
}

LogicalResult Ties::tie() {
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (findBatch(function) && failed(separateReturn(function)))
      return failure();
  SmallVector<Operation *> carriers;
  module.walk([&](Operation *op) {
    auto function = op->getParentOfType<func::FuncOp>();
    if (isa<scf::ForOp, func::CallOp>(op) && function && findBatch(function))
      carriers.push_back(op);
  });
  for (Operation *op : carriers) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (failed(loop ? tieLoop(loop) : tieCall(cast<func::CallOp>(op))))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

namespace {
/// One value of a function that shares the frame by lifetime.
struct Lifetime {
  Value value;
  int64_t first, last; ///< operations in pre-order, both included
  Size size;
  int64_t offset = -1;
};

/// Where a callee may start: what each call keeps alive below it.
using FrameBases = llvm::DenseMap<Operation *, int64_t>;

class FrameLayout {
public:
  FrameLayout(func::FuncOp function, const Ties &ties,
              const DenseSet<Value> &elsewhere, int64_t rows)
      : function(function), ties(ties), elsewhere(elsewhere), rows(rows) {}

  /// Places the values from `base` on, and raises the bases of callees.
  FailureOr<int64_t> layOut(int64_t base, FrameBases &bases);
  ArrayRef<Lifetime> getLifetimes() const { return lifetimes; }

private:
  LogicalResult collect();

  func::FuncOp function;
  const Ties &ties;
  const DenseSet<Value> &elsewhere;
  int64_t rows;
  SmallVector<Lifetime> lifetimes;
  DenseMap<Operation *, int64_t> order;
  SmallVector<func::CallOp> calls;
};
} // namespace

static LogicalResult reportSize(Operation *op, Type type, int64_t rows) {
  return op->emitError() << "an activation " << type << " of " << rows
                         << " rows has more bytes than an int64_t holds; a "
                            "smaller --max-step-tokens would fit";
}

LogicalResult FrameLayout::collect() {
  // Pre-order; the end of a loop counts, so that what is read in it lives until
  // its last round.
  DenseMap<Operation *, int64_t> end;
  int64_t next = 0;
  function->walk([&](Operation *op, const WalkStage &stage) {
    if (stage.isBeforeAllRegions())
      order[op] = next++;
    if (stage.isAfterAllRegions())
      end[op] = next++;
  });
  WalkResult walked = function.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      calls.push_back(call);
    for (Value result : op->getResults()) {
      if (!isActivation(result) || ties.isTied(result) ||
          elsewhere.contains(result))
        continue;
      std::optional<Size> size = measure(result.getType(), rows);
      if (!size)
        return reportSize(op, result.getType(), rows), WalkResult::interrupt();
      Lifetime life{result, order[op], order[op], *size};
      for (Operation *user : result.getUsers()) {
        Operation *outer = inBlock(op->getBlock(), user);
        life.last = std::max(life.last,
                             outer == user ? order[user] : end[outer]);
      }
      lifetimes.push_back(life);
    }
    return WalkResult::advance();
  });
  llvm::stable_sort(lifetimes, [](const Lifetime &a, const Lifetime &b) {
    return a.first < b.first;
  });
  return success(!walked.wasInterrupted());
}

FailureOr<int64_t> FrameLayout::layOut(int64_t base, FrameBases &bases) {
  if (failed(collect()))
    return failure();
  int64_t top = base;
  for (auto [i, life] : llvm::enumerate(lifetimes)) {
    // First fit among what is alive at the same time.
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (const Lifetime &other : ArrayRef(lifetimes).take_front(i))
      if (other.first <= life.last && life.first <= other.last)
        taken.push_back({other.offset, other.offset + other.size.bytes});
    llvm::sort(taken);
    int64_t offset = base;
    for (auto [begin, end] : taken) {
      if (life.size.bytes <= begin - offset)
        break;
      offset = std::max(offset, end);
    }
    std::optional<int64_t> end = checkedAdd(offset, life.size.bytes);
    if (!end)
      return reportSize(life.value.getDefiningOp(), life.value.getType(), rows);
    life.offset = offset;
    top = std::max(top, *end);
  }
  for (func::CallOp call : calls) {
    int64_t &callee = bases[SymbolTable::lookupNearestSymbolFrom(
        call, call.getCalleeAttr())];
    callee = std::max(callee, base);
    for (const Lifetime &life : lifetimes)
      if (life.first <= order[call] && order[call] <= life.last)
        callee = std::max(callee, life.offset + life.size.bytes);
  }
  return top;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

struct Place {
  int64_t offset = 0;
  int64_t scaleOffset = -1;
};

struct PlanBuffers : octet::impl::PlanBuffersBase<PlanBuffers> {
  void runOnOperation() override;

private:
  LogicalResult foldOutputs(func::FuncOp function);
  LogicalResult placeAll(ModuleOp module, const Ties &ties, int64_t rows);
  LogicalResult orderFunctions(ModuleOp module,
                               SmallVector<func::FuncOp> &order);
  void rewriteFunction(func::FuncOp function, const Ties &ties);
  void addFacts(ModuleOp module);

  /// Values that are written to the batch's output.
  DenseSet<Value> outputs;
  DenseMap<Value, Place> places; ///< of untied values and leaders of ties
  int64_t arena = 0;
};

} // namespace

/// `model.output %y` makes the kernel that computes y write the output itself;
/// an attention or a loop gets a kernel that copies.
LogicalResult PlanBuffers::foldOutputs(func::FuncOp function) {
  SmallVector<model::OutputOp> ops;
  function.walk([&](model::OutputOp op) { ops.push_back(op); });
  for (model::OutputOp op : ops) {
    Value value = op.getInput();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    Operation *maker = value.getDefiningOp();
    if (!type)
      return op.emitError() << "writes " << value.getType()
                            << ", expected a plain tensor";
    bool isDirect = maker && isa<kernel::RowwiseOp, kernel::GemmOp>(maker) &&
                    type.getElementType().isF32() && !outputs.contains(value) &&
                    maker->getBlock() == op->getBlock();
    if (!isDirect) {
      OpBuilder builder(op);
      Type f32 = RankedTensorType::get(type.getShape(), builder.getF32Type());
      value = makeRowCopy(builder, op.getLoc(), value, f32, op.getBatch(),
                          "output");
    }
    outputs.insert(value);
    op.erase();
  }
  return success();
}

/// Callers before callees.
LogicalResult PlanBuffers::orderFunctions(ModuleOp module,
                                          SmallVector<func::FuncOp> &order) {
  enum State { kNew, kOpen, kDone };
  DenseMap<Operation *, int> state;
  std::function<LogicalResult(func::FuncOp)> visit =
      [&](func::FuncOp function) -> LogicalResult {
    int &seen = state[function];
    if (seen == kDone)
      return success();
    if (seen == kOpen)
      return function.emitError() << "@" << function.getName()
                                  << " calls itself; its frame has no size";
    seen = kOpen;
    WalkResult walked = function.walk([&](func::CallOp call) {
      auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
      return failed(visit(callee)) ? WalkResult::interrupt()
                                   : WalkResult::advance();
    });
    state[function] = kDone;
    order.push_back(function);
    return failure(walked.wasInterrupted());
  };
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (findBatch(function) && failed(visit(function)))
      return failure();
  std::reverse(order.begin(), order.end());
  return success();
}

LogicalResult PlanBuffers::placeAll(ModuleOp module, const Ties &ties,
                                    int64_t rows) {
  SmallVector<func::FuncOp> order;
  if (failed(orderFunctions(module, order)))
    return failure();

  // What loops and calls carry, at the bottom.
  int64_t bottom = 0;
  auto placeTied = [&](Value value) -> LogicalResult {
    if (!isActivation(value) || !ties.isTied(value))
      return success();
    Value leader = ties.leaderOf(value);
    if (places.count(leader))
      return success();
    Operation *op = value.getParentBlock()->getParentOp();
    std::optional<Size> size = measure(value.getType(), rows);
    std::optional<int64_t> end =
        size ? checkedAdd(bottom, size->bytes) : std::nullopt;
    if (!end)
      return reportSize(op, value.getType(), rows);
    places[leader] = {bottom, size->scaleOffset < 0
                                  ? -1
                                  : bottom + size->scaleOffset};
    bottom = *end;
    return success();
  };
  for (func::FuncOp function : order) {
    WalkResult walked = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value argument : block.getArguments())
            if (failed(placeTied(argument)))
              return WalkResult::interrupt();
      for (Value result : op->getResults())
        if (failed(placeTied(result)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return failure();
  }

  arena = bottom;
  FrameBases bases;
  for (func::FuncOp function : order) {
    FrameLayout layout(function, ties, outputs, rows);
    int64_t base = std::max(bottom, bases.lookup(function));
    FailureOr<int64_t> top = layout.layOut(base, bases);
    if (failed(top))
      return failure();
    arena = std::max(arena, *top);
    for (const Lifetime &life : layout.getLifetimes())
      places[life.value] = {life.offset,
                            life.size.scaleOffset < 0
                                ? -1
                                : life.offset + life.size.scaleOffset};
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rewriting
//===----------------------------------------------------------------------===//

/// The operator with destinations for its results.
static void writeInto(Operation *op, ArrayRef<Value> outs) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Operation *made = nullptr;
  if (auto rowwise = dyn_cast<kernel::RowwiseOp>(op)) {
    auto with = kernel::RowwiseOp::create(
        b, loc, TypeRange(), rowwise.getLabel(), rowwise.getDomain(),
        rowwise.getBatch(), rowwise.getInputs(), rowwise.getAccess(),
        rowwise.getIndices(), outs, rowwise.getCache(), rowwise.getSlots(),
        rowwise.getModules());
    with.getBody().takeBody(rowwise.getBody());
    made = with;
  } else if (auto gemm = dyn_cast<kernel::GemmOp>(op)) {
    made = kernel::GemmOp::create(
        b, loc, TypeRange(), gemm.getKernel(), gemm.getInput(),
        gemm.getWeight(), gemm.getBias(), outs[0], gemm.getBatch(),
        gemm.getDomain(), gemm.getModule(), gemm.getMaxM(), gemm.getVariants());
  } else {
    auto attention = cast<kernel::AttentionOp>(op);
    made = kernel::AttentionOp::create(
        b, loc, TypeRange(), attention.getKernel(), attention.getQ(),
        attention.getCache(), attention.getKScale(), attention.getVScale(),
        outs[0], attention.getBatch(), attention.getLayer(),
        attention.getQHeads(), attention.getKvHeads(), attention.getHeadDim(),
        attention.getScale(), attention.getWindow(), attention.getModule());
  }
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op->erase();
}

/// The loop without values that it carries.
static void stripLoop(scf::ForOp loop) {
  if (loop.getNumResults() == 0)
    return;
  OpBuilder b(loop);
  auto stripped = scf::ForOp::create(b, loop.getLoc(), loop.getLowerBound(),
                                     loop.getUpperBound(), loop.getStep());
  Block *from = loop.getBody(), *to = stripped.getBody();
  from->getArgument(0).replaceAllUsesWith(stripped.getInductionVar());
  from->getTerminator()->erase();
  to->getOperations().splice(std::prev(to->end()), from->getOperations());
  loop.erase();
}

static void stripCall(func::CallOp call) {
  SmallVector<Value> operands;
  for (Value operand : call.getOperands())
    if (!isa<kernel::BufferType>(operand.getType()))
      operands.push_back(operand);
  OpBuilder b(call);
  func::CallOp::create(b, call.getLoc(), call.getCallee(), TypeRange(),
                       operands);
  call.erase();
}

static void stripFunction(func::FuncOp function) {
  Block &entry = function.getBody().front();
  entry.getTerminator()->setOperands({});
  SmallVector<Type> types;
  for (int i = entry.getNumArguments() - 1; i >= 0; --i)
    if (isActivation(entry.getArgument(i)))
      entry.eraseArgument(i);
  for (BlockArgument argument : entry.getArguments())
    types.push_back(argument.getType());
  function.setAllArgAttrs(ArrayRef<DictionaryAttr>());
  function.setAllResultAttrs(ArrayRef<DictionaryAttr>());
  function.setType(
      FunctionType::get(function.getContext(), types, TypeRange()));
}

void PlanBuffers::rewriteFunction(func::FuncOp function, const Ties &ties) {
  OpBuilder b(&getContext());
  b.setInsertionPointToStart(&function.getBody().front());
  Value batch = findBatch(function);
  // One kernel.place for each place and type, in the order of first use.
  std::map<std::pair<int64_t, const void *>, Value> made;
  auto placeOf = [&](Value value) -> Value {
    auto type = kernel::BufferType::get(&getContext(), value.getType());
    if (outputs.contains(value))
      return kernel::OutputOp::create(b, value.getLoc(), type, batch);
    Place place = places.lookup(ties.leaderOf(value));
    Value &slot = made[{place.offset, type.getAsOpaquePointer()}];
    if (!slot)
      slot = kernel::PlaceOp::create(
          b, value.getLoc(), type, b.getI64IntegerAttr(place.offset),
          place.scaleOffset < 0 ? IntegerAttr()
                                : b.getI64IntegerAttr(place.scaleOffset));
    return slot;
  };

  SmallVector<std::pair<Operation *, SmallVector<Value>>> writers;
  SmallVector<scf::ForOp> loops;
  SmallVector<func::CallOp> calls;
  auto replace = [&](Value value) {
    Value place = placeOf(value);
    value.replaceAllUsesWith(place);
    return place;
  };
  for (BlockArgument argument : function.getArguments())
    if (isActivation(argument))
      replace(argument);
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (Value argument : loop.getRegionIterArgs())
        replace(argument);
      for (Value result : loop.getResults())
        replace(result);
      loops.push_back(loop);
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      for (Value result : call.getResults())
        replace(result);
      calls.push_back(call);
    } else if (isa<kernel::RowwiseOp, kernel::GemmOp, kernel::AttentionOp>(op)) {
      SmallVector<Value> outs;
      for (Value result : op->getResults())
        outs.push_back(replace(result));
      if (!outs.empty())
        writers.push_back({op, outs});
      return WalkResult::skip();
    }
    return WalkResult::advance();
  });
  for (auto &[op, outs] : writers)
    writeInto(op, outs);
  for (func::CallOp call : calls)
    stripCall(call);
  for (scf::ForOp loop : llvm::reverse(loops))
    stripLoop(loop);
  stripFunction(function);
}

/// What `octet check --memory` and the program's info say (SPEC section 6).
void PlanBuffers::addFacts(ModuleOp module) {
  int64_t weights = 0;
  for (q::SlotOp slot : module.getOps<q::SlotOp>()) {
    int64_t bytes = 0;
    if (auto quantized = dyn_cast<q::TensorType>(slot.getType()))
      bytes = quantized.getBytes();
    else if (auto tensor = dyn_cast<RankedTensorType>(slot.getType()))
      bytes = tensor.getNumElements() *
              q::getElementBytes(tensor.getElementType());
    // Stored tensors fit their files; saturate rather than wrap for the rest.
    int64_t all = checkedMul(bytes, slot.countUsed()).value_or(INT64_MAX);
    weights = checkedAdd(weights, all).value_or(INT64_MAX);
  }
  int64_t layers = 1;
  if (auto info = module->getAttrOfType<DictionaryAttr>("model.info"))
    if (auto count = dyn_cast_or_null<IntegerAttr>(info.get("layers")))
      layers = count.getInt();
  q::KvType cache;
  bool isVariable = false;
  DenseSet<int64_t> constants;
  module.walk([&](q::KvCacheOp op) {
    cache = op.getType();
    if (auto layer = getConstantIntValue(op.getLayer()))
      constants.insert(*layer);
    else
      isVariable = true;
  });
  int64_t kv = 0;
  if (cache)
    kv = checkedMul(cache.getBytesPerToken(),
                    isVariable ? layers : int64_t(constants.size()))
             .value_or(INT64_MAX);
  Builder b(&getContext());
  module->setAttr("kernel.arena_bytes", b.getI64IntegerAttr(arena));
  module->setAttr(
      "model.memory",
      b.getDictionaryAttr(
          {b.getNamedAttr("arena", b.getI64IntegerAttr(arena)),
           b.getNamedAttr("kv_per_token", b.getI64IntegerAttr(kv)),
           b.getNamedAttr("weights", b.getI64IntegerAttr(weights))}));
}

void PlanBuffers::runOnOperation() {
  ModuleOp module = getOperation();
  model::SettingsAttr settings = model::getSettings(module);
  if (!settings) {
    module.emitError() << "the module has no model.settings, which says how "
                          "many tokens a step has";
    return signalPassFailure();
  }
  // `logits` asks for every row of a step, so outputs may be as many as tokens.
  int64_t rows = settings.getMaxStepTokens();
  SmallVector<func::FuncOp> functions;
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (findBatch(function))
      functions.push_back(function);
  for (func::FuncOp function : functions)
    if (failed(foldOutputs(function)))
      return signalPassFailure();
  Ties ties(module);
  if (failed(ties.tie()) || failed(placeAll(module, ties, rows)))
    return signalPassFailure();
  for (func::FuncOp function : functions)
    rewriteFunction(function, ties);
  addFacts(module);
  arenaBytes = arena;
}
