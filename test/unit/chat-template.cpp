//===- chat-template.cpp - Renders chat templates from stdin --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For test/e2e/test_chat_template.py. A line of stdin is a JSON object with
// `template` and what it sees; a line of stdout is `{"text": …}` or
// `{"error": …}`.
//
//===----------------------------------------------------------------------===//

#include "octet/Text/ChatTemplate.h"
#include <iostream>

using namespace octet;
using nlohmann::ordered_json;

static std::string dump(const ordered_json &value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

static Result<std::string> render(const std::string &line) {
  OCTET_TRY_ASSIGN(ordered_json job, parseOrderedJson(line, "stdin"));
  ChatOptions options;
  options.addGenerationPrompt = job.value("add_generation_prompt", false);
  options.tools = job.value("tools", ordered_json());
  options.variables = job.value("variables", ordered_json());
  if (job.contains("bos_token"))
    options.bosToken = job["bos_token"].get<std::string>();
  if (job.contains("eos_token"))
    options.eosToken = job["eos_token"].get<std::string>();
  std::tm now{};
  now.tm_year = 2024 - 1900;
  now.tm_mon = 6;
  now.tm_mday = 26;
  now.tm_hour = 13;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 5;
  now.tm_yday = 207;
  options.now = now;
  return renderChat(job.value("template", std::string()),
                    job.value("messages", ordered_json()), options);
}

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Result<std::string> result = render(line);
    ordered_json out;
    if (result.ok())
      out["text"] = *result;
    else
      out["error"] = result.status().info().format();
    std::cout << dump(out) << '\n';
  }
  return 0;
}
