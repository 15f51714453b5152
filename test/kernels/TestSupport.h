//===- TestSupport.h - Random operands and their values ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tensor that knows its bytes, as a kernel sees them, and its values, as the
// reference does.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_KERNELS_TESTSUPPORT_H
#define OCTET_TEST_KERNELS_TESTSUPPORT_H

#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include "runtime/abi.h"
#include "runtime/cpu/CpuBackend.h"
#include "runtime/cpu/Level.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace octet::test {

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline size_t bytesOf(int32_t type) {
  return type == OCTET_F32 ? 4 : type == OCTET_E4M3 || type == OCTET_I8 ? 1 : 2;
}

inline const char *nameOf(int32_t type) {
  switch (type) {
  case OCTET_F32:
    return "f32";
  case OCTET_BF16:
    return "bf16";
  case OCTET_F16:
    return "f16";
  case OCTET_E4M3:
    return "e4m3";
  case OCTET_I8:
    return "i8";
  default:
    return "none";
  }
}

inline uint32_t encode(int32_t type, float value) {
  switch (type) {
  case OCTET_BF16:
    return encodeBF16(value);
  case OCTET_F16:
    return encodeF16(value);
  case OCTET_E4M3:
    return encodeE4M3(value);
  case OCTET_I8:
    return static_cast<uint8_t>(quantizeInt8(value, 1));
  default:
    return std::bit_cast<uint32_t>(value);
  }
}

inline float decode(int32_t type, uint32_t bits) {
  switch (type) {
  case OCTET_BF16:
    return decodeBF16(static_cast<uint16_t>(bits));
  case OCTET_F16:
    return decodeF16(static_cast<uint16_t>(bits));
  case OCTET_E4M3:
    return decodeE4M3(static_cast<uint8_t>(bits));
  case OCTET_I8:
    return static_cast<int8_t>(bits);
  default:
    return std::bit_cast<float>(bits);
  }
}

/// Half a unit in the last place of a value of this size, and of the smallest.
inline double roundingError(int32_t type, double value) {
  switch (type) {
  case OCTET_BF16:
    return std::fabs(value) * 0x1p-8;
  case OCTET_F16:
    return std::fabs(value) * 0x1p-11 + 0x1p-25;
  default:
    return std::fabs(value) * 0x1p-24;
  }
}

/// Elements of `type`, aligned to one element and no more (as in the mapping of
/// a checkpoint), with nothing behind them that may be read unnoticed by ASan.
class Tensor {
public:
  Tensor() = default;
  Tensor(int32_t type, int64_t count)
      : type(type), count(count),
        bytes((static_cast<size_t>(count) + 1) * bytesOf(type)) {}

  void *data() { return bytes.data() + bytesOf(type); }
  const void *data() const { return bytes.data() + bytesOf(type); }

  uint32_t bits(int64_t i) const {
    uint32_t b = 0;
    std::memcpy(&b, bytes.data() + static_cast<size_t>(i + 1) * bytesOf(type),
                bytesOf(type));
    return b;
  }
  float value(int64_t i) const { return decode(type, bits(i)); }
  void setBits(int64_t i, uint32_t b) {
    std::memcpy(bytes.data() + static_cast<size_t>(i + 1) * bytesOf(type), &b,
                bytesOf(type));
  }
  void set(int64_t i, float v) { setBits(i, encode(type, v)); }

  /// Normal values of standard deviation `sigma`.
  void randomize(std::mt19937 &random, float sigma) {
    std::normal_distribution<float> normal(0, sigma);
    for (int64_t i = 0; i < count; ++i)
      set(i, normal(random));
  }

  int32_t type = OCTET_F32;
  int64_t count = 0;

private:
  std::vector<char> bytes;
};

/// Levels of the kernels; those the machine lacks skip by name.
class EveryLevel : public ::testing::TestWithParam<int> {
protected:
  void SetUp() override {
    if (GetParam() > rt::detectLevel())
      GTEST_SKIP() << "this machine has no SIMD level "
                   << rt::levelName(GetParam()) << ", only "
                   << rt::levelName(rt::detectLevel());
  }
  const rt::KernelTable &kernels() const { return rt::kernelTable(GetParam()); }
};

inline std::string levelParamName(const ::testing::TestParamInfo<int> &info) {
  return std::string(rt::levelName(info.param));
}

#define OCTET_EVERY_LEVEL(SUITE)                                               \
  INSTANTIATE_TEST_SUITE_P(Level, SUITE,                                       \
                           ::testing::Range(0, OCTET_NUM_LEVELS),              \
                           octet::test::levelParamName)

/// Equal bits, with the first coordinate that differs and how many do.
inline ::testing::AssertionResult sameBits(const Tensor &a, const Tensor &b,
                                           int64_t columns) {
  int64_t first = -1, differing = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (a.bits(i) == b.bits(i))
      continue;
    first = first < 0 ? i : first;
    ++differing;
  }
  if (first < 0)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << differing << " of " << a.count << " differ, first at ["
         << first / columns << ", " << first % columns
         << "]: " << a.value(first) << " (0x" << std::hex << a.bits(first)
         << ") and " << b.value(first) << " (0x" << b.bits(first) << ")";
}

} // namespace octet::test

#endif // OCTET_TEST_KERNELS_TESTSUPPORT_H
