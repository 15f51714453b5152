//===- ConfigReader.h - Typed access to config.json -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_CONFIGREADER_H
#define OCTET_LIB_IMPORT_CONFIGREADER_H

#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// Largest value of one size in a config: what int32 rows and columns allow.
inline constexpr int64_t kMaxSize = (int64_t(1) << 31) - 1;

/// Reads the keys of a JSON object from a file that may lie, and remembers
/// which were asked for. `null` counts as absent. Errors name the key, what it
/// is and what was expected.
class ConfigReader {
public:
  ConfigReader(const nlohmann::json &object, std::string subject)
      : object(object), subject(std::move(subject)) {}

  const std::string &getSubject() const { return subject; }
  /// The value, or null; counts as read.
  const nlohmann::json *find(std::string_view key);
  bool contains(std::string_view key) { return find(key) != nullptr; }
  /// The key is there and JSON null, which is not the same as absent.
  bool isNull(std::string_view key) const {
    auto found = object.find(key);
    return found != object.end() && found->is_null();
  }

  /// An integer of 1 .. kMaxSize. \returns an input error if it is absent.
  Result<int64_t> getSize(std::string_view key);
  /// The same, or nothing where the key is absent.
  Result<std::optional<int64_t>> findSize(std::string_view key);
  /// A finite number greater than 0, or nothing.
  Result<std::optional<double>> findPositive(std::string_view key);
  Result<bool> getFlag(std::string_view key, bool fallback);
  Result<std::optional<std::string>> findString(std::string_view key);
  Result<std::optional<ConfigReader>> findObject(std::string_view key);

  /// Keys that change no result.
  void ignore(std::initializer_list<std::string_view> keys);
  /// One line for each key that nobody asked for and that switches something
  /// on (C15).
  void reportUnknown(std::vector<std::string> &warnings) const;
  /// `SUBJECT: KEY is VALUE; expected …`.
  Status error(std::string_view key, std::string message,
               std::string rule = "C15") const;
  /// "KEY is VALUE", for messages.
  std::string describe(std::string_view key) const;

private:
  const nlohmann::json &object;
  std::string subject;
  std::set<std::string, std::less<>> known;
};

} // namespace octet

#endif // OCTET_LIB_IMPORT_CONFIGREADER_H
