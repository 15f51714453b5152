//===- Profile.h - What each operator of a program takes --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A second function table with a clock around each call. Without a profile a
// program has the plain table, so this costs nothing.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_PROFILE_H
#define OCTET_RUNTIME_CORE_PROFILE_H

#include "runtime/abi.h"
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace octet::rt {

enum class OperatorKind { Rows, Product, Attention };

/// "rows", "product", "attention".
const char *operatorKindName(OperatorKind kind);

/// The calls of one operator.
struct OperatorProfile {
  OperatorKind kind;
  std::string name;        ///< module path pattern, or the name of the fusion
  std::string detail = {}; ///< of a launch: its kernels' labels
  int64_t calls = 0;
  int64_t nanoseconds = 0;
  /// What has to come from memory: of a product its weight and scales, of
  /// attention the keys and values that its rows see, once a sequence; of rows
  /// their operands.
  int64_t bytes = 0;
  /// Of products and attention: a multiply-add is two.
  int64_t flops = 0;
};

class Profile {
public:
  /// Adds a call. `site` is the descriptor's address: one a place in the
  /// program.
  void add(const void *site, OperatorKind kind, const char *name,
           int64_t nanoseconds, int64_t bytes, int64_t flops,
           const std::string &detail = {});
  /// One entry for each kind, name and detail, the longest first.
  std::vector<OperatorProfile> entries() const;

private:
  std::unordered_map<const void *, OperatorProfile> sites;
};

/// The table of cpuServices() that adds its calls of a step to
/// `Context::profile`, which must not be null then.
const octet_runtime *profiledServices();

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_PROFILE_H
