//===- LoadLowering.cpp - @load as native code ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every value of the load function is an `octet_weight` on the stack; every
// operator is one call of the runtime's table, whose non-zero result leaves the
// function at once. Loops are lowered first, so that leaving is a branch.
//
//===----------------------------------------------------------------------===//

#include "HostLowering.h"
#include "dialects/Model/ModelOps.h"
#include "lib/CudaSource/LaunchAttr.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/DialectConversion.h"
#include "octet/Support/Checked.h"
#include "runtime/abi.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cstddef>

using namespace mlir;
using namespace octet;
using namespace octet::host;

//===----------------------------------------------------------------------===//
// The tensor table
//===----------------------------------------------------------------------===//

namespace {
/// The rows of one q.load: row(i) = first + (i - low) / step * stride.
struct Rows {
  int64_t first = 0, low = 0, step = 1, count = 1, stride = 1;
};
} // namespace

// Discardable attributes carry a load's rows over the lowering of its loop.
static const char *const kRows = "host.rows";

/// The values that an index takes: a constant, or the induction variable of a
/// loop with constant bounds.
static LogicalResult findRange(q::LoadOp load, Rows &rows) {
  Value index = load.getIndex();
  if (!index)
    return success();
  if (std::optional<int64_t> constant = getConstantIntValue(index)) {
    rows.low = *constant;
    return success();
  }
  auto argument = dyn_cast<BlockArgument>(index);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (loop && loop.getInductionVar() == index) {
    auto low = getConstantIntValue(loop.getLowerBound());
    auto high = getConstantIntValue(loop.getUpperBound());
    auto step = getConstantIntValue(loop.getStep());
    if (low && high && step && *step > 0 && *low >= 0 && *high >= *low &&
        *high - *low <= INT32_MAX) {
      rows.low = *low;
      rows.step = *step;
      rows.count = cdiv(*high - *low, *step);
      return success();
    }
  }
  return load.emitError() << load.getPath()
                          << ": the index of a q.load is neither a constant "
                             "nor of a loop with constant bounds";
}

/// "model.layers.{l}.mlp" with the number in its place.
static std::string instantiate(StringRef path, int64_t index) {
  std::string name = path.str();
  size_t open = name.find('{');
  size_t close = name.find('}', open == std::string::npos ? 0 : open);
  if (open != std::string::npos && close != std::string::npos)
    name.replace(open, close - open + 1, std::to_string(index));
  return name;
}

