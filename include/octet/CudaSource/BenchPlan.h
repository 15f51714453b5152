//===- BenchPlan.h - What a kernel executable checks and times --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The section `kernels.json` of an executable that `octet kernel` or `octet
// tune` writes; `kernels.cubin` holds the images one after the other. The
// compiler writes it, the runner reads it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_BENCHPLAN_H
#define OCTET_CUDASOURCE_BENCHPLAN_H

#include "octet/CudaSource/Instance.h"
#include "octet/Support/Status.h"
#include <string_view>

namespace octet::cuda {

/// The plan itself is the section kKernelsSection of runtime/core/Payload.h.
inline constexpr char kBenchImagesSection[] = "kernels.cubin";

/// The image with the functions of check/gemm_check.cuh.
inline constexpr char kCheckImage[] = "octet_check";

/// An entry's code inside of the section of images.
struct BenchImage {
  std::string entry;
  int64_t cubinOffset = 0, cubinBytes = 0;
  int64_t ptxOffset = 0, ptxBytes = 0; ///< none: 0 bytes
};

/// x or w of a product: [rows, cols] row-major with its scales.
struct BenchOperand {
  int32_t type = 0;         ///< octet_dtype
  int32_t scaleMode = 0;    ///< octet_scale_mode
  bool columnMajor = false; ///< the scales of x: [cdiv(K, bk)][align4(M)] (P3)
  int64_t blockN = 0, blockK = 0; ///< of SCALE_BLOCK; blockN 1 for x
  std::vector<int64_t> shards;    ///< of w's N
};

/// One product at one M.
struct BenchCase {
  int64_t m = 0, n = 0, k = 0;
  BenchOperand x, w;
  int32_t yType = 0;
  /// Launches to compare: one, or the candidates of `octet tune`; the first is
  /// what select-kernels takes.
  std::vector<int64_t> launches;
  /// Of `octet tune`: the name of each launch's variant, as tables have them.
  std::vector<std::string> variants;
};

struct BenchPlan {
  std::string op;      ///< "block-gemm"
  std::string target;  ///< "sm_90a"
  std::string version; ///< of octet
  int32_t driver = 0;  ///< least CUDA version of the driver: 13000 for 13.0
  std::vector<BenchImage> images;
  std::vector<KernelLaunch> launches;
  std::vector<BenchCase> cases;
};

std::string writeBenchPlan(const BenchPlan &plan);

/// \returns an input error naming `subject`: not JSON, a field missing or of
/// another type, or a number that no shape or index has.
Result<BenchPlan> readBenchPlan(std::string_view text,
                                const std::string &subject);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_BENCHPLAN_H
