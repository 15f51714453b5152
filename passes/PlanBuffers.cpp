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
//   %y = kernel.gemm "cpu.gemm" %x, %w of %b tokens {…} : … ->
//   tensor<?x256xbf16>
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
#include "octet/Support/Checked.h"
#include "passes/FrameLayout.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "passes/RowDomain.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace octet {
#define GEN_PASS_DEF_PLANBUFFERS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

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
      return op.emitError()
             << "writes " << value.getType() << ", expected a plain tensor";
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
    places[leader] = {bottom,
                      size->scaleOffset < 0 ? -1 : bottom + size->scaleOffset};
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
      places[life.value] = {
          life.offset,
          life.size.scaleOffset < 0 ? -1 : life.offset + life.size.scaleOffset};
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
        gemm.getDomain(), gemm.getModule(), gemm.getMaxM(), gemm.getVariants(),
        gemm.getUnwritten());
  } else if (auto launch = dyn_cast<kernel::LaunchOp>(op)) {
    made = kernel::LaunchOp::create(
        b, loc, TypeRange(), launch.getKernel(), launch.getSource(),
        launch.getInputs(), outs, launch.getBatch(), launch.getLayer(),
        launch.getModule(), launch.getParams(), launch.getUnwritten(),
        launch.getReadsAttr());
  } else {
    auto attention = cast<kernel::AttentionOp>(op);
    made = kernel::AttentionOp::create(
        b, loc, TypeRange(), attention.getKernel(), attention.getQ(),
        attention.getCache(), attention.getKScale(), attention.getVScale(),
        outs[0], attention.getBatch(), attention.getLayer(),
        attention.getQHeads(), attention.getKvHeads(), attention.getHeadDim(),
        attention.getScale(), attention.getWindow(), attention.getModule(),
        attention.getReadsAttr(), attention.getUnwritten());
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
  function.removeArgAttrsAttr();
  function.removeResAttrsAttr();
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
    } else if (isa<kernel::RowwiseOp, kernel::GemmOp, kernel::AttentionOp,
                   kernel::LaunchOp>(op)) {
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
      bytes =
          tensor.getNumElements() * q::getElementBytes(tensor.getElementType());
    // Stored tensors fit their files; saturate rather than wrap for the rest.
    int64_t all = checkedMul(bytes, slot.countUsed()).value_or(INT64_MAX);
    weights = checkedAdd(weights, all).value_or(INT64_MAX);
  }
  int64_t layers = 1;
  if (auto info = module->getAttrOfType<DictionaryAttr>("model.info"))
    if (auto count = dyn_cast_or_null<IntegerAttr>(info.get("layers")))
      layers = count.getInt();
  // Each kind of cache has a row a layer that uses it.
  llvm::MapVector<q::KvType, std::set<int64_t>> caches;
  module.walk([&](q::KvCacheOp op) {
    SmallVector<LayerRun> runs = findLayers(op.getLayer());
    if (runs.empty())
      runs.push_back({0, layers});
    for (const LayerRun &run : runs)
      for (int64_t layer = run.begin; layer < run.end; ++layer)
        caches[op.getType()].insert(layer);
  });
  int64_t kv = 0;
  for (const auto &[cache, users] : caches) {
    int64_t bytes = checkedMul(cache.getBytesPerToken(), int64_t(users.size()))
                        .value_or(INT64_MAX);
    kv = checkedAdd(kv, bytes).value_or(INT64_MAX);
  }
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
