//===- GgufTokenizerFiles.h - The tokenizer of a GGUF file ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTIZE_GGUFTOKENIZERFILES_H
#define OCTET_QUANTIZE_GGUFTOKENIZERFILES_H

#include "octet/Checkpoint/Gguf.h"

namespace octet {

/// The files that a folder has for a tokenizer.
struct TokenizerFiles {
  std::string tokenizer;       ///< tokenizer.json
  std::string tokenizerConfig; ///< tokenizer_config.json: special tokens, chat
                               ///< template
};

/// Makes them from the metadata of a GGUF file.
/// \returns nothing if it has no tokens; an input error that names the key.
Result<std::optional<TokenizerFiles>>
makeTokenizerFiles(const GgufMetadata &metadata);

} // namespace octet

#endif // OCTET_QUANTIZE_GGUFTOKENIZERFILES_H
