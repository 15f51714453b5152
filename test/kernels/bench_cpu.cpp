//===- bench_cpu.cpp - How near the kernels come to the machine
//---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `probe` is the read bandwidth of the same threads over a buffer that no cache
// holds. Decode is compared with a probe taken right before it (`share`), on
// weights of 1 GiB in all, so that each byte comes from memory; prefill and
// attention give FLOP/s. Names: M, N, K, threads.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/CpuBackend.h"
#include "runtime/cpu/Grouped.h"
#include "runtime/cpu/Level.h"

#include <benchmark/benchmark.h>
#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using namespace octet;

namespace {

constexpr int64_t kBufferBytes = int64_t(1) << 30;

int level = -1;

double now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Bytes that all benchmarks read as weights, each byte a small E4M3 or the
/// half of a small BF16 or F16.
const uint8_t *weights() {
  static uint8_t *data = [] {
    auto *p = static_cast<uint8_t *>(std::aligned_alloc(1 << 21, kBufferBytes));
    madvise(p, kBufferBytes, MADV_HUGEPAGE); // as random weights are
    uint32_t state = 1;
    for (int64_t i = 0; i < kBufferBytes; ++i) {
      state = state * 1664525u + 1013904223u;
      p[i] = static_cast<uint8_t>((state >> 24 & 0x87) | 0x38);
    }
    return p;
  }();
  return data;
}

/// Four streams of a 256 KiB piece, fetched ahead: one alone does not keep
/// enough lines on their way.
__attribute__((target("avx2"))) uint64_t readAll(const uint8_t *p) {
  constexpr int64_t kStream = 64 << 10;
  __m256i sum[4] = {};
  for (int64_t i = 0; i < kStream; i += 64) {
    for (int s = 0; s < 4; ++s) {
      const uint8_t *line = p + s * kStream + i;
      _mm_prefetch(reinterpret_cast<const char *>(line + 1536), _MM_HINT_T1);
      const auto *words = reinterpret_cast<const __m256i *>(line);
      sum[s] = _mm256_xor_si256(sum[s],
                                _mm256_xor_si256(_mm256_load_si256(words),
                                                 _mm256_load_si256(words + 1)));
    }
  }
  const __m256i all = _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]),
                                       _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(all, 0));
}

/// Best of three passes, bytes per second.
double probe(rt::ThreadPool &pool) {
  double best = 0;
  for (int pass = 0; pass < 3; ++pass) {
    const double start = now();
    pool.parallelChunks(kBufferBytes >> 18, 1, [&](int64_t b, int64_t e) {
      for (int64_t piece = b; piece < e; ++piece)
        benchmark::DoNotOptimize(readAll(weights() + (piece << 18)));
    });
    best = std::max(best, kBufferBytes / (now() - start));
  }
  return best;
}

enum Kind { BF16, Channel, Block, Q8_0, Q4_0, Q4_1 };
const char *const kKindNames[] = {"bf16", "fp8-channel", "fp8-block",
                                  "q8_0", "q4_0",        "q4_1"};

struct Product {
  octet_gemm_desc desc{};
  std::vector<float> xScale, wScale;
  std::vector<uint8_t> x;
  std::vector<uint16_t> y;
  int64_t m, weightBytes;
  bool cached = false; ///< the same weights each time

