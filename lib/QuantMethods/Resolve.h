//===- Resolve.h - Shared by the families that resolve a module -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_QUANTMETHODS_RESOLVE_H
#define OCTET_LIB_QUANTMETHODS_RESOLVE_H

#include "octet/QuantMethods/QuantMethods.h"

namespace octet {

/// A dtype that weights have without a method: BF16, F16 or F32.
bool isPlainType(StoredType type);

/// The decision for a module stored in a plain dtype.
ResolvedModule resolveUnquantized();

/// The decision for an E4M3 weight under a scheme: finds its scales and checks
/// them against what the scheme implies (W1, W2, W6).
Result<ResolvedModule> resolveFloat8(std::string_view method,
                                     const Scheme &scheme,
                                     const ModuleFacts &facts);

/// The decision for a weight of any other format: each tensor that the scheme
/// has is there, in its dtype and shape (C13, W1, W2, W6, N7).
Result<ResolvedModule> resolveFormat(std::string_view method,
                                     const Scheme &scheme,
                                     const ModuleFacts &facts);

/// Two E2M1 codes a byte under a method of FP8: experts of `expert_dtype: fp4`
/// are told by dtype and shape and take the contract of mxfp4 (C14, B4).
bool isPackedExpert(const QuantConfig *config, const ModuleFacts &facts,
                    const StoredTensor &weight);

} // namespace octet

#endif // OCTET_LIB_QUANTMETHODS_RESOLVE_H
