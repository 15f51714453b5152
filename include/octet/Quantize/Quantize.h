//===- Quantize.h - Quantising a checkpoint offline -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a checkpoint in FP8 from one in BF16, F16, F32 or GGUF: the weights of
// all linears of the layers, with dynamic activations or, per tensor, a static
// scale from calibration. lm_head, embeddings, norms, routers and the indexer's
// head weights stay as they are (P1, P5, P9, P12, P16). No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTIZE_QUANTIZE_H
#define OCTET_QUANTIZE_QUANTIZE_H

#include "octet/Support/Status.h"
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace octet {

/// What shares a scale (W1).
enum class QuantizeTo { Block, Channel, Tensor };
/// How the result is declared (FORMATS.md).
enum class QuantizeFormat {
  Default,          ///< Fp8 for blocks and tensors, CompressedTensors else
  Fp8,              ///< `quant_method: fp8`; of channels `w8a8_fp8`
  CompressedTensors ///< `float-quantized`
};

/// The largest absolute input of each linear by its path, over some prompts.
using InputMaxima = std::map<std::string, float, std::less<>>;

struct QuantizeOptions {
  std::string checkpoint; ///< a folder or a GGUF file
  std::string output;     ///< a folder that is not there, or empty
  QuantizeTo to = QuantizeTo::Block;
  QuantizeFormat format = QuantizeFormat::Default;
  int64_t blockN = 128, blockK = 128; ///< of blocks; the last may be short (W4)
  std::vector<std::string> ignore;    ///< entries as of C7: modules left alone
  int64_t shardBytes = int64_t(5)
                       << 30; ///< a file is closed before it grows over
  int threads = 0;            ///< 0: as many as the process may use
  /// Null: activations are dynamic. Else they are static, for tensors only:
  /// called once, when all that can be checked before has been, with an empty
  /// folder for its own files that is removed afterwards.
  std::function<Result<InputMaxima>(const std::string &scratch)> calibrate;
  /// Called with bytes of weights done and to do, from the calling thread.
  std::function<void(int64_t done, int64_t total)> progress;
  /// Set by a signal handler: the work ends with an error soon after.
  const volatile std::sig_atomic_t *interrupted = nullptr;
};

struct QuantizeResult {
  int64_t quantised = 0, kept = 0;          ///< tensors of the source
  int64_t sourceBytes = 0, outputBytes = 0; ///< of tensors
  int64_t files = 0;                        ///< with tensors
  std::vector<std::string> warnings, notes;
};

/// Reads one tensor at a time: the memory in use is bounded by the largest
/// tensor's codes and a few rows of float32 for each thread. Writes to a folder
/// beside `output` that is renamed when all is there, removed on any error.
///
/// Numbers: N2 and N3, of the weight's float32 values; `amax / 448` and `w / s`
/// are true divisions, rounded to nearest even; scales are F32. Tensors that
/// are not quantised are copied as stored; packed GGUF ones become BF16. A
/// static `input_scale` is `amax / 448` of the linear's own input (N3, W2); the
/// shards of a fused module read one input and so have one scale (W9).
///
/// \returns an input error: the output is there and not empty, the source is
/// quantised already (C5), a weight that is no float or holds NaN or infinity,
/// an ignored shard of a fused module (C8), nothing to quantise, an input that
/// calibration did not see or that was only zeros, NaN or infinite, a file that
/// was truncated meanwhile (with OnTruncation::Remember); a machine error: the
/// output cannot be written, or the work was interrupted.
Result<QuantizeResult> quantizeCheckpoint(const QuantizeOptions &options);

/// `blockN x blockK` from "128x128". \returns a usage error.
Status parseBlock(const std::string &text, QuantizeOptions &options);

} // namespace octet

#endif // OCTET_QUANTIZE_QUANTIZE_H
