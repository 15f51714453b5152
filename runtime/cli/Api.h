//===- Api.h - octet.h for the command line ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Statuses and owners in the manner of the rest of the tree.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_API_H
#define OCTET_RUNTIME_CLI_API_H

#include "octet/Support/Status.h"
#include "octet/octet.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet::rt {

struct FreeHandle {
  void operator()(octet_file *file) const { octet_file_close(file); }
  void operator()(octet_model *model) const { octet_model_free(model); }
  void operator()(octet_seq *seq) const { octet_seq_free(seq); }
  void operator()(octet_tokenizer *tokenizer) const {
    octet_tokenizer_free(tokenizer);
  }
  void operator()(octet_decoder *decoder) const { octet_decoder_free(decoder); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, FreeHandle>;

/// The error of a call that failed, which is freed.
Status takeError(octet_error *error, octet_status status);

/// Calls a function of octet.h with all arguments but the last.
template <typename Function, typename... Arguments>
Status call(Function function, Arguments... arguments) {
  octet_error *error = nullptr;
  const octet_status status = function(arguments..., &error);
  return status == OCTET_OK ? Status::success() : takeError(error, status);
}

/// As `call`, of a function that gives a handle in the argument before.
template <typename Handle, typename Function, typename... Arguments>
Result<Owned<Handle>> make(Function function, Arguments... arguments) {
  Handle *handle = nullptr;
  OCTET_TRY(call(function, arguments..., &handle));
  return Owned<Handle>(handle);
}

/// As `call`, of a function that gives text in the two arguments before.
template <typename Function, typename... Arguments>
Result<std::string> callText(Function function, Arguments... arguments) {
  char *text = nullptr;
  size_t bytes = 0;
  OCTET_TRY(call(function, arguments..., &text, &bytes));
  std::string copy(text, bytes);
  octet_free(text);
  return copy;
}

Result<std::vector<int32_t>> encode(const octet_tokenizer *tokenizer,
                                    std::string_view text,
                                    bool addSpecial = true);
/// The token as the vocabulary spells it; "" if there is none.
std::string_view tokenOf(const octet_tokenizer *tokenizer, int64_t id);

/// An error's subject becomes what the user gave: an option, a file.
Status about(Status status, const std::string &subject);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_API_H
