//===- JsonSax.h - Events of a hostile JSON text ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the readers of JSON share: nlohmann's parser calls a handler for each
// token and keeps no recursion of its own, so that a handler can stop it early,
// and a header of 100 MB never becomes a tree. Users of trees call parseJson
// (Checkpoint.h) or parseOrderedJson (ChatTemplate.h).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CHECKPOINT_JSONSAX_H
#define OCTET_CHECKPOINT_JSONSAX_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace octet::detail {

/// Keeps the first error. A handler derives from it and adds nlohmann's events.
class JsonHandler {
public:
  explicit JsonHandler(std::string subject) : subject(std::move(subject)) {}

  /// An event of nlohmann's interface: the text is not JSON.
  bool parse_error(size_t position, const std::string &token,
                   const nlohmann::detail::exception &exception);
  /// Only binary formats have it.
  bool binary(nlohmann::json::binary_t &) { return fail("holds binary data"); }

  /// Records an error; false, which stops the parser.
  bool fail(std::string message);
  Status takeError() { return std::move(error); }

  const std::string subject;

private:
  Status error;
};

/// "a zero byte at offset 12": nlohmann takes a zero byte for the end.
Status refuseZeroByte(std::string_view text, const std::string &subject);

/// Calls `handler` for each token. \tparam Json  whose parser it is.
template <typename Json = nlohmann::json, typename Handler>
Status parseJsonEvents(std::string_view text, Handler &handler) {
  OCTET_TRY(refuseZeroByte(text, handler.subject));
  if (Json::sax_parse(text.data(), text.data() + text.size(), &handler))
    return Status::success();
  return handler.takeError();
}

/// An error if a document of so many bytes is not read.
Status checkJsonSize(int64_t bytes, const std::string &subject);

/// Objects of this name are rules of which the first that matches counts
/// (gptq). nlohmann::json sorts keys, so their order is kept in an array beside
/// the object, under its name and `_order`.
inline constexpr std::string_view kOrderedRules = "dynamic";
inline constexpr std::string_view kRuleOrder = "dynamic_order";

/// Builds a tree, with the bounds of parseJson.
/// \tparam Json  nlohmann::json or nlohmann::ordered_json. The latter is for
/// those who print what they read: an integer beyond 64 bits is an error, where
/// the former makes a double of it.
template <typename Json>
class JsonTreeBuilder : public JsonHandler {
public:
  using JsonHandler::JsonHandler;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string &text) {
    if (kIsOrdered && text.find_first_of(".eE") == text.npos)
      return fail("the integer " + escapeName(text) + " does not fit 64 bits");
    return add(value);
  }
  bool string(std::string &value) { return add(std::move(value)); }
  bool start_object(size_t) { return enter(Json::object()); }
  bool end_object() { return leave(); }
  bool start_array(size_t) { return enter(Json::array()); }
  bool end_array() { return leave(); }

  bool key(std::string &name) {
    if (!count())
      return false;
    if constexpr (!kIsOrdered) {
      if (!rules.empty() && rules.back().depth == open.size())
        rules.back().names.push_back(name);
      isRules = name == kOrderedRules;
    }
    slot = insert(name);
    return slot ||
           fail("has the key " + quoteName(name) + " twice in one object");
  }

  Json root;

private:
  static constexpr bool kIsOrdered =
      std::is_same_v<Json, nlohmann::ordered_json>;

  /// The place of a new key; null if it is there.
  Json *insert(const std::string &name) {
    auto &object = *open.back()->template get_ptr<typename Json::object_t *>();
    if constexpr (kIsOrdered) {
      if (!keys.back().insert(name).second)
        return nullptr;
      // As a vector: ordered_map's own insertion searches all keys.
      auto &entries = static_cast<typename Json::object_t::Container &>(object);
      entries.emplace_back(name, nullptr);
      return &entries.back().second;
    } else {
      auto [entry, isNew] = object.try_emplace(name);
      return isNew ? &entry->second : nullptr;
    }
  }

  bool count() {
    return ++values <= kMaxJsonValues ||
           fail("holds more than " + std::to_string(kMaxJsonValues) +
                " values");
  }

  /// Where the next value goes. The children of an array move when it grows,
  /// but only while none of them is open.
  Json *place(Json value) {
    if (open.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto *array = open.back()->template get_ptr<typename Json::array_t *>())
      return &array->emplace_back(std::move(value));
    *slot = std::move(value);
    return slot;
  }

  bool add(Json value) {
    if (!count())
      return false;
    place(std::move(value));
    return true;
  }

  bool enter(Json value) {
    if (open.size() == size_t(kMaxJsonDepth))
      return fail("nests deeper than " + std::to_string(kMaxJsonDepth) +
                  " levels");
    if (!count())
      return false;
    const bool keepsOrder = isRules && value.is_object() && !open.empty() &&
                            open.back()->is_object();
    isRules = false;
    open.push_back(place(std::move(value)));
    if constexpr (kIsOrdered)
      keys.emplace_back();
    else if (keepsOrder)
      rules.push_back({open.size(), Json::array()});
    return true;
  }

  bool leave() {
    if constexpr (kIsOrdered) {
      keys.pop_back();
    } else if (!rules.empty() && rules.back().depth == open.size()) {
      // What the file itself calls so stays.
      Json &parent = *open[open.size() - 2];
      parent.template get_ptr<typename Json::object_t *>()->try_emplace(
          std::string(kRuleOrder), std::move(rules.back().names));
      rules.pop_back();
    }
    open.pop_back();
    return true;
  }

  std::vector<Json *> open; ///< from the root to the innermost open value
  std::vector<std::set<std::string>> keys; ///< of each, if ordered
  Json *slot = nullptr;                    ///< the value of the last key
  struct Rules {
    size_t depth; ///< of the open object, in `open`
    Json names;
  };
  std::vector<Rules> rules; ///< the open ones of kOrderedRules
  bool isRules = false;     ///< the last key is that
  int64_t values = 0;
};

template <typename Json>
Result<Json> parseJsonTree(std::string_view text, const std::string &subject) {
  OCTET_TRY(checkJsonSize(int64_t(text.size()), subject));
  JsonTreeBuilder<Json> builder(subject);
  OCTET_TRY(parseJsonEvents<Json>(text, builder));
  return std::move(builder.root);
}

} // namespace octet::detail

#endif // OCTET_CHECKPOINT_JSONSAX_H
