//===- QuantSlice.h - What one rank holds -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTSLICE_H
#define OCTET_DIALECTS_QUANT_QUANTSLICE_H

#include "dialects/Quant/QuantDialect.h"

namespace octet::q {

/// describeSlice (QuantDialect.h) of a tensor with that type's blocks and
/// `whole` elements on the side, or without such a side.
std::string describeSlice(mlir::Type type, std::optional<int64_t> whole,
                          SliceAttr slice);

} // namespace octet::q

#endif // OCTET_DIALECTS_QUANT_QUANTSLICE_H
