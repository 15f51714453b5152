//===- Decoder.h - A decoder as IR ------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_DECODER_H
#define OCTET_LIB_IMPORT_DECODER_H

#include "Layers.h"
#include "mlir/IR/BuiltinOps.h"

namespace octet {

/// What the builder needs besides the facts.
struct DecoderOptions {
  mlir::Type dtype;       ///< of activations
  int64_t maxContext = 0; ///< rows of the rope table
  RopeFrequencies rope;
};

/// Adds @step and a function for each kind of layer to the module.
void buildDecoder(mlir::ModuleOp module, const DecoderConfig &config,
                  const DecoderOptions &options, const ModelFacts &facts);

/// What --extract can name, in one layer or outside of them.
struct ExtractedModule {
  std::string path;        ///< "model.layers.1.mlp"
  std::string name;        ///< below its layer, "mlp"; or the whole path
  int64_t layer = -1;      ///< -1: in no layer
  int64_t in = 0, out = 0; ///< values of a row
};

/// Finds the module of that path, with or without `model.`. \returns a usage
/// error that lists names that come near.
Result<ExtractedModule> findExtracted(const DecoderConfig &config,
                                      const ModuleList &list,
                                      const std::string &name);

/// Adds a @step that reads rows and returns the module's result.
/// \param layer   facts of its layer; null for lm_head.
/// \param lmHead  facts of lm_head; null for a module of a layer.
void buildExtracted(mlir::ModuleOp module, const DecoderConfig &config,
                    const DecoderOptions &options,
                    const ExtractedModule &extracted, const LayerFacts *layer,
                    const StoredModule *lmHead);

} // namespace octet

#endif // OCTET_LIB_IMPORT_DECODER_H
