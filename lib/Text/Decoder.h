//===- Decoder.h - Tokens back to text --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. The component `decoder` of tokenizer.json as a chain of
// steps that tokens run through one by one, so that decoding at once and in a
// stream are the same code.
//
// A step that fuses (Fuse, ByteLevel) makes one token of all; the steps after
// it see that token in fragments. A step that needs such a token whole
// (Replace, say) gives nothing out until the end.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_DECODER_H
#define OCTET_LIB_TEXT_DECODER_H

#include "Regex.h"
#include "octet/Support/Status.h"
#include "octet/Text/Utf8.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::text {

class Decoder {
public:
  /// \param component  the JSON of `decoder`, or null: tokens are joined by
  ///                   spaces.
  /// \param subject    the file.
  static Result<Decoder> read(const nlohmann::json &component,
                              const std::string &subject);

  /// What the steps remember between tokens.
  class Stream {
  public:
    explicit Stream(const Decoder &decoder)
        : decoder(&decoder), states(decoder.steps.size()) {}
    /// Appends to `out` what the token makes certain; whole characters.
    void push(std::string_view token, std::string &out);
    /// Appends the rest.
    void finish(std::string &out);

  private:
    struct State {
      std::string held; ///< text or bytes that wait
      Utf8Stream utf8;
      int64_t index = 0; ///< tokens seen
      int64_t cut = 0;   ///< of Strip: characters taken off the fused token
      bool cutDone = false;
    };
    void feed(size_t step, std::string_view token, std::string &out);
    void run(size_t step, std::string_view token, std::string &out);
    void flush(size_t step, std::string &out);
    void flushBytes(size_t step, std::string &out);
    const Decoder *decoder;
    std::vector<State> states;
    int64_t tokens = 0;
    size_t lastBytes = 0;  ///< of the last token
    size_t tokenBytes = 0; ///< of all tokens so far
  };

private:
  enum class Kind { ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace };
  struct Step {
    Kind kind = Kind::Fuse;
    std::string text;            ///< content of Strip, Replace; of Metaspace
    std::optional<Regex> regex;  ///< of Replace
    int64_t start = 0, stop = 0; ///< of Strip
    bool dropFirst = false;      ///< of Metaspace
    bool fused = false;          ///< a step before it fuses
    bool whole = false;          ///< waits for the whole fused token
  };
  Status add(const nlohmann::json &component, const std::string &type,
             const std::string &where);
  std::vector<Step> steps;
  bool joinBySpaces = false;
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_DECODER_H
