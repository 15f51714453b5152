//===- JsonFields.h - Plain structs to JSON and back ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A struct says its fields once, by a function `visitFields(visit, value)`
// beside it; writing and reading follow. Every field has to be there.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_JSONFIELDS_H
#define OCTET_CUDASOURCE_JSONFIELDS_H

#include <nlohmann/json.hpp>
#include <string>

namespace octet::cuda {

template <typename T>
concept HasFields = requires(T &value) {
  visitFields([](const char *, const auto &) {}, value);
};
template <typename T>
concept IsList = requires(T &value) {
  value.begin();
  value.size();
} && !std::is_same_v<std::remove_const_t<T>, std::string>;

/// `T` or `const T`, for the parameter of a visitFields.
template <typename T, typename Struct>
concept Is = std::is_same_v<std::remove_const_t<T>, Struct>;

template <typename T>
nlohmann::json writeJson(const T &value) {
  if constexpr (HasFields<const T>) {
    nlohmann::json object = nlohmann::json::object();
    visitFields([&](const char *name,
                    const auto &field) { object[name] = writeJson(field); },
                value);
    return object;
  } else if constexpr (IsList<const T>) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto &item : value)
      list.push_back(writeJson(item));
    return list;
  } else {
    return value;
  }
}

/// \returns the path of the first field that is not as it should be, or "".
template <typename T>
std::string readJson(const nlohmann::json &from, T &value,
                     const std::string &path = "") {
  if constexpr (HasFields<T>) {
    if (!from.is_object())
      return path;
    std::string bad;
    visitFields(
        [&](const char *name, auto &field) {
          if (!bad.empty())
            return;
          std::string inner = path.empty() ? name : path + "." + name;
          auto found = from.find(name);
          bad = found == from.end() ? inner : readJson(*found, field, inner);
        },
        value);
    return bad;
  } else if constexpr (IsList<T>) {
    if (!from.is_array())
      return path;
    if constexpr (requires { value.resize(size_t()); })
      value.resize(from.size());
    else if (value.size() != from.size())
      return path;
    for (size_t i = 0; i < from.size(); ++i)
      if (std::string bad =
              readJson(from[i], value[i], path + "[" + std::to_string(i) + "]");
          !bad.empty())
        return bad;
    return "";
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string())
      return path;
    value = from.get<std::string>();
    return "";
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean())
      return path;
    value = from.get<bool>();
    return "";
  } else {
    if (!from.is_number_integer())
      return path;
    const int64_t wide = from.get<int64_t>();
    value = T(wide);
    return int64_t(value) == wide ? "" : path;
  }
}

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_JSONFIELDS_H
