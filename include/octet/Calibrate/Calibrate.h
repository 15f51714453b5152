//===- Calibrate.h - What linears read, over some prompts -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Static activation scales are made of the largest input that a linear meets.
// The checkpoint is compiled for the CPU as it is, with octet-trace-inputs, and
// the program runs the prompts in this process.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CALIBRATE_CALIBRATE_H
#define OCTET_CALIBRATE_CALIBRATE_H

#include "octet/Quantize/Quantize.h"
#include <string>

namespace octet {

/// A longer prompt is run in pieces of this many tokens, each from position 0.
inline constexpr int64_t kCalibrationContext = 2048;

struct CalibrateOptions {
  std::string checkpoint; ///< a folder or a GGUF file
  /// Lines `{"prompt": text}` or `{"prompt_ids": [ids…]}` if the first
  /// character that is not blank is `{`; else the whole file is one text.
  std::string prompts;
  int64_t maxTokens = 16384; ///< the prompts after so many are left out
  std::string dtype; ///< of activations: `bf16`, `f16`, `f32`; empty: the
                     ///< config's
  int threads = 0;   ///< 0: as many as the process may use
  /// Called with tokens done and to do at most.
  std::function<void(int64_t done, int64_t total)> progress;
  /// Set by a signal handler: the work ends with an error soon after.
  const volatile std::sig_atomic_t *interrupted = nullptr;
};

struct Calibration {
  InputMaxima maxima; ///< NaN where an input was NaN, infinite likewise
  int64_t tokens = 0, prompts = 0; ///< that were run
  bool all = true;                 ///< false: maxTokens left some out
};

/// Maps the checkpoint as a run does; beside it, memory holds the activations
/// of 512 tokens and the keys and values of one piece.
///
/// \param scratch  a folder for the program, which is removed once it is
/// mapped.
/// \returns errors of the compiler (ErrorInfo::message is empty where it has
/// been printed) and of loading; an input error that names the file or its
/// line: it is missing or has no token, a prompt is not of the form above, is
/// text without a tokenizer, or has an id outside the vocabulary; a machine
/// error if it was interrupted.
Result<Calibration> calibrate(const CalibrateOptions &options,
                              const std::string &scratch);

} // namespace octet

#endif // OCTET_CALIBRATE_CALIBRATE_H
