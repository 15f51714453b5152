//===- KernelBench.h - Stand-alone kernels for measuring --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `octet kernel`: one operator, a list of shapes, and an executable that checks
// and times the kernels on a GPU machine. Each shape goes through the phases as
// a program of one linear layer, so what is measured is what `octet compile`
// would have put into a model. `octet tune` makes an executable that compares
// the variants that may be the fastest, and prints the table that
// select-kernels reads.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_KERNELBENCH_KERNELBENCH_H
#define OCTET_KERNELBENCH_KERNELBENCH_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// Y[M,N] = X[M,K] W[N,K]^T.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
};

/// Lines `M N K`, the numbers apart by blanks or commas; `#` starts a comment.
/// \returns an input error with file and line; each number is 1 to 2^24.
Result<std::vector<GemmShape>> readShapes(const std::string &path);
/// One `M,N,K` of the command line.
Result<GemmShape> parseShape(std::string_view text);

/// An operator of `octet kernel`.
struct KernelOperator {
  const char *name;    ///< "block-gemm"
  const char *summary; ///< for --help
};
const std::vector<KernelOperator> &kernelOperators();

struct KernelBenchOptions {
  std::string op;     ///< a name of kernelOperators()
  std::string target; ///< "sm_90a"
  std::vector<GemmShape> shapes;
  std::string output;
  std::string dumpCuda;            ///< folder for the sources; empty: none
  std::string resultType = "bf16"; ///< bf16 or f16
  std::string nvrtc;               ///< libnvrtc; empty: where it is found
  int64_t jobs = 0;                ///< compilations at once; 0: one a core
  bool batchInvariant = false;
  int64_t candidates = 0; ///< of `octet tune`: variants a shape; 0: the chosen
  bool progress = false;
};

/// Compiles the kernels of all shapes and writes the executable.
/// \returns an error naming the shape and the rule where the target has no
/// kernel for it; nothing is left behind then.
Status writeKernelBench(const KernelBenchOptions &options);

} // namespace octet

#endif // OCTET_KERNELBENCH_KERNELBENCH_H
