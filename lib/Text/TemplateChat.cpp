//===- TemplateChat.cpp - A checkpoint's chat template --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "octet/Checkpoint/JsonSax.h"
#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"
#include <algorithm>

using namespace octet;
using namespace octet::jinja;
using nlohmann::ordered_json;

Result<ordered_json> octet::parseOrderedJson(std::string_view text,
                                             const std::string &subject) {
  return octet::detail::parseJsonTree<ordered_json>(text, subject);
}

//===----------------------------------------------------------------------===//
// Rendering
//===----------------------------------------------------------------------===//

static Status toValue(const ordered_json &json, const std::string &subject,
                      int depth, Value &out) {
  if (depth > kMaxJsonDepth)
    return inputError(subject, "nests deeper than " +
                                   std::to_string(kMaxJsonDepth) + " levels");
  switch (json.type()) {
  case ordered_json::value_t::boolean:
    out = Value::boolean(json.get<bool>());
    return Status::success();
  case ordered_json::value_t::number_unsigned:
    if (json.get<uint64_t>() > uint64_t(INT64_MAX))
      return inputError(subject, "the integer " +
                                     std::to_string(json.get<uint64_t>()) +
                                     " does not fit 64 bits");
    [[fallthrough]];
  case ordered_json::value_t::number_integer:
    out = Value::integer(json.get<int64_t>());
    return Status::success();
  case ordered_json::value_t::number_float:
    out = Value::number(json.get<double>());
    return Status::success();
  case ordered_json::value_t::string: {
    const auto &text = json.get_ref<const std::string &>();
    if (!isUtf8(text))
      return inputError(subject, "a string is not UTF-8");
    out = Value::string(text);
    return Status::success();
  }
  case ordered_json::value_t::array: {
    std::vector<Value> items;
    for (const ordered_json &item : json)
      OCTET_TRY(toValue(item, subject, depth + 1, items.emplace_back()));
    out = Value::list(std::move(items));
    return Status::success();
  }
  case ordered_json::value_t::object: {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto &[key, item] : json.items()) {
      if (!isUtf8(key))
        return inputError(subject, "a key is not UTF-8");
      entries.emplace_back(Value::string(key), Value());
      OCTET_TRY(toValue(item, subject, depth + 1, entries.back().second));
    }
    out = Value::dict(std::move(entries));
    return Status::success();
  }
  default:
    out = Value::none();
    return Status::success();
  }
}

Result<std::string> octet::renderChat(std::string_view templateText,
                                      const ordered_json &messages,
                                      const ChatOptions &options) {
  const std::string &subject = options.subject;
  if (templateText.size() > kMaxTemplateBytes)
    return inputError(subject, "is " + std::to_string(templateText.size()) +
                                   " bytes; a template has at most " +
                                   std::to_string(kMaxTemplateBytes));
  if (!isUtf8(templateText))
    return inputError(subject, "is not UTF-8");
  OCTET_TRY_ASSIGN(Body body, parseTemplate(templateText, subject));

  // The names that transformers passes; None stands for what is not there.
  auto scope = std::make_shared<Scope>(nullptr);
  auto &variables = scope->variables;
  OCTET_TRY(toValue(messages, "messages", 1, variables["messages"]));
  OCTET_TRY(toValue(options.tools, "tools", 1, variables["tools"]));
  variables["documents"] = Value::none();
  variables["add_generation_prompt"] =
      Value::boolean(options.addGenerationPrompt);
  for (auto &[name, token] : {std::pair("bos_token", &options.bosToken),
                              std::pair("eos_token", &options.eosToken)})
    if (token->has_value()) {
      if (!isUtf8(**token))
        return inputError(name, "is not UTF-8");
      variables[name] = Value::string(**token);
    }
  if (options.variables.is_object()) {
    for (const auto &[name, value] : options.variables.items())
      OCTET_TRY(toValue(value, escapeName(name), 1, variables[name]));
  } else if (!options.variables.is_null()) {
    return inputError("template variables", "are no object");
  }
  std::string out;
  const int64_t maxWork = std::min(options.maxWork, kMaxTemplateWork);
  OCTET_TRY(Interpreter(subject, options.now, maxWork).run(body, scope, out));
  return out;
}
