//===- LoadServices.h - Shared by the services of loading -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_LOADSERVICES_H
#define OCTET_RUNTIME_CORE_LOADSERVICES_H

#include "runtime/core/Context.h"
#include "runtime/cpu/LoadOps.h"

namespace octet::rt {

/// What a matrix of a part's rows looks like to the arithmetic.
ScaledMatrix matrixOf(const octet_tensor_desc &desc, const octet_part &part);

/// An error of a value in row `tensor` of the table, whose file is the subject.
/// \param why  what would be right, after a semicolon; empty: of a scale.
int32_t badValue(Context &c, const octet_tensor_desc *desc, int32_t tensor,
                 std::string what, std::string_view rule = "W6",
                 std::string_view why = "");

/// "[2, 5]" of an element of a tensor, or "" of a scalar.
std::string indexText(const Context &c, int32_t tensor, int64_t index);

// octet_runtime::requantize and merge_scales.
int32_t requantizeWeight(octet_ctx *ctx, const octet_tensor_desc *from,
                         const octet_tensor_desc *to, const octet_weight *in,
                         octet_weight *out);
int32_t mergeScalesOf(octet_ctx *ctx, const octet_tensor_desc *from,
                      const octet_tensor_desc *to, const octet_weight *in,
                      octet_weight *out);
// octet_runtime::check_groups, share_global and tile_weight.
int32_t checkGroupsOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                      const octet_grouped *in);
int32_t shareGlobalOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                      const octet_grouped *in, int64_t count,
                      const octet_weight *const *globals,
                      octet_weight *outScales, octet_weight *outGlobal);
int32_t tileWeightOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                     const octet_grouped *in, octet_weight *out);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_LOADSERVICES_H
