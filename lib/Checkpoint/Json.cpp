//===- Json.cpp - JSON of a hostile text ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonSax.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"

using namespace octet;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// What all handlers share
//===----------------------------------------------------------------------===//

bool detail::JsonHandler::fail(std::string message) {
  if (error.ok())
    error = inputError(subject, std::move(message));
  return false;
}

bool detail::JsonHandler::parse_error(
    size_t position, const std::string &token,
    const nlohmann::detail::exception &exception) {
  // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1,
  // column 2: REASON; last read: 'TOKEN'; expected X"; TOKEN is text of the
  // file, as long as it likes. Its id for a number that overflows is 406.
  std::string_view text = exception.what();
  if (exception.id == 406)
    return fail("a number at byte " + std::to_string(position) +
                " is too large for a double");
  if (size_t at = text.find("parse error at "); at != text.npos)
    text.remove_prefix(at + std::string_view("parse error at ").size());
  text = text.substr(0, text.find("; last read: "));
  return fail("is not JSON: " + escapePath(text.substr(0, 200)));
}

Status detail::refuseZeroByte(std::string_view text,
                              const std::string &subject) {
  if (size_t at = text.find('\0'); at != text.npos)
    return inputError(subject, "is not JSON: a zero byte at offset " +
                                   std::to_string(at));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// A tree
//===----------------------------------------------------------------------===//

namespace {

/// Builds the tree, with the bounds of parseJson.
class TreeBuilder : public detail::JsonHandler {
public:
  using JsonHandler::JsonHandler;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string &) { return add(value); }
  bool string(std::string &value) { return add(std::move(value)); }
  bool start_object(size_t) { return enter(json::object()); }
  bool end_object() { return leave(); }
  bool start_array(size_t) { return enter(json::array()); }
  bool end_array() { return leave(); }

  bool key(std::string &name) {
    if (!count())
      return false;
    auto &object = *open.back()->get_ptr<json::object_t *>();
    auto [entry, isNew] = object.try_emplace(name);
    if (!isNew)
      return fail("has the key " + quoteName(name) + " twice in one object");
    slot = &entry->second;
    return true;
  }

  json root;

private:
  bool count() {
    if (++values <= kMaxJsonValues)
      return true;
    return fail("holds more than " + std::to_string(kMaxJsonValues) +
                " values");
  }

  /// Where the next value goes. The children of an array move when it grows,
  /// but only while none of them is open.
  json *place(json value) {
    if (open.empty()) {
      root = std::move(value);
      return &root;
    }
    if (auto *array = open.back()->get_ptr<json::array_t *>())
      return &array->emplace_back(std::move(value));
    *slot = std::move(value);
    return slot;
  }

  bool add(json value) {
    if (!count())
      return false;
    place(std::move(value));
    return true;
  }

  bool enter(json value) {
    if (open.size() == size_t(kMaxJsonDepth))
      return fail("nests deeper than " + std::to_string(kMaxJsonDepth) +
                  " levels");
    if (!count())
      return false;
    open.push_back(place(std::move(value)));
    return true;
  }

  bool leave() {
    open.pop_back();
    return true;
  }

  std::vector<json *> open; ///< from the root to the innermost open value
  json *slot = nullptr;     ///< the value of the last key
  int64_t values = 0;
};

} // namespace

static Status checkJsonSize(int64_t bytes, const std::string &subject) {
  if (bytes <= kMaxJsonBytes)
    return Status::success();
  return inputError(subject,
                    "is " + std::to_string(bytes) + " bytes; JSON over " +
                        std::to_string(kMaxJsonBytes) + " bytes is not read");
}

Result<json> octet::parseJson(std::string_view text,
                              const std::string &subject) {
  OCTET_TRY(checkJsonSize(text.size(), subject));
  TreeBuilder builder(subject);
  OCTET_TRY(detail::parseJsonEvents(text, builder));
  return std::move(builder.root);
}

Result<json> octet::readJsonFile(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  OCTET_TRY(checkJsonSize(file.size(), escapePath(path)));
  std::string text(file.size(), '\0');
  OCTET_TRY(file.read(0, text));
  return parseJson(text, escapePath(path));
}

std::string octet::dumpJson(const json &value) {
  return value.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                    json::error_handler_t::replace);
}