  Product(Kind kind, int64_t m, int64_t n, int64_t k) : m(m) {
    const bool fp8 = kind == Channel || kind == Block;
    const int64_t blocks = (k + 127) / 128;
    desc.module = "bench";
    desc.n = n, desc.k = k;
    desc.block_n = desc.block_k = kind == Block ? 128 : 0;
    desc.x_type = fp8 ? OCTET_E4M3 : OCTET_BF16;
    desc.w_type = fp8            ? OCTET_E4M3
                  : kind == BF16 ? OCTET_BF16
                  : kind == Q8_0 ? OCTET_Q8_0
                                 : OCTET_TILES;
    desc.y_type = OCTET_BF16;
    desc.bias_type = -1;
    desc.w_scale_mode = desc.x_scale_mode = kind == Block ? OCTET_SCALE_BLOCK
                                            : fp8         ? OCTET_SCALE_CHANNEL
                                                          : OCTET_SCALE_NONE;
    xScale.assign(m * blocks, 0.5f);
    wScale.assign(n * blocks, 0.5f);
    x.assign(m * k * (fp8 ? 1 : 2), 0x38);
    y.assign(m * n, 0);
    constexpr int64_t kBlockBytes[] = {64, 32, 32, 34};
    if (kind < Q4_0) {
      weightBytes = n * k / 32 * kBlockBytes[kind];
      return;
    }
    desc.groups.size = 32;
    desc.groups.bits = 4;
    desc.groups.code = kind == Q4_0 ? OCTET_CODE_BIASED : OCTET_CODE_UNSIGNED;
    desc.groups.scale_type = OCTET_F16;
    desc.groups.offset =
        kind == Q4_0 ? OCTET_OFFSET_NONE : OCTET_OFFSET_MINIMUMS;
    weightBytes = rt::tileLayoutOf(desc.groups, k).bytes(n);
  }
  void run(rt::ThreadPool &pool, int64_t turn) {
    const int64_t copies = cached ? 1 : kBufferBytes / weightBytes;
    octet_weight w{};
    w.num_parts = 1;
    w.parts[0] = {weights() + turn % copies * weightBytes, wScale.data(),
                  desc.n, -1, -1};
    rt::kernelTable(level).gemm(pool, desc, m, x.data(), xScale.data(), w,
                                nullptr, y.data());
  }
};

void product(benchmark::State &state, Kind kind, int64_t m, int64_t n,
             int64_t k, int threads, bool cached = false) {
  rt::ThreadPool pool(threads);
  Product p(kind, m, n, k);
  p.cached = cached;
  const double bandwidth = m <= 8 ? probe(pool) : 0;
  int64_t turn = 0;
  for (int i = 0; i < 3; ++i)
    p.run(pool, turn++);
  const double start = now();
  int64_t runs = 0;
  for (auto _ : state) {
    p.run(pool, turn++);
    ++runs;
  }
  const double seconds = (now() - start) / static_cast<double>(runs);
  state.counters["GFLOP/s"] = 2e-9 * static_cast<double>(m * n * k) / seconds;
  if (m <= 8) {
    state.counters["GB/s"] =
        1e-9 * static_cast<double>(p.weightBytes) / seconds;
    state.counters["probe"] = 1e-9 * bandwidth;
    state.counters["share"] =
        static_cast<double>(p.weightBytes) / seconds / bandwidth;
  }
}

/// One sequence: `rows` new rows at the end of `context` tokens.
void attention(benchmark::State &state, int32_t kvType, int64_t rows,
               int64_t context, int64_t qHeads, int64_t kvHeads, int64_t dim,
               int threads) {
  rt::ThreadPool pool(threads);
  const int64_t pages = (context + OCTET_PAGE - 1) / OCTET_PAGE;
  std::vector<int32_t> table(pages), positions(rows);
  for (int64_t i = 0; i < pages; ++i)
    table[i] = static_cast<int32_t>(i);
  for (int64_t i = 0; i < rows; ++i)
    positions[i] = static_cast<int32_t>(context - rows + i);
  const int64_t bytes =
      pages * OCTET_PAGE * kvHeads * dim * (kvType == OCTET_E4M3 ? 1 : 2);
  octet_sequence sequence{0, rows, context, table.data()};
  octet_batch batch{};
  batch.num_rows = rows;
  batch.positions = positions.data();
  batch.num_sequences = 1;
  batch.sequences = &sequence;
  std::vector<uint16_t> q(rows * qHeads * dim, 0x3C00), y(q.size());
  octet_attention_desc desc{"bench",    qHeads, kvHeads, dim, 0,
                            OCTET_BF16, kvType, 0.08f,   0};
  const float scale = 0.5f;
  // Layers one after the other, as a step has them.
  const int64_t copies = std::max<int64_t>(1, kBufferBytes / (2 * bytes));
  const double bandwidth = rows == 1 ? probe(pool) : 0;
  int64_t turn = 0, runs = 0;
  const double start = now();
  for (auto _ : state) {
    auto *base = const_cast<uint8_t *>(weights()) + turn++ % copies * 2 * bytes;
    rt::kernelTable(level).attention(pool, desc, {base, base + bytes}, batch,
                                     q.data(), &scale, &scale, y.data());
    ++runs;
  }
  const double seconds = (now() - start) / static_cast<double>(runs);
  double keys = 0;
  for (int32_t p : positions)
    keys += p + 1;
  state.counters["GFLOP/s"] =
      4e-9 * keys * static_cast<double>(qHeads * dim) / seconds;
  if (rows == 1) {
    const double read = 2.0 * static_cast<double>(context * kvHeads * dim) *
                        (kvType == OCTET_E4M3 ? 1 : 2);
    state.counters["GB/s"] = 1e-9 * read / seconds;
    state.counters["share"] = read / seconds / bandwidth;
  }
}

