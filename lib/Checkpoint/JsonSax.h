//===- JsonSax.h - Events of a hostile JSON text ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Checkpoint. What the readers of JSON share: nlohmann's parser
// calls a handler for each token and keeps no recursion of its own, so that a
// handler can stop it early, and a header of 100 MB never becomes a tree.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CHECKPOINT_JSONSAX_H
#define OCTET_LIB_CHECKPOINT_JSONSAX_H

#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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

template <typename Handler>
Status parseJsonEvents(std::string_view text, Handler &handler) {
  OCTET_TRY(refuseZeroByte(text, handler.subject));
  if (nlohmann::json::sax_parse(text.data(), text.data() + text.size(),
                                &handler))
    return Status::success();
  return handler.takeError();
}

} // namespace octet::detail

#endif // OCTET_LIB_CHECKPOINT_JSONSAX_H
