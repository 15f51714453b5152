//===- Chat.h - Conversations as prompts ---------------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_CHAT_H
#define OCTET_RUNTIME_CLI_CHAT_H

#include "octet/Support/Status.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <vector>

namespace octet::rt {

/// The conversations of --chat and --messages, as the program's chat template
/// writes them, each with the start of an answer.
///
/// A file of messages is the list, or an object with `messages` and, beside
/// it, `tools` and other variables of the template (`enable_thinking`).
/// \returns an input error if the program carries no template, the file is not
/// as it should be, or the template fails.
Result<std::vector<FilePrompt>> readConversations(const RunOptions &options,
                                                  const CommonOptions &common);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_CHAT_H
