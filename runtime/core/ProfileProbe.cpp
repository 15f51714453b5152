//===- ProfileProbe.cpp - What the machine could do -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/ProfileProbe.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Clock.h"
#include "runtime/abi.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <immintrin.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace octet;
using namespace octet::rt;

/// Keeps a result that nobody reads.
template <typename T>
static void keep(const T &value) {
  asm volatile("" : : "m"(value) : "memory");
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Streams of a piece that one thread reads side by side, each fetched into the
/// second-level cache ahead of its use: the fastest of the patterns tried.
static constexpr int kStreams = 4;
static constexpr int64_t kStreamBytes = 64 << 10;
static constexpr int64_t kPieceBytes = kStreams * kStreamBytes;
static constexpr int64_t kAheadBytes = 1536;

__attribute__((target("avx2"))) static void readPiece(const std::byte *piece) {
  __m256i sum[kStreams] = {};
  for (int64_t i = 0; i < kStreamBytes; i += 64)
    for (int s = 0; s < kStreams; ++s) {
      const std::byte *line = piece + s * kStreamBytes + i;
      _mm_prefetch(reinterpret_cast<const char *>(line + kAheadBytes),
                   _MM_HINT_T1);
      const auto *words = reinterpret_cast<const __m256i *>(line);
      sum[s] = _mm256_xor_si256(sum[s],
                                _mm256_xor_si256(_mm256_load_si256(words),
                                                 _mm256_load_si256(words + 1)));
    }
  keep(sum);
}

ReadProbe::ReadProbe(ReadProbe &&o) noexcept { *this = std::move(o); }

ReadProbe &ReadProbe::operator=(ReadProbe &&o) noexcept {
  std::swap(base, o.base);
  std::swap(size, o.size);
  std::swap(next, o.next);
  return *this;
}

ReadProbe::~ReadProbe() {
  if (base)
    munmap(base, size);
}

Result<ReadProbe> ReadProbe::create(ThreadPool &pool, int64_t bytes) {
  if (bytes <= 0) {
    bytes =
        std::max<int64_t>(int64_t(1) << 30, 4 * sysconf(_SC_LEVEL3_CACHE_SIZE));
    auto memory = checkedMul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE));
    if (memory && *memory > 0)
      bytes = std::min(bytes, *memory / 4);
  }
  ReadProbe probe;
  probe.size = size_t(alignTo(bytes, kPieceBytes));
  void *map = mmap(nullptr, probe.size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return machineError(
        "bench", "the bandwidth probe needs " + std::to_string(probe.size) +
                     " bytes of memory: " + std::strerror(errno));
  probe.base = static_cast<std::byte *>(map);
  madvise(map, probe.size, MADV_HUGEPAGE);
  // Written, or every page would be the same zeros in the cache.
  pool.parallelChunks(int64_t(probe.size) / kPieceBytes, 1,
                      [&](int64_t begin, int64_t end) {
                        std::memset(probe.base + begin * kPieceBytes, 0x5A,
                                    size_t((end - begin) * kPieceBytes));
                      });
  return probe;
}

/// Pieces from `first`, around the end.
void ReadProbe::read(ThreadPool &pool, int64_t first, int64_t pieces) const {
  const int64_t all = int64_t(size) / kPieceBytes;
  pool.parallelChunks(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      readPiece(base + (first + i) % all * kPieceBytes);
  });
}

double ReadProbe::measure(ThreadPool &pool, int passes) const {
  double best = 0;
  for (int pass = 0; pass < passes; ++pass) {
    const auto start = Clock::now();
    read(pool, 0, int64_t(size) / kPieceBytes);
    best = std::max(best, double(size) / secondsSince(start));
  }
  return best;
}

double ReadProbe::measureNext(ThreadPool &pool, int64_t bytes) {
  const int64_t pieces = std::max<int64_t>(bytes / kPieceBytes, 1);
  const auto start = Clock::now();
  read(pool, next, pieces);
  const double seconds = secondsSince(start);
  next = (next + pieces) % (int64_t(size) / kPieceBytes);
  return double(pieces * kPieceBytes) / seconds;
}

