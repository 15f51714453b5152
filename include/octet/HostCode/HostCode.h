//===- HostCode.h - The llvm dialect to an executable -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_HOSTCODE_H
#define OCTET_HOSTCODE_HOSTCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "octet/Support/Status.h"
#include <span>
#include <string>
#include <vector>

namespace octet {

/// The LLVM IR of a program after lower-to-host, optimised, as text.
Result<std::string> emitLLVM(mlir::ModuleOp module);

/// The relocatable x86-64 object of a program after lower-to-host. It has no
/// undefined symbols.
Result<std::vector<char>> emitObject(mlir::ModuleOp module);

/// Links an object into a shared object without imports, with LLD.
Result<std::vector<char>> linkProgram(std::span<const char> object);

/// A named part of the payload (runtime/README.md).
struct PayloadSection {
  std::string name; ///< at most 15 bytes
  std::vector<char> bytes;
};

/// Writes the payload alone, for `octet-run PROGRAM`.
Status writeProgram(const std::string &path, std::span<const char> program,
                    std::span<const PayloadSection> sections);

/// Writes the runner that is embedded in the compiler, then the payload; mode
/// 755 as the umask allows.
Status writeExecutable(const std::string &path, std::span<const char> program,
                       std::span<const PayloadSection> sections);

} // namespace octet

#endif // OCTET_HOSTCODE_HOSTCODE_H
