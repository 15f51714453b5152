//===- main.cpp - Printed row kernels against scalar code -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emulate.h"
#include KERNELS
#include <random>

using namespace octet::cuda;

namespace {

constexpr int kRows = 5;
std::mt19937 generator(20250611);

template <class T>
struct Buffer {
  // load16 aborts on what is not aligned as device memory is.
  T *data;
  size_t size;
  explicit Buffer(size_t size, T fill = {}) : size(size) {
    data = static_cast<T *>(
        std::aligned_alloc(256, (size * sizeof(T) + 255) / 256 * 256));
    std::fill(data, data + size, fill);
  }
  T &operator[](size_t i) { return data[i]; }
};

template <class T>
Buffer<T> gaussian(size_t size) {
  std::normal_distribution<float> normal;
  Buffer<T> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = fromFloat<T>(normal(generator));
  return values;
}

void expect(bool isSo, const char *what, int row, int at) {
  if (isSo)
    return;
  std::printf("%s: row %d, element %d\n", what, row, at);
  std::exit(1);
}

float decode(E4m3 x) {
  int code = x.bits & 0x7f;
  double size = code >> 3 ? std::ldexp(8.0 + (code & 7), (code >> 3) - 10)
                          : std::ldexp(double(code & 7), -9);
  return x.bits & 0x80 ? -size : size;
}

// The sum is rounded where the unfused program rounds it (N9), codes are within
// half a step (N5), and both variants give the same bits (B5).
void testNorm(const Launch &few, const Launch &many) {
  constexpr int K = 4096, kGroups = K / 128, kPitch = 8;
  auto x = gaussian<Bf16>(kRows * K), r = gaussian<Bf16>(kRows * K);
  auto w = gaussian<Bf16>(K);
  Buffer<Bf16> sums[2] = {Buffer<Bf16>(kRows * K), Buffer<Bf16>(kRows * K)};
  Buffer<E4m3> codes[2] = {Buffer<E4m3>(kRows * K), Buffer<E4m3>(kRows * K)};
  Buffer<float> scales[2] = {Buffer<float>(kGroups * kPitch, -1),
                             Buffer<float>(kGroups * kPitch, -1)};
  for (int i : {0, 1})
    launch(
        i ? many : few,
        {x.data, r.data, w.data, sums[i].data, codes[i].data, scales[i].data},
        kRows);
  for (int row = 0; row < kRows; ++row) {
    double squares = 0;
    for (int k = 0; k < K; ++k) {
      size_t at = row * K + k;
      float sum = toFloat(x[at]) + toFloat(r[at]);
      expect(sums[0][at].bits == fromFloat<Bf16>(sum).bits, "sum", row, k);
      expect(sums[0][at].bits == sums[1][at].bits, "sum (B5)", row, k);
      expect(codes[0][at].bits == codes[1][at].bits, "codes (B5)", row, k);
      squares += std::pow(toFloat(sums[0][at]), 2);
    }
    for (int k = 0; k < K; ++k) {
      size_t at = row * K + k, place = k / 128 * kPitch + row;
      double y = toFloat(sums[0][at]) / std::sqrt(squares / K) * toFloat(w[k]);
      float scale = scales[0][place];
      expect(scale == scales[1][place] && scale > 0, "scale (B5)", row, k);
      // Half a step of the code, and of the rounding to BF16 before it.
      double bound = std::fabs(y) * (0x1p-4 + 0x1p-7) + scale * 0x1p-10;
      expect(std::fabs(decode(codes[0][at]) * scale - y) <= bound, "code", row,
             k);
    }
  }
  // Scales of rows that are not there are not written.
  for (int group = 0; group < kGroups; ++group)
    for (int row = kRows; row < kPitch; ++row)
      expect(scales[0][group * kPitch + row] == -1, "pitch", row, group);
}

void testGroups(const Launch &how) {
  constexpr int K = 240, kGroup = 80;
  auto x = gaussian<float>(kRows * K);
  Buffer<float> y(kRows * K);
  launch(how, {x.data, y.data}, kRows);
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < K; ++k) {
      float largest = -INFINITY;
      for (int i = 0; i < kGroup; ++i)
        largest = std::fmax(largest, x[row * K + k / kGroup * kGroup + i]);
      expect(y[row * K + k] == x[row * K + k] - largest, "groups", row, k);
    }
}

