//===- Passes.cpp - Registration of the passes ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"

namespace octet {

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

void registerPasses() {
#ifdef OCTET_HAVE_TraceInputs
  registerTraceInputs();
#endif
#ifdef OCTET_HAVE_ResolveQuantMethods
  registerResolveQuantMethods();
#endif
#ifdef OCTET_HAVE_FuseProjections
  registerFuseProjections();
#endif
#ifdef OCTET_HAVE_Shard
  registerShard();
#endif
#ifdef OCTET_HAVE_MaterializeWeights
  registerMaterializeWeights();
#endif
#ifdef OCTET_HAVE_InsertQuantization
  registerInsertQuantization();
#endif
#ifdef OCTET_HAVE_VerifyPrecisionPolicy
  registerVerifyPrecisionPolicy();
#endif
#ifdef OCTET_HAVE_FuseRowwise
  registerFuseRowwise();
#endif
#ifdef OCTET_HAVE_SelectKernels
  registerSelectKernels();
#endif
#ifdef OCTET_HAVE_PlanBuffers
  registerPlanBuffers();
#endif
#ifdef OCTET_HAVE_EmitKernels
  registerEmitKernels();
#endif
#ifdef OCTET_HAVE_LowerToHost
  registerLowerToHost();
#endif
}

} // namespace octet