//===----------------------------------------------------------------------===//
// Multiplying
//===----------------------------------------------------------------------===//

/// Independent sums: more than an instruction's latency has room for, fewer
/// than there are registers.
static constexpr int kSums = 12;

// Zeros: they stay zeros, and no operand is subnormal. The assembly hides them
// from the optimiser, which would compute the sums itself.

__attribute__((target("avx512f,avx512bf16"))) static void
dotBFloat16(int64_t steps) {
  __m512 sum[kSums] = {};
  __m512i a = _mm512_setzero_si512(), b = a;
  for (int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma clang loop unroll(full)
    for (int i = 0; i < kSums; ++i)
      sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)b);
  }
  keep(sum);
}

__attribute__((target("avx512f"))) static void fma512(int64_t steps) {
  __m512 sum[kSums] = {}, a = _mm512_setzero_ps(), b = a;
  for (int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma clang loop unroll(full)
    for (int i = 0; i < kSums; ++i)
      sum[i] = _mm512_fmadd_ps(a, b, sum[i]);
  }
  keep(sum);
}

__attribute__((target("avx2,fma"))) static void fma256(int64_t steps) {
  __m256 sum[kSums] = {}, a = _mm256_setzero_ps(), b = a;
  for (int64_t step = 0; step < steps; ++step) {
    asm volatile("" : "+x"(a), "+x"(b));
#pragma clang loop unroll(full)
    for (int i = 0; i < kSums; ++i)
      sum[i] = _mm256_fmadd_ps(a, b, sum[i]);
  }
  keep(sum);
}

struct alignas(64) TileShapes {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Four tile products a step: 16 x 16 sums of 32 multiply-adds each.
__attribute__((target("amx-tile,amx-bf16"))) static void
dotTiles(int64_t steps) {
  static constexpr TileShapes kShapes;
  _tile_loadconfig(&kShapes);
  _tile_zero(0), _tile_zero(1), _tile_zero(2), _tile_zero(3);
  _tile_zero(4), _tile_zero(5), _tile_zero(6), _tile_zero(7);
  for (int64_t step = 0; step < steps; ++step) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

const char *rt::dotKindName(DotKind kind) {
  switch (kind) {
  case DotKind::Float32Fma:
    return "f32 fma";
  case DotKind::BFloat16Dot:
    return "bf16 dot";
  case DotKind::BFloat16Tile:
    return "bf16 tile";
  }
  return "";
}

DotKind rt::dotKindOf(int level, bool isBFloat16) {
  if (!isBFloat16 || level < OCTET_LEVEL_BF16)
    return DotKind::Float32Fma;
  return level == OCTET_LEVEL_BF16 ? DotKind::BFloat16Dot
                                   : DotKind::BFloat16Tile;
}

double rt::measureDotPeak(ThreadPool &pool, int level, DotKind kind) {
  // A tenth of a millisecond a run: short enough that one falls between the
  // other processes of a busy machine, long enough for the clock.
  int64_t steps = 10'000, sums = kSums;
  constexpr int kRuns = 500;
  void (*run)(int64_t) = fma256;
  int64_t lanes = 8;
  if (kind == DotKind::BFloat16Dot) {
    run = dotBFloat16;
    lanes = 32;
  } else if (kind == DotKind::BFloat16Tile) {
    run = dotTiles;
    steps = 2'000; // a tile product takes 16 cycles
    sums = 4;
    lanes = 16 * 16 * 32;
  } else if (level >= OCTET_LEVEL_AVX512) {
    run = fma512;
    lanes = 16;
  }
  const int64_t tasks = 4 * pool.size();
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const auto start = Clock::now();
    pool.parallelChunks(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task)
        run(steps);
    });
    best = std::max(best, double(tasks * steps * sums * lanes * 2) /
                              secondsSince(start));
  }
  return best;
}
