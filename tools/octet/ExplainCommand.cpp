//===- ExplainCommand.cpp - octet explain ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/Diagnostics/Rules.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <memory>
#include <nlohmann/json.hpp>

namespace octet {

namespace {
struct ExplainOptions {
  std::string rule;
  bool json = false;
};
} // namespace

static nlohmann::ordered_json toJson(const Rule &rule,
                                     std::string_view section) {
  return {{"rule", rule.id},      {"title", rule.title},
          {"section", section},   {"statement", rule.statement},
          {"why", rule.why},      {"example", rule.example},
          {"ways_out", rule.ways}};
}

/// All rules a line each, or as one JSON array.
static std::string listRules(bool json) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::string text;
  for (const RuleSection &section : getRuleSections()) {
    text += (text.empty() ? "" : "\n") + std::string(section.title) + "\n";
    for (const Rule &rule : section.rules) {
      all.push_back(toJson(rule, section.title));
      constexpr size_t kColumn = 5;
      text += "  " + std::string(rule.id) +
              std::string(kColumn - rule.id.size(), ' ') +
              std::string(rule.title) + "\n";
    }
  }
  return json ? all.dump(2) + "\n"
              : text + "\noctet explain RULE prints one of them.\n";
}

static Status explain(const ExplainOptions &options) {
  if (options.rule.empty())
    return print(listRules(options.json));
  const Rule *rule = findRule(options.rule);
  if (!rule) {
    std::string near;
    for (std::string_view id : findNearRules(options.rule))
      near += (near.empty() ? "" : ", ") + std::string(id);
    return usageError("explain " + escapeName(options.rule),
                      "no rule of that number; " +
                          (near.empty() ? std::string("octet explain lists all")
                                        : "nearest are " + near));
  }
  if (!options.json)
    return print(formatRule(*rule));
  for (const RuleSection &section : getRuleSections())
    if (rule >= section.rules.data() &&
        rule < section.rules.data() + section.rules.size())
      return print(toJson(*rule, section.title).dump(2) + "\n");
  return internalError("explain " + options.rule, "the rule has no section");
}

void addExplainCommand(CLI::App &app, Action &action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App *command = app.add_subcommand(
      "explain", "What a rule's number in a message means; without a number, "
                 "all rules");
  command->add_option("RULE", options->rule, "Number of the rule, such as W3")
      ->check(notEmpty());
  command->add_flag("--json", options->json, "Print JSON");
  command->callback(
      [options, &action] { action = [options] { return explain(*options); }; });
}

} // namespace octet