static FailureOr<std::vector<TensorRow>> numberTensors(func::FuncOp function) {
  std::vector<TensorRow> table;
  WalkResult walked = function.walk([&](q::LoadOp load) {
    Rows rows;
    if (failed(findRange(load, rows)))
      return WalkResult::interrupt();
    rows.first = table.size();
    auto quantized = dyn_cast<q::TensorType>(load.getType());
    rows.stride = load.getScale() ? 2 : 1;
    for (int64_t i = 0; i < rows.count; ++i) {
      std::string module =
          instantiate(load.getPath(), rows.low + i * rows.step);
      auto add = [&](StringRef last, Type type) {
        table.push_back(
            {module.empty() ? last.str() : module + "." + last.str(), type});
      };
      if (!load.getScale()) {
        add(load.getWeight(), load.getType());
        continue;
      }
      add(load.getWeight(), quantized.getDataTensorType());
      RankedTensorType scale = quantized.getScaleTensorType();
      if (std::optional<ArrayRef<int64_t>> shape = load.getScaleShape())
        scale = scale.clone(*shape);
      if (std::optional<Type> stored = load.getScaleType())
        scale = scale.clone(*stored);
      add(*load.getScale(), scale);
    }
    load->setAttr(kRows, DenseI64ArrayAttr::get(
                             load.getContext(),
                             {rows.first, rows.low, rows.step, rows.stride}));
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  return table;
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

namespace {
class LoadLowering {
public:
  LoadLowering(HostModule &host, DeviceCode &device, LLVM::LLVMFuncOp function)
      : host(host), device(device), function(function),
        b(function.getLoc(), host.context), ctx(function.getArgument(0)) {}

  LogicalResult lower();

private:
  LogicalResult lowerOp(Operation *op);
  void lowerLoad(q::LoadOp load);
  void lowerStore(q::StoreOp store);
  void lowerRopeTable(model::RopeTableOp table);
  void lowerKvScales(q::KvScalesOp op);

  /// A matrix whose codes share words: one of a module, or one shard of
  /// several.
  struct Shard {
    q::TensorType type;
    StringRef path;
    SmallVector<Value, 5> tensors; ///< in octet_grouped's order; null: none
  };
  void lowerPack(q::PackOp pack);
  void lowerShareGlobal(q::ShareGlobalOp op);
  LogicalResult lowerRepack(q::RepackOp repack);
  /// What an operator on words or blocks reads.
  SmallVector<Shard> shardsOf(Value value);
  /// A call `(ctx, desc, octet_grouped, …)` on one of them.
  void callGrouped(Operation *op, int64_t field, const Shard &shard,
                   ArrayRef<Value> more = {});

  /// Calls the runtime and leaves with its result if that is not zero.
  void callChecked(Operation *op, int64_t field, ValueRange arguments);
  /// An op `(ctx, desc, in, out)`.
  void callUnary(Operation *op, int64_t field, Type described, Type scaled);
  /// An op `(ctx, from, to, in, out)` between two quantised types.
  void callRewrite(Operation *op, int64_t field);
  /// `(ctx, from, to, kernels, in, out)` of an op with a launch.
  LogicalResult rewriteOnDevice(Operation *op);
  Value makeWeight(Value result);
  Value makeWeight();
  Value makeList(ValueRange weights);
  /// An array of addresses on the stack.
  Value makeArray(ArrayRef<Value> addresses);
  /// The address of one, of a value of that type.
  Value describe(StringRef path, Value value);
  std::string addTensorDesc(StringRef module, Type type, Type scaled,
                            int32_t headRows = 0);

  HostModule &host;
  DeviceCode &device;
  LLVM::LLVMFuncOp function;
  ImplicitLocOpBuilder b;
  Value ctx;
  Block *leave = nullptr; ///< returns its argument
  DenseMap<Value, Value> weights;
  DenseMap<Value, StringRef> paths; ///< for messages of later ops
  DenseMap<Value, SmallVector<Shard>> shards;
  SmallPtrSet<Operation *, 8> lastReaders;
};
} // namespace

/// Room for an octet_weight, allocated once a call.
Value LoadLowering::makeWeight() {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&function.getBody().front());
  Value bytes = host.constant(b, sizeof(octet_weight));
  return LLVM::AllocaOp::create(b, host.pointer, host.i8, bytes, 8);
}

Value LoadLowering::makeWeight(Value result) {
  return weights[result] = makeWeight();
}

Value LoadLowering::makeArray(ArrayRef<Value> addresses) {
  Value list;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    list = LLVM::AllocaOp::create(b, host.pointer, host.pointer,
                                  host.constant(b, addresses.size()), 8);
  }
  for (auto [i, address] : llvm::enumerate(addresses))
    LLVM::StoreOp::create(b, address ? address : host.null(b),
                          host.offset(b, list, i * sizeof(void *)));
  return list;
}

Value LoadLowering::makeList(ValueRange values) {
  return makeArray(llvm::map_to_vector(
      values, [&](Value value) { return weights.lookup(value); }));
}

void LoadLowering::callChecked(Operation *op, int64_t field,
                               ValueRange arguments) {
  Value status = host.callRuntime(b, ctx, field, host.i32, arguments);
  Value good = LLVM::ICmpOp::create(b, LLVM::ICmpPredicate::eq, status,
                                    host.constant32(b, 0));
  Block *block = op->getBlock();
  Block *rest = block->splitBlock(op);
  b.setInsertionPointToEnd(block);
  LLVM::CondBrOp::create(b, good, rest, ValueRange(), leave,
                         ValueRange(status));
  b.setInsertionPoint(op);
}

/// An octet_tensor_desc. The elements are those of `type`; scale mode and dtype
/// are of `scaled`, a quantised type, or none.
std::string LoadLowering::addTensorDesc(StringRef module, Type type,
                                        Type scaled, int32_t headRows) {
  int64_t rows = 1, cols = 1;
  if (auto quantized = dyn_cast<q::TensorType>(type)) {
    rows = quantized.getN();
    cols = quantized.getK();
  } else {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() > 0)
      cols = tensor.getShape().back();
    for (int64_t side : tensor.getShape().drop_back(tensor.getRank() > 0))
      rows *= side;
  }
  int64_t blockN = 0, blockK = 0;
  int32_t mode = OCTET_SCALE_NONE, scaleType = OCTET_F32;
  auto quantized = dyn_cast_or_null<q::TensorType>(scaled);
  if (quantized && !quantized.isGguf() && !quantized.isPacked()) {
    mode = abiScaleMode(quantized.getGranularity());
    scaleType = abiType(quantized.getScaleType());
    blockN = quantized.getGranularity().getBlockN();
    blockK = quantized.getGranularity().getBlockK();
  }
  ConstantFields fields = {
      host.addString(module), rows, cols,      blockN,  blockK,
      abiStorage(type),       mode, scaleType, headRows};
  appendGroups(fields, quantized);
  return host.addStruct("octet.tensor", fields);
}

