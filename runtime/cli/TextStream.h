//===- TextStream.h - The text of a completion as it comes ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_TEXTSTREAM_H
#define OCTET_RUNTIME_CLI_TEXTSTREAM_H

#include "runtime/cli/Api.h"
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet::rt {

/// Ends a text before the first of some strings. Text that may be the beginning
/// of one is held back until it is certain.
class StopFilter {
public:
  /// \param stops  not empty strings.
  explicit StopFilter(std::vector<std::string> stops)
      : stops(std::move(stops)) {}

  /// Appends what is certain to `out`.
  /// \returns true once a stop string has come; nothing follows then.
  bool push(std::string_view text, std::string &out);
  /// Appends what was held back.
  void finish(std::string &out);

private:
  std::vector<std::string> stops;
  std::string held;
  bool stopped = false;
};

/// Decodes the ids after a prompt. Special tokens give no text.
class TextStream {
public:
  /// \param prompt     decides whether the text begins with a space, say.
  TextStream(const octet_tokenizer *tokenizer, std::span<const int32_t> prompt,
             std::vector<std::string> stops);

  /// \returns true if a stop string has come.
  bool push(int32_t id);
  void finish();

  const std::string &text() const { return all; }
  /// The text since the last call.
  std::string_view takeFresh();

  /// An error of decoding, once.
  Status takeStatus() { return std::exchange(status, Status()); }

private:
  std::string_view decode(int32_t id);
  Owned<octet_decoder> decoder;
  Status status;
  StopFilter filter;
  std::string all;
  size_t taken = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_TEXTSTREAM_H
