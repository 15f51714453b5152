//===- WeightFormat.h - How codes, scales and zeros are stored --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// One description for the weights of all methods: what a code is, how codes lie
// in their tensor, which elements share a scale, what a scale is, and what else
// belongs to it. FORMATS has the formats; the !q.tensor types are made from it.
//
//   value = (code - zero) * scale                        zero 0 if there is
//   none value = code * scale * global    or    code * scale / global (NVFP4)
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTMETHODS_WEIGHTFORMAT_H
#define OCTET_QUANTMETHODS_WEIGHTFORMAT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace octet {

/// Which elements share a scale (W1, P3). A group of g along K is a block of
/// [1, g]; the group of all of K is a channel.
struct Granularity {
  enum class Kind { PerTensor, PerChannel, PerToken, Block };
  Kind kind = Kind::PerTensor;
  int64_t blockN = 0, blockK = 0; ///< in elements, only of a block

  static Granularity perTensor() { return {Kind::PerTensor}; }
  static Granularity perChannel() { return {Kind::PerChannel}; }
  static Granularity perToken() { return {Kind::PerToken}; }
  static Granularity block(int64_t n, int64_t k) { return {Kind::Block, n, k}; }
  static Granularity group(int64_t size) { return block(1, size); }
  bool isBlock() const { return kind == Kind::Block; }
  bool isGroup() const { return isBlock() && blockN == 1; }
  bool operator==(const Granularity &) const = default;
};

/// What one code is.
enum class CodeType { E4M3, E2M1, Int8, Int4 };

int64_t getBits(CodeType code);

/// How the codes of a weight [N, K] lie in its tensor.
enum class WeightLayout {
  Rows,          ///< `weight` [N, K], an element a code
  NibbleRows,    ///< U8 [N, K/2], low nibble first
  WordRows,      ///< `weight_packed` I32 [N, K bits/32], lowest bits first
  GptqWords,     ///< `qweight` I32 [K bits/32, N], lowest bits first along K
  AwqWords,      ///< `qweight` I32 [K, N bits/32], nibbles 0 2 4 6 1 3 5 7
  NibbleExperts, ///< `…_blocks` U8 [E, N, K/32, 16], low nibble first
};

/// What a scale is.
enum class ScaleFormat {
  Float,     ///< F32, BF16 or F16
  Exponents, ///< UE8M0 in a byte (N4)
  E4M3,      ///< of NVFP4, below a scale of the whole tensor (N7)
};

/// The second scale of NVFP4.
enum class GlobalScale { None, Multiplies, Divides };

/// What the stored zero points are.
enum class ZeroPoints { None, Stored, StoredMinusOne };

struct WeightFormat {
  CodeType code = CodeType::E4M3;
  WeightLayout layout = WeightLayout::Rows;
  ScaleFormat scale = ScaleFormat::Float;
  GlobalScale global = GlobalScale::None;
  ZeroPoints zeroPoints = ZeroPoints::None;
  /// The group of row k is `g_idx[k]`, not k / g. A row-parallel split then
  /// needs all scales on every rank.
  bool actOrder = false;

  bool operator==(const WeightFormat &) const = default;
};

/// How the input of a linear is quantised, if it is.
struct ActivationFormat {
  CodeType code = CodeType::E4M3;
  ScaleFormat scale = ScaleFormat::Float;
  /// Elements along K of one dynamic scale, where neither the weight's block
  /// nor the whole token says it; 0 otherwise.
  int64_t group = 0;
  /// Dynamic scales stand below a stored scale of the tensor (NVFP4, N7).
  bool belowStored = false;
  /// The largest amax that a dynamic scale follows; larger values saturate
  /// (`activation_scale_ub` of fbgemm_fp8).
  std::optional<double> bound;

  bool operator==(const ActivationFormat &) const = default;
};

/// Where an activation's scale comes from (C4).
enum class Activation { None, Static, Dynamic };

/// What a config says of a group of modules.
struct Scheme {
  /// The weight's granularity. `fp8` without a block size leaves per-tensor or
  /// per-channel to the stored scale's shape (C3): `anyGranularity`.
  Granularity weight;
  bool anyGranularity = false;
  Activation activation = Activation::Dynamic;
  WeightFormat format = {};
  ActivationFormat input = {};
  /// Where the config says so, for messages: "config.json: …weights".
  std::string source = {};

  /// Codes of E4M3, one an element, with float scales a tensor, a channel or a
  /// block: what the passes compile.
  bool isPlainFloat8() const;
};

/// "int 4 bits in groups of 128 with zero points", for messages.
std::string describeScheme(const Scheme &scheme);

} // namespace octet

#endif // OCTET_QUANTMETHODS_WEIGHTFORMAT_H