void LoadLowering::lowerLoad(q::LoadOp load) {
  ArrayRef<int64_t> rows =
      load->getAttrOfType<DenseI64ArrayAttr>(kRows).asArrayRef();
  Value row = host.constant(b, rows[0]);
  if (load.getIndex()) {
    Value steps = LLVM::SubOp::create(b, host.asI64(b, load.getIndex()),
                                      host.constant(b, rows[1]));
    steps = LLVM::UDivOp::create(b, steps, host.constant(b, rows[2]));
    row = LLVM::AddOp::create(
        b, row, LLVM::MulOp::create(b, steps, host.constant(b, rows[3])));
  }
  Value scale = load.getScale()
                    ? Value(LLVM::AddOp::create(b, row, host.constant(b, 1)))
                    : host.constant(b, -1);
  std::string desc =
      addTensorDesc(load.getPath(), load.getType(), load.getType(),
                    static_cast<int32_t>(load.getHeadRows().value_or(0)));
  paths[load.getResult()] = load.getPath();
  callChecked(
      load, offsetof(octet_runtime, load),
      {host.addressOf(b, desc), row, scale, makeWeight(load.getResult())});
}

/// For a device the complete weight is copied there.
void LoadLowering::lowerStore(q::StoreOp store) {
  Value from = weights.lookup(store.getValue());
  Value to = host.weightAddress(b, ctx, store.getSlot(), store.getIndex());
  if (host.isDevice) {
    Type type = store.getValue().getType();
    StringRef path = paths.lookup(store.getValue());
    Value desc = host.addressOf(
        b, addTensorDesc(path.empty() ? store.getSlot() : path, type, type));
    callChecked(store, offsetof(octet_runtime, upload), {desc, from, to});
    if (lastReaders.contains(store))
      host.callRuntime(b, ctx, offsetof(octet_runtime, forget), {}, {});
    return;
  }
  // Word by word: an aggregate would be copied by a call of memcpy.
  static_assert(sizeof(octet_weight) % 8 == 0);
  for (size_t at = 0; at < sizeof(octet_weight); at += 8)
    LLVM::StoreOp::create(b, host.loadField(b, from, at, host.i64),
                          host.offset(b, to, at));
}

void LoadLowering::lowerRopeTable(model::RopeTableOp table) {
  ArrayRef<float> frequencies = table.getInvFreq();
  std::string symbol = host.addFloats("octet.inv_freq", frequencies);
  auto type = cast<RankedTensorType>(table.getType());
  Value scale =
      LLVM::ConstantOp::create(b, b.getF32Type(), table.getScaleAttr());
  callChecked(table, offsetof(octet_runtime, rope_table),
              {host.addressOf(b, symbol), host.constant(b, frequencies.size()),
               host.constant(b, type.getDimSize(0)), scale,
               makeWeight(table.getResult())});
}