/// An empty loop on the pool.
void dispatch(benchmark::State &state, int threads) {
  rt::ThreadPool pool(threads);
  for (auto _ : state)
    pool.parallelChunks(2 * threads, 1, [](int64_t, int64_t) {});
}

void add(const std::string &name, auto &&function) {
  benchmark::RegisterBenchmark(name.c_str(), function)
      ->Unit(benchmark::kMicrosecond)
      ->UseRealTime();
}

} // namespace

int main(int argc, char **argv) {
  level = rt::detectLevel();
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--simd=", 7) == 0)
      level = std::min(level, rt::parseLevel(argv[i] + 7).value_or(level));
    else
      argv[kept++] = argv[i];
  }
  argc = kept;

  std::vector<int> threadCounts = {1};
  if (rt::ThreadPool::defaultThreads() > 1)
    threadCounts.push_back(rt::ThreadPool::defaultThreads());
  for (int t : threadCounts) {
    const std::string suffix = "/threads:" + std::to_string(t);
    add("dispatch" + suffix, [t](benchmark::State &s) { dispatch(s, t); });
    for (Kind kind : {BF16, Channel, Block, Q8_0, Q4_0, Q4_1}) {
      for (int64_t m : {1, 4})
        add(std::string("cached/") + kKindNames[kind] + "/" +
                std::to_string(m) + "x128x2048" + suffix,
            [=](benchmark::State &s) {
              product(s, kind, m, 128, 2048, t, /*cached=*/true);
            });
      for (int64_t m : {1, 4, 8, 32, 512}) {
        for (auto [n, k] : {std::pair<int64_t, int64_t>{5632, 2048},
                            {2048, 5632},
                            {3072, 576},
                            {576, 1536}}) {
          const std::string name =
              std::string(m <= 8 ? "decode/" : "prefill/") + kKindNames[kind] +
              "/" + std::to_string(m) + "x" + std::to_string(n) + "x" +
              std::to_string(k) + suffix;
          add(name, [=](benchmark::State &s) { product(s, kind, m, n, k, t); });
        }
      }
    }
    for (int32_t type : {int32_t(OCTET_BF16), int32_t(OCTET_E4M3)}) {
      const std::string kv = type == OCTET_BF16 ? "/bf16" : "/e4m3";
      add("attention/decode" + kv + "/1024x32/4x64" + suffix,
          [=](benchmark::State &s) {
            attention(s, type, 1, 1024, 32, 4, 64, t);
          });
      add("attention/decode" + kv + "/1024x9/3x64" + suffix,
          [=](benchmark::State &s) {
            attention(s, type, 1, 1024, 9, 3, 64, t);
          });
      add("attention/decode" + kv + "/8192x32/8x128" + suffix,
          [=](benchmark::State &s) {
            attention(s, type, 1, 8192, 32, 8, 128, t);
          });
      add("attention/prefill" + kv + "/512x32/4x64" + suffix,
          [=](benchmark::State &s) {
            attention(s, type, 512, 512, 32, 4, 64, t);
          });
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("simd", std::string(rt::levelName(level)));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
