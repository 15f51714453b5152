//===- Rules.cpp - Looking rules up and printing them ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Diagnostics/Rules.h"
#include "RuleTexts/RuleTexts.h"
#include <algorithm>
#include <array>
#include <map>
#include <utility>

using namespace octet;

std::span<const RuleSection> octet::getRuleSections() {
  static const std::array sections = {
      RuleSection{"Numbers", getNumberRules()},
      RuleSection{"Finding and reading the quantisation config",
                  getConfigRules()},
      RuleSection{"Weights and scales", getWeightRules()},
      RuleSection{"Operand contracts and kernels", getKernelRules()},
      RuleSection{"Precision at operator boundaries", getBoundaryRules()},
  };
  return sections;
}

/// "[w3B]" and "W3b" are the same number: letter, digits, letter.
static std::string fold(std::string_view id) {
  if (id.starts_with('[') && id.ends_with(']'))
    id = id.substr(1, id.size() - 2);
  std::string folded;
  for (char c : id)
    folded += c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return folded;
}

const Rule *octet::findRule(std::string_view id) {
  std::string wanted = fold(id);
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules)
      if (fold(rule.id) == wanted)
        return &rule;
  return nullptr;
}

/// Edit distance (Levenshtein); both are short.
static size_t measureDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::vector<std::string_view> octet::findNearRules(std::string_view id) {
  // Longer than any number: nothing is near, and the distance costs a product.
  constexpr size_t kLongest = 8, kMost = 5;
  std::string wanted = fold(id);
  if (wanted.empty() || wanted.size() > kLongest)
    return {};
  // By distance, then in the order of the table.
  std::map<size_t, std::vector<std::string_view>> near;
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules)
      // Nothing in common is no typing mistake.
      if (size_t distance = measureDistance(wanted, fold(rule.id));
          distance < std::max(wanted.size(), rule.id.size()))
        near[distance].push_back(rule.id);
  std::vector<std::string_view> ids;
  for (const auto &[distance, equallyNear] : near)
    for (std::string_view each : equallyNear)
      if (ids.size() < kMost && distance <= near.begin()->first + 1)
        ids.push_back(each);
  return ids;
}

/// Appends the words of `text`, each line after `indent` spaces.
static void appendWrapped(std::string &out, std::string_view text,
                          size_t indent, size_t width) {
  size_t column = 0;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    if (column == 0) {
      out.append(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  out += '\n';
}

std::string octet::formatRule(const Rule &rule, size_t width) {
  constexpr size_t kIndent = 2;
  std::string out =
      std::string(rule.id) + ": " + std::string(rule.title) + "\n\n";
  appendWrapped(out, rule.statement, 0, width);
  out += "\nwhy\n";
  appendWrapped(out, rule.why, kIndent, width);
  out += "\nexample\n";
  std::string_view lines = rule.example;
  while (!lines.empty()) {
    size_t end = std::min(lines.find('\n'), lines.size());
    appendWrapped(out, lines.substr(0, end), kIndent, width);
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  out += "\nways out\n";
  appendWrapped(out, rule.ways, kIndent, width);
  return out;
}