void LoadLowering::lowerKvScales(q::KvScalesOp op) {
  Value given = op.getK() ? op.getK() : op.getV();
  Type element = given
                     ? cast<RankedTensorType>(given.getType()).getElementType()
                     : Type(b.getF32Type());
  auto address = [&](Value value) {
    return value ? weights.lookup(value) : host.null(b);
  };
  Value layer =
      op.getIndex() ? host.asI64(b, op.getIndex()) : host.constant(b, 0);
  callChecked(op, offsetof(octet_runtime, kv_scales),
              {host.addressOf(b, host.addString(op.getPath())), layer,
               address(op.getK()), address(op.getV()),
               host.constant32(b, abiType(element)), makeWeight(op.getKScale()),
               makeWeight(op.getVScale())});
}

void LoadLowering::callUnary(Operation *op, int64_t field, Type described,
                             Type scaled) {
  StringRef path = paths.lookup(op->getOperand(0));
  Value desc = host.addressOf(b, addTensorDesc(path, described, scaled));
  SmallVector<Value> arguments = {desc, weights.lookup(op->getOperand(0))};
  if (op->getNumResults()) {
    arguments.push_back(makeWeight(op->getResult(0)));
    paths[op->getResult(0)] = path;
  }
  callChecked(op, field, arguments);
}

Value LoadLowering::describe(StringRef path, Value value) {
  return host.addressOf(b,
                        addTensorDesc(path, value.getType(), value.getType()));
}

LogicalResult LoadLowering::rewriteOnDevice(Operation *op) {
  FailureOr<std::string> launch =
      device.addLaunch(op, OCTET_REWRITE_TO_SCALE + 1);
  if (failed(launch))
    return failure();
  StringRef path = paths.lookup(op->getOperand(0));
  Value from = describe(path, op->getOperand(0));
  Value to = describe(path, op->getResult(0));
  paths[op->getResult(0)] = path;
  callChecked(op, offsetof(octet_runtime, rewrite),
              {from, to, host.addressOf(b, *launch),
               weights.lookup(op->getOperand(0)),
               makeWeight(op->getResult(0))});
  return success();
}

void LoadLowering::callRewrite(Operation *op, int64_t field) {
  StringRef path = paths.lookup(op->getOperand(0));
  Value from = describe(path, op->getOperand(0));
  Value to = describe(path, op->getResult(0));
  paths[op->getResult(0)] = path;
  callChecked(op, field,
              {from, to, weights.lookup(op->getOperand(0)),
               makeWeight(op->getResult(0))});
}

/// No code: what reads it takes its tensors one by one.
void LoadLowering::lowerPack(q::PackOp pack) {
  Shard shard{pack.getType(), paths.lookup(pack.getData()), {}};
  for (Value tensor : {pack.getData(), pack.getScale(), pack.getZeros(),
                       pack.getGlobal(), pack.getOrder()})
    shard.tensors.push_back(tensor ? weights.lookup(tensor) : Value());
  weights[pack.getResult()] = shard.tensors[0];
  paths[pack.getResult()] = shard.path;
  shards[pack.getResult()] = {std::move(shard)};
}

SmallVector<LoadLowering::Shard> LoadLowering::shardsOf(Value value) {
  auto found = shards.find(value);
  if (found != shards.end())
    return found->second;
  // Blocks that hold their scales.
  return {{cast<q::TensorType>(value.getType()),
           paths.lookup(value),
           {weights.lookup(value), Value(), Value(), Value(), Value()}}};
}

void LoadLowering::callGrouped(Operation *op, int64_t field, const Shard &shard,
                               ArrayRef<Value> more) {
  static_assert(sizeof(octet_grouped) == 5 * sizeof(void *));
  Value desc =
      host.addressOf(b, addTensorDesc(shard.path, shard.type, shard.type));
  SmallVector<Value> arguments = {desc, makeArray(shard.tensors)};
  llvm::append_range(arguments, more);
  callChecked(op, field, arguments);
}

