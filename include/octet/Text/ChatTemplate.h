//===- ChatTemplate.h - A checkpoint's chat template ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Chat templates are Jinja programs that come with a checkpoint. A small
// evaluator runs the part of Jinja that they use, and renders byte for byte
// what python's jinja2 does with the settings of transformers: an immutable
// sandbox, trim_blocks and lstrip_blocks on, the loopcontrols extension, the
// `generation` tag, and tojson without escaping for HTML. Anything else is an
// error that names the construct and its line. Template and messages are
// hostile input: nesting, work and memory are bounded, nothing throws.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEXT_CHATTEMPLATE_H
#define OCTET_TEXT_CHATTEMPLATE_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace octet {

/// Size of a template in bytes; those of today are under 32 KiB.
inline constexpr size_t kMaxTemplateBytes = size_t(1) << 20;
/// Size of a rendered conversation in bytes.
inline constexpr size_t kMaxRenderedBytes = size_t(64) << 20;
/// All that one rendering may do: a node of the template costs 16, a byte of a
/// new string 1, an element of a new list 32. It bounds time and memory.
inline constexpr int64_t kMaxTemplateWork = int64_t(1) << 28;
/// Nesting of a value (a list in a list …).
inline constexpr int kMaxTemplateValueDepth = 128;

/// What a template sees besides the messages.
struct ChatOptions {
  bool addGenerationPrompt = true; ///< `add_generation_prompt`
  /// `tools`; null is Python's None, which transformers passes for no tools.
  nlohmann::ordered_json tools = nullptr;
  std::optional<std::string> bosToken; ///< `bos_token`, undefined without
  std::optional<std::string> eosToken; ///< `eos_token`, undefined without
  /// Local time for `strftime_now`; the clock's if there is none.
  std::optional<std::tm> now;
  /// More variables (`enable_thinking`, `pad_token`, …): null or an object.
  /// They win over the others of the same name.
  nlohmann::ordered_json variables = nullptr;
  /// What this rendering may do, at most kMaxTemplateWork.
  int64_t maxWork = kMaxTemplateWork;
  /// The subject of errors.
  std::string subject = "chat template";
};

/// Renders a conversation.
///
/// \param templateText  the template; UTF-8.
/// \param messages      `[{"role": …, "content": …}, …]` as the template wants
///                      them: passed on as they are.
/// \returns the prompt's text, or an input error with the line: a syntax
///          error, a construct that is not supported, an operation that Python
///          refuses, what the template raised, or a bound that was reached.
Result<std::string> renderChat(std::string_view templateText,
                               const nlohmann::ordered_json &messages,
                               const ChatOptions &options = {});

/// What a checkpoint says on how to write conversations.
struct ChatTemplate {
  /// By name: "default", and for some models "tool_use".
  std::map<std::string, std::string> templates;
  /// Special tokens that templates print: "bos_token", "eos_token", ….
  std::map<std::string, std::string> tokens;

  /// As transformers picks: "tool_use" if there are tools and there is one,
  /// else "default".
  /// \param options  its tokens are not looked at, its variables win over the
  ///                 checkpoint's tokens.
  Result<std::string> render(const nlohmann::ordered_json &messages,
                             ChatOptions options) const;
};

struct Checkpoint;

/// The templates of a folder (chat_template.jinja, else `chat_template` of
/// tokenizer_config.json; the tokens are in the latter) or of a GGUF file.
/// \returns nothing if there is no template; an input error if a file is there
/// but not as it should be. The templates themselves are not parsed.
Result<std::optional<ChatTemplate>>
readChatTemplate(const Checkpoint &checkpoint);

/// The section of an executable that holds the templates, and what is in it.
inline constexpr std::string_view kChatTemplateSection = "chat_template";
std::string writeChatTemplate(const ChatTemplate &chat);
Result<ChatTemplate> parseChatTemplate(std::string_view text,
                                       const std::string &subject);

/// Parses JSON of a hostile text and keeps the order of keys, which templates
/// print: bounds and errors as those of `parseJson`.
Result<nlohmann::ordered_json> parseOrderedJson(std::string_view text,
                                                const std::string &subject);

} // namespace octet

#endif // OCTET_TEXT_CHATTEMPLATE_H
