//===- Fields.cpp - Fields of a component ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"

using namespace octet;
using namespace octet::text;
using nlohmann::json;

const json *text::field(const json &object, const char *key) {
  if (!object.is_object())
    return nullptr;
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

static Status wrongField(const std::string &where, const char *key,
                         const json *value, const char *expected) {
  return inputError(where, "field '" + std::string(key) + "' is " +
                               (value ? escapeName(dumpJson(*value))
                                      : std::string("missing")) +
                               "; expected " + expected);
}

Result<std::string> text::stringField(const json &object, const char *key,
                                      const std::string &where,
                                      std::optional<std::string> otherwise) {
  const json *value = field(object, key);
  if (!value && otherwise)
    return std::move(*otherwise);
  if (!value || !value->is_string())
    return wrongField(where, key, value, "a string");
  return value->get<std::string>();
}

Result<bool> text::boolField(const json &object, const char *key,
                             const std::string &where,
                             std::optional<bool> otherwise) {
  const json *value = field(object, key);
  if (!value && otherwise)
    return *otherwise;
  if (!value || !value->is_boolean())
    return wrongField(where, key, value, "true or false");
  return value->get<bool>();
}

Result<int64_t> text::intField(const json &object, const char *key,
                               const std::string &where,
                               std::optional<int64_t> otherwise) {
  const json *value = field(object, key);
  if (!value && otherwise)
    return *otherwise;
  if (!value || !value->is_number_integer() ||
      (value->is_number_unsigned() &&
       value->get<uint64_t>() > uint64_t(INT64_MAX)))
    return wrongField(where, key, value, "an integer");
  return value->get<int64_t>();
}

Result<std::string> text::charField(const json &object, const char *key,
                                    const std::string &where,
                                    std::optional<std::string> otherwise) {
  OCTET_TRY_ASSIGN(std::string value,
                   stringField(object, key, where, std::move(otherwise)));
  if (value.empty() || utf8Length(value) != int(value.size()))
    return wrongField(where, key, field(object, key), "one character");
  return value;
}

Result<const json *> text::listField(const json &object, const char *key,
                                     const std::string &where) {
  const json *value = field(object, key);
  if (!value || !value->is_array())
    return wrongField(where, key, value, "a list");
  return value;
}

static Status addComponents(const json &component, const char *list,
                            const std::string &where,
                            std::vector<Component> &out) {
  if (!component.is_object())
    return inputError(where, "is " + escapeName(dumpJson(component)) +
                                 "; expected an object with a 'type'");
  OCTET_TRY_ASSIGN(std::string type, stringField(component, "type", where));
  if (type == "Sequence") {
    OCTET_TRY_ASSIGN(const json *entries, listField(component, list, where));
    for (const json &entry : *entries)
      OCTET_TRY(addComponents(entry, list, where, out));
    return Status::success();
  }
  if (out.size() == kMaxComponents)
    return inputError(where, "has more than " + std::to_string(kMaxComponents) +
                                 " steps");
  out.push_back({&component, std::move(type)});
  return Status::success();
}

Result<std::vector<Component>> text::readComponents(const json &component,
                                                    const char *list,
                                                    const std::string &where) {
  std::vector<Component> out;
  OCTET_TRY(addComponents(component, list, where, out));
  return out;
}

Status text::unsupportedType(const std::string &where, const std::string &type,
                             const char *known) {
  return inputError(where, "type " + quoteName(type) +
                               " is not supported; there are " + known);
}
