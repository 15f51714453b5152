//===- Guard.h - Between C and C++ ------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every function of octet.h does: arguments are looked at, a Status
// becomes an octet_status and an octet_error, and nothing is thrown through C
// (our code throws nothing, but the C++ library does where memory ends).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_API_GUARD_H
#define OCTET_RUNTIME_API_GUARD_H

#include "octet/Support/Status.h"
#include "octet/octet.h"
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace octet::rt {

/// Makes `*error` of an error. \returns its status.
octet_status fail(octet_error **error, ErrorInfo info) noexcept;
/// As `fail`, of the exception that is being handled.
octet_status failCaught(octet_error **error) noexcept;

/// Runs `body`, which returns a Status.
template <typename Body>
octet_status guard(octet_error **error, Body body) noexcept {
  if (error)
    *error = nullptr;
  try {
    Status status = body();
    return status.ok() ? octet_status(OCTET_OK)
                       : fail(error, status.takeInfo());
  } catch (...) {
    return failCaught(error);
  }
}

struct Argument {
  const char *name;
  const void *value;
};
/// \returns a usage error of `function` that names the first NULL.
Status notNull(const char *function, std::initializer_list<Argument> arguments);

/// Reads a struct of options that starts with its size: an older one is shorter
/// and the rest keeps its defaults, a newer one is longer and must not ask for
/// anything there.
/// \param given     NULL: the defaults.
/// \param least     size of the struct in the first version.
/// \param defaults  [in, out].
/// \returns a usage error of `function` with both sizes.
template <typename Options>
Status readOptions(const char *function, const Options *given, size_t least,
                   Options &defaults) {
  static_assert(std::is_trivially_copyable_v<Options>);
  if (!given)
    return Status::success();
  if (given->size < least || given->size > 4096)
    return usageError(
        function, "options of " + std::to_string(given->size) +
                      " bytes; octet.h has " + std::to_string(sizeof(Options)) +
                      ", and the _init function says so in 'size'");
  const char *bytes = reinterpret_cast<const char *>(given);
  for (size_t i = sizeof(Options); i < given->size; ++i)
    if (bytes[i])
      return usageError(function, "options of " + std::to_string(given->size) +
                                      " bytes that ask for something this "
                                      "library of " +
                                      std::to_string(sizeof(Options)) +
                                      " bytes does not know");
  const size_t known = std::min(given->size, sizeof(Options));
  std::memcpy(static_cast<void *>(&defaults), given, known);
  defaults.size = known;
  return Status::success();
}

/// Writes as much of `value` as a struct of `size` bytes has room for.
template <typename Struct>
void writeStruct(Struct *out, size_t size, Struct value) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  if (!out || size < sizeof(size_t))
    return;
  value.size = size;
  std::memset(static_cast<void *>(out), 0, size);
  std::memcpy(static_cast<void *>(out), &value, std::min(size, sizeof(Struct)));
}

/// `text` as memory that octet_free frees, ended by a NUL.
void give(std::string_view text, char **out, size_t *bytes);

} // namespace octet::rt

#endif // OCTET_RUNTIME_API_GUARD_H
