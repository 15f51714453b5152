//===- TokenizerFile.h - The large parts of tokenizer.json ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. `model.vocab` and `model.merges` are all but a few
// kilobytes of a tokenizer.json of up to 30 MB. They are read here, without a
// tree, because it happens at each start of an executable; the rest goes
// through parseJson, which also says what is wrong with text that this reader
// leaves alone.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TOKENIZERFILE_H
#define OCTET_LIB_TEXT_TOKENIZERFILE_H

#include "Vocabulary.h"
#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet::text {

struct TokenizerFile {
  /// All of the file, with `model.vocab` and `model.merges` null if they were
  /// read here.
  nlohmann::json rest;
  bool hasVocab = false, hasMerges = false;
  Vocabulary vocab;
  /// Pairs of texts by rank; they point into the file's text or into
  /// `unescaped`.
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  std::vector<std::unique_ptr<std::string>> unescaped;
};

/// \param text  must outlive the result.
Result<TokenizerFile> readTokenizerFile(std::string_view text,
                                        const std::string &subject);

} // namespace octet::text

#endif // OCTET_LIB_TEXT_TOKENIZERFILE_H
