//===- PublishedConfigsTest.cpp - Configs of published checkpoints --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Each config.json of OCTET_SHARED_DIR/configs is read and decided module by
// module; test/Inputs/published_configs.json says what has to come out. Where
// the folder has a table of tensors, the modules and their schemes imply
// exactly that table. Skips without the folder.
//
//===----------------------------------------------------------------------===//

#include "PublishedConfigs.h"
#include "octet/Modules/Decide.h"
#include "octet/Support/Sanitizers.h"
#include <ctime>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace octet;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// What a busy machine does not change.
double processorSeconds() { return double(std::clock()) / CLOCKS_PER_SEC; }
/// Sanitizers take so many times as long.
constexpr double kSanitizers = kAddressSanitizer ? 10 : 1;

std::string text(const Status &status) {
  return status.ok() ? "no error" : status.info().format();
}

json readExpectations() {
  return readPublished(fs::path(OCTET_TEST_INPUTS) / "published_configs.json");
}

/// A table of tensors with its patterns expanded: name to dtype and shape.
std::map<std::string, StoredTensor> expandTable(const json &table) {
  std::map<std::string, StoredTensor> tensors;
  for (const json &pattern : table["patterns"]) {
    StoredTensor tensor{*parseStoredType(pattern["dtype"].get<std::string>()),
                        pattern["shape"].get<std::vector<int64_t>>()};
    std::vector<std::string> names = {pattern["name"].get<std::string>()};
    if (pattern.contains("for"))
      for (const auto &[place, values] : pattern["for"].items()) {
        std::vector<int64_t> numbers;
        for (const json &value : values) {
          int64_t first =
              value.is_array() ? value[0].get<int64_t>() : value.get<int64_t>();
          int64_t last = value.is_array() ? value[1].get<int64_t>() : first;
          for (int64_t i = first; i <= last; ++i)
            numbers.push_back(i);
        }
        std::string mark = "{" + place + "}";
        std::vector<std::string> expanded;
        for (const std::string &name : names)
          for (int64_t number : numbers) {
            std::string one = name;
            one.replace(one.find(mark), mark.size(), std::to_string(number));
            expanded.push_back(std::move(one));
          }
        names = std::move(expanded);
      }
    for (std::string &name : names)
      tensors[std::move(name)] = tensor;
  }
  return tensors;
}

/// Takes what one module implies out of the table; notes what is missing or
/// otherwise.
void takeModule(const ModuleEntry &module, const Decisions &decisions,
                const std::optional<Scheme> &scheme,
                std::map<std::string, StoredTensor> &table,
                std::vector<std::string> &problems) {
  for (const ImpliedTensor &implied :
       implyTensors(module, decisions.getMethod(), scheme))
    for (int64_t e = 0; e < std::max<int64_t>(implied.experts, 1); ++e) {
      auto found = table.end();
      for (const std::string &name : implied.expected.names)
        if (found == table.end())
          found = table.find(implied.getName(name, e));
      std::string usual = implied.getName(implied.expected.names.front(), e);
      if (found == table.end()) {
        if (implied.expected.required && !implied.isOptional)
          problems.push_back("no " + usual);
        continue;
      }
      const ExpectedTensor &expected = implied.expected;
      if (std::ranges::find(expected.types, found->second.type) ==
              expected.types.end() ||
          std::ranges::find(expected.shapes, found->second.shape) ==
              expected.shapes.end())
        problems.push_back(usual + " is " + found->second.describe() +
                           ", implied is " + expected.describe());
      table.erase(found);
    }
}

/// The tensors of one module in the table, for resolveModule.
ModuleFacts getFacts(const ModuleEntry &module, const Declaration &declaration,
                     const std::map<std::string, StoredTensor> &table) {
  ModuleFacts facts;
  facts.module = module.getPath(0);
  facts.declared = declaration.declared;
  facts.isLmHead = module.kind == ModuleKind::LmHead;
  facts.isExpert = module.kind == ModuleKind::RoutedExpert;
  facts.n = module.n;
  facts.k = module.k;
  facts.experts = module.packed ? module.experts : 0;
  for (auto at = table.lower_bound(facts.module);
       at != table.end() && at->first.starts_with(facts.module); ++at) {
    std::string rest = at->first.substr(facts.module.size());
    if (rest.starts_with('.'))
      rest = rest.substr(1);
    else if (!rest.starts_with('_'))
      continue;
    if (rest.find('.') == std::string::npos)
      facts.tensors[rest] = at->second;
  }
  return facts;
}

