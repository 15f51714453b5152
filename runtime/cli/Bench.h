//===- Bench.h - What a bench measured --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The figures of `EXE bench`, apart from how they are taken and printed.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_BENCH_H
#define OCTET_RUNTIME_CLI_BENCH_H

#include "runtime/core/Profile.h"
#include "runtime/core/ProfileProbe.h"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace octet::rt {

/// What is run: `batch` sequences, each with `depth` tokens in the cache before
/// anything is timed. Both phases start there, as in llama.cpp's bench.
struct BenchShape {
  int64_t batch = 1;
  int64_t promptLength = 0;
  int64_t genLength = 0;
  int64_t depth = 0;
  int64_t repeat = 1;
};

/// Runs of one kind, in seconds.
struct BenchTimes {
  double median = 0, least = 0, most = 0;
  static BenchTimes of(std::vector<double> seconds);
};

/// Prefill (a run is all prompts) or decode (a run is a step).
struct BenchPhase {
  int64_t runs = 0;
  int64_t tokens = 0; ///< of a run
  BenchTimes seconds;
  // The rest is a run's share of the profiled ones.
  double profiledSeconds = 0;
  double weightBytes = 0; ///< read by products: weights and scales
  double cacheBytes = 0;  ///< keys and values read by attention
  double flops = 0;       ///< of products and attention
  double profiledRuns = 0;
  /// Of decode: a step's bytes per second over those of a probe of as many
  /// bytes right after it, the median of such pairs.
  double pairedShare = 0;
  std::vector<OperatorProfile> operators; ///< of all profiled runs

  double tokensPerSecond() const { return double(tokens) / seconds.median; }
  double bytesPerSecond() const {
    return (weightBytes + cacheBytes) / seconds.median;
  }
  double flopsPerSecond() const { return flops / seconds.median; }
};

/// Seconds from the start of a process to its first output.
struct FirstToken {
  double seconds = 0;
  bool isOwn = false; ///< of this process, without drawing weights
  double drawSeconds = 0;
};

struct BenchReport {
  std::string processor, date;
  std::string weights; ///< as the user gave it, or the compiled folder
  int threads = 0;
  std::string simd;
  nlohmann::json program; ///< octet, architecture, dtype, … of its info
  BenchShape shape;
  int64_t probeBytes = 0;
  double readBefore = 0, readAfter = 0, readBest = 0; ///< bytes per second
  DotKind dotKind = DotKind::Float32Fma;
  double dotPeak = 0; ///< operations per second
  BenchPhase prefill, decode;
  FirstToken firstToken;

  std::string text() const;
  nlohmann::json json() const;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_BENCH_H
