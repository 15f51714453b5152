//===- NameMatcher.h - Names in a quantisation config -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTMETHODS_NAMEMATCHER_H
#define OCTET_QUANTMETHODS_NAMEMATCHER_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// The name without the wrapper prefix `model.`, `language_model.` or
/// `model.language_model.` (C7).
std::string_view normalizeName(std::string_view name);

/// `run` is a run of whole dotted components of `path`: `mlp.gate` is one of
/// `a.mlp.gate`, never of `a.mlp.gate_proj`; a dot is a dot (C7).
bool isComponentRun(std::string_view run, std::string_view path);

/// One entry of a list of names in a quantisation config (C7): a run of whole
/// path components, or a regular expression after `re:`, which matches from
/// the start of a path as Python's `re.match` does.
class NameEntry {
public:
  /// \param source  where the list stands, "config.json: quantization_config".
  /// \param field   the list's name, `modules_to_not_convert`.
  /// \returns an input error if the expression does not compile.
  static Result<NameEntry> parse(std::string text, std::string_view source,
                                 std::string_view field, int64_t index);

  /// Both sides are compared as they are and normalised.
  /// \returns an input error if an expression needs more steps than a sane
  /// one could (a hostile pattern).
  Result<bool> matches(std::string_view path) const;

  bool isRegex() const { return regex != nullptr; }
  const std::string &getText() const { return text; }
  /// `FIELD[INDEX] 'TEXT'`.
  std::string describe() const;

private:
  std::string text, source, field;
  int64_t index = 0;
  std::shared_ptr<void> regex; ///< a compiled PCRE2 pattern, or null
};

/// A list of entries, and which of them matched anything so far.
class NameList {
public:
  /// Reads a field that is absent, `null` or an array of strings; anything
  /// else is an input error.
  static Result<NameList> read(const nlohmann::json &fields,
                               std::string_view field, std::string_view source);

  /// The first entry that matches the module `path`; null if none does.
  /// Every entry that matches counts as used.
  /// \param fused  the run-time module that the module is a shard of, tested
  ///               before the module itself (C8); may be empty.
  Result<const NameEntry *> match(std::string_view path,
                                  std::string_view fused);
  /// Marks the entries that name one of these tensors, or a module that holds
  /// one, as used: a tensor of a layer that is not built (C7, W14).
  Status markTensor(std::string_view tensorName);
  bool allUsed() const;
  /// The entries that matched nothing, described (C7).
  std::vector<std::string> getUnused() const;
  void append(NameList other);

  bool isEmpty() const { return entries.empty(); }
  /// Absent, `null` and `[]` are three things (C7).
  enum class Presence { Absent, Null, Given };
  Presence presence = Presence::Absent;
  std::vector<NameEntry> entries;

private:
  std::vector<bool> used;
};

} // namespace octet

#endif // OCTET_QUANTMETHODS_NAMEMATCHER_H
