//===- TemplateFiles.cpp - Where chat templates come from -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Checkpoint/Gguf.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Text/ChatTemplate.h"
#include <sys/stat.h>

using namespace octet;
using nlohmann::json;

static constexpr const char *kTokenNames[] = {
    "bos_token", "eos_token", "unk_token",  "sep_token",
    "pad_token", "cls_token", "mask_token",
};

static bool exists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

static Status checkTemplateSize(size_t bytes, const std::string &subject) {
  if (bytes <= kMaxTemplateBytes)
    return Status::success();
  return inputError(subject, "the chat template is " + std::to_string(bytes) +
                                 " bytes; at most " +
                                 std::to_string(kMaxTemplateBytes) +
                                 " are read");
}

/// `chat_template` is a template, or a list of them with names.
static Status takeTemplates(const json &value, const std::string &subject,
                            ChatTemplate &chat) {
  auto add = [&](const std::string &name, const json &text) {
    OCTET_TRY(
        checkTemplateSize(text.get_ref<const std::string &>().size(), subject));
    chat.templates[name] = text.get<std::string>();
    return Status::success();
  };
  if (value.is_null())
    return Status::success();
  if (value.is_string())
    return add("default", value);
  if (!value.is_array())
    return inputError(subject, "chat_template is neither a template nor a "
                               "list of them");
  for (const json &entry : value) {
    auto field = [&](const char *name) {
      return entry.is_object() && entry.contains(name) &&
             entry[name].is_string();
    };
    if (!field("name") || !field("template"))
      return inputError(subject, "chat_template lists something that is not "
                                 "{\"name\": …, \"template\": …}");
    OCTET_TRY(add(entry["name"].get<std::string>(), entry["template"]));
  }
  return Status::success();
}

/// A token is its text, or an object with the text as `content`.
static Status takeTokens(const json &config, const std::string &subject,
                         ChatTemplate &chat) {
  for (const char *name : kTokenNames) {
    auto it = config.find(name);
    if (it == config.end() || it->is_null())
      continue;
    const json *text = &*it;
    if (text->is_object() && text->contains("content"))
      text = &(*text)["content"];
    if (!text->is_string())
      return inputError(subject, std::string(name) + " is no text");
    chat.tokens[name] = text->get<std::string>();
  }
  return Status::success();
}

static Result<ChatTemplate> readFolder(const std::string &folder) {
  ChatTemplate chat;
  const std::string configPath = folder + "/tokenizer_config.json";
  const std::string templatePath = folder + "/chat_template.jinja";
  if (exists(configPath)) {
    const std::string subject = escapePath(configPath);
    OCTET_TRY_ASSIGN(json config, readJsonFile(configPath));
    if (!config.is_object())
      return inputError(subject, "is no object");
    OCTET_TRY(takeTokens(config, subject, chat));
    if (auto it = config.find("chat_template"); it != config.end())
      OCTET_TRY(takeTemplates(*it, subject, chat));
  }
  if (exists(templatePath)) {
    const std::string subject = escapePath(templatePath);
    OCTET_TRY_ASSIGN(InputFile file, InputFile::open(templatePath));
    OCTET_TRY(checkTemplateSize(size_t(file.size()), subject));
    std::string text(size_t(file.size()), '\0');
    OCTET_TRY(file.read(0, text));
    if (!isUtf8(text))
      return inputError(subject, "is not UTF-8");
    chat.templates["default"] = std::move(text);
  }
  return chat;
}

static Result<ChatTemplate> readMetadata(const GgufMetadata &metadata,
                                         const std::string &subject) {
  ChatTemplate chat;
  OCTET_TRY_ASSIGN(auto tokenizer, readGgufTokenizer(metadata));
  if (!tokenizer || !tokenizer->chatTemplate)
    return chat;
  OCTET_TRY(checkTemplateSize(tokenizer->chatTemplate->size(), subject));
  chat.templates["default"] = *tokenizer->chatTemplate;
  auto take = [&](const char *name, std::optional<int64_t> id) {
    if (id && size_t(*id) < tokenizer->tokens.size() &&
        isUtf8(tokenizer->tokens[size_t(*id)]))
      chat.tokens[name] = tokenizer->tokens[size_t(*id)];
  };
  take("bos_token", tokenizer->bos);
  take("eos_token", tokenizer->eos);
  take("unk_token", tokenizer->unknown);
  take("pad_token", tokenizer->padding);
  return chat;
}

Result<std::optional<ChatTemplate>>
octet::readChatTemplate(const Checkpoint &checkpoint) {
  OCTET_TRY_ASSIGN(ChatTemplate chat,
                   checkpoint.gguf ? readMetadata(*checkpoint.gguf,
                                                  escapePath(checkpoint.path))
                                   : readFolder(checkpoint.path));
  if (chat.templates.empty())
    return std::optional<ChatTemplate>();
  return std::optional<ChatTemplate>(std::move(chat));
}

std::string octet::writeChatTemplate(const ChatTemplate &chat) {
  return dumpJson({{"templates", chat.templates}, {"tokens", chat.tokens}});
}

Result<ChatTemplate> octet::parseChatTemplate(std::string_view text,
                                              const std::string &subject) {
  OCTET_TRY_ASSIGN(json document, parseJson(text, subject));
  ChatTemplate chat;
  auto take = [&](const char *part, std::map<std::string, std::string> &into) {
    if (!document.is_object() || !document.contains(part) ||
        !document[part].is_object())
      return false;
    for (const auto &[name, value] : document[part].items()) {
      if (!value.is_string())
        return false;
      into[name] = value.get<std::string>();
    }
    return true;
  };
  if (!take("templates", chat.templates) || !take("tokens", chat.tokens))
    return inputError(subject, "is not what the compiler writes");
  return chat;
}

Result<std::string> ChatTemplate::render(const nlohmann::ordered_json &messages,
                                         ChatOptions options) const {
  bool hasTools = !options.tools.is_null();
  auto chosen = templates.end();
  if (hasTools)
    chosen = templates.find("tool_use");
  if (chosen == templates.end())
    chosen = templates.find("default");
  if (chosen == templates.end())
    return inputError(options.subject, "there is no template named 'default'");
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  for (const auto &[name, text] : tokens)
    variables[name] = text;
  if (options.variables.is_object())
    for (const auto &[name, value] : options.variables.items())
      variables[name] = value;
  options.variables = std::move(variables);
  options.bosToken.reset();
  options.eosToken.reset();
  return renderChat(chosen->second, messages, options);
}
