//===- fake_kernels.h - The kernels of fake_cuda_program.c ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On the processor, in the order of fake_program.c: for fake_cuda.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_FAKE_KERNELS_H
#define OCTET_TEST_UNIT_FAKE_KERNELS_H

#include "runtime/abi.h"
#include "runtime/core/Sampler.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace octet::test {

struct FakeKernel {
  std::string params; ///< p: address, i: int32, m: tensor map
  /// \returns false if a value is not what it has to be.
  bool (*run)(const FakeKernel &, const void *const *params) = nullptr;
  int n = 0, k = 0;
};

namespace fake {
inline constexpr int kHidden = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 16;
inline constexpr int kQ = kHeads * kHeadDim, kKv = kKvHeads * kHeadDim;

template <typename T>
T get(const void *const *params, int i) {
  T value;
  std::memcpy(&value, params[i], sizeof(T));
  return value;
}

inline bool embed(const FakeKernel &, const void *const *p) {
  auto *table = get<const float *>(p, 0);
  auto *ids = get<const int32_t *>(p, 1);
  auto *positions = get<const int32_t *>(p, 2);
  auto *h = get<float *>(p, 3);
  for (int i = 0; i < get<int32_t>(p, 4); ++i)
    for (int j = 0; j < kHidden; ++j)
      h[i * kHidden + j] = table[ids[i] * kHidden + j] +
                           (j == 0 ? float(positions[i]) * 0.015625f : 0.0f);
  return true;
}

inline void multiply(const float *x, const float *w, float *y, int rows, int n,
                     int k) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l)
        sum += x[i * k + l] * w[j * k + l];
      y[i * n + j] = sum;
    }
}

inline bool gemm(const FakeKernel &kernel, const void *const *p) {
  multiply(get<const float *>(p, 0), get<const float *>(p, 1),
           get<float *>(p, 2), get<int32_t>(p, 3), kernel.n, kernel.k);
  return true;
}

/// The map's fields are those of fake_cuda.cpp.
inline bool mapGemm(const FakeKernel &kernel, const void *const *p) {
  uint64_t map[16];
  std::memcpy(map, p[0], sizeof(map));
  const int32_t rows = get<int32_t>(p, 3);
  multiply(reinterpret_cast<const float *>(map[0]), get<const float *>(p, 1),
           get<float *>(p, 2), rows, kernel.n, kernel.k);
  return map[1] == uint64_t(kernel.k) && map[2] == uint64_t(rows) &&
         map[3] == uint64_t(kernel.k) * 4 && map[5] == uint64_t(kernel.k) &&
         map[6] == 8;
}

inline bool split(const FakeKernel &, const void *const *p) {
  auto *qkv = get<const float *>(p, 0);
  auto *slots = get<const int32_t *>(p, 1);
  auto *k = get<float *>(p, 2), *v = get<float *>(p, 3);
  auto *q = get<float *>(p, 4);
  for (int i = 0; i < get<int32_t>(p, 5); ++i) {
    const float *row = qkv + i * (kQ + 2 * kKv);
    std::copy_n(row, kQ, q + i * kQ);
    std::copy_n(row + kQ, kKv, k + slots[i] * kKv);
    std::copy_n(row + kQ + kKv, kKv, v + slots[i] * kKv);
  }
  return true;
}

inline bool attention(const FakeKernel &, const void *const *p) {
  auto *q = get<const float *>(p, 0);
  auto *k = get<const float *>(p, 1), *v = get<const float *>(p, 2);
  auto *y = get<float *>(p, 3);
  auto *sequences = get<const octet_device_sequence *>(p, 4);
  auto *pages = get<const int32_t *>(p, 5);
  const int32_t count = get<int32_t>(p, 6);
  for (int s = 0; s < count; ++s) {
    const octet_device_sequence &sequence = sequences[s];
    for (int r = 0; r < sequence.num_rows; ++r)
      for (int head = 0; head < kHeads; ++head) {
        const int keys = sequence.context - sequence.num_rows + r + 1;
        const int row = sequence.first_row + r;
        const float *query = q + row * kQ + head * kHeadDim;
        const int kvHead = head / (kHeads / kKvHeads);
        auto at = [&](const float *cache, int key) {
          const int page = pages[sequence.first_page + key / OCTET_PAGE];
          return cache + (page * OCTET_PAGE + key % OCTET_PAGE) * kKv +
                 kvHead * kHeadDim;
        };
        std::vector<float> scores;
        float largest = -INFINITY, sum = 0;
        for (int key = 0; key < keys; ++key) {
          float dot = 0;
          for (int d = 0; d < kHeadDim; ++d)
            dot += query[d] * at(k, key)[d];
          scores.push_back(dot * 0.25f);
          largest = std::max(largest, scores.back());
        }
        float *out = y + row * kQ + head * kHeadDim;
        std::fill_n(out, kHeadDim, 0.0f);
        for (int key = 0; key < keys; ++key) {
          const float weight = std::exp(scores[key] - largest);
          sum += weight;
          for (int d = 0; d < kHeadDim; ++d)
            out[d] += weight * at(v, key)[d];
        }
        for (int d = 0; d < kHeadDim; ++d)
          out[d] /= sum;
      }
  }
  return true;
}

