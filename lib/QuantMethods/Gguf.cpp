//===- Gguf.cpp - The gguf method ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A GGUF file is the checkpoint: its tensors have their own block formats, and
// no config says anything about them. Reading undoes the blocks
// (lib/Checkpoint), so to the rules a module of such a file is unquantised.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"

using namespace octet;

Result<QuantConfig> octet::readGguf(const ReadRequest &request) {
  if (request.found)
    return cannotReadLayout(request, "it is the method of GGUF files, which "
                                     "have no quantisation config");
  return startConfig(request);
}
