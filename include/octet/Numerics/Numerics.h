//===- Numerics.h - The reference arithmetic --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Formats and quantisation in plain scalar C++: what every kernel and every
// generated row function is compared with. Slow and obvious on purpose.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_NUMERICS_NUMERICS_H
#define OCTET_NUMERICS_NUMERICS_H

#include <cstdint>
#include <span>

namespace octet {

/// Largest finite E4M3FN value (N1).
inline constexpr float kE4M3Max = 448.0f;
/// Floor of amax in a dynamic scale (N3).
inline constexpr float kMinAmax = 1e-10f;

/// The value of an E4M3FN code; NaN for 0x7F and 0xFF (N1).
float decodeE4M3(uint8_t code);
/// Round to nearest even after a clamp to +-448; NaN gives 0x7F with the sign
/// (N2).
uint8_t encodeE4M3(float value);

/// BF16 as its 16 bits, round to nearest even; NaN stays NaN (quiet).
uint16_t encodeBF16(float value);
float decodeBF16(uint16_t bits);
/// IEEE binary16, round to nearest even, overflow to infinity.
uint16_t encodeF16(float value);
float decodeF16(uint16_t bits);

/// max(amax, 1e-10) / 448, a true division (N3).
float dynamicScale(float amax);
/// The exponent byte e of the UE8M0 scale 2^(e-127) >= max(amax, 1e-10) / 448,
/// taken from the float's bits, rounded up (N4).
uint8_t encodeUE8M0Scale(float amax);
/// 2^(code - 127); NaN for 0xFF (N4).
float decodeUE8M0(uint8_t code);

/// E4M3(x / s) for one value, a true division (N2).
inline uint8_t quantizeE4M3(float x, float scale) {
  return encodeE4M3(x / scale);
}

/// Quantises rows in groups along K (N2, N3; P3).
/// \param x      [m, k] row-major.
/// \param group  elements of K that share a scale; k for one a token. The last
///               group of a row may be shorter (W4).
/// \param ue8m0  round the scale up to a power of two (N4).
/// \param q      [out] [m, k] codes.
/// \param scale  [out] [m, cdiv(k, group)].
void quantizeRows(std::span<const float> x, int64_t m, int64_t k, int64_t group,
                  bool ue8m0, std::span<uint8_t> q, std::span<float> scale);

/// Quantises a matrix with one scale per bn x bk block (N2, N3, W1, W4).
/// \param w      [n, k] row-major.
/// \param q      [out] [n, k] codes.
/// \param scale  [out] [cdiv(n, bn), cdiv(k, bk)].
void quantizeBlocks(std::span<const float> w, int64_t n, int64_t k, int64_t bn,
                    int64_t bk, std::span<uint8_t> q, std::span<float> scale);

/// The value `code * scale of its block` of every element (N2).
void dequantizeBlocks(std::span<const uint8_t> q, std::span<const float> scale,
                      int64_t n, int64_t k, int64_t bn, int64_t bk,
                      std::span<float> w);

} // namespace octet

#endif // OCTET_NUMERICS_NUMERICS_H