inline bool add(const FakeKernel &, const void *const *p) {
  auto *h = get<float *>(p, 0);
  auto *o = get<const float *>(p, 1);
  auto *workspace = get<const int32_t *>(p, 2);
  for (int i = 0; i < get<int32_t>(p, 3) * kHidden; ++i)
    h[i] += o[i];
  return workspace[0] == 0 && workspace[15] == 0;
}

inline bool output(const FakeKernel &, const void *const *p) {
  auto *h = get<const float *>(p, 0);
  auto *rows = get<const int32_t *>(p, 1);
  auto *o = get<float *>(p, 2);
  for (int i = 0; i < get<int32_t>(p, 3); ++i)
    for (int j = 0; j < kHidden; ++j)
      o[i * kHidden + j] = h[rows[i] * kHidden + j] * 0.0625f;
  return true;
}

/// What the processor draws; the scratch is written as far as it goes.
inline bool sample(const FakeKernel &kernel, const void *const *p) {
  auto *logits = get<const float *>(p, 0);
  auto *options = get<const octet_sample_row *>(p, 1);
  auto *tokens = get<int32_t *>(p, 2);
  std::memset(get<char *>(p, 3), 1, size_t(256 * get<int32_t>(p, 4)));
  for (int i = 0; i < get<int32_t>(p, 4); ++i) {
    const octet_sample_row &o = options[i];
    rt::SamplerOptions given;
    given.temperature = o.temperature;
    given.topK = o.top_k;
    given.topP = o.top_p;
    given.minP = o.min_p;
    tokens[i] = rt::drawTokenAt({logits + i * kernel.n, size_t(kernel.n)},
                                given, o.uniform);
  }
  return true;
}

/// Rewrites of a weight of F32 that only a test would make: a code is the
/// element as an integer, a scale the first element of a row, or the largest of
/// all doubled.
inline bool rewriteRows(const FakeKernel &kernel, const void *const *p) {
  auto *in = get<const float *>(p, 0);
  auto *out = get<uint8_t *>(p, 1);
  for (int i = 0; i < get<int32_t>(p, 3); ++i) {
    get<float *>(p, 2)[i] = in[i * kernel.k];
    for (int j = i * kernel.k; j < (i + 1) * kernel.k; ++j)
      out[j] = uint8_t(in[j]);
  }
  return true;
}
inline bool findLargest(const FakeKernel &kernel, const void *const *p) {
  auto *in = get<const float *>(p, 0);
  auto *scale = get<float *>(p, 1);
  for (int i = 0; i < get<int32_t>(p, 2) * kernel.k; ++i)
    scale[1] = std::max(scale[1], in[i]);
  return true;
}
inline bool rewriteAll(const FakeKernel &kernel, const void *const *p) {
  auto *in = get<const float *>(p, 0);
  auto *out = get<uint8_t *>(p, 1);
  get<float *>(p, 2)[0] = 2 * get<float *>(p, 2)[1];
  for (int i = 0; i < get<int32_t>(p, 3) * kernel.k; ++i)
    out[i] = uint8_t(in[i]);
  return true;
}
} // namespace fake

/// Without `run` if there is no such kernel.
inline FakeKernel findFakeKernel(const std::string &entry) {
  FakeKernel kernel;
  if (std::sscanf(entry.c_str(), "fake_gemm_%d_%d", &kernel.n, &kernel.k) == 2)
    return {"pppi", fake::gemm, kernel.n, kernel.k};
  if (std::sscanf(entry.c_str(), "fake_map_gemm_%d_%d", &kernel.n, &kernel.k) ==
      2)
    return {"mppi", fake::mapGemm, kernel.n, kernel.k};
  if (std::sscanf(entry.c_str(), "fake_sample_%d", &kernel.n) == 1)
    return {"ppppi", fake::sample, kernel.n};
  if (std::sscanf(entry.c_str(), "fake_rewrite_rows_%d", &kernel.k) == 1)
    return {"pppi", fake::rewriteRows, 0, kernel.k};
  if (std::sscanf(entry.c_str(), "fake_largest_%d", &kernel.k) == 1)
    return {"ppi", fake::findLargest, 0, kernel.k};
  if (std::sscanf(entry.c_str(), "fake_rewrite_all_%d", &kernel.k) == 1)
    return {"pppi", fake::rewriteAll, 0, kernel.k};
  if (entry == "fake_embed")
    return {"ppppi", fake::embed};
  if (entry == "fake_split")
    return {"pppppi", fake::split};
  if (entry == "fake_attention")
    return {"ppppppi", fake::attention};
  if (entry == "fake_add")
    return {"pppi", fake::add};
  if (entry == "fake_output")
    return {"pppi", fake::output};
  return {};
}

} // namespace octet::test

#endif // OCTET_TEST_UNIT_FAKE_KERNELS_H
