//===- KvDeclaration.h - The KV cache that a config declares ----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_QUANTMETHODS_KVDECLARATION_H
#define OCTET_LIB_QUANTMETHODS_KVDECLARATION_H

#include "octet/QuantMethods/QuantMethods.h"
#include <functional>

namespace octet {

/// What a config says of the KV cache in the fields of C4 or in Quark's own.
struct CacheDeclaration {
  bool isFp8 = false;
  /// "config.json: quantization_config.kv_cache_scheme"; empty: no field does.
  std::string source;
  /// A cache that is none of ours, behind `source`: "is 'INT8', expected …".
  std::string problem;
};
CacheDeclaration readCacheDeclaration(const FoundConfig &found);

/// Names of a layer's stored cache scales below its attention's path, such as
/// `k_scale` or `k_proj.output_scale` (W2); empty if not stored. A lone
/// `kv_scale` is the keys', and P8 copies it.
struct CacheScaleNames {
  std::string_view k, v;
  std::string problem; ///< two spellings at once, without a subject (W2)
};
CacheScaleNames
findCacheScales(const std::function<bool(std::string_view)> &isStored);

} // namespace octet

#endif // OCTET_LIB_QUANTMETHODS_KVDECLARATION_H
