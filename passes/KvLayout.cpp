//===- KvLayout.cpp - Which layout a KV cache has -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/KvLayout.h"
#include "lib/QuantMethods/KvDeclaration.h"
#include "mlir/IR/BuiltinOps.h"
#include "octet/QuantAttrs/QuantAttrs.h"
#include "octet/Support/Escape.h"

using namespace mlir;
using namespace octet;

KvScaleNames octet::findKvScales(q::StoredAttr stored) {
  if (!stored)
    return {};
  CacheScaleNames found = findCacheScales([&](std::string_view name) {
    return bool(stored.getTensor(StringRef(name)));
  });
  return {found.k, found.v, std::move(found.problem)};
}

KvDeclaration octet::readKvDeclaration(q::ConfigAttr config,
                                       q::StoredAttr stored) {
  KvDeclaration declaration;
  if (config) {
    CacheDeclaration declared = readCacheDeclaration(
        {toJson(config.getFields()), config.getSource().str()});
    declaration.isFp8 = declared.isFp8;
    declaration.source = declared.source;
    if (!declared.problem.empty())
      declaration.problem = declared.source + " " + declared.problem;
    if (!declaration.source.empty())
      return declaration;
  }
  KvScaleNames names = findKvScales(stored);
  if (names.any()) {
    declaration.isFp8 = true;
    declaration.source =
        ("the stored " + (names.k.empty() ? names.v : names.k)).str();
  }
  return declaration;
}

/// The layout that stores the activation dtype as it is.
static q::KvLayout getPlainLayout(Type dtype) {
  if (dtype.isBF16())
    return q::KvLayout::BF16;
  return dtype.isF16() ? q::KvLayout::F16 : q::KvLayout::F32;
}

KvDecision octet::decideKvLayout(StringRef flag, Type dtype,
                                 q::ConfigAttr config, q::StoredAttr stored,
                                 bool isLatent) {
  KvDeclaration declaration = readKvDeclaration(config, stored);
  KvDecision decision;
  decision.layout =
      declaration.isFp8 ? q::KvLayout::FP8E4M3 : getPlainLayout(dtype);
  if (flag.empty() || flag == "auto") {
    if (!declaration.problem.empty())
      decision.problem = declaration.problem + "; --kv-cache " +
                         q::stringifyKvLayout(getPlainLayout(dtype)).str() +
                         " keeps the cache in the activation dtype [C4]";
    return decision;
  }
  std::optional<q::KvLayout> asked = q::symbolizeKvLayout(flag);
  if (!asked || *asked == q::KvLayout::FP8Indexer ||
      (*asked == q::KvLayout::FP8DsMla && !isLatent)) {
    decision.problem = "--kv-cache is " + quoteName(flag) +
                       (isLatent ? ", the cache of latent attention is auto, "
                                   "bf16, f16, f32, fp8_e4m3 or fp8_ds_mla [P7]"
                                 : ", the cache of grouped-query attention is "
                                   "auto, bf16, f16, f32 or fp8_e4m3 [P7a]");
    return decision;
  }
  if (*asked != decision.layout || !declaration.problem.empty()) {
    decision.remark = "the KV cache is " + flag.str() + " as --kv-cache says; ";
    if (declaration.source.empty())
      decision.remark +=
          "the checkpoint declares none, so that auto would be " +
          q::stringifyKvLayout(decision.layout).str() + " [P7b]";
    else
      decision.remark += declaration.source + " declares " +
                         (declaration.isFp8 ? "fp8_e4m3" : "another layout") +
                         " [P7b]";
  }
  decision.layout = *asked;
  return decision;
}

q::StoredAttr octet::getStoredKv(Operation *attention) {
  return attention->getAttrOfType<q::StoredAttr>("kv");
}

/// What is stored for an attention's cache, or else for that of another layer:
/// scales of one layer say what the cache of all is (P7b), and P8 what the
/// layers without take.
static q::StoredAttr findDeclaredKv(Operation *attention, ModuleOp module) {
  q::StoredAttr declared = getStoredKv(attention);
  if (!findKvScales(declared).any())
    module.walk([&](Operation *op) {
      q::StoredAttr stored = getStoredKv(op);
      if (!findKvScales(stored).any())
        return WalkResult::advance();
      declared = stored;
      return WalkResult::interrupt();
    });
  return declared;
}

KvDecision octet::decideKvLayout(Operation *attention, StringRef flag) {
  auto module = attention->getParentOfType<ModuleOp>();
  model::SettingsAttr settings = model::getSettings(attention);
  if (flag.empty() && settings)
    flag = settings.getKvCache();
  auto rows = cast<RankedTensorType>(attention->getResult(0).getType());
  return decideKvLayout(flag, rows.getElementType(),
                        module->getAttrOfType<q::ConfigAttr>("q.config"),
                        findDeclaredKv(attention, module),
                        isa<model::MlaAttentionOp>(attention));
}

q::KvLayout octet::decideIndexLayout(model::IndexerOp op) {
  model::SettingsAttr settings = model::getSettings(op);
  if (cast<RankedTensorType>(op.getQ().getType()).getElementType().isF32())
    return q::KvLayout::F32;
  return settings && settings.getIndexCache() == "bf16"
             ? q::KvLayout::BF16
             : q::KvLayout::FP8Indexer;
}
