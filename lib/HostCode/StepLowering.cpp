//===- StepLowering.cpp - @step as native code ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After plan-buffers every operator of the step is one call of the runtime's
// table: a place is an address in the arena, a weight the address of its
// octet_weight, a field of the batch a pointer in octet_batch. Row kernels are
// printed once a SIMD level and run by `parallel_for`. For a CUDA device every
// kernel is one call of `launch` with the addresses of its operands there,
// which are made the same way: arena, weights and batch are the device's.
//
//===----------------------------------------------------------------------===//

#include "HostLowering.h"
#include "RowPrinter.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "octet/CudaSource/Families.h"
#include "runtime/abi.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstddef>

using namespace mlir;
using namespace octet;
using namespace octet::host;

/// Bytes of a row kernel's operands below which a chunk of rows is not worth a
/// thread.
static constexpr int64_t kGrainBytes = 32 << 10;

//===----------------------------------------------------------------------===//
// Signatures
//===----------------------------------------------------------------------===//

LLVM::LLVMFuncOp octet::host::convertSignature(func::FuncOp function,
                                               StringRef name,
                                               ArrayRef<Type> leading,
                                               Type result) {
  OpBuilder builder(function);
  MLIRContext *context = function.getContext();
  SmallVector<Type> types(leading);
  for (Type type : function.getArgumentTypes())
    if (type.isIndex())
      types.push_back(builder.getI64Type());
  auto type = LLVM::LLVMFunctionType::get(
      result ? result : LLVM::LLVMVoidType::get(context), types);
  auto converted = LLVM::LLVMFuncOp::create(builder, function.getLoc(), name,
                                            type, LLVM::Linkage::Internal);
  converted.getBody().takeBody(function.getBody());
  Block &entry = converted.getBody().front();
  Location loc = function.getLoc();
  for (auto [i, type] : llvm::enumerate(leading))
    entry.insertArgument(i, type, loc);
  builder.setInsertionPointToStart(&entry);
  for (unsigned i = leading.size(); i < entry.getNumArguments(); ++i) {
    BlockArgument argument = entry.getArgument(i);
    if (!argument.getType().isIndex())
      continue;
    Value wide = entry.insertArgument(i, builder.getI64Type(), loc);
    argument = entry.getArgument(i + 1);
    argument.replaceAllUsesWith(
        arith::IndexCastOp::create(builder, loc, builder.getIndexType(), wide));
    entry.eraseArgument(i + 1);
  }
  function.erase();
  return converted;
}

//===----------------------------------------------------------------------===//
// The functions of a step
//===----------------------------------------------------------------------===//

namespace {

/// Lowers one function. Values of other dialects map to addresses.
class StepFunction {
public:
  StepFunction(HostModule &host, DeviceCode &device, LLVM::LLVMFuncOp function,
               int64_t &rowFunctions)
      : host(host), device(device), function(function),
        rowFunctions(rowFunctions), b(function.getLoc(), host.context),
        ctx(function.getArgument(0)), batch(function.getArgument(1)) {}

  LogicalResult lower(bool isStep);

private:
  struct Place {
    Value data, scales;
  };

  LogicalResult checkOperands(Operation *op);
  LogicalResult lowerOp(Operation *op);
  LogicalResult lowerRowwise(kernel::RowwiseOp op);
  LogicalResult launch(Operation *op, ArrayRef<Value> arguments, Value rows);
  LogicalResult launchGemm(kernel::GemmOp op);
  LogicalResult launchAttention(kernel::AttentionOp op);
  void lowerGemm(kernel::GemmOp op);
  void lowerAttention(kernel::AttentionOp op);
  void lowerTrace(kernel::TraceOp op);
  void lowerCall(func::CallOp op);
  void lowerField(model::FieldOp op);

