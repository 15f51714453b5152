//===- ModelOps.h - Operators of model --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELOPS_H
#define OCTET_DIALECTS_MODEL_MODELOPS_H

#include "dialects/Model/ModelDialect.h"

#define GET_OP_CLASSES
#include "dialects/Model/ModelOps.h.inc"

#endif // OCTET_DIALECTS_MODEL_MODELOPS_H
