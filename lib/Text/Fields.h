//===- Fields.h - Fields of a component -------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. Reading the objects of tokenizer.json: a field of the
// wrong type is an error that names it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_FIELDS_H
#define OCTET_LIB_TEXT_FIELDS_H

#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace octet::text {

/// The value of `key`; null if it is absent or null.
const nlohmann::json *field(const nlohmann::json &object, const char *key);

Result<std::string> stringField(const nlohmann::json &object, const char *key,
                                const std::string &where,
                                std::optional<std::string> otherwise = {});
Result<bool> boolField(const nlohmann::json &object, const char *key,
                       const std::string &where,
                       std::optional<bool> otherwise = {});
Result<int64_t> intField(const nlohmann::json &object, const char *key,
                         const std::string &where,
                         std::optional<int64_t> otherwise = {});
/// A string that is one character.
Result<std::string> charField(const nlohmann::json &object, const char *key,
                              const std::string &where,
                              std::optional<std::string> otherwise = {});
/// A list; an absent one is an error.
Result<const nlohmann::json *> listField(const nlohmann::json &object,
                                         const char *key,
                                         const std::string &where);

/// Steps that one component may be in all.
inline constexpr size_t kMaxComponents = 256;
/// A component of one step, and its `type`.
struct Component {
  const nlohmann::json *fields;
  std::string type;
};
/// The steps of a component in their order: itself, or those of a Sequence and
/// of Sequences in it.
/// \param list  the key of a Sequence's list.
/// \returns an input error for what is no object with a type, and for more
/// than kMaxComponents steps.
Result<std::vector<Component>> readComponents(const nlohmann::json &component,
                                              const char *list,
                                              const std::string &where);
/// "normalizer of type 'Nmt' is not supported; there are …".
Status unsupportedType(const std::string &where, const std::string &type,
                       const char *known);

} // namespace octet::text

#endif // OCTET_LIB_TEXT_FIELDS_H
