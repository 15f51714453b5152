//===- QuantizeCommand.cpp - octet quantize -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/Calibrate/Calibrate.h"
#include "octet/Quantize/Quantize.h"
#include <cmath>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <unistd.h>

namespace octet {

/// The signal that asked to stop; 0 if none did.
static volatile std::sig_atomic_t stopSignal = 0;

static void rememberSignal(int number) { stopSignal = number; }

namespace {
/// While it lives, SIGINT, SIGTERM and SIGHUP ask the work to stop.
class StopOnSignals {
public:
  StopOnSignals() {
    struct sigaction action{};
    action.sa_handler = rememberSignal;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < kCount; ++i) {
      ::sigaction(kSignals[i], nullptr, &before[i]);
      // Whoever started us may want a signal ignored (nohup).
      if (before[i].sa_handler != SIG_IGN)
        ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  ~StopOnSignals() {
    for (size_t i = 0; i < kCount; ++i)
      ::sigaction(kSignals[i], &before[i], nullptr);
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  static constexpr size_t kCount = std::size(kSignals);
  struct sigaction before[kCount];
};
} // namespace

/// One line that is written over, for a terminal.
static std::function<void(int64_t, int64_t)> makeProgress(const char *what) {
  return [what, shown = -1](int64_t done, int64_t total) mutable {
    int percent = total ? int(double(done) / double(total) * 100) : 100;
    if (percent != std::exchange(shown, percent))
      std::fprintf(stderr, "\r  %s %3d %%%s", what, percent,
                   done == total ? "\n" : "");
  };
}

static std::string printMegabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", double(bytes) / 1e6);
  return text;
}

/// What QuantizeOptions::calibrate calls.
static Result<InputMaxima> runCalibration(const CalibrateOptions &options,
                                          const std::string &scratch) {
  OCTET_TRY_ASSIGN(Calibration calibration, calibrate(options, scratch));
  std::cerr << "  calibrated on " << calibration.tokens
            << (calibration.tokens == 1 ? " token of " : " tokens of ")
            << calibration.prompts
            << (calibration.prompts == 1 ? " prompt" : " prompts")
            << (calibration.all ? "" : "; --calibrate-tokens left out the rest")
            << '\n';
  return std::move(calibration.maxima);
}

/// \param calibration  of static activation scales; no file: dynamic ones.
static Status quantize(QuantizeOptions &options,
                       CalibrateOptions &calibration) {
  Status status;
  {
    StopOnSignals signals;
    options.interrupted = &stopSignal;
    calibration.interrupted = &stopSignal;
    if (!calibration.prompts.empty())
      options.calibrate = [&](const std::string &scratch) {
        return runCalibration(calibration, scratch);
      };
    Result<QuantizeResult> result = quantizeCheckpoint(options);
    if (result.ok()) {
      for (const std::string &text : result->warnings)
        std::cerr << "warning: " << text << '\n';
      for (const std::string &text : result->notes)
        std::cerr << "note: " << text << '\n';
      std::cerr << "  " << result->quantised << " weights quantised, "
                << result->kept
                << " tensors kept: " << printMegabytes(result->sourceBytes)
                << " to " << printMegabytes(result->outputBytes) << " in "
                << result->files << (result->files == 1 ? " file" : " files")
                << '\n';
      return Status::success();
    }
    status = result.takeStatus();
  }
  if (stopSignal) {
    // Whoever waits for us sees what ended us.
    if (isatty(STDERR_FILENO))
      std::cerr << '\n'; // after the line of progress
    std::cerr << status.info().format();
    std::cerr.flush();
    ::raise(stopSignal);
  }
  return status;
}

void addQuantizeCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<QuantizeOptions>();
  auto c = std::make_shared<CalibrateOptions>();
  auto block = std::make_shared<std::string>("128x128");
  auto shardGib = std::make_shared<double>(5);
  CLI::App *verb = app.add_subcommand(
      "quantize",
      "Write a checkpoint in FP8 from one in BF16, F16, F32 or GGUF");
  verb->add_option("CHECKPOINT", o->checkpoint,
                   "Folder with config.json and *.safetensors, or a GGUF file")
      ->check(notEmpty())
      ->required();
  verb->add_option("-o,--output", o->output,
                   "Folder to write, new or empty; it appears when it is "
                   "complete")
      ->check(notEmpty())
      ->type_name("DIR")
      ->required();
  addEnum<QuantizeTo>(verb, "--to", o->to,
                      {{"fp8-block", QuantizeTo::Block},
                       {"fp8-channel", QuantizeTo::Channel},
                       {"fp8-tensor", QuantizeTo::Tensor}},
                      "What shares a scale; activation scales are computed "
                      "when the model runs, or static with --calibrate")
      ->required();
  addEnum<QuantizeFormat>(
      verb, "--format", o->format,
      {{"fp8", QuantizeFormat::Fp8},
       {"compressed-tensors", QuantizeFormat::CompressedTensors}},
      "How the result is declared; fp8 of channels is w8a8_fp8 [fp8; "
      "compressed-tensors for fp8-channel]");
  verb->add_option("--block", *block,
                   "Rows x columns of a block of fp8-block [128x128]");
  verb->add_option("--ignore", o->ignore,
                   "Module to leave as it is, as in modules_to_not_convert; "
                   "may be given several times (C7)")
      ->type_name("NAME");
  verb->add_option("--calibrate", c->prompts,
                   "Static activation scales for fp8-tensor: the largest input "
                   "of each linear over these prompts, which the unquantised "
                   "model runs on the CPU. Lines {\"prompt\": \"text\"} or "
                   "{\"prompt_ids\": [ids]}, or a plain text [dynamic scales]")
      ->check(notEmpty())
      ->type_name("FILE");
  addWhole(verb, "--calibrate-tokens", c->maxTokens,
           "Tokens of the prompts to run at most; a prompt is cut into pieces "
           "of " +
               std::to_string(kCalibrationContext) + " [" +
               std::to_string(c->maxTokens) + "]",
           1, kMostCount);
  addWord(verb, "--calibrate-dtype", c->dtype, {"bf16", "f16", "f32"},
          "Activations of that run: bf16, f16 or f32 [the config's]")
      ->type_name("DTYPE");
  verb->add_option("--shard-gib", *shardGib,
                   "Largest file, in GiB; a tensor is never split [5]")
      ->check(isPositive());
  addWhole(verb, "--threads", o->threads, "Threads [all]", 1, kMostCount);
  verb->callback([o, c, block, shardGib, verb, &action] {
    action = [o, c, block, shardGib, verb]() -> Status {
      OCTET_TRY(parseBlock(*block, *o));
      if (verb->count("--block") && o->to != QuantizeTo::Block)
        return usageError("--block", "is for --to fp8-block");
      for (const char *name : {"--calibrate-tokens", "--calibrate-dtype"})
        if (verb->count(name) && c->prompts.empty())
          return usageError(name, "is for --calibrate");
      double bytes = std::fmin(*shardGib * 0x1p30, 0x1p62);
      o->shardBytes = std::max<int64_t>(int64_t(bytes), 1);
      c->checkpoint = o->checkpoint;
      c->threads = o->threads;
      if (isatty(STDERR_FILENO)) {
        o->progress = makeProgress("quantising");
        c->progress = makeProgress("calibrating");
      }
      return quantize(*o, *c);
    };
  });
}

} // namespace octet
