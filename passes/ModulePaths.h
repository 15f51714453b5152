//===- ModulePaths.h - Layers and module paths of operators -----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function holds one kind of layer, so a path in the IR says `{l}`. What a
// user reads names a layer of their checkpoint: these functions find which
// layers a value stands for and put the first of them into paths.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_MODULEPATHS_H
#define OCTET_PASSES_MODULEPATHS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Types.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace octet {

/// Layers `begin` .. `end - 1`.
struct LayerRun {
  int64_t begin;
  int64_t end;
  bool operator==(const LayerRun &) const = default;
};

/// The layers that a layer number stands for: itself if it is a constant, the
/// range of its loop, or those of every call if it is a function's argument.
/// Ascending, without overlaps, neighbours joined. Empty if it cannot be said.
llvm::SmallVector<LayerRun> findLayers(mlir::Value layer);

/// `path` with the first layer of `layer` in place of `{l}`. The path itself
/// if `layer` is null or its layers are unknown.
std::string nameModule(llvm::StringRef path, mlir::Value layer);

/// The layer number that an operator's weight or cache is read with, or null.
mlir::Value findLayerOf(mlir::Operation *op);

/// nameModule for an operator's own `module` attribute.
std::string nameModule(mlir::Operation *op);

/// A note that lists the other layers of the same kind, if there are any.
void noteOtherLayers(mlir::Diagnostic &diag, mlir::Value layer);

/// The last component of a path: `q_proj` of `a.b.q_proj`.
llvm::StringRef lastComponent(llvm::StringRef path);

/// `a`, `a and b`, `a, b and c`.
std::string joinNames(llvm::ArrayRef<std::string> names);

/// A type or attribute as it stands in IR, for diagnostics.
std::string print(mlir::Type type);
std::string print(mlir::Attribute attr);

/// A remark that a preference was not followed: `flag` is the pass's, `name`
/// what was missed; the text has the form of a diagnostic (STYLE section 7).
void emitMissed(mlir::Operation *op, llvm::StringRef flag, llvm::StringRef name,
                const std::string &text);

} // namespace octet

#endif // OCTET_PASSES_MODULEPATHS_H
