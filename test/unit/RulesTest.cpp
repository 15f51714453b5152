//===- RulesTest.cpp - The table of rules ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Diagnostics/Rules.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

using namespace octet;

namespace {

/// W5b is ('W', 5, "b").
std::tuple<char, int, std::string> split(std::string_view id) {
  size_t digits = id.find_first_not_of("0123456789", 1);
  size_t end = std::min(digits, id.size());
  return {id[0], std::stoi(std::string(id.substr(1, end - 1))),
          std::string(id.substr(end))};
}

TEST(Rules, EveryNumberIsThereInOrder) {
  const std::map<char, int> numbers = {
      {'N', 9}, {'C', 15}, {'W', 16}, {'B', 7}, {'P', 18}};
  const std::set<std::string> lettered = {"N6b", "W3b", "W3c",
                                          "W5b", "P7a", "P7b"};
  std::set<std::string> wanted = lettered;
  for (auto [letter, last] : numbers)
    for (int i = 1; i <= last; ++i)
      wanted.insert(letter + std::to_string(i));

  std::set<std::string> got;
  for (const RuleSection &section : getRuleSections()) {
    EXPECT_FALSE(section.title.empty());
    for (size_t i = 0; i < section.rules.size(); ++i) {
      std::string_view id = section.rules[i].id;
      EXPECT_TRUE(got.insert(std::string(id)).second) << id << " twice";
      if (i > 0)
        EXPECT_LT(split(section.rules[i - 1].id), split(id)) << id;
    }
  }
  EXPECT_EQ(got, wanted);
}

TEST(Rules, TextsAreThere) {
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules) {
      SCOPED_TRACE(rule.id);
      EXPECT_FALSE(rule.title.empty());
      EXPECT_LE(rule.id.size() + rule.title.size(), 74u); // one line
      EXPECT_FALSE(rule.title.ends_with('.'));
      EXPECT_GE(rule.statement.size(), 40u);
      EXPECT_GE(rule.why.size(), 40u);
      EXPECT_FALSE(rule.ways.empty());
      // An example shows the error, or says that there is none.
      std::string own = "[" + std::string(rule.id) + "]";
      bool shown =
          rule.example.find(own) != std::string_view::npos ||
          rule.example.find("No input breaks it") != std::string_view::npos ||
          std::regex_search(std::string(rule.example),
                            std::regex(R"(see [A-Z]\d+|\[W14\])"));
      EXPECT_TRUE(shown) << rule.example;
      for (std::string_view text : {rule.statement, rule.why, rule.ways})
        EXPECT_EQ(text.find('\n'), std::string_view::npos) << text;
    }
}

TEST(Rules, NumbersInTextsExist) {
  const std::regex number(R"(\b([NCWBP]\d+[a-z]?)\b)");
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules)
      for (std::string_view text :
           {rule.statement, rule.why, rule.example, rule.ways}) {
        std::string copy(text);
        for (std::sregex_iterator at(copy.begin(), copy.end(), number), end;
             at != end; ++at)
          EXPECT_TRUE(findRule((*at)[1].str()))
              << rule.id << " cites " << (*at)[1];
      }
}

TEST(Rules, FoundInAnySpelling) {
  ASSERT_TRUE(findRule("W3"));
  EXPECT_EQ(findRule("W3")->id, "W3");
  EXPECT_EQ(findRule("w3B")->id, "W3b");
  EXPECT_EQ(findRule("[P7a]")->id, "P7a");
  for (const char *id : {"", "W", "W99", "3", "W3 ", "[W3", "W03", "X1"})
    EXPECT_FALSE(findRule(id)) << id;
}

TEST(Rules, NearNumbers) {
  using Ids = std::vector<std::string_view>;
  Ids near = findNearRules("W3d");
  ASSERT_FALSE(near.empty());
  EXPECT_EQ((Ids{near.begin(), near.begin() + 3}), (Ids{"W3", "W3b", "W3c"}));
  EXPECT_LE(near.size(), 5u);
  EXPECT_EQ(findNearRules("W55").front(), "W5");
  EXPECT_TRUE(findNearRules("").empty());
  EXPECT_TRUE(findNearRules("nonsense-that-is-long").empty());
  EXPECT_TRUE(findNearRules("XX").empty());
}

TEST(Rules, PrintedToAWidth) {
  std::string text = formatRule(*findRule("W3"));
  EXPECT_TRUE(text.starts_with("W3: A split may not cut a block of scales\n\n"
                               "For a module"));
  for (const char *part : {"\n\nwhy\n  Half a block",
                           "\n\nexample\n  octet "
                           "check",
                           "\n  error: model.layers.3", "\n\nways out\n  One "})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 80u) << line;
}

/// The numbers that a source file cites in its texts: `[W3]` in one, or "W3"
/// alone as an argument.
std::set<std::string> findCited(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  std::set<std::string> cited;
  static const std::regex number(
      R"x(\[([NCWBP]\d+[a-z]?)\]|"([NCWBP]\d+[a-z]?)")x");
  for (std::sregex_iterator at(text.begin(), text.end(), number), end;
       at != end; ++at)
    cited.insert((*at)[(*at)[1].matched ? 1 : 2].str());
  return cited;
}

TEST(Rules, EveryCitedNumberExists) {
  namespace fs = std::filesystem;
  size_t files = 0, numbers = 0;
  for (const char *folder :
       {"lib", "passes", "dialects", "tools", "runtime", "include"})
    for (const fs::directory_entry &entry : fs::recursive_directory_iterator(
             fs::path(OCTET_SOURCE_DIR) / folder)) {
      std::string extension = entry.path().extension();
      if (extension != ".cpp" && extension != ".h" && extension != ".td" &&
          extension != ".def")
        continue;
      ++files;
      for (const std::string &id : findCited(entry.path())) {
        ++numbers;
        EXPECT_TRUE(findRule(id)) << entry.path().string() << " cites " << id;
      }
    }
  EXPECT_GT(files, 100u);
  EXPECT_GT(numbers, 100u);
}

} // namespace
