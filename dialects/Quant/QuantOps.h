//===- QuantOps.h - Operators of q ------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTOPS_H
#define OCTET_DIALECTS_QUANT_QUANTOPS_H

#include "dialects/Quant/QuantDialect.h"

#define GET_OP_CLASSES
#include "dialects/Quant/QuantOps.h.inc"

#endif // OCTET_DIALECTS_QUANT_QUANTOPS_H
