//===- Verbs.h - What each verb is given ------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_VERBS_H
#define OCTET_RUNTIME_CLI_VERBS_H

#include "octet/Support/Status.h"
#include "octet/octet.h"
#include "runtime/cli/Generate.h"
#include <cstdint>
#include <string>
#include <vector>

namespace octet::rt {

/// What every verb takes.
struct CommonOptions {
  const octet_file *file = nullptr; ///< of the program
  octet_limits limits{};            ///< of `file`; tokenizers do without
  std::string weights;              ///< "": the folder that was compiled
  int threads = 0;                  ///< 0: the affinity mask
  std::string simd;                 ///< "": the highest level
  int64_t chunk = 0;
  int64_t batch = 0;
};

struct RunOptions {
  std::vector<std::string> prompts;   ///< each a prompt, as text
  std::vector<std::string> promptIds; ///< each a prompt, `1,2,3`
  std::string promptsFile;
  std::vector<std::string> chats; ///< each what a user says
  std::string messagesFile;
  GenerateOptions generate;
  std::vector<std::string> stops; ///< texts that end a completion
  std::string stopIds;
  std::string forbidIds;
  bool json = false;
};

struct LogitsOptions {
  std::string idsFile;
  std::string output;
  std::vector<std::string> traces;
  int64_t decode = 0;
};

struct EvalOptions {
  std::string input;
  std::string output;
};

struct TokenizeOptions {
  bool json = false;
  bool null = false;      ///< texts end in zero bytes
  bool noSpecial = false; ///< without bos and the like; skips special tokens
};

struct ScoreOptions {
  std::string textFile;
  std::string idsFile;
  int64_t stride = 0; ///< 0: half the context
  bool json = false;
};

struct BenchOptions {
  int64_t promptLength = 0; ///< 0: 512, or what the context has room for
  int64_t genLength = 0;    ///< 0: 64, the same
  int64_t depth = 0;
  int64_t repeat = 3;
  int64_t probeMebibytes = 0; ///< 0: larger than any cache
  bool json = false;
};

Status runVerb(const CommonOptions &common, const RunOptions &options);
Status logitsVerb(const CommonOptions &common, const LogitsOptions &options);
Status evalVerb(const CommonOptions &common, const EvalOptions &options);
Status scoreVerb(const CommonOptions &common, const ScoreOptions &options);
Status benchVerb(const CommonOptions &common, const BenchOptions &options);
Status tokenizeVerb(const CommonOptions &common,
                    const TokenizeOptions &options);
Status detokenizeVerb(const CommonOptions &common,
                      const TokenizeOptions &options);
Status infoVerb(const CommonOptions &common, bool json);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_VERBS_H
