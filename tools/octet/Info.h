//===- Info.h - octet info --------------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TOOLS_OCTET_INFO_H
#define OCTET_TOOLS_OCTET_INFO_H

#include "octet/Support/Status.h"
#include <ostream>
#include <string>

namespace octet {

struct InfoOptions {
  std::string path;     ///< a folder, or one safetensors file
  bool json = false;    ///< for programs
  bool tensors = false; ///< each tensor, not only the folded table
};

/// `octet info CKPT [--json] [--tensors]`: what a checkpoint holds, from its
/// config (if there is one) and the headers. Knows no architecture. Nothing is
/// printed when there is an error.
///
/// The table folds names that differ in whole numbers between dots and agree in
/// dtype and shape: `model.layers.{0-77}.mlp.experts.{0-255}.up_proj.weight`.
/// A line stands for the full product of its ranges, so that no tensor is
/// shown that is not there.
Status printInfo(const InfoOptions &options, std::ostream &out);

} // namespace octet

#endif // OCTET_TOOLS_OCTET_INFO_H
