//===- Generate.h - Continuing prompts --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_GENERATE_H
#define OCTET_RUNTIME_CLI_GENERATE_H

#include "octet/Support/Status.h"
#include "octet/octet.h"
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace octet::rt {

struct Session; // runtime/cli/Session.h

struct GenerateOptions {
  GenerateOptions() { octet_sampler_options_init(&sampler, sizeof(sampler)); }

  int64_t maxTokens = 16;
  bool ignoreEos = false;
  std::vector<int32_t> stopIds;   ///< end with "stop"; not part of the ids
  std::vector<int32_t> forbidden; ///< never drawn (P17)
  octet_sampler_options sampler;
  /// Called with a prompt's number and each new id that is not an end; true
  /// ends the prompt with "stop", this id included.
  std::function<bool(size_t, int32_t)> onToken;
  int64_t logProbs = -1; ///< alternatives a token; -1: no log-probabilities
};

struct TokenLogProb {
  float logProb;
  std::vector<std::pair<int32_t, float>> top;
};

/// What became of one prompt.
struct Completion {
  std::vector<int32_t>
      ids; ///< without the prompt; ends in eos if that ended it
  const char *finish = "length"; ///< "length", "eos" or "stop"
  std::vector<TokenLogProb> logProbs;
};

/// Continues each prompt; as many at once as session and program allow.
/// Drawing depends on the prompt's number and the token's, not on the batch.
/// \param prompts  ids that the model has (Session::checkIds).
/// \param done     called once a prompt, when it is finished.
Status generate(Session &session, std::span<const std::vector<int32_t>> prompts,
                const GenerateOptions &options,
                const std::function<void(size_t, const Completion &)> &done);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_GENERATE_H
