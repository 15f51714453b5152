//===- Chat.cpp - Conversations as prompts --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Chat.h"
#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"

using namespace octet;
using namespace octet::rt;
using nlohmann::ordered_json;

static Result<ChatTemplate> openChatTemplate(const CommonOptions &common) {
  static constexpr char subject[] = "this program";
  auto bytes = common.payload ? common.payload->section(kChatTemplateSection)
                              : std::nullopt;
  if (!bytes)
    return inputError(subject, "carries no chat template: what was compiled "
                               "had none; --prompt takes text as it is");
  return parseChatTemplate(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()},
      std::string(subject) + ": " + std::string(kChatTemplateSection));
}

static Result<FilePrompt> render(const ChatTemplate &chat,
                                 const ordered_json &messages,
                                 ChatOptions options,
                                 const std::string &subject) {
  FilePrompt prompt;
  prompt.subject = subject;
  prompt.isText = true;
  prompt.isWhole = true;
  options.subject = subject + ": chat template";
  OCTET_TRY_ASSIGN(prompt.text, chat.render(messages, std::move(options)));
  return prompt;
}

static Result<FilePrompt> readMessages(const std::string &path,
                                       const ChatTemplate &chat) {
  OCTET_TRY_ASSIGN(std::string text, readTextFile(path));
  OCTET_TRY_ASSIGN(ordered_json document,
                   parseOrderedJson(text, escapePath(path)));
  ordered_json messages;
  ChatOptions options;
  if (document.is_object()) {
    options.variables = ordered_json::object();
    for (auto &[name, value] : document.items()) {
      if (name == "messages")
        messages = std::move(value);
      else if (name == "tools")
        options.tools = std::move(value);
      else
        options.variables[name] = std::move(value);
    }
  } else {
    messages = std::move(document);
  }
  if (!messages.is_array())
    return inputError(escapePath(path),
                      "neither a list of messages nor an object "
                      "{\"messages\": [messages…], …}");
  for (const ordered_json &message : messages)
    if (!message.is_object())
      return inputError(escapePath(path),
                        "a message is not {\"role\": …, \"content\": …}");
  return render(chat, messages, std::move(options), escapePath(path));
}

Result<std::vector<FilePrompt>>
rt::readConversations(const RunOptions &options, const CommonOptions &common) {
  OCTET_TRY_ASSIGN(ChatTemplate chat, openChatTemplate(common));
  std::vector<FilePrompt> prompts;
  for (const std::string &text : options.chats) {
    if (!isUtf8(text))
      return inputError("--chat", "is not UTF-8");
    ordered_json message = {{"role", "user"}, {"content", text}};
    OCTET_TRY_ASSIGN(
        FilePrompt prompt,
        render(chat, ordered_json::array({message}), {}, "--chat"));
    prompts.push_back(std::move(prompt));
  }
  if (!options.messagesFile.empty()) {
    OCTET_TRY_ASSIGN(FilePrompt prompt,
                     readMessages(options.messagesFile, chat));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}
