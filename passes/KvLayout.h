//===- KvLayout.h - Which layout a KV cache has -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decision of P7b, which two passes need: materialize-weights (are there
// scales to load?) and insert-quantization (which type has the cache?).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_KVLAYOUT_H
#define OCTET_PASSES_KVLAYOUT_H

#include "dialects/Model/ModelOps.h"
#include <string>

namespace octet {

/// Tokens in a page of the cache (OCTET_PAGE of runtime/abi.h).
inline constexpr int64_t kKvPage = 64;

/// Names of a layer's stored cache scales below its attention's path, such as
/// `k_scale` or `k_proj.output_scale` (W2); empty if not stored. A lone
/// `kv_scale` is the key's, and P8 copies it.
struct KvScaleNames {
  llvm::StringRef k;
  llvm::StringRef v;
  std::string problem; ///< two spellings at once, without a subject (W2)
  bool any() const { return !k.empty() || !v.empty(); }
};
KvScaleNames findKvScales(q::StoredAttr stored);

/// What the checkpoint says of its cache (C4, W2).
struct KvDeclaration {
  bool isFp8 = false;
  std::string source;  ///< which field or tensor says so; empty: none does
  std::string problem; ///< a declared layout that is none of ours, as an error
};
KvDeclaration readKvDeclaration(q::ConfigAttr config, q::StoredAttr stored);

/// The layout of one layer's cache, and what to say about it.
struct KvDecision {
  q::KvLayout layout = q::KvLayout::F32;
  std::string problem; ///< not empty: an error, without its subject
  std::string remark;  ///< not empty: the flag won over the checkpoint
};

/// \param flag      --kv-cache: `auto` or a layout.
/// \param dtype     the activation dtype: f32, bf16 or f16.
/// \param isLatent  of latent attention (P7), else of keys and values (P7a).
KvDecision decideKvLayout(llvm::StringRef flag, mlir::Type dtype,
                          q::ConfigAttr config, q::StoredAttr stored,
                          bool isLatent);

/// The same for a model.attention or model.mla_attention of a module; `flag`
/// overrides its settings unless it is empty.
KvDecision decideKvLayout(mlir::Operation *attention,
                          llvm::StringRef flag = "");

/// The layout of an indexer's keys (P9): --index-cache, or F32 with
/// `--dtype f32`.
q::KvLayout decideIndexLayout(model::IndexerOp op);

/// What the checkpoint says of an attention's cache; null: nothing.
q::StoredAttr getStoredKv(mlir::Operation *attention);

} // namespace octet

#endif // OCTET_PASSES_KVLAYOUT_H