  Value ctxField(int64_t bytes, Type type) {
    return host.loadField(b, ctx, bytes, type);
  }
  Value batchField(int64_t bytes, Type type) {
    return host.loadField(b, batch, bytes, type);
  }
  /// Rows of a domain in this step.
  Value countRows(kernel::Domain domain) {
    return batchField(domain == kernel::Domain::Tokens
                          ? offsetof(octet_batch, num_rows)
                          : offsetof(octet_batch, num_outputs),
                      host.i64);
  }
  /// Address of the data of a place, field or (one part) weight.
  Value dataOf(Value value);
  /// Address of a weight's octet_weight; null for no value.
  Value weightOf(Value value) {
    return value ? weights.lookup(value) : host.null(b);
  }
  Value atEntry(llvm::function_ref<Value()> make) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    return make();
  }
  /// The pointers that a row kernel takes, in the order of its frame.
  SmallVector<Value> getPointers(kernel::RowwiseOp op);
  /// An array of them on the stack.
  Value makeArray(ArrayRef<Value> pointers);
  FailureOr<std::string> printLevels(kernel::RowwiseOp op);

  HostModule &host;
  DeviceCode &device;
  LLVM::LLVMFuncOp function;
  int64_t &rowFunctions;
  ImplicitLocOpBuilder b;
  Value ctx, batch;
  DenseMap<Value, Place> places;  ///< buffers
  DenseMap<Value, Value> weights; ///< q.weight
  DenseMap<Value, Value> fields;  ///< model.field
  DenseMap<Value, Value> caches;  ///< q.kv_cache: its octet_kv_layer
};

} // namespace

Value StepFunction::dataOf(Value value) {
  if (auto place = places.find(value); place != places.end())
    return place->second.data;
  if (auto field = fields.find(value); field != fields.end())
    return field->second;
  // Row code reads vectors and tables, which are never joined.
  return host.loadField(
      b, weights.lookup(value),
      offsetof(octet_weight, parts) + offsetof(octet_part, data), host.pointer);
}

//===----------------------------------------------------------------------===//
// Row kernels
//===----------------------------------------------------------------------===//

/// One function a level, and \returns the table of them. The levels above
/// AVX-512 add nothing that row code would use.
FailureOr<std::string> StepFunction::printLevels(kernel::RowwiseOp op) {
  static const struct {
    const char *suffix, *cpu;
    bool wide;
  } kTargets[] = {{"v3", "x86-64-v3", false}, {"v4", "x86-64-v4", true}};
  static_assert(OCTET_LEVEL_V3 == 0 && OCTET_LEVEL_AVX512 == 1 &&
                OCTET_LEVEL_BF16 == 2 && OCTET_LEVEL_AMX == 3 &&
                OCTET_NUM_LEVELS == 4);

  std::string base = host.uniqueName("row." + op.getLabel().str());
  OpBuilder atEnd = OpBuilder::atBlockEnd(host.module.getBody());
  FailureOr<LLVM::LLVMFuncOp> first =
      printRowFunction(atEnd, op, base + "." + kTargets[0].suffix);
  if (failed(first))
    return failure();
  SmallVector<std::string> names;
  for (auto &target : kTargets) {
    LLVM::LLVMFuncOp level = *first;
    if (&target != kTargets) {
      level = cast<LLVM::LLVMFuncOp>(atEnd.clone(**first));
      level.setName(base + "." + target.suffix);
    }
    level.setTargetCpu(target.cpu);
    SmallVector<Attribute> passthrough = {b.getStringAttr("no-builtins")};
    if (target.wide)
      for (const char *name : {"prefer-vector-width", "min-legal-vector-width"})
        passthrough.push_back(
            b.getArrayAttr({b.getStringAttr(name), b.getStringAttr("512")}));
    level.setPassthroughAttr(b.getArrayAttr(passthrough));
    names.push_back(level.getName().str());
    ++rowFunctions;
  }
  // Every level has one, or an octet_ctx of that level calls what lies behind.
  names.resize(OCTET_NUM_LEVELS, names.back());
  return host.addFunctionTable(base + ".levels", names);
}

Value StepFunction::makeArray(ArrayRef<Value> pointers) {
  Value array = atEntry([&] {
    return LLVM::AllocaOp::create(b, host.pointer, host.pointer,
                                  host.constant(b, pointers.size()), 8);
  });
  for (auto [slot, address] : llvm::enumerate(pointers))
    LLVM::StoreOp::create(b, address,
                          host.offset(b, array, slot * sizeof(void *)));
  return array;
}

