//===- FuzzGguf.cpp - A GGUF file -----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: the file. Read as a table, as a checkpoint (names, config, W16), for
// its tokenizer and chat template, and its blocks unpacked.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "octet/Checkpoint/Gguf.h"
#include "octet/Quantize/GgufTokenizerFiles.h"
#include "octet/Text/ChatTemplate.h"
#include "octet/Text/Tokenizer.h"

using namespace octet;
using namespace octet::fuzz;

static void readTokenizer(const GgufMetadata &metadata) {
  Result<std::optional<GgufTokenizer>> tokenizer = readGgufTokenizer(metadata);
  if (!tokenizer)
    return requireGoodError(tokenizer.status());
  Result<std::optional<TokenizerFiles>> files = makeTokenizerFiles(metadata);
  if (!files)
    return requireGoodError(files.status());
  require(files->has_value() == tokenizer->has_value(),
          "a tokenizer makes files");
  if (!*files)
    return;
  require(parseJson((*files)->tokenizerConfig, "tokenizer_config.json").ok(),
          "tokenizer_config.json is JSON", (*files)->tokenizerConfig);
  Result<Tokenizer> read =
      Tokenizer::fromJson((*files)->tokenizer, "tokenizer.json");
  if (!read)
    return requireGoodError(read.status());
  Result<std::vector<int32_t>> ids = read->encode("Hello, wörld 1234\n");
  if (!ids)
    return requireGoodError(ids.status());
  for (int32_t id : *ids)
    require(id >= 0 && size_t(id) < (*tokenizer)->tokens.size(),
            "an id is one of the file's tokens");
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string path = writeInput("input.gguf", toText(data, size));
  Result<GgufFile> file = readGguf(path);
  if (!file) {
    requireGoodError(file.status());
    return 0;
  }
  requireGoodTable(file->tensors);
  readTensors(file->tensors);
  readTokenizer(*file->metadata);

  Result<Checkpoint> checkpoint = openCheckpoint(path);
  if (!checkpoint) {
    requireGoodError(checkpoint.status());
    return 0;
  }
  require(checkpoint->gguf && checkpoint->config.is_object() &&
              checkpoint->config.contains("architectures"),
          "a GGUF file has a config");
  requireGoodTable(checkpoint->tensors);
  readTensors(checkpoint->tensors);
  require(parseJson(dumpJson(checkpoint->config), "config").ok(),
          "the config is JSON", dumpJson(checkpoint->config));
  Result<std::optional<ChatTemplate>> chat = readChatTemplate(*checkpoint);
  if (!chat) {
    requireGoodError(chat.status());
  } else if (*chat) {
    Result<ChatTemplate> again =
        parseChatTemplate(writeChatTemplate(**chat), "section");
    require(again.ok() && again->templates == (*chat)->templates &&
                again->tokens == (*chat)->tokens,
            "a chat template comes back from its section");
  }
  return 0;
}
