//===- RowTypes.h - Vectors of a generated row function ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types of row code and the arithmetic that MLIR has no lowering
// for without a library call: conversions between f32 and the narrow types,
// exp, and reductions in a fixed order. All of it is integer and IEEE float
// arithmetic without fast-math flags, on vectors of at most 16 lanes, so that
// every SIMD level computes the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_ROWTYPES_H
#define OCTET_HOSTCODE_ROWTYPES_H

#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Value.h"

namespace octet::host {

/// Lanes of the vectors of row code, at every level: one AVX-512 register, two
/// of AVX2.
inline constexpr int64_t kLanes = 16;

/// Builds values of `lanes` elements; one lane is a scalar.
class RowTypes {
public:
  explicit RowTypes(mlir::ImplicitLocOpBuilder &b) : b(b) {}

  /// `lanes` x `element`.
  mlir::Type type(mlir::Type element, int64_t lanes) const;
  /// Lanes of a value made here.
  static int64_t lanesOf(mlir::Value value);

  mlir::Value constant(float value, int64_t lanes);
  mlir::Value constantBits(uint32_t value, int64_t lanes); ///< i32
  mlir::Value constantIndex(int64_t value);                ///< i64
  /// A scalar in every lane.
  mlir::Value splat(mlir::Value scalar, int64_t lanes);

  mlir::Value bitsOf(mlir::Value floats);
  mlir::Value floatsOf(mlir::Value bits);

  /// `base + index * bytes of element`.
  mlir::Value address(mlir::Value base, mlir::Value index, mlir::Type element);
  /// Loads `lanes` elements (f32, bf16, f16 or f8E4M3FN), widened exactly.
  mlir::Value load(mlir::Value pointer, mlir::Type element, int64_t lanes);
  /// Loads elements [index, index + lanes) of a row that lies in `layout =
  /// gguf`, in f32: one, or the first or second 16 of a block.
  mlir::Value loadPacked(mlir::Value row, mlir::Value index,
                         q::TensorType packed, int64_t lanes);
  /// Stores f32 values that are exact in `element` (f32, bf16 or f16).
  void store(mlir::Value floats, mlir::Value pointer, mlir::Type element);
  /// Stores codes (i8).
  void storeCodes(mlir::Value codes, mlir::Value pointer);

  /// Rounds to nearest even to bf16 or f16; the result is f32.
  mlir::Value round(mlir::Value floats, mlir::Type element);
  /// E4M3FN codes (i8) of values: clamp to +-448, nearest even, subnormals;
  /// NaN stays NaN (N2).
  mlir::Value encodeE4M3(mlir::Value floats);
  /// E2M1 codes (i8, 0 to 15) of values: nearest, ties to the even code,
  /// saturating; NaN gives 0 (N7).
  mlir::Value encodeE2M1(mlir::Value floats);
  /// Codes of kLanes elements two a byte, the low nibble first.
  mlir::Value packNibbles(mlir::Value codes);
  /// 2^ceil(log2(max(amax, 1e-10) / 6)): its exponent as a byte, and its value
  /// (N4, N7).
  std::pair<mlir::Value, mlir::Value> dynamicScaleE2M1(mlir::Value amax);
  /// max(amax, 1e-10) / 448 (N3), or the power of two not below it (N4).
  /// \param bound  of amax, or nothing.
  mlir::Value dynamicScale(mlir::Value amax, bool ue8m0,
                           std::optional<llvm::APFloat> bound = std::nullopt);
  /// Codes (i8) of values: nearest even, clamped to +-127; NaN gives 0 (N7).
  mlir::Value encodeInt8(mlir::Value floats);
  /// max(amax, 1e-10) / 127 (N7).
  mlir::Value dynamicScaleInt8(mlir::Value amax);
  /// e^x within 2 units in the last place; overflows to infinity, underflows
  /// to zero through subnormals, NaN stays NaN.
  mlir::Value exp(mlir::Value floats);

  /// All lanes of `vector` (kLanes) combined pairwise, halves first.
  mlir::Value reduceLanes(mlir::Value vector, bool isMax);
  /// `a + b`, or the larger one; a NaN loses against a number in the latter.
  mlir::Value combine(mlir::Value a, mlir::Value b, bool isMax);
  /// `tail` (fewer than kLanes lanes) filled up so that combining ignores the
  /// new lanes.
  mlir::Value padTail(mlir::Value tail, bool isMax);

  mlir::Value decodeE4M3(mlir::Value codes);

private:
  mlir::ImplicitLocOpBuilder &b;
};

} // namespace octet::host

#endif // OCTET_HOSTCODE_ROWTYPES_H
