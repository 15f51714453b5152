//===- DecoderBuilder.h - Operators of a decoder ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_DECODERBUILDER_H
#define OCTET_LIB_IMPORT_DECODERBUILDER_H

#include "Decoder.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"

namespace octet {

inline constexpr llvm::StringLiteral kLayerPrefix = "model.layers.{l}.";

/// Builds operators at an insertion point. Paths inside a layer are patterns
/// with `{l}`, whose operand is `layer`.
class DecoderBuilder {
public:
  DecoderBuilder(mlir::ModuleOp module, const DecoderConfig &config,
                 const DecoderOptions &options)
      : module(module), config(config), options(options),
        builder(module.getContext()) {}

  // Decoder.cpp
  void buildModel(const ModelFacts &facts);
  // Extract.cpp
  void buildExtracted(const ExtractedModule &extracted, const LayerFacts *layer,
                      const StoredModule *lmHead);

private:
  mlir::MLIRContext *context() { return builder.getContext(); }
  mlir::RankedTensorType rows(int64_t width, mlir::Type element = {}) {
    return mlir::RankedTensorType::get({mlir::ShapedType::kDynamic, width},
                                       element ? element : options.dtype);
  }
  mlir::RankedTensorType indices() {
    return mlir::RankedTensorType::get({mlir::ShapedType::kDynamic},
                                       builder.getI32Type());
  }
  mlir::StringAttr text(const llvm::Twine &value) {
    return builder.getStringAttr(value);
  }
  mlir::IntegerAttr integer(int64_t value) {
    return builder.getI64IntegerAttr(value);
  }
  mlir::FloatAttr real(float value) { return builder.getF32FloatAttr(value); }
  /// Module path and file, fused.
  mlir::Location at(llvm::StringRef path, llvm::StringRef file);
  std::string inLayer(llvm::StringRef name) {
    return (kLayerPrefix + name).str();
  }

  // DecoderLayers.cpp: what all layers are made of.
  mlir::Value index(int64_t value);
  mlir::Value field(model::Field which, mlir::Type type);
  mlir::Value weight(llvm::StringRef path, llvm::StringRef name,
                     const StoredTensors &stored, llvm::StringRef declared,
                     llvm::StringRef file, int64_t experts = 0);
  /// A tensor of a module of the layer, as it is stored.
  mlir::Value parameter(const StoredModule &facts, llvm::StringRef name);
  mlir::Value norm(mlir::Value input, llvm::StringRef path,
                   const StoredTensor &stored, int64_t heads,
                   llvm::StringRef file, float eps);
  mlir::Value norm(mlir::Value input, const StoredModule &facts, float eps,
                   int64_t heads = 1);
  mlir::Value linear(mlir::Value input, const StoredModule &facts,
                     bool fused = true, mlir::Type element = {},
                     bool precise = false);
  mlir::Value ropeTable(mlir::Location loc);
  mlir::Value rope(mlir::Value input, mlir::Value table, mlir::Value positions,
                   int64_t headDim, int64_t offset, bool interleaved,
                   llvm::StringRef path, mlir::Location loc);
  mlir::Value attention(mlir::Value input, const LayerFacts &facts);
  /// A dense MLP at that name below the layer.
  mlir::Value mlp(mlir::Value input, const LayerFacts &facts,
                  llvm::StringRef name);
  mlir::Value lmHead(mlir::Value input, const StoredModule &facts);

  // DecoderSparse.cpp: latent attention and experts.
  /// \param selected  the keys to read, or null; set to those that the layer's
  ///                  own indexer chooses.
  mlir::Value latentAttention(mlir::Value input, const LayerFacts &facts,
                              mlir::Value &selected);
  mlir::Value indexer(mlir::Value input, mlir::Value lowQuery,
                      const LayerFacts &facts, mlir::Value table,
                      mlir::Value positions);
  mlir::Value experts(mlir::Value input, const LayerFacts &facts);
  mlir::Value routed(mlir::Value input, const LayerFacts &facts);

  mlir::Value selfAttention(mlir::Value input, const LayerFacts &facts,
                            mlir::Value &selected) {
    return config.latent ? latentAttention(input, facts, selected)
                         : attention(input, facts);
  }
  mlir::Value feedForward(mlir::Value input, const LayerFacts &facts) {
    return facts.findRouter() ? experts(input, facts)
                              : mlp(input, facts, "mlp");
  }

  // Decoder.cpp
  mlir::func::FuncOp buildLayer(const LayerFacts &facts, size_t kind);
  /// `count` layers from `first` on. \param selected  of the last layer before
  /// that has an indexer; set to that of the last of these.
  mlir::Value callLayers(int64_t first, int64_t count, const LayerFacts &kind,
                         mlir::func::FuncOp function, mlir::Value hidden,
                         mlir::Value &selected);
  void trace(llvm::StringRef name, mlir::Value index, mlir::Value value);
  mlir::Block *startStep(llvm::StringRef name = "step");
  void endStep(mlir::Value result);

  // Draft.cpp
  /// @draft_N: the step of a draft layer (W14).
  void buildDraft(const DraftFacts &draft, int64_t number,
                  const ModelFacts &facts,
                  llvm::ArrayRef<mlir::func::FuncOp> kinds);

  mlir::ModuleOp module;
  const DecoderConfig &config;
  const DecoderOptions &options;
  mlir::OpBuilder builder;
  mlir::Value layer, batch; ///< in scope
  /// Some layers read the keys that a layer before them has chosen (P9).
  bool sharesSelection = false;
  mlir::Location loc = mlir::UnknownLoc::get(builder.getContext());
};

} // namespace octet

#endif // OCTET_LIB_IMPORT_DECODERBUILDER_H
