//===- Error.cpp - Errors of octet.h --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Guard.h"
#include "runtime/api/Handles.h"
#include <cstdlib>
#include <new>
#include <system_error>

using namespace octet;
using namespace octet::rt;

static_assert(OCTET_ERROR_INPUT == int(ErrorKind::Input) &&
              OCTET_ERROR_USAGE == int(ErrorKind::Usage) &&
              OCTET_ERROR_INTERNAL == int(ErrorKind::Internal) &&
              OCTET_ERROR_MACHINE == int(ErrorKind::Machine));

octet_status rt::fail(octet_error **error, ErrorInfo info) noexcept {
  const octet_status status = octet_status(info.kind);
  if (!error)
    return status;
  try {
    std::string text = info.format();
    *error = new octet_error{std::move(info), status, std::move(text)};
  } catch (...) {
    *error = nullptr; // No memory to say it with.
  }
  return status;
}

octet_status rt::failCaught(octet_error **error) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc &) {
      return fail(error,
                  machineError("memory", "not enough to go on").takeInfo());
    } catch (const std::system_error &caught) {
      // What std::thread throws.
      if (caught.code() == std::errc::resource_unavailable_try_again)
        return fail(
            error, machineError("threads", std::string("cannot be started: ") +
                                               caught.what() +
                                               "; fewer of them may work, or a "
                                               "higher limit (ulimit -u)")
                       .takeInfo());
      return fail(error,
                  machineError("this machine", caught.what()).takeInfo());
    } catch (const std::exception &caught) {
      return fail(error, internalError("octet", caught.what()).takeInfo());
    }
  } catch (...) {
    return OCTET_ERROR_MACHINE; // No memory even for the text.
  }
}

Status rt::notNull(const char *function,
                   std::initializer_list<Argument> arguments) {
  for (const Argument &argument : arguments)
    if (!argument.value)
      return usageError(function,
                        std::string("'") + argument.name + "' is NULL");
  return Status::success();
}

void rt::give(std::string_view text, char **out, size_t *bytes) {
  char *copy = static_cast<char *>(std::malloc(text.size() + 1));
  if (!copy)
    throw std::bad_alloc();
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  *out = copy;
  *bytes = text.size();
}

//===----------------------------------------------------------------------===//
// octet.h
//===----------------------------------------------------------------------===//

int32_t octet_api_version(void) { return OCTET_API_VERSION; }

const char *octet_version(void) { return OCTET_VERSION; }

octet_status octet_error_status(const octet_error *error) {
  return error ? error->status : octet_status(OCTET_OK);
}

const char *octet_error_text(const octet_error *error) {
  return error ? error->text.c_str() : "";
}

const char *octet_error_subject(const octet_error *error) {
  return error ? error->info.subject.c_str() : "";
}

const char *octet_error_message(const octet_error *error) {
  return error ? error->info.message.c_str() : "";
}

const char *octet_error_rule(const octet_error *error) {
  return error ? error->info.rule.c_str() : "";
}

size_t octet_error_notes(const octet_error *error) {
  return error ? error->info.notes.size() : 0;
}

const char *octet_error_note(const octet_error *error, size_t index) {
  return index < octet_error_notes(error) ? error->info.notes[index].c_str()
                                          : "";
}

void octet_error_free(octet_error *error) { delete error; }

void octet_free(void *memory) { std::free(memory); }
