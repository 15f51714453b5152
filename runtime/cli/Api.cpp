//===- Api.cpp - octet.h for the command line -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Api.h"

using namespace octet;
using namespace octet::rt;

Status rt::takeError(octet_error *error, octet_status status) {
  ErrorInfo info;
  // Pages that lack are the machine's to anybody but a scheduler.
  info.kind =
      status == OCTET_ERROR_PAGES ? ErrorKind::Machine : ErrorKind(status);
  info.subject = error ? octet_error_subject(error) : "memory";
  info.message = error ? octet_error_message(error) : "not enough to go on";
  info.rule = octet_error_rule(error);
  for (size_t i = 0; i < octet_error_notes(error); ++i)
    info.notes.push_back(octet_error_note(error, i));
  octet_error_free(error);
  return info;
}

Result<std::vector<int32_t>> rt::encode(const octet_tokenizer *tokenizer,
                                        std::string_view text,
                                        bool addSpecial) {
  int32_t *ids = nullptr;
  size_t count = 0;
  OCTET_TRY(call(octet_tokenizer_encode, tokenizer,
                 text.empty() ? "" : text.data(), text.size(),
                 int32_t(addSpecial), &ids, &count));
  std::vector<int32_t> copy(ids, ids + count);
  octet_free(ids);
  return copy;
}

std::string_view rt::tokenOf(const octet_tokenizer *tokenizer, int64_t id) {
  size_t bytes = 0;
  const char *token = octet_tokenizer_token(tokenizer, id, &bytes);
  return token ? std::string_view(token, bytes) : std::string_view();
}

Status rt::about(Status status, const std::string &subject) {
  if (status.ok())
    return status;
  ErrorInfo info = status.takeInfo();
  info.subject = subject;
  return info;
}