/// Shards stay apart, each with its group scales below the one of all (W9).
void LoadLowering::lowerShareGlobal(q::ShareGlobalOp op) {
  constexpr size_t kScales = 1, kGlobal = 3; // places in octet_grouped
  SmallVector<Shard> all = shardsOf(op.getInput());
  SmallVector<Value> globals = llvm::map_to_vector(
      all, [](const Shard &shard) { return shard.tensors[kGlobal]; });
  Value list = makeArray(globals), count = host.constant(b, globals.size());
  for (Shard &shard : all) {
    Value scales = makeWeight(), global = makeWeight();
    callGrouped(op, offsetof(octet_runtime, share_global), shard,
                {count, list, scales, global});
    shard.tensors[kScales] = scales;
    shard.tensors[kGlobal] = global;
  }
  weights[op.getResult()] = all[0].tensors[0];
  paths[op.getResult()] = all[0].path;
  shards[op.getResult()] = std::move(all);
}

LogicalResult LoadLowering::lowerRepack(q::RepackOp repack) {
  if (!repack.getType().isTiled())
    return repack.emitError()
           << paths.lookup(repack.getInput()) << ": " << repack.getType()
           << " is no layout of the CPU [B4]";
  SmallVector<Shard> all = shardsOf(repack.getInput());
  SmallVector<Value> tiles;
  for (const Shard &shard : all) {
    tiles.push_back(all.size() == 1 ? makeWeight(repack.getResult())
                                    : makeWeight());
    callGrouped(repack, offsetof(octet_runtime, tile_weight), shard,
                tiles.back());
  }
  if (all.size() > 1)
    callChecked(repack, offsetof(octet_runtime, concat),
                {host.constant(b, tiles.size()), makeArray(tiles),
                 makeWeight(repack.getResult())});
  paths[repack.getResult()] = all[0].path;
  return success();
}

