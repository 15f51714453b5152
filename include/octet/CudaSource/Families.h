//===- Families.h - Which template makes which operator ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A problem is an operator without its place in a program: all that a template
// is specialised by. Problems are read off `kernel` operators by emit-kernels
// and off the command line by `octet kernel`. A family turns one into launches;
// Families.cpp has one line for each kernel name of passes/CudaKernels.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_FAMILIES_H
#define OCTET_CUDASOURCE_FAMILIES_H

#include "octet/CudaSource/Instance.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Support/Status.h"
#include "runtime/abi.h"
#include <string_view>

namespace octet::cuda {

/// Y[M,N] = X[M,K] W[N,K]^T (+ bias[N]).
struct GemmProblem {
  std::string kernel; ///< "sm90.fp8_block_gemm"
  std::string module;
  int64_t n = 0, k = 0;
  std::vector<int64_t> shards; ///< of N; one if nothing is fused
  int32_t xType = OCTET_BF16, wType = OCTET_BF16, yType = OCTET_BF16;
  int32_t biasType = -1; ///< none
  int32_t wScaleMode = OCTET_SCALE_NONE, xScaleMode = OCTET_SCALE_NONE;
  int32_t wScaleType = OCTET_F32;
  int64_t blockN = 0, blockK = 0;   ///< of the weight's scales
  bool columnMajorScales = false;   ///< of x: [cdiv(K, bk)][align4(M)] (P3)
  int64_t multiprocessors = 132;    ///< of the device that is tuned for
  std::vector<int64_t> maxM = {-1}; ///< kernel.gemm's choices by M
  std::vector<std::string> variants = {""};

  /// Arguments of the launch; an operand that is not there has no use.
  enum Arg { X = 0, XScale, W, WScale, Bias, Y };
};

/// softmax(q k^T * scale) v over a paged cache (P11).
struct AttentionProblem {
  std::string kernel; ///< "cuda.paged_attention"
  std::string module;
  int64_t qHeads = 0, kvHeads = 0, headDim = 0, window = 0;
  float scale = 1;
  int32_t type = OCTET_BF16;   ///< of q and y
  int32_t kvType = OCTET_BF16; ///< E4M3: with kScale and vScale
  int64_t maxContext = 0, maxSeqs = 0, maxStepTokens = 0;
  int64_t multiprocessors = 132;

  enum Arg { Q = 0, K, V, KScale, VScale, Y };
};

/// \returns an internal error for a problem that the family cannot make:
/// select-kernels has the same predicate.
using GemmFamily = Result<KernelLaunch> (*)(const GemmProblem &,
                                            const Target &);
using AttentionFamily = Result<KernelLaunch> (*)(const AttentionProblem &,
                                                 const Target &);

/// nullptr for a kernel that is not written.
GemmFamily findGemmFamily(std::string_view kernel);
AttentionFamily findAttentionFamily(std::string_view kernel);

/// Whether the variants of a product's kernel come from a table of measured
/// tiles, which may split K for few rows.
bool hasTileTable(std::string_view kernel);

/// The variants of a product's kernel that may be the fastest for `m` rows, by
/// their names in GemmProblem::variants, the likeliest first: what `octet tune`
/// measures. None where a family's choice is not from a table.
std::vector<std::string> listGemmVariants(const GemmProblem &problem, int64_t m,
                                          size_t most);

/// "f32", "bf16", "f16", "e4m3" of an octet_dtype, as in names of kernels, and
/// the C++ type of templates: "float", "octet::cuda::Bf16", ….
std::string_view typeName(int32_t type);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_FAMILIES_H
