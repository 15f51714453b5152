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
// a compiler, assembler or linker of the machine, and everything but the last
// step happens in memory.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_HOSTCODE_H
#define OCTET_HOSTCODE_HOSTCODE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "octet/Support/Status.h"
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace octet::host {

/// Bytes of one section of the payload (runtime/README.md).
struct Section {
  std::string name; ///< 1 to 15 characters
  std::span<const std::byte> data;
};

/// The translations to LLVM IR that the functions below need.
void registerTranslations(mlir::DialectRegistry &registry);

/// LLVM IR as text, as translated and before LLVM's own passes: a reader finds
/// the vector arithmetic of each row kernel under its name.
/// \param module  after lower-to-host.
/// \returns an internal error if something of another dialect is left.
Result<std::string> emitLLVM(mlir::ModuleOp module);

/// An optimised, position-independent ELF object. Each function keeps the
/// processor of its own attributes, so one object serves all SIMD levels.
/// \returns an internal error if the object refers to a symbol that it does
/// not define, naming the symbol.
Result<std::vector<char>> emitObject(mlir::ModuleOp module);

/// The object as a shared object that exports `octet_program` and imports
/// nothing.
Result<std::vector<char>> linkProgram(std::span<const char> object);

/// Writes a program file, for `octet-run FILE`: the payload alone.
/// \param path      replaced when complete; on an error nothing is left.
/// \param sections  beside `program`: tokenizer.json, generation.
Status writeProgram(const std::string &path, std::span<const char> program,
                    std::span<const Section> sections);

/// Writes an executable: `runner`, then the payload.
/// \param runner  an octet-run without payload: embeddedRunner() of Runner.h.
Status writeExecutable(const std::string &path,
                       std::span<const std::byte> runner,
                       std::span<const char> program,
                       std::span<const Section> sections);

} // namespace octet::host

#endif // OCTET_HOSTCODE_HOSTCODE_H