LogicalResult LoadLowering::lowerOp(Operation *op) {
  for (Value operand : op->getOperands())
    if (!operand.getType().isIndex() && !weights.count(operand))
      return op->emitError()
             << "'" << op->getName() << "' reads a value " << operand.getType()
             << " that no operator of the load function made";
  b.setInsertionPoint(op);
  b.setLoc(op->getLoc());
  if (op->hasAttr(cuda::kLaunchName))
    return rewriteOnDevice(op);
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](q::LoadOp load) { return lowerLoad(load), success(); })
      .Case([&](q::StoreOp store) { return lowerStore(store), success(); })
      .Case([&](model::RopeTableOp table) {
        return lowerRopeTable(table), success();
      })
      .Case([&](q::KvScalesOp scales) {
        return lowerKvScales(scales), success();
      })
      .Case([&](q::PackOp pack) -> LogicalResult {
        if (!pack.getType().isPacked())
          return pack.emitError() << paths.lookup(pack.getData())
                                  << ": codes and scales are loaded together, "
                                     "unless codes share words [W1]";
        return lowerPack(pack), success();
      })
      .Case([&](q::RepackOp repack) { return lowerRepack(repack); })
      .Case([&](q::ShareGlobalOp share) {
        return lowerShareGlobal(share), success();
      })
      .Case([&](q::CheckScalesOp check) {
        if (check.getInput().getType().isPacked())
          return callGrouped(check, offsetof(octet_runtime, check_groups),
                             shardsOf(check.getInput())[0]),
                 success();
        Type type = check.getInput().getType();
        callUnary(op, offsetof(octet_runtime, check_scales), type, type);
        return success();
      })
      .Case([&](q::ConvertScalesOp convert) {
        Type type = convert.getInput().getType();
        callUnary(op, offsetof(octet_runtime, convert_scales), type, type);
        return success();
      })
      .Case([&](q::ExpandScalesOp expand) {
        Type type = expand.getInput().getType();
        callUnary(op, offsetof(octet_runtime, expand_scales), type, type);
        return success();
      })
      .Case([&](q::RequantizeOp) {
        callRewrite(op, offsetof(octet_runtime, requantize));
        return success();
      })
      .Case([&](q::MergeScalesOp) {
        callRewrite(op, offsetof(octet_runtime, merge_scales));
        return success();
      })
      .Case([&](q::QuantizeOp quantize) -> LogicalResult {
        q::GranularityKind kind = quantize.getType().getGranularity().getKind();
        if (quantize.getScale() || quantize.getUe8m0() || quantize.getBound() ||
            !isa<Float8E4M3FNType>(quantize.getType().getElementType()) ||
            kind == q::GranularityKind::Block ||
            kind == q::GranularityKind::Group)
          return op->emitError()
                 << paths.lookup(quantize.getInput())
                 << ": loading quantises per tensor or per channel only [W10]";
        callUnary(op, offsetof(octet_runtime, quantize_weight),
                  quantize.getInput().getType(), quantize.getType());
        return success();
      })
      .Case([&](q::ConcatOp concat) {
        paths[concat.getResult()] = paths.lookup(concat.getInputs()[0]);
        // What reads words takes their tensors shard by shard.
        if (auto type = dyn_cast<q::TensorType>(concat.getType());
            type && type.isPacked()) {
          SmallVector<Shard> all;
          for (Value input : concat.getInputs())
            llvm::append_range(all, shardsOf(input));
          weights[concat.getResult()] = all[0].tensors[0];
          shards[concat.getResult()] = std::move(all);
          return success();
        }
        Value list = makeList(concat.getInputs());
        callChecked(op, offsetof(octet_runtime, concat),
                    {host.constant(b, concat.getInputs().size()), list,
                     makeWeight(concat.getResult())});
        return success();
      })
      .Case([&](q::MaxOp max) {
        paths[max.getResult()] = paths.lookup(max.getInputs()[0]);
        auto type = cast<RankedTensorType>(max.getInputs()[0].getType());
        Value list = makeList(max.getInputs());
        callChecked(op, offsetof(octet_runtime, max_scalar),
                    {host.constant(b, max.getInputs().size()), list,
                     host.constant32(b, abiType(type.getElementType())),
                     makeWeight(max.getResult())});
        return success();
      })
      .Case([&](arith::DivFOp div) -> LogicalResult {
        // A stored scale that divides; the quotient is of its path.
        Value divisor = div.getRhs();
        if (!matchPattern(div.getLhs(), m_OneFloat()) ||
            !cast<ShapedType>(divisor.getType()).getElementType().isF32())
          return op->emitError() << "a division of the load function is 1 by "
                                    "an f32 value";
        paths[div.getResult()] = paths.lookup(divisor);
        callChecked(op, offsetof(octet_runtime, reciprocal),
                    {weights.lookup(divisor), makeWeight(div.getResult())});
        return success();
      })
      .Case([&](arith::ConstantOp constant) -> LogicalResult {
        auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!dense || !dense.getElementType().isF32() ||
            dense.getNumElements() != 1)
          return op->emitError() << "a constant of the load function is one "
                                    "f32 value";
        Value value = LLVM::ConstantOp::create(
            b, b.getF32Type(),
            b.getF32FloatAttr(
                (*dense.value_begin<APFloat>()).convertToFloat()));
        callChecked(op, offsetof(octet_runtime, constant),
                    {value, makeWeight(constant.getResult())});
        return success();
      })
      .Default([&](Operation *other) {
        return other->emitError()
               << "'" << other->getName() << "' in the load function has no "
               << "code";
      });
}

/// What is lowered later: control flow and arithmetic on indices.
static bool staysForLater(Operation *op) {
  if (isa<cf::ControlFlowDialect, LLVM::LLVMDialect>(op->getDialect()))
    return true;
  return isa<arith::ArithDialect>(op->getDialect()) &&
         llvm::all_of(op->getResultTypes(),
                      [](Type type) { return type.isIntOrIndexOrFloat(); });
}

