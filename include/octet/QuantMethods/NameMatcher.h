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
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace octet {

/// The name without the wrapper prefix `model.`, `language_model.` or
/// `model.language_model.` (C7).
std::string_view normalizeName(std::string_view name);

/// `run` is a run of whole dotted components of `path`: `mlp.gate` is one of
/// `a.mlp.gate`, never of `a.mlp.gate_proj`; a dot is a dot (C7).
bool isComponentRun(std::string_view run, std::string_view path);

/// How a list's entries without `re:` are meant (C7).
enum class NameSyntax {
  Runs,  ///< runs of whole components
  Globs, ///< the same, but `*` stands for any characters (ModelOpt, Quark)
};

/// The pattern, with `*` for any characters, dots included, and `?` for one,
/// matches the path or a prefix of it that ends before a dot (C7).
bool matchesGlob(std::string_view pattern, std::string_view path);

/// One entry of a list of names in a quantisation config (C7): a run of whole
/// path components, a glob, or a regular expression after `re:`, which matches
/// from the start of a path as Python's `re.match` does.
class NameEntry {
public:
  /// \param source  where the list stands, "config.json: quantization_config".
  /// \param field   the list's name, `modules_to_not_convert`.
  /// \returns an input error if the expression does not compile.
  static Result<NameEntry> parse(std::string text, std::string_view source,
                                 std::string_view field, int64_t index,
                                 NameSyntax syntax = NameSyntax::Runs);

  /// Both sides are compared as they are and normalised.
  /// \returns an input error if an expression needs more steps than a sane
  /// one could (a hostile pattern).
  Result<bool> matches(std::string_view path) const;

  bool isRegex() const { return regex != nullptr; }
  /// Whole components, which an index can find.
  bool isRun() const { return !regex && !glob; }
  const std::string &getText() const { return text; }
  /// The entry also matches what `text` would match with `alias` for each run
  /// `name` of it: `a.indexers_proj` names `a.indexer.weights_proj` (C7).
  void addAlias(std::string_view name, std::string_view alias);
  /// The spellings of a run: its text and its aliases.
  std::vector<std::string_view> getSpellings() const;
  /// `FIELD[INDEX] 'TEXT'`.
  std::string describe() const;

private:
  bool matchesSpelling(std::string_view spelling, std::string_view path) const;

  std::string text, source, field;
  int64_t index = 0;
  bool glob = false;
  std::vector<std::string> aliases;
  std::shared_ptr<void> regex; ///< a compiled PCRE2 pattern, or null
};

/// A name of an architecture and what it stands for.
struct NameAlias {
  std::string_view name, alias;
};

/// A list of entries, and which of them matched anything so far. Runs of
/// components are found through an index: 541 entries against 118,000 tensors
/// take well under a second.
class NameList {
public:
  /// Reads a field that is absent, `null` or an array of strings; anything
  /// else is an input error.
  static Result<NameList> read(const nlohmann::json &fields,
                               std::string_view field, std::string_view source,
                               NameSyntax syntax = NameSyntax::Runs);

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
  /// Adds an entry of its own, such as the key of an object.
  Status add(std::string text, std::string_view source, std::string_view field,
             NameSyntax syntax = NameSyntax::Runs);
  /// The names that the model's architecture has for others (C7).
  void addAliases(std::span<const NameAlias> aliases);

  bool isEmpty() const { return entries.empty(); }
  /// Absent, `null` and `[]` are three things (C7).
  enum class Presence { Absent, Null, Given };
  Presence presence = Presence::Absent;
  std::vector<NameEntry> entries;

private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  void buildIndex();
  /// The entries that match, ascending. Each costs a few look-ups for the runs
  /// and a match for each of the others.
  /// \param unusedOnly  those that matched before are not looked at.
  Result<std::vector<size_t>> find(std::string_view path, bool unusedOnly);

  std::vector<bool> used;
  size_t numIndexed = 0; ///< entries of the index; others were added since
  std::unordered_map<std::string, std::vector<size_t>, Hash, std::equal_to<>>
      byRun; ///< entries by each spelling, as it is and normalised
  std::unordered_set<std::string, Hash, std::equal_to<>> firstComponents;
  std::vector<size_t> others; ///< globs and expressions
};

} // namespace octet

#endif // OCTET_QUANTMETHODS_NAMEMATCHER_H
