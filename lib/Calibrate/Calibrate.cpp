//===- Calibrate.cpp - What linears read, over some prompts ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Calibrate/Calibrate.h"
#include "InputMaxima.h"
#include "octet/Pipeline/Compile.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Tokenizer.h"
#include "runtime/cli/Session.h"
#include "runtime/core/Engine.h"
#include <algorithm>
#include <filesystem>
#include <iostream>

using namespace octet;

namespace {

/// Rows of a step: enough to fill the products.
constexpr int64_t kStepTokens = 512;

/// One calibration: prompts in, maxima out.
class Calibrator {
public:
  explicit Calibrator(const CalibrateOptions &options) : options(options) {}

  Status open(const std::string &scratch);
  Status run();
  Calibration take();

private:
  bool isFull() const { return result.tokens >= options.maxTokens; }
  Status checkInterrupted() const;
  Result<std::vector<int32_t>> readIds(const rt::FilePrompt &prompt);
  Result<std::vector<int32_t>> encode(const rt::FilePrompt &prompt);
  Status runPrompt(std::span<const int32_t> ids);
  Status runPiece(std::span<const int32_t> ids);

  const CalibrateOptions &options;
  std::vector<rt::FilePrompt> prompts;
  std::optional<rt::Payload> payload;
  std::unique_ptr<rt::Model> model;
  std::optional<rt::Engine> engine;
  std::optional<Tokenizer> tokenizer;
  InputMaximaSink sink;
  Calibration result;
};

/// The prompts of the file: its lines, or all of it as one text.
Result<std::vector<rt::FilePrompt>> readPrompts(const std::string &path) {
  OCTET_TRY_ASSIGN(std::string text, rt::readTextFile(path));
  size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos)
    return inputError(escapePath(path),
                      "is empty; lines {\"prompt\": \"text\"} or "
                      "{\"prompt_ids\": [ids…]}, or a text, are needed");
  if (text[first] == '{')
    return rt::parsePrompts(text, path, rt::OtherKeys::Skip);
  if (!isUtf8(text))
    return inputError(escapePath(path),
                      "is neither lines {\"prompt\": \"text\"} or "
                      "{\"prompt_ids\": [ids…]} nor a text in UTF-8");
  rt::FilePrompt prompt;
  prompt.subject = escapePath(path);
  prompt.isText = true;
  prompt.text = std::move(text);
  return std::vector<rt::FilePrompt>{std::move(prompt)};
}

Status Calibrator::checkInterrupted() const {
  if (options.interrupted && *options.interrupted)
    return machineError("--calibrate", "interrupted; nothing is left behind");
  return Status::success();
}

/// Compiles and maps the checkpoint. Prompts come first: they are soon read.
Status Calibrator::open(const std::string &scratch) {
  OCTET_TRY_ASSIGN(prompts, readPrompts(options.prompts));
  CompileOptions compileOptions;
  compileOptions.checkpoint = options.checkpoint;
  compileOptions.output = scratch + "/program";
  compileOptions.emit = EmitKind::Program;
  compileOptions.notes = false;
  compileOptions.traceInputs = true;
  compileOptions.import.dtype = options.dtype;
  compileOptions.import.maxSeqs = 1;
  compileOptions.import.maxStepTokens = kStepTokens;
  OCTET_TRY(compile(compileOptions));
  OCTET_TRY_ASSIGN(payload, rt::Payload::open(compileOptions.output));
  OCTET_TRY_ASSIGN(std::shared_ptr<const rt::Program> program,
                   rt::Program::load(*payload));
  std::error_code ignored; // whoever made the folder removes it with all in it
  std::filesystem::remove(compileOptions.output, ignored);
  OCTET_TRY(checkInterrupted());

  rt::LoadOptions loadOptions;
  loadOptions.threads = options.threads;
  OCTET_TRY_ASSIGN(model, rt::Model::load(std::move(program),
                                          options.checkpoint, loadOptions));
  for (const std::string &text : model->warnings())
    std::cerr << "warning: " << text << '\n';
  engine.emplace(*model);
  return Status::success();
}

Result<std::vector<int32_t>> Calibrator::readIds(const rt::FilePrompt &prompt) {
  std::vector<int32_t> ids;
  if (!prompt.isText) {
    OCTET_TRY(engine->checkIds<int64_t>(prompt.ids, prompt.subject));
    ids.assign(prompt.ids.begin(), prompt.ids.end());
  } else {
    OCTET_TRY_ASSIGN(ids, encode(prompt));
    OCTET_TRY(engine->checkIds<int32_t>(ids, prompt.subject));
  }
  if (ids.empty())
    return inputError(prompt.subject, "no token ids; at least one is needed");
  return ids;
}

Result<std::vector<int32_t>> Calibrator::encode(const rt::FilePrompt &prompt) {
  if (!tokenizer) {
    std::optional<std::span<const std::byte>> text =
        payload->section("tokenizer.json");
    if (!text)
      return inputError(prompt.subject,
                        "is text, and the checkpoint has no tokenizer that can "
                        "be used; lines {\"prompt_ids\": [ids…]} need none");
    OCTET_TRY_ASSIGN(
        tokenizer,
        Tokenizer::fromJson(
            {reinterpret_cast<const char *>(text->data()), text->size()},
            escapePath(options.checkpoint) + ": tokenizer.json"));
  }
  return tokenizer->encode(prompt.text, /*addSpecial=*/true);
}

/// One sequence from position 0, a step after the other. No logits are wanted.
Status Calibrator::runPiece(std::span<const int32_t> ids) {
  rt::Sequence sequence;
  sequence.tokens.assign(ids.begin(), ids.end());
  while (sequence.pending()) {
    OCTET_TRY(checkInterrupted());
    rt::Feed feed{&sequence, std::min(sequence.pending(), kStepTokens),
                  /*outputs=*/0};
    OCTET_TRY(engine->step({&feed, 1}, /*logits=*/{}, &sink));
    result.tokens += feed.count;
    if (options.progress)
      options.progress(result.tokens, options.maxTokens);
  }
  engine->release(sequence);
  return Status::success();
}

Status Calibrator::runPrompt(std::span<const int32_t> ids) {
  const int64_t context =
      std::min(model->info().maxContext, kCalibrationContext);
  while (!ids.empty() && !isFull()) {
    size_t count = size_t(std::min(
        {int64_t(ids.size()), context, options.maxTokens - result.tokens}));
    OCTET_TRY(runPiece(ids.first(count)));
    ids = ids.subspan(count);
  }
  result.all &= ids.empty();
  ++result.prompts;
  return Status::success();
}

Status Calibrator::run() {
  for (const rt::FilePrompt &prompt : prompts) {
    if (isFull()) {
      result.all = false;
      break;
    }
    OCTET_TRY_ASSIGN(std::vector<int32_t> ids, readIds(prompt));
    OCTET_TRY(runPrompt(ids));
  }
  if (options.progress && !isFull())
    options.progress(result.tokens, result.tokens);
  return Status::success();
}

Calibration Calibrator::take() {
  result.maxima = sink.take();
  return std::move(result);
}

} // namespace

Result<Calibration> octet::calibrate(const CalibrateOptions &options,
                                     const std::string &scratch) {
  Calibrator calibrator(options);
  OCTET_TRY(calibrator.open(scratch));
  OCTET_TRY(calibrator.run());
  return calibrator.take();
}