SmallVector<Value> StepFunction::getPointers(kernel::RowwiseOp op) {
  RowFrame frame = RowFrame::of(op);
  SmallVector<Value> pointers(frame.size);
  auto set = [&](int64_t slot, Value address) { pointers[slot] = address; };
  for (auto [slot, value] : llvm::zip(frame.inputs, op.getInputs()))
    set(slot, dataOf(value));
  for (auto [slot, value] : llvm::zip(frame.indices, op.getIndices()))
    set(slot, dataOf(value));
  for (auto [slot, scale, value] :
       llvm::zip(frame.outs, frame.scales, op.getOuts())) {
    set(slot, places.lookup(value).data);
    if (scale >= 0)
      set(scale, places.lookup(value).scales);
  }
  if (op.getCache()) {
    Value layer = caches.lookup(op.getCache());
    set(frame.cacheK,
        host.loadField(b, layer, offsetof(octet_kv_layer, k), host.pointer));
    set(frame.cacheV,
        host.loadField(b, layer, offsetof(octet_kv_layer, v), host.pointer));
    set(frame.slots, dataOf(op.getSlots()));
  }
  return pointers;
}

LogicalResult StepFunction::lowerRowwise(kernel::RowwiseOp op) {
  if (host.isDevice)
    return launch(op, getPointers(op), countRows(op.getDomain()));
  FailureOr<std::string> table = printLevels(op);
  if (failed(table))
    return failure();
  Value pointers = makeArray(getPointers(op));
  Value level = LLVM::SExtOp::create(
      b, host.i64, ctxField(offsetof(octet_ctx, level), host.i32));
  Value entry = host.offset(
      b, host.addressOf(b, *table),
      LLVM::MulOp::create(b, level, host.constant(b, sizeof(void *))));
  Value code = LLVM::LoadOp::create(b, host.pointer, entry);
  int64_t bytes = std::max<int64_t>(countRowBytes(op), 1);
  int64_t grain = std::max<int64_t>(kGrainBytes / bytes, 1);
  std::string desc = host.addStruct(
      "octet.rows", {host.addString(op.getLabel()), grain, bytes});
  host.callRuntime(
      b, ctx, offsetof(octet_runtime, parallel_for), Type(),
      {host.addressOf(b, desc), countRows(op.getDomain()), code, pointers});
  return success();
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

static Type elementOf(Type type) {
  return q::getStorage(kernel::getValueType(type));
}

void StepFunction::lowerGemm(kernel::GemmOp op) {
  auto x =
      dyn_cast<q::TensorType>(kernel::getValueType(op.getInput().getType()));
  auto w = dyn_cast<q::TensorType>(op.getWeight().getType());
  int64_t n, k;
  if (w) {
    n = w.getN();
    k = w.getK();
  } else {
    auto plain = cast<RankedTensorType>(op.getWeight().getType());
    n = plain.getDimSize(0);
    k = plain.getDimSize(1);
  }
  bool hasBlocks = w && !w.isGguf() && !w.isTiled();
  ConstantFields fields = {
      host.addString(op.getModule()),
      n,
      k,
      hasBlocks ? w.getGranularity().getBlockN() : int64_t(0),
      hasBlocks ? w.getGranularity().getBlockK() : int64_t(0),
      abiType(elementOf(op.getInput().getType())),
      abiStorage(op.getWeight().getType()),
      abiType(elementOf(op.getOut().getType())),
      op.getBias() ? abiType(elementOf(op.getBias().getType())) : int32_t(-1),
      w ? abiWeightScaleMode(w) : int32_t(OCTET_SCALE_NONE),
      !x                             ? int32_t(OCTET_SCALE_NONE)
      : x.getGranularity().isGroup() ? int32_t(OCTET_SCALE_GROUP)
                                     : abiScaleMode(x.getGranularity()),
      hasBlocks ? abiType(w.getScaleType()) : int32_t(OCTET_F32),
      int32_t(0)};
  appendGroups(fields, w);
  std::string desc = host.addStruct("octet.gemm", fields);
  Value scales = x ? places.lookup(op.getInput()).scales : host.null(b);
  host.callRuntime(b, ctx, offsetof(octet_runtime, gemm), Type(),
                   {host.addressOf(b, desc), countRows(op.getDomain()),
                    dataOf(op.getInput()), scales, weightOf(op.getWeight()),
                    weightOf(op.getBias()), places.lookup(op.getOut()).data});
}

void StepFunction::lowerAttention(kernel::AttentionOp op) {
  ConstantFields fields = {host.addString(op.getModule()),
                           int64_t(op.getQHeads()),
                           int64_t(op.getKvHeads()),
                           int64_t(op.getHeadDim()),
                           int64_t(op.getWindow()),
                           abiType(elementOf(op.getQ().getType())),
                           abiType(op.getCache().getType().getElementType()),
                           op.getScale().convertToFloat(),
                           int32_t(0)};
  std::string desc = host.addStruct("octet.attention", fields);
  auto scale = [&](Value value) {
    return value ? dataOf(value) : host.null(b);
  };
  host.callRuntime(b, ctx, offsetof(octet_runtime, attention), Type(),
                   {host.addressOf(b, desc), host.asI64(b, op.getLayer()),
                    batch, dataOf(op.getQ()), scale(op.getKScale()),
                    scale(op.getVScale()), places.lookup(op.getOut()).data});
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

LogicalResult StepFunction::launch(Operation *op, ArrayRef<Value> arguments,
                                   Value rows) {
  FailureOr<std::string> desc = device.addLaunch(op, arguments.size());
  if (failed(desc))
    return failure();
  host.callRuntime(
      b, ctx, offsetof(octet_runtime, launch), Type(),
      {host.addressOf(b, *desc), batch, rows, makeArray(arguments)});
  return success();
}

/// On the device a weight is one part, whatever its shards.
LogicalResult StepFunction::launchGemm(kernel::GemmOp op) {
  auto x =
      dyn_cast<q::TensorType>(kernel::getValueType(op.getInput().getType()));
  auto w = dyn_cast<q::TensorType>(op.getWeight().getType());
  using Problem = cuda::GemmProblem;
  SmallVector<Value> arguments(Problem::Y + 1, host.null(b));
  arguments[Problem::X] = dataOf(op.getInput());
  if (x)
    arguments[Problem::XScale] = places.lookup(op.getInput()).scales;
  arguments[Problem::W] = dataOf(op.getWeight());
  if (w)
    arguments[Problem::WScale] = host.loadField(b, weightOf(op.getWeight()),
                                                offsetof(octet_weight, parts) +
                                                    offsetof(octet_part, scale),
                                                host.pointer);
  if (op.getBias())
    arguments[Problem::Bias] = dataOf(op.getBias());
  arguments[Problem::Y] = places.lookup(op.getOut()).data;
  return launch(op, arguments, countRows(op.getDomain()));
}

LogicalResult StepFunction::launchAttention(kernel::AttentionOp op) {
  using Problem = cuda::AttentionProblem;
  Value layer = caches.lookup(op.getCache());
  SmallVector<Value> arguments(Problem::Y + 1, host.null(b));
  arguments[Problem::Q] = dataOf(op.getQ());
  arguments[Problem::K] =
      host.loadField(b, layer, offsetof(octet_kv_layer, k), host.pointer);
  arguments[Problem::V] =
      host.loadField(b, layer, offsetof(octet_kv_layer, v), host.pointer);
  if (op.getKScale())
    arguments[Problem::KScale] = dataOf(op.getKScale());
  if (op.getVScale())
    arguments[Problem::VScale] = dataOf(op.getVScale());
  arguments[Problem::Y] = places.lookup(op.getOut()).data;
  return launch(op, arguments, countRows(kernel::Domain::Tokens));
}

/// Nothing but a test of ctx->tracing where nobody listens.
void StepFunction::lowerTrace(kernel::TraceOp op) {
  auto type =
      cast<RankedTensorType>(kernel::getValueType(op.getInput().getType()));
  Value tracing = arith::CmpIOp::create(
      b, arith::CmpIPredicate::ne,
      ctxField(offsetof(octet_ctx, tracing), host.i32), host.constant32(b, 0));
  auto branch = scf::IfOp::create(b, tracing, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  host.callRuntime(b, ctx, offsetof(octet_runtime, trace), Type(),
                   {host.addressOf(b, host.addString(op.getName())),
                    host.asI64(b, op.getIndex()),
                    host.constant32(b, abiType(type.getElementType())),
                    countRows(op.getDomain()),
                    host.constant(b, type.getDimSize(1)),
                    dataOf(op.getInput())});
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

void StepFunction::lowerField(model::FieldOp op) {
  int64_t bytes = 0;
  switch (op.getField()) {
  case model::Field::Ids:
    bytes = offsetof(octet_batch, ids);
    break;
  case model::Field::Input:
    bytes = offsetof(octet_batch, input);
    break;
  case model::Field::Positions:
    bytes = offsetof(octet_batch, positions);
    break;
  case model::Field::Slots:
    bytes = offsetof(octet_batch, slots);
    break;
  case model::Field::OutputRows:
    bytes = offsetof(octet_batch, output_rows);
    break;
  case model::Field::DraftIds:
  case model::Field::DraftHidden:
    // Only @draft reads them, and lower-to-host refuses that one.
    llvm_unreachable("draft layers have unwritten kernels");
  }
  fields[op.getResult()] = batchField(bytes, host.pointer);
}

void StepFunction::lowerCall(func::CallOp op) {
  SmallVector<Value> arguments = {ctx, batch};
  for (Value operand : op.getOperands())
    if (operand.getType().isIndex())
      arguments.push_back(host.asI64(b, operand));
  LLVM::CallOp::create(b, TypeRange(), op.getCallee(), arguments);
}

/// Every operand is something that was lowered before, and every destination is
/// there: plan-buffers leaves it so, a file written by hand may not.
LogicalResult StepFunction::checkOperands(Operation *op) {
  bool writes = isa<kernel::RowwiseOp, kernel::GemmOp, kernel::AttentionOp>(op);
  if (writes && op->getNumResults() > 0)
    return op->emitError() << "'" << op->getName() << "' has a result without "
                           << "a place; octet-plan-buffers gives it one";
  auto gemm = dyn_cast<kernel::GemmOp>(op);
  auto attention = dyn_cast<kernel::AttentionOp>(op);
  if ((gemm && !gemm.getOut()) || (attention && !attention.getOut()))
    return op->emitError() << "'" << op->getName() << "' writes nothing";
  for (Value operand : op->getOperands()) {
    if (operand.getType().isIndex() ||
        isa<model::BatchType>(operand.getType()) || places.count(operand) ||
        weights.count(operand) || fields.count(operand) ||
        caches.count(operand))
      continue;
    return op->emitError() << "'" << op->getName() << "' reads a value "
                           << operand.getType()
                           << " that has no place; octet-plan-buffers gives "
                              "each one";
  }
  if (gemm && !weights.count(gemm.getWeight()))
    return gemm.emitError()
           << gemm.getModule() << ": the weight is not a q.weight";
  if (gemm && gemm.getBias() && !weights.count(gemm.getBias()))
    return gemm.emitError()
           << gemm.getModule() << ": the bias is not a q.weight";
  return success();
}

LogicalResult StepFunction::lowerOp(Operation *op) {
  if (failed(checkOperands(op)))
    return failure();
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](kernel::PlaceOp place) {
        Value arena = ctxField(offsetof(octet_ctx, arena), host.pointer);
        Place made{host.offset(b, arena, int64_t(place.getOffset())), Value()};
        if (std::optional<int64_t> scales = place.getScaleOffset())
          made.scales = host.offset(b, arena, *scales);
        places[place.getResult()] = made;
        return success();
      })
      .Case([&](kernel::OutputOp output) {
        places[output.getResult()] = {
            batchField(offsetof(octet_batch, output), host.pointer), Value()};
        return success();
      })
      .Case([&](q::WeightOp weight) {
        weights[weight.getResult()] =
            host.weightAddress(b, ctx, weight.getSlot(), weight.getIndex());
        return success();
      })
      .Case([&](q::KvCacheOp cache) {
        Value bytes =
            LLVM::MulOp::create(b, host.asI64(b, cache.getLayer()),
                                host.constant(b, sizeof(octet_kv_layer)));
        caches[cache.getResult()] = host.offset(
            b, ctxField(offsetof(octet_ctx, kv), host.pointer), bytes);
        return success();
      })
      .Case([&](model::FieldOp field) { return lowerField(field), success(); })
      .Case([&](kernel::RowwiseOp rowwise) { return lowerRowwise(rowwise); })
      .Case([&](kernel::GemmOp gemm) {
        if (host.isDevice)
          return launchGemm(gemm);
        return lowerGemm(gemm), success();
      })
      .Case([&](kernel::AttentionOp attention) {
        if (host.isDevice)
          return launchAttention(attention);
        return lowerAttention(attention), success();
      })
      .Case([&](kernel::TraceOp trace) { return lowerTrace(trace), success(); })
      .Case([&](func::CallOp call) { return lowerCall(call), success(); })
      .Default([&](Operation *other) {
        return other->emitError()
               << "'" << other->getName()
               << "' in the step has no code; plan-buffers leaves none";
      });
}

/// Loops and arithmetic on indices are converted by the pass.
static bool staysForLater(Operation *op) {
  return isa<scf::SCFDialect, arith::ArithDialect, LLVM::LLVMDialect>(
      op->getDialect());
}

LogicalResult StepFunction::lower(bool isStep) {
  SmallVector<Operation *> ops;
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op == function || staysForLater(op))
      return WalkResult::advance();
    ops.push_back(op);
    return WalkResult::skip(); // a row kernel's region
  });
  for (Operation *op : ops) {
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      b.setInsertionPoint(op);
      if (isStep)
        LLVM::ReturnOp::create(b, ValueRange(host.constant32(b, 0)));
      else
        LLVM::ReturnOp::create(b, ValueRange());
      continue;
    }
    if (failed(lowerOp(op)))
      return failure();
  }
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  // What is left of the signature is the batch, now without uses.
  Block &entry = function.getBody().front();
  for (int i = entry.getNumArguments() - 1; i >= 0; --i)
    if (isa<model::BatchType>(entry.getArgument(i).getType()))
      entry.eraseArgument(i);
  return success();
}

