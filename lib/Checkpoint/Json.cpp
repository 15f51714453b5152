//===- Json.cpp - JSON of a hostile text ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/JsonSax.h"
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

Status detail::checkJsonSize(int64_t bytes, const std::string &subject) {
  if (bytes <= kMaxJsonBytes)
    return Status::success();
  return inputError(subject,
                    "is " + std::to_string(bytes) + " bytes; JSON over " +
                        std::to_string(kMaxJsonBytes) + " bytes is not read");
}

Result<json> octet::parseJson(std::string_view text,
                              const std::string &subject) {
  return detail::parseJsonTree<json>(text, subject);
}

Result<json> octet::readJsonFile(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  OCTET_TRY(detail::checkJsonSize(file.size(), escapePath(path)));
  std::string text(file.size(), '\0');
  OCTET_TRY(file.read(0, text));
  return parseJson(text, escapePath(path));
}

std::string octet::dumpJson(const json &value) {
  return value.dump(/*indent=*/-1, /*indent_char=*/' ', /*ensure_ascii=*/false,
                    json::error_handler_t::replace);
}
