//===- Text.cpp - Tokenizers ----------------------------------------------===//
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

using namespace octet;
using namespace octet::rt;

static constexpr char kTokenizerSection[] = "tokenizer.json";

int32_t octet_file_has_tokenizer(const octet_file *file) {
  return file && file->payload.section(kTokenizerSection);
}

octet_status octet_tokenizer_create(const octet_file *file,
                                    octet_tokenizer **tokenizer,
                                    octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_tokenizer_create",
                      {{"file", file}, {"tokenizer", tokenizer}}));
    *tokenizer = nullptr;
    // Not its path: what lacks is no fault of that file.
    static constexpr char subject[] = "this program";
    auto bytes = file->payload.section(kTokenizerSection);
    if (!bytes)
      return inputError(subject,
                        "carries no tokenizer: what was compiled had none, or "
                        "one that is not supported; prompts can be given as "
                        "ids");
    OCTET_TRY_ASSIGN(
        Tokenizer parsed,
        Tokenizer::fromJson(
            {reinterpret_cast<const char *>(bytes->data()), bytes->size()},
            std::string(subject) + ": tokenizer.json"));
    *tokenizer = new octet_tokenizer{
        std::make_shared<const Tokenizer>(std::move(parsed))};
    return Status::success();
  });
}

void octet_tokenizer_free(octet_tokenizer *tokenizer) { delete tokenizer; }

int64_t octet_tokenizer_end(const octet_tokenizer *tokenizer) {
  return tokenizer ? tokenizer->tokenizer->end() : 0;
}

const char *octet_tokenizer_token(const octet_tokenizer *tokenizer, int64_t id,
                                  size_t *bytes) {
  if (bytes)
    *bytes = 0;
  if (!tokenizer)
    return nullptr;
  auto token = tokenizer->tokenizer->token(id);
  if (!token)
    return nullptr;
  if (bytes)
    *bytes = token->size();
  return token->data() ? token->data() : "";
}

int32_t octet_tokenizer_find(const octet_tokenizer *tokenizer,
                             const char *token, size_t bytes) {
  return tokenizer && token ? tokenizer->tokenizer->find({token, bytes}) : -1;
}

int32_t octet_tokenizer_is_special(const octet_tokenizer *tokenizer,
                                   int64_t id) {
  return tokenizer && tokenizer->tokenizer->isSpecial(id);
}

size_t octet_tokenizer_warnings(const octet_tokenizer *tokenizer) {
  return tokenizer ? tokenizer->tokenizer->warnings().size() : 0;
}

const char *octet_tokenizer_warning(const octet_tokenizer *tokenizer,
                                    size_t index) {
  return index < octet_tokenizer_warnings(tokenizer)
             ? tokenizer->tokenizer->warnings()[index].c_str()
             : "";
}

octet_status octet_tokenizer_encode(const octet_tokenizer *tokenizer,
                                    const char *text, size_t bytes,
                                    int32_t add_special, int32_t **ids,
                                    size_t *count, octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_tokenizer_encode", {{"tokenizer", tokenizer},
                                                 {"text", text},
                                                 {"ids", ids},
                                                 {"count", count}}));
    *ids = nullptr;
    *count = 0;
    OCTET_TRY_ASSIGN(
        std::vector<int32_t> encoded,
        tokenizer->tokenizer->encode({text, bytes}, add_special != 0));
    *ids = static_cast<int32_t *>(
        std::malloc(std::max<size_t>(encoded.size(), 1) * sizeof(int32_t)));
    if (!*ids)
      throw std::bad_alloc();
    std::copy(encoded.begin(), encoded.end(), *ids);
    *count = encoded.size();
    return Status::success();
  });
}

octet_status octet_tokenizer_decode(const octet_tokenizer *tokenizer,
                                    const int32_t *ids, size_t count,
                                    int32_t skip_special, char **text,
                                    size_t *bytes, octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_tokenizer_decode",
                      {{"tokenizer", tokenizer},
                       {"ids", count ? ids : static_cast<const void *>("")},
                       {"text", text},
                       {"bytes", bytes}}));
    *text = nullptr;
    *bytes = 0;
    give(tokenizer->tokenizer->decode({ids, count}, skip_special != 0), text,
         bytes);
    return Status::success();
  });
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

octet_status octet_decoder_create(const octet_tokenizer *tokenizer,
                                  int32_t skip_special, octet_decoder **decoder,
                                  octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_decoder_create",
                      {{"tokenizer", tokenizer}, {"decoder", decoder}}));
    *decoder = nullptr;
    *decoder = new octet_decoder{
        tokenizer->tokenizer,
        StreamDecoder(*tokenizer->tokenizer, skip_special != 0),
        {}};
    return Status::success();
  });
}

void octet_decoder_free(octet_decoder *decoder) { delete decoder; }

/// `next` gives the text of a call.
template <typename Next>
static octet_status decodeNext(const char *function, octet_decoder *decoder,
                               const char **text, size_t *bytes,
                               octet_error **error, Next next) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(
        function, {{"decoder", decoder}, {"text", text}, {"bytes", bytes}}));
    decoder->text = next();
    *text = decoder->text.c_str();
    *bytes = decoder->text.size();
    return Status::success();
  });
}

octet_status octet_decoder_push(octet_decoder *decoder, int32_t id,
                                const char **text, size_t *bytes,
                                octet_error **error) {
  return decodeNext("octet_decoder_push", decoder, text, bytes, error,
                    [&] { return decoder->decoder.push(id); });
}

octet_status octet_decoder_finish(octet_decoder *decoder, const char **text,
                                  size_t *bytes, octet_error **error) {
  return decodeNext("octet_decoder_finish", decoder, text, bytes, error,
                    [&] { return decoder->decoder.finish(); });
}
