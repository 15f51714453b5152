//===- FuzzChatTemplate.cpp - A chat template on messages -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: messages as JSON, a zero byte, a template. The work that a template
// may do is bounded lower than for users: a loop that goes to its bound is no
// news.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"

using namespace octet;
using namespace octet::fuzz;

OCTET_FUZZ_MUTATES_JSON

static constexpr int64_t kMaxWork = int64_t(1) << 22;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text = toText(data, size);
  Result<nlohmann::ordered_json> messages =
      parseOrderedJson(takePart(text), "messages");
  if (!messages) {
    requireGoodError(messages.status());
    return 0;
  }
  ChatOptions options;
  options.maxWork = kMaxWork;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mday = 1;
  options.bosToken = "<s>";
  options.variables = {{"enable_thinking", false}};
  for (bool tools : {false, true}) {
    if (tools)
      options.tools = *messages;
    Result<std::string> rendered = renderChat(text, *messages, options);
    if (!rendered) {
      requireGoodError(rendered.status());
      continue;
    }
    require(isUtf8(*rendered), "what a template prints is UTF-8", *rendered);
    require(rendered->size() <= kMaxRenderedBytes, "the output is bounded");
    Result<std::string> again = renderChat(text, *messages, options);
    require(again.ok() && *again == *rendered, "a template renders the same",
            *rendered);
  }
  return 0;
}
