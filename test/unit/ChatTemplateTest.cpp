//===- ChatTemplateTest.cpp - What renderChat promises --------------------===//
//---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// That templates render as jinja2 does is test/e2e/test_chat_template.py's to
// show; here is what does not need Python: the variables, the errors, the
// bounds.
//
//===----------------------------------------------------------------------===//

#include "octet/Text/ChatTemplate.h"
#include "octet/Checkpoint/Checkpoint.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace octet;
using nlohmann::ordered_json;

namespace {

std::string render(std::string_view text, const ChatOptions &options = {},
                   ordered_json messages = ordered_json::array()) {
  Result<std::string> result = renderChat(text, messages, options);
  return result.ok() ? *result : result.status().info().format();
}

TEST(ChatTemplate, SeesWhatTransformersPasses) {
  ChatOptions options;
  options.bosToken = "<s>";
  options.variables = {{"enable_thinking", false}};
  EXPECT_EQ(render("{{ bos_token }}{{ eos_token is defined }}{{ tools }}"
                   "{{ documents }}{{ add_generation_prompt }}"
                   "{{ enable_thinking }}",
                   options),
            "<s>FalseNoneNoneTrueFalse");
}

TEST(ChatTemplate, VariablesWin) {
  ChatOptions options;
  options.bosToken = "<s>";
  options.variables = {{"bos_token", "[B]"}, {"messages", "mine"}};
  EXPECT_EQ(render("{{ bos_token }}{{ messages }}", options), "[B]mine");
}

TEST(ChatTemplate, KeepsTheOrderOfKeys) {
  auto messages = parseOrderedJson(
      R"([{"role": "user", "content": {"z": 1, "a": [2.0, null, "é"]}}])",
      "messages.json");
  ASSERT_TRUE(messages.ok());
  EXPECT_EQ(render("{{ messages[0].content | tojson }}|{{ messages }}", {},
                   *messages),
            "{\"z\": 1, \"a\": [2.0, null, \"é\"]}|[{'role': 'user', "
            "'content': {'z': 1, 'a': [2.0, None, 'é']}}]");
}

TEST(ChatTemplate, TakesTheDateThatIsGiven) {
  ChatOptions options;
  std::tm day{};
  day.tm_year = 2025 - 1900;
  day.tm_mon = 0;
  day.tm_mday = 2;
  options.now = day;
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}", options), "02 Jan 2025");
}

TEST(ChatTemplate, NamesTheLineAndTheSubject) {
  ChatOptions options;
  options.subject = "chat_template.jinja";
  EXPECT_EQ(render("a\nb\n{% include 'x' %}", options),
            "error: chat_template.jinja: line 3: the statement 'include' is "
            "not supported\n");
  EXPECT_EQ(render("{{\n\n x.y }}", options),
            "error: chat_template.jinja: line 3: 'x' is undefined\n");
}

TEST(ChatTemplate, EscapesWhatATemplateRaises) {
  EXPECT_EQ(render("{{ raise_exception('no\x1b[2J\n') }}"),
            "error: chat template: line 1: the template refuses the "
            "conversation: no\\x1b[2J\\x0a\n");
}

TEST(ChatTemplate, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(render("a\xff"), "error: chat template: is not UTF-8\n");
  ordered_json messages = {"\xc0\x80"};
  EXPECT_EQ(render("a", {}, messages),
            "error: messages: a string is not UTF-8\n");
  ChatOptions options;
  options.bosToken = "\xf8";
  EXPECT_EQ(render("a", options), "error: bos_token: is not UTF-8\n");
}

TEST(ChatTemplate, RefusesIntegersBeyond64Bits) {
  ordered_json messages = {UINT64_MAX};
  EXPECT_EQ(render("a", {}, messages),
            "error: messages: the integer 18446744073709551615 does not fit "
            "64 bits\n");
}

TEST(ChatTemplate, BoundsTheTemplate) {
  EXPECT_NE(render(std::string(kMaxTemplateBytes + 1, 'a'))
                .find("a template has at most 1048576"),
            std::string::npos);
  EXPECT_EQ(render(std::string(kMaxTemplateBytes, 'a')).size(),
            kMaxTemplateBytes);
}

TEST(ChatTemplate, BoundsDepthWorkAndSize) {
  EXPECT_NE(render("{{ " + std::string(5000, '(') + "1" +
                   std::string(5000, ')') + " }}")
                .find("nests deeper than 160 levels"),
            std::string::npos);
  EXPECT_NE(render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
                .find("nest deeper than 800 levels"),
            std::string::npos);
  EXPECT_NE(render("{% for a in range(99999) %}{% for b in range(99999) %}"
                   "{% endfor %}{% endfor %}")
                .find("more work than is allowed"),
            std::string::npos);
  EXPECT_NE(render("{% for a in range(99999) %}{{ 'aaaaaaaa' * 100 }}"
                   "{% endfor %}")
                .find("the text grows over 67108864 bytes"),
            std::string::npos);
}

