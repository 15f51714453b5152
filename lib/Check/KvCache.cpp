//===- KvCache.cpp - The cache of one attention module ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Layout (P7, P7a, P7b), scales under their names (W2) and what they fall back
// to (P8). Scales are scalars, which a check may read (C13).
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "lib/QuantMethods/KvDeclaration.h"
#include <algorithm>

using namespace octet;

/// A scale of the cache, which is one float.
static Result<double> readScale(CheckContext &context, const Unit &attention,
                                std::string_view name,
                                const TensorInfo &tensor) {
  if (!ScalarReader::isScalar(tensor))
    return inputError(attention.path,
                      "'" + std::string(name) + "' is " + tensor.describe() +
                          ", expected one float a layer",
                      "W2");
  return context.scalars->read(tensor, attention.path);
}

/// Both positive: as given; one positive: copied to both; none: 1.0 (P8).
static Status readScales(CheckContext &context, const Unit &attention,
                         KvReport &kv) {
  CacheScaleNames names;
  if (context.checkpoint)
    names = findCacheScales([&](std::string_view name) {
      return context.checkpoint->tensors.find(attention.path + "." +
                                              std::string(name)) != nullptr;
    });
  if (!names.problem.empty())
    return inputError(attention.path,
                      names.problem.substr(0, names.problem.rfind(" [")), "W2");
  auto find = [&](std::string_view name) -> const TensorInfo * {
    return name.empty() ? nullptr
                        : context.checkpoint->tensors.find(
                              attention.path + "." + std::string(name));
  };
  const TensorInfo *k = find(names.k), *v = find(names.v);
  if (k && v && k->type != v->type)
    return inputError(attention.path,
                      "'" + std::string(names.v) + "' is " + v->describe() +
                          ", '" + std::string(names.k) + "' " + k->describe() +
                          "; a cache's scales have one dtype",
                      "W2");
  double kScale = 0, vScale = 0;
  if (k) {
    OCTET_TRY_ASSIGN(kScale, readScale(context, attention, names.k, *k));
  }
  if (v) {
    OCTET_TRY_ASSIGN(vScale, readScale(context, attention, names.v, *v));
  }
  if (kScale <= 0)
    kScale = vScale;
  if (vScale <= 0)
    vScale = kScale;
  bool stored = kScale > 0;
  kv.source = stored ? "checkpoint" : "default";
  kv.kScale = stored ? kScale : 1.0;
  kv.vScale = stored ? vScale : 1.0;
  if (stored || !context.checkpoint)
    return Status::success();
  ErrorInfo warning;
  warning.subject = attention.path;
  warning.message = "has no scale of its FP8 KV cache; 1.0 is used for k and v";
  warning.rule = "P8";
  context.report.warnings.push_back(std::move(warning));
  return Status::success();
}

bool CheckContext::declaresFp8Cache() const {
  return hasCacheScales ||
         (decisions.config && !decisions.config->kvCache.empty());
}

/// `auto` is what the checkpoint declares, else the activation dtype (P7b).
static std::string chooseLayout(const CheckContext &context) {
  if (context.options.kvCache != "auto")
    return context.options.kvCache;
  return context.declaresFp8Cache() ? "fp8_e4m3" : context.dtype;
}

Result<KvReport> octet::describeKv(CheckContext &context,
                                   const Unit &attention) {
  KvReport kv;
  kv.layout = chooseLayout(context);
  bool isFp8 = kv.layout.starts_with("fp8");
  kv.dtype = isFp8 ? "F8_E4M3" : nameDtype(kv.layout);
  const int64_t width = isFp8 ? 1 : kv.dtype == "F32" ? 4 : 2;
  const ModuleEntry *latent =
      context.findModule(attention.path + ".kv_a_proj_with_mqa");
  const ModuleEntry *up = context.findModule(attention.path + ".kv_b_proj");
  if (latent && up) {
    // [rank | rope], on every rank; 656 = 512 codes + 4 scales + 64 BF16 (P7).
    const int64_t rank = up->k, rope = latent->n - up->k;
    kv.bytesPerToken = kv.layout == "fp8_ds_mla"
                           ? rank + 4 * ((rank + 127) / 128) + 2 * rope
                           : (rank + rope) * width;
  } else if (kv.layout == "fp8_ds_mla") {
    return inputError("--kv-cache fp8_ds_mla",
                      "is a layout of latent attention, and " + attention.path +
                          " has heads of keys and values; auto, bf16, f16, "
                          "f32 or fp8_e4m3 would work",
                      "P7");
  } else if (const ModuleEntry *keys =
                 context.findModule(attention.path + ".k_proj")) {
    const int64_t tp = context.options.ranks.tp;
    const int64_t parts = std::max<int64_t>(1, std::min(tp, keys->heads));
    kv.bytesPerToken = 2 * keys->n / parts * width;
  }
  if (const ModuleEntry *index =
          context.findModule(attention.path + ".indexer.wk")) {
    // FP8 with an FP32 scale per 128 (P9), on every rank.
    bool isF32 = context.dtype == "f32";
    kv.indexBytesPerToken = isF32 ? 4 * index->n
                            : context.options.indexCache == "bf16"
                                ? 2 * index->n
                                : index->n + 4 * ((index->n + 127) / 128);
  }
  // Scales of 128 elements stand in the cache itself.
  if (kv.layout == "fp8_e4m3")
    OCTET_TRY(readScales(context, attention, kv));
  return kv;
}
