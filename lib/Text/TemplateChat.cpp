//===- TemplateChat.cpp - A checkpoint's chat template --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"
#include <set>

using namespace octet;
using namespace octet::jinja;
using nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// JSON in its own order
//===----------------------------------------------------------------------===//

namespace {

/// Builds the tree; nlohmann's parser itself does not recurse.
class OrderedBuilder {
public:
  explicit OrderedBuilder(std::string subject) : subject(std::move(subject)) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string &text) {
    if (text.find_first_of(".eE") == text.npos)
      return fail("the integer " + escapeName(text) + " does not fit 64 bits");
    return add(value);
  }
  bool string(std::string &value) { return add(std::move(value)); }
  bool binary(ordered_json::binary_t &) { return fail("holds binary data"); }
  bool start_object(size_t) { return enter(ordered_json::object()); }
  bool start_array(size_t) { return enter(ordered_json::array()); }
  bool end_object() {
    keys.pop_back();
    open.pop_back();
    return true;
  }
  bool end_array() { return end_object(); }
  bool key(std::string &name) {
    if (!count())
      return false;
    if (!keys.back().insert(name).second)
      return fail("has the key " + quoteName(name) + " twice in one object");
    // As a vector: ordered_map's own insertion searches all keys.
    auto &entries = static_cast<ordered_json::object_t::Container &>(
        *open.back()->get_ptr<ordered_json::object_t *>());
    entries.emplace_back(name, nullptr);
    slot = &entries.back().second;
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) {
    return fail("is not JSON: an error at byte " + std::to_string(position));
  }

  const std::string subject;
  ordered_json root;
  Status error;

private:
  bool fail(std::string message) {
    if (error.ok())
      error = inputError(subject, std::move(message));
    return false;
  }
  bool count() {
    return ++values <= kMaxJsonValues ||
           fail("holds more than " + std::to_string(kMaxJsonValues) +
                " values");
  }
  ordered_json *place(ordered_json value) {
    if (open.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto *array = open.back()->get_ptr<ordered_json::array_t *>())
      return &array->emplace_back(std::move(value));
    *slot = std::move(value);
    return slot;
  }
  bool add(ordered_json value) {
    if (!count())
      return false;
    place(std::move(value));
    return true;
  }
  bool enter(ordered_json value) {
    if (open.size() == size_t(kMaxJsonDepth))
      return fail("nests deeper than " + std::to_string(kMaxJsonDepth) +
                  " levels");
    if (!count())
      return false;
    open.push_back(place(std::move(value)));
    keys.emplace_back();
    return true;
  }

  std::vector<ordered_json *> open;
  std::vector<std::set<std::string>> keys;
  ordered_json *slot = nullptr;
  int64_t values = 0;
};

} // namespace

Result<ordered_json> octet::parseOrderedJson(std::string_view text,
                                             const std::string &subject) {
  if (text.size() > size_t(kMaxJsonBytes))
    return inputError(
        subject, "is " + std::to_string(text.size()) + " bytes; JSON over " +
                     std::to_string(kMaxJsonBytes) + " bytes is not read");
  if (size_t at = text.find('\0'); at != text.npos)
    return inputError(subject, "is not JSON: a zero byte at offset " +
                                   std::to_string(at));
  OrderedBuilder builder(subject);
  if (!ordered_json::sax_parse(text.data(), text.data() + text.size(),
                               &builder))
    return std::move(builder.error);
  return std::move(builder.root);
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
  OCTET_TRY(Interpreter(subject, options.now).run(body, scope, out));
  return out;
}
