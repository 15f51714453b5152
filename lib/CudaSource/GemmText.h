//===- GemmText.h - What the text of every product has ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CUDASOURCE_GEMMTEXT_H
#define OCTET_LIB_CUDASOURCE_GEMMTEXT_H

#include "octet/CudaSource/Families.h"

namespace octet::cuda {

inline int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t alignUp(int64_t a, int64_t b) { return divideUp(a, b) * b; }

inline bool hasBlocks(const GemmProblem &p) {
  return p.wScaleMode == OCTET_SCALE_BLOCK;
}

/// Bytes of an element.
int64_t elementBytes(int32_t type);

/// "octet::cuda::Bf16"; "float" for F32.
std::string cppType(int32_t type);

/// "octet::cuda::Scaling::Row" of an octet_scale_mode (tile/scales.cuh).
std::string scalingText(int32_t mode);

/// "octet::cuda::Shards<2048, 576>".
std::string shardsText(const GemmProblem &problem);

/// `problem.kernel` without `_gemm`.
std::string_view familyName(const GemmProblem &problem);

/// What is particular about a problem, for names of entries:
/// "e4m3_e4m3_bf16_x_block_w_block_f32_128x128_n2048_576_k7168".
std::string problemName(const GemmProblem &problem);

/// Parameters of a kernel: as text, as arguments of the template, as data.
/// Operands that are not there are no parameters and nullptr.
struct GemmSignature {
  std::string parameters, arguments;
  std::vector<Param> params;

  void add(int arg, const std::string &type, const char *name, bool isThere);
  /// A matrix [rows, K] of x or w as boxes of `boxRows` rows by 128 bytes,
  /// swizzled. \param rows  -1: those of the launch.
  void addMap(const GemmProblem &problem, int arg, const char *name,
              int64_t rows, int boxRows);
  /// The block scales of x, column-major [cdiv(K, bk), M] (P3), as boxes of
  /// `boxCols` rows of x by the blocks of 128 of K.
  void addScaleMap(const GemmProblem &problem, const char *name, int boxCols);
  void addRowCount();
};

/// `head` and a list, on lines of 100 columns; later ones are indented.
std::string wrapList(const std::string &head, std::string_view list);

/// The function after the alias `Config`: calls `function<Config>`.
/// \param perSm  CTAs of a multiprocessor that registers are for; 0: not said.
std::string entryText(const KernelInstance &instance, const char *function,
                      const GemmSignature &signature, int perSm = 0);

/// Why a kernel that copies rows of both operands in bulk, E4M3 or 16 bits,
/// does not make a problem whatever its scales; "" if it may.
std::string rejectBulkCopied(const GemmProblem &problem);

/// A launch without variants: names, bytes and arithmetic.
KernelLaunch startGemmLaunch(const GemmProblem &problem);

} // namespace octet::cuda

#endif // OCTET_LIB_CUDASOURCE_GEMMTEXT_H
