//===- InstanceFields.h - The fields of launches ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_INSTANCEFIELDS_H
#define OCTET_CUDASOURCE_INSTANCEFIELDS_H

#include "JsonFields.h"
#include "octet/CudaSource/Instance.h"

namespace octet::cuda {

template <typename Visitor, Is<Param> T>
void visitFields(Visitor &&visit, T &value) {
  visit("kind", value.kind);
  visit("arg", value.arg);
  visit("type", value.type);
  visit("swizzle", value.swizzle);
  visit("rows", value.rows);
  visit("cols", value.cols);
  visit("pitch_bytes", value.pitchBytes);
  visit("box_rows", value.boxRows);
  visit("box_cols", value.boxCols);
}

template <typename Visitor, Is<Grid> T>
void visitFields(Visitor &&visit, T &value) {
  visit("times", value.times);
  visit("fixed", value.fixed);
  visit("per_rows", value.perRows);
  visit("per_sequence", value.perSequence);
}

template <typename Visitor, Is<KernelInstance> T>
void visitFields(Visitor &&visit, T &value) {
  visit("label", value.label);
  visit("entry", value.entry);
  visit("threads", value.threads);
  visit("shared_bytes", value.sharedBytes);
  visit("cluster", value.cluster);
  visit("per_sm", value.perSm);
  visit("overlaps", value.overlaps);
  visit("grid", value.grid);
  visit("params", value.params);
  visit("workspace_bytes", value.workspaceBytes);
}

template <typename Visitor, Is<KernelVariant> T>
void visitFields(Visitor &&visit, T &value) {
  visit("max_rows", value.maxRows);
  visit("kernels", value.kernels);
}

template <typename Visitor, Is<KernelLaunch> T>
void visitFields(Visitor &&visit, T &value) {
  visit("module", value.module);
  visit("label", value.label);
  visit("by_longest", value.byLongest);
  visit("variants", value.variants);
  visit("bytes", value.bytes);
  visit("row_bytes", value.rowBytes);
  visit("row_flops", value.rowFlops);
}

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_INSTANCEFIELDS_H
