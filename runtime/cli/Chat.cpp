//===- Chat.cpp - Conversations as prompts --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Chat.h"
#include "octet/Support/Escape.h"

using namespace octet;
using namespace octet::rt;

static Result<FilePrompt> render(const CommonOptions &common,
                                 const std::string &conversation,
                                 const std::string &subject) {
  FilePrompt prompt;
  prompt.subject = subject;
  prompt.isText = true;
  prompt.isWhole = true;
  OCTET_TRY_ASSIGN(prompt.text, callText(octet_file_render_chat, common.file,
                                         conversation.data(),
                                         conversation.size(), subject.c_str()));
  return prompt;
}

Result<std::vector<FilePrompt>>
rt::readConversations(const RunOptions &options, const CommonOptions &common) {
  std::vector<FilePrompt> prompts;
  for (const std::string &text : options.chats) {
    if (!isUtf8(text))
      return inputError("--chat", "is not UTF-8");
    // Templates print keys in their order.
    OCTET_TRY_ASSIGN(
        FilePrompt prompt,
        render(common,
               "[{\"role\": \"user\", \"content\": " + dumpJson(text) + "}]",
               "--chat"));
    prompts.push_back(std::move(prompt));
  }
  if (!options.messagesFile.empty()) {
    OCTET_TRY_ASSIGN(std::string text, readTextFile(options.messagesFile));
    OCTET_TRY_ASSIGN(FilePrompt prompt,
                     render(common, text, escapePath(options.messagesFile)));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}