TEST(ChatTemplate, TakesALongConversation) {
  ordered_json messages = ordered_json::array();
  for (int i = 0; i < 4000; ++i)
    messages.push_back({{"role", i % 2 ? "assistant" : "user"},
                        {"content", std::string(1000, 'x')}});
  std::string text = render("{% for m in messages[::-1] %}{{ loop.index0 }}"
                            "{{ m.role }}: {{ m.content.strip() }}\n"
                            "{% endfor %}",
                            {}, messages);
  EXPECT_GT(text.size(), 4000u * 1000u);
}

//===----------------------------------------------------------------------===//
// Where templates come from
//===----------------------------------------------------------------------===//

class ChatTemplateFiles : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "octet-chat-template";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    checkpoint.path = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const char *name, std::string_view text) {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  /// The error, without the folder.
  std::string errorOf() {
    auto result = readChatTemplate(checkpoint);
    if (result.ok())
      return "ok";
    std::string text = result.status().info().format();
    size_t at = text.find(folder);
    return at == text.npos ? text : text.replace(at, folder.size(), "DIR");
  }

  std::string folder;
  Checkpoint checkpoint;
};

TEST_F(ChatTemplateFiles, NothingIsNoError) {
  auto result = readChatTemplate(checkpoint);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->has_value());
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  result = readChatTemplate(checkpoint);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->has_value());
}

TEST_F(ChatTemplateFiles, TokensAndTemplateOfTheConfig) {
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip":
            false}, "pad_token": null, "chat_template":
            "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"})");
  auto result = readChatTemplate(checkpoint);
  ASSERT_TRUE(result.ok() && *result);
  // Through the section that an executable carries.
  auto chat = parseChatTemplate(writeChatTemplate(**result), "section");
  ASSERT_TRUE(chat.ok());
  auto text = chat->render({{{"role", "user"}, {"content", "hi"}}}, {});
  ASSERT_TRUE(text.ok()) << text.status().info().format();
  EXPECT_EQ(*text, "<s>hi</s>");
}

TEST_F(ChatTemplateFiles, TheFileWinsAndToolsHaveTheirOwn) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "old"},
                              {"name": "tool_use", "template": "tools"}]})");
  write("chat_template.jinja", "new");
  auto result = readChatTemplate(checkpoint);
  ASSERT_TRUE(result.ok() && *result);
  ChatOptions tools;
  tools.tools = ordered_json::array();
  EXPECT_EQ(*(*result)->render(ordered_json::array(), {}), "new");
  EXPECT_EQ(*(*result)->render(ordered_json::array(), tools), "tools");
}

TEST_F(ChatTemplateFiles, RefusesWhatIsNotAsItShouldBe) {
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_EQ(errorOf(), "error: DIR/tokenizer_config.json: chat_template is "
                       "neither a template nor a list of them\n");
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_NE(errorOf().find("lists something that is not"), std::string::npos);
  write("tokenizer_config.json", R"({"bos_token": 1})");
  EXPECT_EQ(errorOf(),
            "error: DIR/tokenizer_config.json: bos_token is no text\n");
  write("tokenizer_config.json", "[]");
  EXPECT_EQ(errorOf(), "error: DIR/tokenizer_config.json: is no object\n");
  write("tokenizer_config.json", "{}");
  write("chat_template.jinja", std::string(kMaxTemplateBytes + 1, 'a'));
  EXPECT_EQ(errorOf(), "error: DIR/chat_template.jinja: the chat template is "
                       "1048577 bytes; at most 1048576 are read\n");
  write("chat_template.jinja", "a\xff");
  EXPECT_EQ(errorOf(), "error: DIR/chat_template.jinja: is not UTF-8\n");
}

TEST(ChatTemplateSection, RefusesWhatTheCompilerDoesNotWrite) {
  for (const char *text : {"{}", "[]", R"({"templates": [], "tokens": {}})",
                           R"({"templates": {"default": 1}, "tokens": {}})"})
    EXPECT_EQ(parseChatTemplate(text, "s").status().info().format(),
              "error: s: is not what the compiler writes\n");
  ChatTemplate none;
  EXPECT_EQ(none.render(ordered_json::array(), {}).status().info().format(),
            "error: chat template: there is no template named 'default'\n");
}

TEST(OrderedJson, RefusesWhatParseJsonRefuses) {
  auto error = [](std::string_view text) {
    auto result = parseOrderedJson(text, "m.json");
    return result.ok() ? "ok" : result.status().info().format();
  };
  EXPECT_EQ(error(R"({"a": 1, "a": 2})"),
            "error: m.json: has the key 'a' twice in one object\n");
  EXPECT_EQ(error(std::string_view("[1]\0", 4)),
            "error: m.json: is not JSON: a zero byte at offset 3\n");
  EXPECT_EQ(error(std::string(65, '[') + std::string(65, ']')),
            "error: m.json: nests deeper than 64 levels\n");
  EXPECT_EQ(error("99999999999999999999"),
            "error: m.json: the integer 99999999999999999999 does not fit 64 "
            "bits\n");
  EXPECT_NE(error("[1, 2").find("is not JSON"), std::string::npos);
  EXPECT_NE(error("\"\xff\"").find("is not JSON"), std::string::npos);
  EXPECT_EQ(error(R"({"b": [1, {"c": null}], "a": -2.5e3})"), "ok");
}

} // namespace
