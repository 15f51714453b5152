//===- CudaLaunchAttrTest.cpp - A launch as an attribute and back ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/InstanceFields.h"
#include "lib/CudaSource/JsonFields.h"
#include "lib/CudaSource/LaunchAttr.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "gtest/gtest.h"

using namespace octet::cuda;

static KernelLaunch throughAttribute(const KernelLaunch &launch) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  module.get()->setAttr(kLaunchName, toAttribute(&context, launch));
  auto back = getLaunch(module->getOperation());
  EXPECT_TRUE(mlir::succeeded(back));
  return back.value_or(KernelLaunch());
}

// A kernel's grid starts as {1, 1, 1}: a side that counts rows has no fixed
// part, and one CTA more than rows writes over the keys of slot 0.
TEST(LaunchAttr, KeepsEveryField) {
  KernelLaunch launch;
  launch.module = "model.layers.{l}.self_attn";
  launch.label = "rope+kv_write";
  launch.byLongest = true;
  launch.bytes = 3;
  launch.variants.resize(2);
  launch.variants[0].maxRows = 8;
  for (KernelVariant &variant : launch.variants) {
    KernelInstance &kernel = variant.kernels.emplace_back();
    kernel.entry = "octet_kernel_a";
    kernel.overlaps = true;
    kernel.grid = {Grid{1, 0, 1, 0}, Grid{2, 0, 0, 1}, Grid{0, 0, 0, 0}};
    kernel.params = {Param::rowCount(), Param::address(0)};
  }
  // All fields of a launch but the sources.
  EXPECT_EQ(writeJson(throughAttribute(launch)), writeJson(launch));
}
