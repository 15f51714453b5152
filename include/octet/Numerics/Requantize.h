//===- Requantize.h - Rewrites of quantised weights -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What loading does to codes and scales where the contract asks for others
// (N8, W8, W11), and the integer format of N7, in plain scalar C++: what the
// runtime's load operators are compared with.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_NUMERICS_REQUANTIZE_H
#define OCTET_NUMERICS_REQUANTIZE_H

#include <array>
#include <cstdint>
#include <span>

namespace octet {

/// The formats of 8 bits that checkpoints store.
enum class Float8 { E4M3FN, E4M3FNUZ, E5M2, E5M2FNUZ };

/// The value of a code. FNUZ formats have one NaN, 0x80, and no infinity;
/// E5M2 has both as IEEE formats do (N1, N8).
float decodeFloat8(Float8 format, uint8_t code);
/// The values of all codes.
const std::array<float, 256> &getFloat8Values(Float8 format);
/// The E4M3FN code as E4M3FNUZ: the value is half of it; minus zero is 0 (N8).
inline uint8_t toFnuzCode(uint8_t code) { return code == 0x80 ? 0 : code; }

/// A matrix [n, k] of codes with one scale per bn x bk block; edges may be
/// short (W4). One a channel is 1 x k, one a tensor n x k.
struct BlockShape {
  int64_t n, k, bn, bk;
};

/// The index of the first code that no conversion takes, or -1: a NaN, or an
/// infinity of E5M2 (N8).
int64_t findBadCode(std::span<const uint8_t> codes, Float8 from);

/// N8. Codes of `from` to E4M3FN with scales of the same blocks.
///
/// From E4M3FNUZ the bits stay and the scale is halved; a block that holds
/// +-240 (0x7F, 0xFF: NaN in E4M3FN) and every block of E5M2 is dequantised and
/// quantised (N2, N3). From E4M3FN (`to` is E4M3FNUZ) the scale is doubled and
/// 0x80 becomes 0.
/// \pre findBadCode finds none; the scales are finite and positive.
void convertFloat8(std::span<const uint8_t> codes, std::span<const float> scale,
                   const BlockShape &shape, Float8 from, Float8 to,
                   std::span<uint8_t> outCodes, std::span<float> outScale);

/// W8. Codes with `scale` as codes with `largest`: rne of the value over it.
void requantizeTensor(std::span<const uint8_t> codes, float scale,
                      float largest, std::span<uint8_t> out);

/// Whether a finite positive float is a power of two that UE8M0 has.
bool isPowerOfTwo(float scale);

/// W11. Float scales of blocks to UE8M0: a block whose scale is a power of two
/// keeps its codes, another is dequantised and quantised by N4.
/// \param outScale  [out] exponent bytes.
void requantizeToExponents(std::span<const uint8_t> codes,
                           std::span<const float> scale,
                           const BlockShape &shape, std::span<uint8_t> outCodes,
                           std::span<uint8_t> outScale);

/// Largest INT8 code in use (N7).
inline constexpr float kInt8Max = 127.0f;
/// max(amax, 1e-10) / 127, a true division (N7).
float dynamicScaleInt8(float amax);
/// rne(clamp(x / scale, -127, 127)); a NaN gives 0: integers have none (N7).
int8_t quantizeInt8(float x, float scale);

/// min(max(amax, 1e-10), bound) / 448 (fbgemm_fp8).
float boundedScale(float amax, float bound);

} // namespace octet

#endif // OCTET_NUMERICS_REQUANTIZE_H
