//===- Rules.h - The rules by number, for people ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every number that a diagnostic ends with (`[W3]`), in one table: what it
// demands, why it exists, an example that breaks it and the ways out. `octet
// explain` prints it; the tests hold every cited number against it. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIAGNOSTICS_RULES_H
#define OCTET_DIAGNOSTICS_RULES_H

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// One rule. All texts are there; none ends in a newline.
struct Rule {
  std::string_view id;        ///< "W3b"
  std::string_view title;     ///< a line without full stop
  std::string_view statement; ///< one paragraph
  std::string_view why;       ///< one paragraph
  std::string_view example;   ///< lines, as they are
  std::string_view ways;      ///< one paragraph
};

/// A letter's rules and what they are about.
struct RuleSection {
  std::string_view title; ///< "Finding and reading the quantisation config"
  std::span<const Rule> rules;
};

/// N, C, W, B, P; within a section by number, then by letter.
std::span<const RuleSection> getRuleSections();

/// The rule of that number, in any letter case, with or without brackets; null
/// if there is none.
const Rule *findRule(std::string_view id);

/// At most five numbers that look like `id`, nearest first.
std::vector<std::string_view> findNearRules(std::string_view id);

/// A rule as text for a terminal of `width` columns, ended by a newline.
std::string formatRule(const Rule &rule, size_t width = 80);

} // namespace octet

#endif // OCTET_DIAGNOSTICS_RULES_H
