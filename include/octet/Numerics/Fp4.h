//===- Fp4.h - E2M1 and the scales of its groups ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference of N7 for four bits: E2M1 codes, the groups of NVFP4 and MXFP4
// activations, and group scales below another scale of the matrix (W9).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_NUMERICS_FP4_H
#define OCTET_NUMERICS_FP4_H

#include <cstdint>
#include <span>

namespace octet {

inline constexpr float kE2M1Max = 6.0f;

/// The value of a code of four bits, the sign in bit 3.
float decodeE2M1(uint8_t code);
/// Nearest, ties to the even code, saturating at 6. E2M1 has no NaN: it gives
/// 0, as in INT8.
uint8_t encodeE2M1(float value);

/// A group of NVFP4 below the scale `global` of its tensor: the group's scale
/// is e4m3(amax / 6 / global), codes are e2m1(x / (group scale * global));
/// where that is zero, all codes are. \returns the group's scale.
uint8_t quantizeNvfp4(std::span<const float> x, float global,
                      std::span<uint8_t> codes);

/// A group of MXFP4: the scale is 2^ceil(log2(max(amax, 1e-10) / 6)) (N4).
/// \returns its biased exponent.
uint8_t quantizeMxfp4(std::span<const float> x, std::span<uint8_t> codes);

/// W9: a group's scale below `shared`, where it stood below `own`: e4m3(scale *
/// own / shared).
uint8_t rescaleGroup(uint8_t scale, float own, float shared);

} // namespace octet

#endif // OCTET_NUMERICS_FP4_H
