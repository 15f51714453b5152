//===- Status.h - Errors as values ------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every fallible function outside MLIR returns a Status or a Result<T>. The
// fields are those of a diagnostic (`error: SUBJECT: what is wrong; what would
// be right [RULE]`), so that a Status and an MLIR diagnostic read the same.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_STATUS_H
#define OCTET_SUPPORT_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace octet {

/// Who has to act. The value is the exit status of every tool (SPEC section 6):
/// a user can tell their input, their command line and our bug apart.
enum class ErrorKind {
  Input = 1,    ///< the input is wrong or cannot run
  Usage = 2,    ///< the command line is wrong
  Internal = 3, ///< our own fault
  Machine = 4,  ///< disk full, no memory, cannot open; exits with status 1
};

/// One error, with the subject (a module path, file or option), the text, the
/// rule it breaks (may be empty) and notes that walk to the cause.
struct [[nodiscard]] ErrorInfo {
  ErrorKind kind = ErrorKind::Input;
  std::string subject;
  std::string message;
  std::string rule;
  std::vector<std::string> notes;

  /// `error: SUBJECT: MESSAGE [RULE]`, then a line `note:  …` for each note,
  /// each ended by a newline.
  std::string format() const;
  /// The exit status of a process that ends with this error: 1, 2 or 3.
  int exitCode() const { return kind == ErrorKind::Machine ? 1 : int(kind); }
};

/// Success or one error. Never ignored (`[[nodiscard]]`).
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(ErrorInfo info) : error(std::move(info)) {}
  static Status success() { return {}; }

  bool ok() const { return !error.has_value(); }
  explicit operator bool() const { return ok(); }
  const ErrorInfo &info() const {
    assert(error && "no error to look at");
    return *error;
  }
  ErrorInfo takeInfo() {
    assert(error && "no error to take");
    return std::move(*error);
  }
  /// Adds a note to an error; does nothing on success.
  Status &note(std::string text) & {
    if (error)
      error->notes.push_back(std::move(text));
    return *this;
  }
  Status &&note(std::string text) && {
    return std::move(this->note(std::move(text)));
  }

private:
  std::optional<ErrorInfo> error;
};

/// An error of the user's input. `rule` is a number of SPEC.md or empty.
Status inputError(std::string subject, std::string message,
                  std::string rule = "");
/// A wrong command line (exit status 2).
Status usageError(std::string subject, std::string message);
/// An error of the machine: the operating system's text belongs in `message`.
Status machineError(std::string subject, std::string message);
/// A bug of ours; the text starts with "internal error".
Status internalError(std::string subject, std::string message);

/// A value or one error.
template <typename T>
class [[nodiscard]] Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Status status) : error(std::move(status)) {
    assert(!error.ok() && "a Result without value needs an error");
  }
  Result(ErrorInfo info) : error(Status(std::move(info))) {}

  bool ok() const { return value.has_value(); }
  explicit operator bool() const { return ok(); }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }
  T take() { return std::move(*value); }
  const Status &status() const { return error; }
  Status takeStatus() { return std::move(error); }

private:
  std::optional<T> value;
  Status error;
};

/// Returns from the enclosing function if the expression is an error.
#define OCTET_TRY(expr)                                                        \
  do {                                                                         \
    if (::octet::Status octetStatus = (expr); !octetStatus.ok())               \
      return octetStatus;                                                      \
  } while (false)

/// `OCTET_TRY_ASSIGN(T x, expr)`: x gets the value of a Result or the
/// enclosing function returns its error.
#define OCTET_CONCAT_IMPL(a, b) a##b
#define OCTET_CONCAT(a, b) OCTET_CONCAT_IMPL(a, b)
#define OCTET_TRY_ASSIGN_IMPL(tmp, decl, expr)                                 \
  auto tmp = (expr);                                                           \
  if (!tmp.ok())                                                               \
    return tmp.takeStatus();                                                   \
  decl = tmp.take()
#define OCTET_TRY_ASSIGN(decl, expr)                                           \
  OCTET_TRY_ASSIGN_IMPL(OCTET_CONCAT(octetResult, __LINE__), decl, expr)

} // namespace octet

#endif // OCTET_SUPPORT_STATUS_H
