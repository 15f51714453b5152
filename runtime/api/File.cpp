//===- File.cpp - Executables and program files ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"
#include "runtime/api/Guard.h"
#include "runtime/api/Handles.h"
#include "runtime/api/Limits.h"
#include "runtime/cpu/Level.h"
#include "runtime/cuda/Driver.h"
#include <algorithm>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;
using nlohmann::ordered_json;

Result<std::shared_ptr<const Program>> octet_file::program() const {
  std::lock_guard lock(mutex);
  if (!loaded) {
    OCTET_TRY_ASSIGN(loaded, Program::load(payload));
  }
  return loaded;
}

octet_status octet_file_open(const char *path, octet_file **file,
                             octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_file_open", {{"path", path}, {"file", file}}));
    *file = nullptr;
    OCTET_TRY_ASSIGN(Payload payload, Payload::open(path));
    *file = new octet_file(std::move(payload));
    return Status::success();
  });
}

octet_status octet_file_open_own(octet_file **file, octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_file_open_own", {{"file", file}}));
    *file = nullptr;
    OCTET_TRY_ASSIGN(std::optional<Payload> payload, Payload::findOwn());
    if (payload)
      *file = new octet_file(std::move(*payload));
    return Status::success();
  });
}

void octet_file_close(octet_file *file) { delete file; }

const char *octet_file_path(const octet_file *file) {
  return file ? file->payload.path().c_str() : "";
}

//===----------------------------------------------------------------------===//
// What a program is
//===----------------------------------------------------------------------===//

octet_limits rt::limitsOf(const ProgramInfo &info) {
  return {.size = sizeof(octet_limits),
          .vocab = info.vocab,
          .max_context = info.maxContext,
          .max_sequences = info.maxSeqs,
          .max_step_tokens = info.maxStepTokens,
          .page_tokens = OCTET_PAGE,
          .module_in = info.moduleIn,
          .module_out = info.moduleOut};
}

Status rt::writeLimits(const char *function, const ProgramInfo &info,
                       octet_limits *limits) {
  octet_limits checked{};
  OCTET_TRY(readOptions(function, limits, kLimitsBytes, checked));
  writeStruct(limits, limits->size, limitsOf(info));
  return Status::success();
}

void octet_limits_init(octet_limits *limits, size_t size) {
  writeStruct(limits, size, octet_limits{});
}

octet_status octet_file_limits(const octet_file *file, octet_limits *limits,
                               octet_error **error) {
  static constexpr char function[] = "octet_file_limits";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"file", file}, {"limits", limits}}));
    OCTET_TRY_ASSIGN(std::shared_ptr<const Program> program, file->program());
    return writeLimits(function, program->info, limits);
  });
}

/// Sources that were compiled for the target, with what there is of each.
static json describeImages(const Program &program) {
  json images = json::array();
  for (int64_t i = 0; i < program.abi->num_images; ++i) {
    const octet_image &image = program.abi->images[i];
    images.push_back({{"name", image.name},
                      {"machine_code_bytes", image.cubin_bytes},
                      {"ptx_bytes", image.ptx_bytes},
                      {"source_bytes", image.source_bytes}});
  }
  return images;
}

/// The info of the program without the table of tensors, with what only the
/// runtime knows.
static json summarize(const Program &program) {
  const ProgramInfo &info = program.info;
  json object = info.json;
  object.erase("tensors");
  object["tensor_count"] = info.tensors.size();
  object["targets"] = program.targets;
  object["driver"] = nullptr; // The CPU target needs none.
  if (program.abi->num_images > 0) {
    object["driver"] =
        "CUDA " + cu::versionText(std::max(info.driver, cu::kLeastDriver));
    object["images"] = describeImages(program);
  }
  int level = detectLevel();
  object["simd"] = level < 0 ? json() : json(levelName(level));
  object["memory"]["arena"] = program.abi->arena_bytes;
  // By what the runtime will take, whatever the compiler noted.
  const KvInfo &kv = info.kv;
  object["memory"]["kv_per_token"] =
      2 * kv.layers * kv.kvHeads * kv.headDim * elementBytes(kv.type);
  return object;
}

octet_status octet_file_info(const octet_file *file, char **text, size_t *bytes,
                             octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_file_info",
                      {{"file", file}, {"json", text}, {"bytes", bytes}}));
    *text = nullptr;
    *bytes = 0;
    OCTET_TRY_ASSIGN(std::shared_ptr<const Program> program, file->program());
    give(dumpJson(summarize(*program)), text, bytes);
    return Status::success();
  });
}

//===----------------------------------------------------------------------===//
// Chat templates
//===----------------------------------------------------------------------===//

int32_t octet_file_has_chat_template(const octet_file *file) {
  return file && file->payload.section(kChatTemplateSection);
}

static Result<ChatTemplate> openChatTemplate(const octet_file &file) {
  // Not its path: what lacks is no fault of that file.
  static constexpr char subject[] = "this program";
  auto bytes = file.payload.section(kChatTemplateSection);
  if (!bytes)
    return inputError(subject, "carries no chat template: what was compiled "
                               "had none; text can be given as it is");
  return parseChatTemplate(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()},
      std::string(subject) + ": " + std::string(kChatTemplateSection));
}

static Result<std::string> renderConversation(const octet_file &file,
                                              std::string_view conversation,
                                              const std::string &subject) {
  OCTET_TRY_ASSIGN(ChatTemplate chat, openChatTemplate(file));
  OCTET_TRY_ASSIGN(ordered_json document,
                   parseOrderedJson(conversation, subject));
  ordered_json messages;
  ChatOptions options;
  options.subject = subject + ": chat template";
  if (document.is_object()) {
    options.variables = ordered_json::object();
    for (auto &[name, value] : document.items()) {
      if (name == "messages")
        messages = std::move(value);
      else if (name == "tools")
        options.tools = std::move(value);
      else
        options.variables[name] = std::move(value);
    }
  } else {
    messages = std::move(document);
  }
  if (!messages.is_array())
    return inputError(subject, "neither a list of messages nor an object "
                               "{\"messages\": [messages…], …}");
  for (const ordered_json &message : messages)
    if (!message.is_object())
      return inputError(subject,
                        "a message is not {\"role\": …, \"content\": …}");
  return chat.render(messages, std::move(options));
}

octet_status octet_file_render_chat(const octet_file *file,
                                    const char *conversation, size_t bytes,
                                    const char *subject, char **text,
                                    size_t *text_bytes, octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_file_render_chat", {{"file", file},
                                                 {"conversation", conversation},
                                                 {"text", text},
                                                 {"text_bytes", text_bytes}}));
    *text = nullptr;
    *text_bytes = 0;
    OCTET_TRY_ASSIGN(
        std::string rendered,
        renderConversation(*file, {conversation, bytes},
                           escapePath(subject ? subject : "conversation")));
    give(rendered, text, text_bytes);
    return Status::success();
  });
}
