//===- mma_tile.cuh - Tiles and constants of mma_gemm.cuh -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How K is cut into tiles and groups, where a tile lies in shared memory, and how it gets there.
//
// Shared rows are whole lines of 128 bytes. A chunk of 16 bytes lies at its index XOR bits of its
// row, so that the eight rows of one access are in different banks: the lowest three bits of the
// row for ldmatrix; for x of a widening product, whose fragments are loads of 8 bytes, the lowest
// two, times two.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/cp_async.cuh"
#include "ptx/mma_sync.cuh"
#include "tile/scales.cuh"
#include "tile/shards.cuh"

namespace octet::cuda {

constexpr __host__ __device__ int greatestDivisor(int a, int b) {
  return b == 0 ? a : greatestDivisor(b, a % b);
}

/// Columns of K in tiles. A tile has whole groups; a group is what is summed before it is promoted
/// to FP32 with the scale of its block. Where instructions do not fill a block of `kBlockK`, a tile
/// is a part of one block, and what an instruction has beyond it is zeros.
///   kPlainK  columns of a tile where blocks do not matter
///   kStep    columns that the warps take at a time
///   kBlockK  of the scales; 0: none
template <int kK, int kPlainK, int kStep, int kBlockK>
struct KTiles {
  static constexpr bool kIsWhole =
      kBlockK == 0 || (kBlockK % kStep == 0 && (kPlainK % kBlockK == 0 || kBlockK % kPlainK == 0));
  static constexpr int kParts = kIsWhole ? 1 : divideUp(kBlockK, kPlainK);
  static constexpr int kPart = kIsWhole ? kPlainK : alignUp(divideUp(kBlockK, kParts), 16);
  static constexpr int kTileK = alignUp(kPart, kStep);
  static constexpr int kGroup = kIsWhole && kBlockK > 0 ? minOf(kBlockK, kTileK) : kTileK;
  static constexpr int kGroups = kTileK / kGroup;
  static constexpr int kBlocks = kBlockK > 0 ? divideUp(kK, kBlockK) : 1;
  static constexpr int kCount = kIsWhole ? divideUp(kK, kPlainK) : kBlocks * kParts;
  /// Every tile begins and ends at a multiple of it, except that the last ends at K.
  static constexpr int kAlignment = kIsWhole ? kPlainK : greatestDivisor(kBlockK, 16);

  static OCTET_DEVICE int begin(int tile) {
    return kIsWhole ? tile * kTileK : tile / kParts * kBlockK + tile % kParts * kPart;
  }
  static OCTET_DEVICE int end(int tile) {
    return kIsWhole ? minOf((tile + 1) * kTileK, kK)
                    : minOf(minOf(begin(tile) + kPart, (tile / kParts + 1) * kBlockK), kK);
  }
  /// The block of a group; kBlocks and more for a group beyond K.
  static OCTET_DEVICE int block(int tile, int group) {
    return kIsWhole ? (tile * kTileK + group * kGroup) / maxOf(kBlockK, 1) : tile / kParts;
  }
  static OCTET_DEVICE bool isBlock(int block) {
    return !kIsWhole || kCount * kTileK <= kBlocks * kBlockK || block < kBlocks;
  }
};

/// Rows of a matrix [*, kK] of T in shared memory.
///   kByPairs  chunks lie as loads of 8 bytes want them (above)
template <class T, int kRows_, int kK, class Tiles, int kThreads, bool kByPairs>
struct MmaTile {
  static constexpr int kSize = sizeof(T), kRows = kRows_;
  static constexpr int kPitch = alignUp(Tiles::kTileK * kSize, 128);
  static constexpr int kBytes = kRows * kPitch;
  static constexpr int kChunks = Tiles::kTileK * kSize / 16;
  /// Bytes that every address of a chunk in global memory is a multiple of.
  static constexpr int kAlign =
      greatestDivisor(greatestDivisor(kK * kSize, Tiles::kAlignment *kSize), 16);

  static OCTET_DEVICE u32 place(int row, int chunk) {
    return row * kPitch + ((chunk ^ (kByPairs ? (row & 3) << 1 : row & 7)) << 4);
  }

  /// Copies columns [begin, end) of `rows` rows that start at `from`; zeros around.
  static OCTET_DEVICE void copy(u32 to, const T *from, int rows, int begin, int end) {
    // With this many rows between a thread's chunks they are the same chunk of their rows, in the
    // same place: addresses differ by constants.
    constexpr int kRowStep = kThreads / kChunks;
    const char *base = reinterpret_cast<const char *>(from);
    if constexpr (kIsEven) {
      int row = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
      int valid = validBytes(begin, end, chunk);
      const char *source = base + static_cast<i64>(row) * kK * kSize + begin * kSize + chunk * 16;
      u32 target = to + place(row, chunk);
#pragma unroll
      for (int i = 0; i < divideUp(kRows, kRowStep); ++i)
        if (kRows % kRowStep == 0 || row + i * kRowStep < kRows)
          copyChunk(target + i * kRowStep * kPitch,
                    source + static_cast<i64>(i) * kRowStep * kK * kSize,
                    row + i * kRowStep < rows ? valid : 0);
    } else {
      for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
        int row = i / kChunks, chunk = i % kChunks;
        copyChunk(to + place(row, chunk),
                  base + static_cast<i64>(row) * kK * kSize + begin * kSize + chunk * 16,
                  row < rows ? validBytes(begin, end, chunk) : 0);
      }
    }
  }

private:
  static constexpr bool kIsEven = kThreads % kChunks == 0 && kThreads / kChunks % 8 == 0;

  static OCTET_DEVICE int validBytes(int begin, int end, int chunk) {
    if constexpr (Tiles::kIsWhole && kK % Tiles::kTileK == 0)
      return 16;
    else
      return minOf(maxOf((end - begin) * kSize - chunk * 16, 0), 16);
  }

  /// Nothing is read where `valid` is 0, whatever the address.
  static OCTET_DEVICE void copyChunk(u32 to, const char *from, int valid) {
    if constexpr (kAlign >= 4) {
#pragma unroll
      for (int i = 0; i < 16; i += kAlign)
        cpAsync<kAlign>(to + i, from + i, minOf(maxOf(valid - i, 0), kAlign));
    } else {
      // Rows are not aligned to words: through registers, by elements.
      u32 words[4] = {};
#pragma unroll
      for (int i = 0; i < 16; i += kAlign)
        if (i < valid) {
          u32 bits = kAlign == 2 ? *reinterpret_cast<const u16 *>(from + i)
                                 : *reinterpret_cast<const u8 *>(from + i);
          words[i / 4] |= bits << (i % 4 * 8);
        }
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]),
                   "r"(words[1]), "r"(words[2]), "r"(words[3])
                   : "memory");
    }
  }
};

} // namespace octet::cuda
