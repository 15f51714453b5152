//===- TraceInputs.cpp - The inputs of linears as traces ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No phase of `octet compile`: `octet quantize --calibrate` runs it after
// import, because a static activation scale is made of what a linear reads.
//
// Relies on: linears read a model.weight of one module, as import writes them,
// and an input that is not rounded yet.
//
// Holds after: a model.trace named `input.` and the module's path stands before
// each model.linear, with the layer's number (0 where there is none).
//
//   %y = model.linear %x, %w {module = "model.layers.{l}.mlp.down_proj"} : …
//
//   model.trace "input.model.layers.{l}.mlp.down_proj"[%l] %x : …
//   %y = model.linear %x, %w {module = "model.layers.{l}.mlp.down_proj"} : …
//
//===----------------------------------------------------------------------===//

#include "passes/TraceInputs.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"

namespace octet {
#define GEN_PASS_DEF_TRACEINPUTS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

struct TraceInputs : public octet::impl::TraceInputsBase<TraceInputs> {
  void runOnOperation() override {
    SmallVector<model::LinearOp> linears;
    bool refused = false;
    getOperation().walk([&](model::LinearOp op) {
      linears.push_back(op);
      refused |= failed(check(op));
    });
    if (refused)
      return signalPassFailure();
    for (model::LinearOp op : linears)
      trace(op);
  }

private:
  LogicalResult check(model::LinearOp op) {
    if (isa<q::TensorType>(op.getInput().getType()))
      return op.emitError()
             << nameModule(op) << ": its input is " << op.getInput().getType()
             << ", rounded already; inputs are traced before "
                "octet-insert-quantization [P3]";
    if (!op.getWeight().getDefiningOp<model::WeightOp>())
      return op.emitError() << nameModule(op)
                            << ": its weight is not a model.weight; inputs "
                               "are traced before octet-materialize-weights";
    return success();
  }

  void trace(model::LinearOp op) {
    OpBuilder builder(op);
    Value layer = op.getWeight().getDefiningOp<model::WeightOp>().getLayer();
    if (!layer)
      layer = arith::ConstantIndexOp::create(builder, op.getLoc(), 0);
    model::TraceOp::create(
        builder, op.getLoc(),
        builder.getStringAttr(Twine(kInputTrace) + op.getModule()), layer,
        op.getInput());
    ++numTraced;
  }
};

} // namespace
