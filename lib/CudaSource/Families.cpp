//===- Families.cpp - Which template makes which operator -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/Families.h"
#include "lib/CudaSource/Attention.h"
#include "lib/CudaSource/Mma.h"
#include "lib/CudaSource/Sm100.h"
#include "lib/CudaSource/Sm90.h"
#include <iterator>

using namespace octet;
using namespace octet::cuda;

Param Param::address(int arg) {
  Param param;
  param.kind = OCTET_PARAM_ADDRESS;
  param.arg = arg;
  return param;
}

static Param ofKind(int32_t kind) {
  Param param;
  param.kind = kind;
  return param;
}

Param Param::rowCount() { return ofKind(OCTET_PARAM_ROWS); }
Param Param::sequences() { return ofKind(OCTET_PARAM_SEQUENCES); }
Param Param::numSequences() { return ofKind(OCTET_PARAM_NUM_SEQUENCES); }
Param Param::pages() { return ofKind(OCTET_PARAM_PAGES); }
Param Param::workspace() { return ofKind(OCTET_PARAM_WORKSPACE); }

namespace {
template <typename Family>
struct Row {
  std::string_view kernel;
  Family make;
};
} // namespace

// Each family declares its function in a header of its own folder and has a
// line here.
static const Row<GemmFamily> kGemmFamilies[] = {
    {"mma.dense_gemm", makeMmaGemm},
    {"mma.fp8_block_gemm", makeMmaGemm},
    {"mma.fp8_channel_gemm", makeMmaGemm},
    {"mma.fp8_tensor_gemm", makeMmaGemm},
    {"cuda.fp8_generic_gemm", makeMmaGemm},
    {"cuda.fp8_weight_only_gemm", makeMmaGemm},
    {"sm90.dense_gemm", makeSm90Gemm},
    {"sm90.fp8_block_gemm", makeSm90Gemm},
    {"sm90.fp8_channel_gemm", makeSm90Gemm},
    {"sm90.fp8_tensor_gemm", makeSm90Gemm},
    {"sm100.dense_gemm", makeSm100Gemm},
    {"sm100.fp8_block_gemm", makeSm100Gemm},
    {"sm100.fp8_channel_gemm", makeSm100Gemm},
    {"sm100.fp8_tensor_gemm", makeSm100Gemm},
    {"", nullptr},
};

static const Row<AttentionFamily> kAttentionFamilies[] = {
    {"cuda.paged_attention", makePagedAttention},
    {"sm90.paged_attention", makePagedAttention},
    {"sm100.paged_attention", makePagedAttention},
};

template <typename Family, size_t N>
static Family find(const Row<Family> (&rows)[N], std::string_view kernel) {
  for (const Row<Family> &row : rows)
    if (row.kernel == kernel)
      return row.make;
  return nullptr;
}

GemmFamily octet::cuda::findGemmFamily(std::string_view kernel) {
  return find(kGemmFamilies, kernel);
}

AttentionFamily octet::cuda::findAttentionFamily(std::string_view kernel) {
  return find(kAttentionFamilies, kernel);
}

bool octet::cuda::hasTileTable(std::string_view kernel) {
  return findGemmFamily(kernel) == makeSm90Gemm;
}

std::vector<std::string>
octet::cuda::listGemmVariants(const GemmProblem &problem, int64_t m,
                              size_t most) {
  std::vector<std::string> names;
  if (!hasTileTable(problem.kernel))
    return names;
  for (const Sm90Tiles &tiles : listSm90Candidates(problem, m, most))
    names.push_back(nameSm90Tiles(problem, tiles));
  return names;
}

std::string_view octet::cuda::typeName(int32_t type) {
  switch (type) {
  case OCTET_F32:
    return "f32";
  case OCTET_BF16:
    return "bf16";
  case OCTET_F16:
    return "f16";
  case OCTET_E4M3:
    return "e4m3";
  case OCTET_E8M0:
    return "e8m0";
  case OCTET_I8:
    return "i8";
  default:
    return "?";
  }
}
