//===- ConfigReader.cpp - Typed access to config.json ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "octet/Support/Escape.h"
#include <cmath>

using namespace octet;

const nlohmann::json *ConfigReader::find(std::string_view key) {
  known.emplace(key);
  auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status ConfigReader::error(std::string_view key, std::string message,
                           std::string rule) const {
  return inputError(subject, std::string(key) + " " + std::move(message),
                    std::move(rule));
}

std::string ConfigReader::describe(std::string_view key) const {
  auto found = object.find(key);
  if (found == object.end())
    return std::string(key) + " is absent";
  return std::string(key) + " is " + describeJson(*found);
}

Result<std::optional<int64_t>> ConfigReader::findSize(std::string_view key) {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::optional<int64_t>();
  std::optional<int64_t> size = toInteger(*value);
  if (!size || *size < 1 || *size > kMaxSize)
    return inputError(subject,
                      describe(key) + "; expected an integer from 1 to " +
                          std::to_string(kMaxSize),
                      "C15");
  return size;
}

Result<int64_t> ConfigReader::getSize(std::string_view key) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> value, findSize(key));
  if (!value)
    return inputError(subject,
                      "has no " + std::string(key) +
                          "; expected an integer from 1 to " +
                          std::to_string(kMaxSize),
                      "C15");
  return *value;
}

Result<std::optional<double>> ConfigReader::findPositive(std::string_view key) {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::optional<double>();
  double number = value->is_number() ? value->get<double>() : 0;
  if (!std::isfinite(number) || number <= 0)
    return inputError(
        subject, describe(key) + "; expected a finite number greater than 0",
        "C15");
  return std::optional(number);
}

Result<bool> ConfigReader::getFlag(std::string_view key, bool fallback) {
  const nlohmann::json *value = find(key);
  if (!value)
    return fallback;
  if (!value->is_boolean())
    return inputError(subject, describe(key) + "; expected true or false",
                      "C15");
  return value->get<bool>();
}

Result<std::optional<std::string>>
ConfigReader::findString(std::string_view key) {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::optional<std::string>();
  if (!value->is_string())
    return inputError(subject, describe(key) + "; expected a string", "C15");
  return std::optional(value->get<std::string>());
}

Result<std::optional<ConfigReader>>
ConfigReader::findObject(std::string_view key) {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::optional<ConfigReader>();
  if (!value->is_object())
    return inputError(subject, describe(key) + "; expected an object", "C15");
  return std::optional(ConfigReader(*value, subject + ": " + std::string(key)));
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys)
    known.emplace(key);
}

void ConfigReader::reportUnknown(std::vector<std::string> &warnings) const {
  for (const auto &[key, value] : object.items()) {
    // Nothing is switched on by `null`, `false` or an empty list.
    if (known.count(key) || value.is_null() || value == false ||
        ((value.is_array() || value.is_object()) && value.empty()))
      continue;
    warnings.push_back(subject + ": unknown key " + quoteName(key) +
                       " with value " + describeJson(value) +
                       " is not used; it could change results [C15]");
  }
}
