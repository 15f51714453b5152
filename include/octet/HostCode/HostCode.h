//===- HostCode.h - From the llvm dialect to a program ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What follows lower-to-host: LLVM IR, an object, a shared object without
// imports (runtime/abi.h), and the file that a user runs. Nothing here calls
// a compiler, assembler or linker of the machine.
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

/// The LLVM IR of a program, optimised, as text: the vector arithmetic of each
/// row kernel stands under its name, once a SIMD level.
/// \param module  after lower-to-host.
/// \returns an internal error if something of another dialect is left.
Result<std::string> emitLLVM(mlir::ModuleOp module);

/// The position-independent x86-64 object of a program. Each function is
/// compiled for the processor that its own attributes name.
/// \returns an internal error if the object refers to a symbol that it does
/// not define, naming the symbol.
Result<std::vector<char>> emitObject(mlir::ModuleOp module);

/// Links an object into a shared object that exports `octet_program` and
/// imports nothing.
/// \returns a machine error if the temporary folder cannot be written.
Result<std::vector<char>> linkProgram(std::span<const char> object);

/// A named part of the payload (runtime/README.md).
struct PayloadSection {
  std::string name; ///< 1 to 15 characters
  std::vector<char> bytes;
};

/// Writes the payload alone, for `octet-run PROGRAM`.
/// \param path  replaced when complete; on an error nothing is left behind.
Status writeProgram(const std::string &path, std::span<const char> program,
                    std::span<const PayloadSection> sections);

/// Writes the runner that is embedded in the compiler (link OctetRunner), then
/// the payload; mode 755 as the umask allows. Without bytes of a program it has
/// the sections alone (octet/KernelBench/KernelBench.h).
/// \returns an internal error in a tool that does not link OctetRunner.
Status writeExecutable(const std::string &path, std::span<const char> program,
                       std::span<const PayloadSection> sections);

} // namespace octet

#endif // OCTET_HOSTCODE_HOSTCODE_H