// N2, N3: exactly, also where x / scale is not a division (divideShort).
template <class T>
void testQuantize(const Launch &how, int K, int kGroup) {
  constexpr int kMany = 200;
  const int kGroups = (K + kGroup - 1) / kGroup;
  auto x = gaussian<T>(kMany * K);
  for (int k = 0; k < K; ++k)
    x[k] = fromFloat<T>(k % 2 ? -0.0f : 0.0f);
  Buffer<E4m3> codes(kMany * K + 1, {0x55});
  Buffer<float> scales(kMany * kGroups);
  launch(how, {x.data, codes.data, scales.data}, kMany);
  for (int row = 0; row < kMany; ++row)
    for (int k = 0; k < K; ++k) {
      int group = k / kGroup;
      float amax = 0;
      for (int i = group * kGroup; i < std::min(K, (group + 1) * kGroup); ++i)
        amax = std::fmax(amax, std::fabs(toFloat(x[row * K + i])));
      float scale = std::fmax(amax, 1e-10f) / 448.0f;
      expect(scales[row * kGroups + group] == scale, "scale", row, k);
      expect(codes[row * K + k].bits == toE4m3(toFloat(x[row * K + k]) / scale),
             "code", row, k);
    }
  expect(codes[kMany * K].bits == 0x55, "end", kMany, 0);
}

// Exactly, where gates are so large that their exponential is not a number that
// has a reciprocal, too; scales are powers of two (N4).
void testSwiglu(const Launch &how) {
  constexpr int K = 256, kGroup = 128, kGroups = K / kGroup, kPitch = 8;
  auto x = gaussian<Bf16>(kRows * 2 * K);
  for (int i = 0; i < 40; ++i)
    x[7 * i] = fromFloat<Bf16>(i % 2 ? -3.0f * i : 3.0f * i);
  Buffer<E4m3> codes(kRows * K);
  Buffer<float> scales(kGroups * kPitch, -1);
  launch(how, {x.data, codes.data, scales.data}, kRows);
  for (int row = 0; row < kRows; ++row)
    for (int group = 0; group < kGroups; ++group) {
      float y[kGroup], amax = 0;
      for (int i = 0; i < kGroup; ++i) {
        size_t at = row * 2 * K + group * kGroup + i;
        float gate = toFloat(x[at]), up = toFloat(x[at + K]);
        float product = gate / (1.0f + std::exp(-gate)) * up;
        y[i] = toFloat(fromFloat<Bf16>(product));
        amax = std::fmax(amax, std::fabs(y[i]));
      }
      float scale = std::exp2(std::ceil(std::log2(amax / 448.0f)));
      expect(scales[group * kPitch + row] == scale, "power of two", row, group);
      for (int i = 0; i < kGroup; ++i)
        expect(codes[row * K + group * kGroup + i].bits == toE4m3(y[i] / scale),
               "swiglu", row, group * kGroup + i);
    }
}

// P6, P7a: pairs (i, i + 32); keys and values in the row's slot.
void testRope(const Launch &how) {
  constexpr int K = 256, kHeadDim = 64, kHalf = 32, kSlots = 16;
  auto x = gaussian<Bf16>(kRows * K);
  auto table = gaussian<float>(64 * 2 * kHalf);
  Buffer<float> scale(1, 0.37f);
  Buffer<int> positions(kRows), slots(kRows);
  Buffer<Bf16> out(kRows * 128);
  Buffer<E4m3> keys(kSlots * kHeadDim, {0x55}), values(kSlots * kHeadDim);
  for (int row = 0; row < kRows; ++row)
    positions[row] = 63 - 7 * row, slots[row] = (3 * row + 1) % kSlots;
  launch(how,
         {x.data, table.data, scale.data, positions.data, out.data, keys.data,
          values.data, slots.data},
         kRows);
  for (int row = 0; row < kRows; ++row)
    for (int k = 0; k < 192; ++k) {
      int within = k % kHeadDim, pair = within % kHalf;
      bool isFirst = within < kHalf;
      const float *angles = table.data + positions[row] * 2 * kHalf;
      float a = toFloat(x[row * K + k]);
      float b = toFloat(x[row * K + k + (isFirst ? kHalf : -kHalf)]);
      float turned = b * angles[kHalf + pair], kept = a * angles[pair];
      Bf16 y = fromFloat<Bf16>(isFirst ? kept - turned : kept + turned);
      if (k < 128)
        expect(out[row * 128 + k].bits == y.bits, "rope", row, k);
      else
        expect(keys[slots[row] * kHeadDim + within].bits ==
                   toE4m3(toFloat(y) / scale[0]),
               "key", row, within);
      if (k < kHeadDim)
        expect(values[slots[row] * kHeadDim + k].bits ==
                   toE4m3(toFloat(x[row * K + 192 + k]) / scale[0]),
               "value", row, k);
    }
  for (int k = 0; k < kHeadDim; ++k) // a slot that no row has
    expect(keys[k].bits == 0x55, "other slot", 0, k);
}

} // namespace

int main() {
  static_assert(sizeof(kLaunches) == 7 * sizeof(Launch));
  testNorm(kLaunches[0], kLaunches[1]);
  testGroups(kLaunches[2]);
  testQuantize<float>(kLaunches[3], 45, 20);
  testRope(kLaunches[4]);
  testQuantize<Bf16>(kLaunches[5], 256, 128);
  testSwiglu(kLaunches[6]);
  std::puts("as expected");
}