class PublishedConfigs : public testing::Test {
protected:
  void SetUp() override {
    configs = findPublishedConfigs();
    if (configs.empty())
      GTEST_SKIP() << "OCTET_SHARED_DIR is not set or has no configs";
  }
  Result<Decisions> decideFolder(const fs::path &folder, const char *target,
                                 bool textPart = false) {
    Result<Target> parsed = parseTarget(target, "--target");
    return decide(readPublished(folder / "config.json"),
                  readPublished(folder / "hf_quant_config.json"), *parsed,
                  textPart);
  }
  fs::path configs;
};

/// What the committed file has for one folder.
json summarise(const Result<Decisions> &decided) {
  if (!decided) {
    const ErrorInfo &info = decided.status().info();
    // Without the list of what is supported.
    std::string message = info.message.substr(0, info.message.find("; supp"));
    return {{"refused", info.subject + ": " + message}};
  }
  json result = {{"architecture", decided->list.architecture},
                 {"method", decided->getMethod()}};
  int64_t quantized = 0, unquantized = 0, tensors = 0;
  std::map<std::string, int64_t> formats;
  for (size_t i = 0; i < decided->list.modules.size(); ++i) {
    const ModuleEntry &module = decided->list.modules[i];
    const std::optional<Scheme> &scheme = decided->declarations[i].scheme;
    for (const ImpliedTensor &implied :
         implyTensors(module, decided->getMethod(), scheme))
      if (implied.expected.required && !implied.isOptional)
        tensors += std::max<int64_t>(implied.experts, 1);
    bool asks = module.kind == ModuleKind::Linear ||
                module.kind == ModuleKind::RoutedExpert ||
                module.kind == ModuleKind::LmHead;
    if (!asks)
      continue;
    (scheme ? quantized : unquantized) += module.count();
    if (!scheme)
      continue;
    ResolvedModule resolved;
    resolved.quantized = true;
    resolved.weight = scheme->weight;
    resolved.activation = scheme->activation;
    resolved.format = scheme->format;
    resolved.input = scheme->input;
    Result<Contract> contract = contractFor(resolved, Target(), {}, "x");
    std::string activation =
        contract ? nameActivation(*contract) : "no contract";
    formats[nameFormat(resolved) + " " + activation] += module.count();
  }
  result["quantized"] = quantized;
  result["unquantized"] = unquantized;
  result["tensors"] = tensors;
  result["on cpu"] = formats;
  if (decided->config) {
    result["ignored"] = decided->config->ignore.entries.size();
    result["kv cache"] = decided->config->kvCache;
    json warnings = json::array();
    for (const ErrorInfo &warning : decided->config->warnings)
      warnings.push_back(warning.subject + ": " + warning.message);
    result["warnings"] = warnings;
  }
  return result;
}

TEST_F(PublishedConfigs, DecisionsAreAsCommitted) {
  json expected = readExpectations();
  ASSERT_TRUE(expected.is_object());
  json got = json::object();
  for (const fs::directory_entry &entry : fs::directory_iterator(configs)) {
    if (!entry.is_directory())
      continue;
    std::string name = entry.path().filename();
    got[name] = summarise(decideFolder(entry.path(), "cpu"));
    // The text part of a wrapper can be decided by itself.
    if (name.find("Kimi-K2.") != std::string::npos)
      got[name + " (text part)"] =
          summarise(decideFolder(entry.path(), "cpu", /*textPart=*/true));
  }
  if (const char *out = std::getenv("OCTET_WRITE_EXPECTATIONS"))
    std::ofstream(out) << got.dump(1) << "\n";
  for (const auto &[name, value] : got.items())
    EXPECT_EQ(expected.value(name, json()), value) << name;
  for (const auto &[name, value] : expected.items())
    EXPECT_TRUE(got.contains(name)) << name << " is not there";
}