FailureOr<int64_t> octet::host::lowerStep(HostModule &host,
                                          DeviceCode &device) {
  if (!host.module.lookupSymbol<func::FuncOp>("step"))
    return host.module.emitError() << "the program has no function @step";
  SmallVector<std::pair<LLVM::LLVMFuncOp, bool>> functions;
  for (auto function :
       llvm::make_early_inc_range(host.module.getOps<func::FuncOp>())) {
    bool isStep = function.getName() == "step";
    for (Type type : llvm::concat<const Type>(function.getArgumentTypes(),
                                              function.getResultTypes()))
      if (!type.isIndex() && !isa<model::BatchType>(type))
        return function.emitError()
               << "@" << function.getName() << " passes " << type
               << "; plan-buffers gives such values a place";
    functions.push_back(
        {convertSignature(
             function, isStep ? StringRef(kStepName) : function.getName(),
             {host.pointer, host.pointer}, isStep ? host.i32 : Type()),
         isStep});
  }
  int64_t rowFunctions = 0;
  for (auto [function, isStep] : functions)
    if (failed(
            StepFunction(host, device, function, rowFunctions).lower(isStep)))
      return failure();
  return rowFunctions;
}

LogicalResult octet::host::addProgram(HostModule &host, DeviceCode &device,
                                      StringRef info, int64_t arenaBytes) {
  FailureOr<std::string> images = device.addImages();
  if (failed(images))
    return failure();
  FailureOr<std::string> sample = device.addSampler();
  if (failed(sample))
    return failure();
  std::string text = host.addString(info);
  host.addStruct("octet_program",
                 {int32_t(OCTET_ABI_VERSION), int32_t(0), text,
                  int64_t(info.size()), arenaBytes, host.numWeights,
                  kLoadName.str(), kStepName.str(), device.numImages(), *images,
                  *sample},
                 /*isExternal=*/true);
  return success();
}
