//===- CheckTest.cpp - What octet check is made of ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Check/Steps.h"
#include "octet/Diagnostics/Rules.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

using namespace octet;

static ErrorInfo makeError(std::string subject, std::string message,
                           std::string rule) {
  return inputError(std::move(subject), std::move(message), std::move(rule))
      .takeInfo();
}

// SPEC section 6: each step has the rules that it checks.
TEST(Check, StepsOfRules) {
  auto step = [](const char *rule) { return getStep(makeError("", "", rule)); };
  EXPECT_EQ(step("C2"), 1);
  EXPECT_EQ(step("C5"), 2);
  EXPECT_EQ(step(""), 2); // an unknown architecture
  EXPECT_EQ(step("C9"), 3);
  EXPECT_EQ(step("B6"), 3);
  EXPECT_EQ(step("C8"), 4);
  EXPECT_EQ(step("W3"), 5);
  EXPECT_EQ(step("W6"), 6);
  EXPECT_EQ(step("W11"), 7);
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules) {
      int number = getStep(makeError("", "", std::string(rule.id)));
      EXPECT_GE(number, 1) << rule.id;
      EXPECT_LT(number, kNumSteps) << rule.id;
    }
}

// STYLE 7: ten of one kind, then how many more; another kind stands alone.
TEST(Check, MessagesOfOneKind) {
  CheckReport report;
  for (int i = 0; i < 13; ++i)
    report.errors.push_back(makeError("layer." + std::to_string(i),
                                      "is " + std::to_string(i) + ", not 'x" +
                                          std::to_string(i) + "'",
                                      "W3"));
  report.errors.push_back(makeError("layer.1", "is 1, not 'x1'", "W1"));
  report.hint = "tp=1 would work";
  std::string text = formatCheckMessages(report);
  EXPECT_TRUE(text.starts_with("error: layer.0: is 0, not 'x0' [W3]\n"
                               "note:  layer.1: is 1, not 'x1'\n"))
      << text;
  EXPECT_NE(text.find("note:  layer.10: is 10, not 'x10'\n"
                      "note:  and 2 more\n"
                      "error: layer.1: is 1, not 'x1' [W1]\n"
                      "note:  tp=1 would work\n"),
            text.npos)
      << text;
}

// What only the layer tells apart is said once, its number also in quotes;
// another number is another message.
TEST(Check, SameInOtherLayers) {
  CheckReport report;
  auto add = [&](int layer, const std::string &value) {
    std::string path = "model.layers." + std::to_string(layer) + ".mlp.up_proj";
    report.errors.push_back(
        makeError(path, "'" + path + ".scale' is " + value, "W6"));
  };
  for (int layer : {2, 0, 1, 7, 4, 5, 2})
    add(layer, "NaN");
  add(3, "infinite");
  add(11, "infinite");
  report.errors.push_back(makeError("lm_head", "is NaN", "W6"));
  report.errors.push_back(makeError("lm_head", "is NaN", "W6"));
  report.errors.push_back(makeError("layers.9999999999999999999.x", "", "W1"));
  report.errors.push_back(makeError("layers.", "", "W2"));
  EXPECT_EQ(
      formatCheckMessages(report),
      "error: model.layers.2.mlp.up_proj: 'model.layers.2.mlp.up_proj.scale' "
      "is NaN [W6]\n"
      "note:  the same in layers 0 to 1, 4 to 5 and 7\n"
      "error: model.layers.3.mlp.up_proj: 'model.layers.3.mlp.up_proj.scale' "
      "is infinite [W6]\n"
      "note:  the same in layer 11\n"
      "error: lm_head: is NaN [W6]\n"
      "note:  lm_head: is NaN\n"
      "error: layers.9999999999999999999.x:  [W1]\n"
      "error: layers.:  [W2]\n");
}

// Names of a hostile file reach the report; JSON stays JSON.
TEST(Check, JsonOfAnyName) {
  CheckReport report;
  ModuleReport module;
  module.path = "a\"\xff\n";
  report.modules.push_back(module);
  nlohmann::json json = nlohmann::json::parse(formatCheckJson(report), nullptr,
                                              /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["outcome"], "accept");
  EXPECT_EQ(json["layers"].size(), 1u);
}

TEST(Check, ColourOnTerminalsOnly) {
  CheckReport report;
  report.steps[0].state = StepState::Passed;
  EXPECT_EQ(formatCheckText(report, /*colour=*/false).find('\x1b'),
            std::string::npos);
  EXPECT_NE(formatCheckText(report, /*colour=*/true).find("\x1b[32m"),
            std::string::npos);
}

TEST(Check, DeviceMemory) {
  EXPECT_EQ(*parseDeviceMemory("1000"), 1000);
  EXPECT_EQ(*parseDeviceMemory("h200"), int64_t(143771) << 20);
  EXPECT_FALSE(parseDeviceMemory("0").ok());
  EXPECT_FALSE(parseDeviceMemory("80GB").ok());
  EXPECT_EQ(parseDeviceMemory("h9").status().info().exitCode(), 2);
}