TEST_F(PublishedConfigs, ModulesAndSchemesImplyTheTables) {
  int tables = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(configs)) {
    json file = readPublished(entry.path() / "tensors.json");
    if (!file.is_object())
      continue;
    SCOPED_TRACE(entry.path().filename());
    ++tables;
    Result<Decisions> decided = decideFolder(entry.path(), "cpu");
    ASSERT_TRUE(decided.ok()) << text(decided.status());
    std::map<std::string, StoredTensor> table = expandTable(file);
    EXPECT_EQ(int64_t(table.size()), file["total_tensors"].get<int64_t>());
    std::vector<std::string> problems;
    const QuantConfig *config = decided->config ? &*decided->config : nullptr;
    for (size_t i = 0; i < decided->list.modules.size(); ++i) {
      const ModuleEntry &module = decided->list.modules[i];
      const Declaration &declaration = decided->declarations[i];
      // Config and headers agree on each module (C13).
      bool asks = module.kind == ModuleKind::Linear ||
                  module.kind == ModuleKind::RoutedExpert ||
                  module.kind == ModuleKind::LmHead;
      if (asks) {
        Result<ResolvedModule> resolved =
            resolveModule(config, getFacts(module, declaration, table));
        if (!resolved)
          problems.push_back(text(resolved.status()));
        else if (resolved->quantized != declaration.scheme.has_value())
          problems.push_back(module.path + " is stored " +
                             nameFormat(*resolved) + ", declared otherwise");
      }
      takeModule(module, *decided, declaration.scheme, table, problems);
    }
    for (size_t i = 0; i < problems.size() && i < 10; ++i)
      ADD_FAILURE() << problems[i];
    int shown = 0;
    for (const auto &[name, tensor] : table)
      if (++shown <= 10)
        ADD_FAILURE() << "nothing implies " << name << " " << tensor.describe();
    EXPECT_TRUE(problems.empty() && table.empty())
        << problems.size() << " problems, " << table.size() << " left";
  }
  EXPECT_EQ(tables, 12);
}

/// The whole decision on each table, headers included, accepts it without a
/// warning, and takes seconds for none.
TEST_F(PublishedConfigs, TablesAreDecidedQuickly) {
  for (const fs::directory_entry &entry : fs::directory_iterator(configs)) {
    json file = readPublished(entry.path() / "tensors.json");
    if (!file.is_object())
      continue;
    SCOPED_TRACE(entry.path().filename());
    TensorTable table;
    table.files = {"model.safetensors"};
    table.fileBytes = {0};
    for (auto &[name, stored] : expandTable(file)) {
      TensorInfo info{};
      info.name = name;
      info.type = stored.type;
      info.shape = stored.shape;
      table.tensors.push_back(std::move(info));
    }
    ASSERT_TRUE(table.finish().ok());
    json config = readPublished(entry.path() / "config.json");
    const double start = processorSeconds();
    Result<CheckpointDecisions> decided =
        decideCheckpoint(config, nullptr, &table, {});
    const double took = processorSeconds() - start;
    ASSERT_TRUE(decided.ok()) << text(decided.status());
    EXPECT_LT(took, 2.0 * kSanitizers) << table.all().size() << " tensors";
    for (const ErrorInfo &warning : decided->warnings)
      ADD_FAILURE() << warning.format();
    RecordProperty(entry.path().filename().string() + "_ms",
                   std::to_string(int(took * 1000)));
  }
}

/// C7: all 541 entries of GLM-5.3's list name a module or a tensor, and looking
/// them up against 118,629 tensors takes well under a second.
TEST_F(PublishedConfigs, EveryEntryOfALongListMatchesC7) {
  int lists = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(configs)) {
    if (!entry.is_directory())
      continue;
    Result<Decisions> decided = decideFolder(entry.path(), "cpu", true);
    if (!decided || !decided->config || decided->config->ignore.isEmpty())
      continue;
    SCOPED_TRACE(entry.path().filename());
    ++lists;
    NameList &ignore = decided->config->ignore;
    const double start = processorSeconds();
    int64_t tensors = 0;
    for (size_t i = 0; i < decided->list.modules.size(); ++i) {
      const ModuleEntry &module = decided->list.modules[i];
      for (const ImpliedTensor &implied : implyTensors(
               module, decided->getMethod(), decided->declarations[i].scheme))
        for (int64_t e = 0; e < std::max<int64_t>(implied.experts, 1); ++e) {
          ASSERT_TRUE(ignore
                          .markTensor(implied.getName(
                              implied.expected.names.front(), e))
                          .ok());
          ++tensors;
        }
    }
    const double took = processorSeconds() - start;
    EXPECT_LT(took, 1.0 * kSanitizers) << tensors << " tensors";
    std::vector<std::string> unused = ignore.getUnused();
    // What a wrapper's list says of its vision part is not in the text part,
    // and GLM-5's says its draft layer has a head.
    std::erase_if(unused, [](const std::string &entry) {
      return entry.find("vision_tower") != std::string::npos ||
             entry.find("mm_projector") != std::string::npos;
    });
    EXPECT_EQ(unused, std::vector<std::string>());
    if (entry.path().filename() == "GLM-5.3-FP8")
      EXPECT_EQ(ignore.entries.size(), 541u);
  }
  EXPECT_GE(lists, 20);
}

} // namespace