/// The uploads after which nothing that the function has made is read. None, if
/// a block reads what another one made.
static SmallPtrSet<Operation *, 8> findLastReaders(LLVM::LLVMFuncOp function) {
  SmallPtrSet<Operation *, 8> found;
  for (Block &block : function.getBody()) {
    DenseMap<Operation *, unsigned> places;
    for (auto [place, op] : llvm::enumerate(block))
      places[&op] = place;
    unsigned last = 0;
    for (Operation &op : block) {
      for (Value result : op.getResults()) {
        if (staysForLater(&op))
          continue;
        for (Operation *user : result.getUsers()) {
          // The 1 of a quotient is in the service that divides.
          if (isa<arith::ConstantOp>(op) && isa<arith::DivFOp>(user))
            continue;
          if (user->getBlock() != &block)
            return {};
          last = std::max(last, places.lookup(user));
        }
      }
      if (isa<q::StoreOp>(op) && last <= places.lookup(&op))
        found.insert(&op);
    }
  }
  return found;
}

LogicalResult LoadLowering::lower() {
  if (host.isDevice)
    lastReaders = findLastReaders(function);
  SmallVector<Operation *> ops, dead;
  function.walk([&](Operation *op) {
    if (op != function && !staysForLater(op))
      ops.push_back(op);
  });
  leave = new Block();
  function.getBody().push_back(leave);
  leave->addArgument(host.i32, function.getLoc());
  b.setInsertionPointToStart(leave);
  LLVM::ReturnOp::create(b, ValueRange(leave->getArgument(0)));

  for (Operation *op : ops) {
    if (failed(lowerOp(op)))
      return failure();
    dead.push_back(op);
  }
  for (Operation *op : llvm::reverse(dead))
    op->erase();
  return success();
}

/// The runtime refuses a program that leaves a weight empty (W6). Instances of
/// layers that a slot does not serve get no parts, which is not empty.
static void markUnused(HostModule &host, LLVM::LLVMFuncOp function) {
  ImplicitLocOpBuilder b(function.getLoc(), host.context);
  b.setInsertionPointToStart(&function.getBody().front());
  Value ctx = function.getArgument(0);
  for (q::SlotOp slot : host.module.getOps<q::SlotOp>()) {
    if (!slot.getUsed())
      continue;
    for (int64_t i = 0; i < int64_t(slot.getCount()); ++i) {
      if (llvm::is_contained(*slot.getUsed(), i))
        continue;
      Value weight =
          host.weightAddress(b, ctx, slot.getSymName(), host.constant(b, i));
      LLVM::StoreOp::create(
          b, host.constant(b, 0),
          host.offset(b, weight, offsetof(octet_weight, num_parts)));
    }
  }
}

FailureOr<std::vector<TensorRow>> octet::host::lowerLoad(HostModule &host,
                                                         DeviceCode &device) {
  auto load = host.module.lookupSymbol<func::FuncOp>("load");
  if (!load || load.isExternal())
    return host.module.emitError()
           << "the program has no function @load; materialize-weights makes it";
  FailureOr<std::vector<TensorRow>> table = numberTensors(load);
  if (failed(table))
    return failure();

  LLVM::LLVMFuncOp function =
      convertSignature(load, kLoadName, {host.pointer}, host.i32);
  markUnused(host, function);
  function.walk([&](func::ReturnOp ret) {
    ImplicitLocOpBuilder b(ret.getLoc(), ret);
    LLVM::ReturnOp::create(b, ValueRange(host.constant32(b, 0)));
    ret.erase();
  });

  ConversionTarget target(*host.context);
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  target.addIllegalOp<scf::ForOp>();
  RewritePatternSet patterns(host.context);
  populateSCFToControlFlowConversionPatterns(patterns);
  if (failed(applyPartialConversion(function, target, std::move(patterns))) ||
      failed(LoadLowering(host, device, function).lower()))
    return failure();
  return table;
}
