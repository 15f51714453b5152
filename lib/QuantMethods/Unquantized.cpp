//===- Unquantized.cpp - Modules without a quantisation method ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A module stored in a plain dtype. The one entry of the registry that no
// config names: norms, embeddings, ignored linears and whole unquantised
// checkpoints.
//
//===----------------------------------------------------------------------===//

#include "Resolve.h"

using namespace octet;

bool octet::isPlainType(StoredType type) {
  return type == StoredType::BF16 || type == StoredType::F16 ||
         type == StoredType::F32;
}

ResolvedModule octet::resolveUnquantized() { return ResolvedModule(); }
