//===- Gguf.cpp - The gguf method ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A GGUF file is the checkpoint: its tensors have their own block formats, and
// no config says anything about them, so nothing is asked of this method where
// a file is one. Reading undoes the blocks (lib/Checkpoint), or the types of
// the IR say them; to the rules a module of such a file is unquantised.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"

using namespace octet;

Result<QuantConfig> octet::readGguf(const ReadRequest &request) {
  return cannotReadLayout(request, "it is the method of GGUF files, which have "
                                   "no quantisation config");
}
