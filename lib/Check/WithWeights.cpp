//===- WithWeights.cpp - Step 8: numerics -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `--with-weights` reads all scales (W6, N4), all codes of formats that loading
// converts (N8), the blocks whose scale is zero (W6) and, of each matrix of
// E4M3 codes, the rows of its first block. A few tokens of normal numbers are
// multiplied with them twice: as the contract says (activations quantised,
// weights rewritten by W8 or W11), and with everything dequantised. The error
// of a module is the largest difference over the largest result. Of the experts
// of a layer the first is multiplied.
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

using namespace octet;

namespace {

constexpr int64_t kTokens = 4;    ///< that are multiplied
constexpr int64_t kRows = 16;     ///< where no block says how many
constexpr int64_t kMaxRows = 256; ///< of a block that is taller
constexpr uint32_t kSeed = 2024;  ///< results are the same each time

/// Codes and scales of the first rows of a matrix.
struct Rows {
  int64_t count = 0, k = 0;
  std::vector<float> values; ///< [count, k], dequantised
};

class Measurer {
public:
  Measurer(CheckContext &context, const MappedCheckpoint &mapped)
      : context(context), mapped(mapped) {}

  void checkScales(const Part &part);
  void checkCodes(const Part &part);
  std::optional<double> measure(const Unit &unit, const Part &part);

private:
  const TensorInfo *find(const Part &part, int64_t expert,
                         const std::string &name) const {
    return context.checkpoint->tensors.find(part.module->getPath(expert) + "." +
                                            name);
  }
  std::vector<float> readScales(const TensorInfo &tensor,
                                ScaleFormat format = ScaleFormat::Float) const;
  bool isZero(const TensorInfo &weight, const Granularity &granularity,
              int64_t index);
  Rows readRows(const Part &part, const TensorInfo &weight,
                const std::vector<float> &scales) const;
  void rewrite(const Unit &unit, const Part &part, Rows &rows) const;
  bool quantize(const Part &part, std::vector<float> &x);

  CheckContext &context;
  const MappedCheckpoint &mapped;
  /// Codes of rows that were read last, because blocks beside each other share
  /// them.
  struct {
    const TensorInfo *tensor = nullptr;
    int64_t first = 0, count = 0;
    std::vector<std::byte> codes;
  } last;
};

} // namespace

/// "[3, 17]" of an element.
static std::string printIndex(const TensorInfo &tensor, int64_t index) {
  const int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  return "[" + std::to_string(index / columns) + ", " +
         std::to_string(index % columns) + "]";
}

/// The format of codes that loading makes E4M3FN of (N8).
static std::optional<Float8> findConverted(StoredType type) {
  switch (type) {
  case StoredType::F8_E4M3FNUZ:
    return Float8::E4M3FNUZ;
  case StoredType::F8_E5M2:
    return Float8::E5M2;
  case StoredType::F8_E5M2FNUZ:
    return Float8::E5M2FNUZ;
  default:
    return std::nullopt;
  }
}

/// Empty for elements that are no numbers of the format.
std::vector<float> Measurer::readScales(const TensorInfo &tensor,
                                        ScaleFormat format) const {
  TensorReader reader(mapped, tensor);
  std::vector<float> scales(size_t(reader.rows() * reader.cols()));
  if (reader.isFloat()) {
    reader.readFloats(0, reader.rows(), scales);
    return scales;
  }
  if (format == ScaleFormat::Float || byteWidth(tensor.type) != 1)
    return {};
  std::vector<std::byte> codes(scales.size());
  reader.readElements(0, reader.rows(), codes);
  for (size_t i = 0; i < codes.size(); ++i)
    scales[i] = format == ScaleFormat::Exponents
                    ? decodeUE8M0(uint8_t(codes[i]))
                    : decodeE4M3(uint8_t(codes[i]));
  return scales;
}

/// Whether the codes of a scale are all zero; the sign does not count.
bool Measurer::isZero(const TensorInfo &weight, const Granularity &granularity,
                      int64_t index) {
  const int64_t n = weight.shape[0], k = weight.shape[1];
  int64_t row = 0, rows = n, column = 0, columns = k;
  if (granularity.kind == Granularity::Kind::PerChannel) {
    row = index;
    rows = 1;
  } else if (granularity.isBlock()) {
    const int64_t across = cdiv(k, granularity.blockK);
    row = index / across * granularity.blockN;
    column = index % across * granularity.blockK;
    rows = granularity.blockN;
    columns = granularity.blockK;
  }
  const int64_t end = std::min(n, row + rows);
  columns = std::min(columns, k - column);
  for (; row < end; row += kMaxRows) {
    const int64_t count = std::min(kMaxRows, end - row);
    if (last.tensor != &weight || last.first != row || last.count != count) {
      last.tensor = &weight;
      last.first = row;
      last.count = count;
      last.codes.resize(size_t(count * k));
      TensorReader(mapped, weight).readElements(row, count, last.codes);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = column; j < column + columns; ++j)
        if ((uint8_t(last.codes[size_t(i * k + j)]) & 0x7F) != 0)
          return false;
  }
  return true;
}

/// W6: NaN, infinite, negative, zero over codes that are not; N4: no exponent;
/// with tensor and index.
void Measurer::checkScales(const Part &part) {
  for (int64_t expert = 0; expert < part.module->count(); ++expert) {
    const ResolvedModule &method = part.decision->method;
    const TensorInfo *tensor = find(part, expert, method.scaleName);
    if (!tensor)
      continue;
    const TensorInfo *weight = find(part, expert, "weight");
    // Those of words have other edges and are not looked at.
    const bool isMatrix = method.format.layout == WeightLayout::Rows &&
                          weight && weight->shape.size() == 2 &&
                          byteWidth(weight->type) == 1;
    const ScaleFormat format = method.format.scale;
    std::vector<float> scales = readScales(*tensor, format);
    for (size_t i = 0; i < scales.size(); ++i) {
      const float scale = scales[i];
      const bool isBare =
          scale == 0 && isMatrix && !isZero(*weight, method.weight, int64_t(i));
      if (std::isfinite(scale) && scale >= 0 && !isBare)
        continue;
      const bool isExponent =
          format == ScaleFormat::Exponents && std::isnan(scale);
      std::string value = isExponent          ? "0xFF, NaN,"
                          : std::isnan(scale) ? "NaN"
                          : std::isinf(scale) ? "infinite"
                          : isBare            ? "zero"
                                              : std::to_string(scale);
      context.addError(
          inputError(part.module->getPath(expert),
                     "scale " + quoteName(tensor->name) + " is " + value +
                         " at " + printIndex(*tensor, int64_t(i)) +
                         (isExponent ? "; expected an exponent of 0 to 254"
                          : isBare   ? ", and its block is not zero; expected "
                                       "a positive number"
                                     : "; expected a positive number"),
                     isExponent ? "N4" : "W6")
              .takeInfo());
      break;
    }
  }
}

/// N8: each code of a format that loading converts is a number.
void Measurer::checkCodes(const Part &part) {
  for (int64_t expert = 0; expert < part.module->count(); ++expert) {
    const TensorInfo *weight = find(part, expert, "weight");
    std::optional<Float8> format =
        weight ? findConverted(weight->type) : std::nullopt;
    if (!format || weight->shape.size() != 2)
      continue;
    const int64_t columns = weight->shape[1];
    for (int64_t first = 0; first < weight->shape[0]; first += kMaxRows) {
      const int64_t count = std::min(kMaxRows, weight->shape[0] - first);
      std::vector<uint8_t> codes(size_t(count * columns));
      TensorReader(mapped, *weight)
          .readElements(first, count, std::as_writable_bytes(std::span(codes)));
      const int64_t bad = findBadCode(codes, *format);
      if (bad < 0)
        continue;
      char text[8];
      std::snprintf(text, sizeof text, "0x%02X", codes[size_t(bad)]);
      context.addError(
          inputError(part.module->getPath(expert),
                     quoteName(weight->name) + " is " + text + " at " +
                         printIndex(*weight, first * columns + bad) +
                         ", which is no finite number in its format; the "
                         "codes of a weight are finite",
                     "N8")
              .takeInfo());
      break;
    }
  }
}

/// The first rows, dequantised: a block's, or a few.
Rows Measurer::readRows(const Part &part, const TensorInfo &weight,
                        const std::vector<float> &scales) const {
  const Granularity &granularity = part.decision->method.weight;
  const bool isBlock = granularity.isBlock();
  Rows rows;
  rows.count =
      std::min(weight.shape[0],
               isBlock ? std::min(granularity.blockN, kMaxRows) : kRows);
  rows.k = weight.shape[1];
  std::vector<std::byte> codes(size_t(rows.count * rows.k));
  TensorReader(mapped, weight).readElements(0, rows.count, codes);
  rows.values.resize(codes.size());
  for (int64_t row = 0; row < rows.count; ++row)
    for (int64_t column = 0; column < rows.k; ++column) {
      size_t at = size_t(row * rows.k + column);
      // The first block row has the first scales.
      size_t scale = isBlock ? size_t(column / granularity.blockK)
                     : granularity.kind == Granularity::Kind::PerTensor
                         ? 0
                         : size_t(row);
      rows.values[at] = decodeE4M3(uint8_t(codes[at])) * scales[scale];
    }
  return rows;
}

/// What loading makes of the rows: power-of-two scales a block (W11), or the
/// largest of the scales of a fused matrix (W8).
void Measurer::rewrite(const Unit &unit, const Part &part, Rows &rows) const {
  const ResolvedModule &method = part.decision->method;
  const Contract &contract = part.decision->contract;
  if (contract.format.scale == ScaleFormat::Exponents && !method.ue8m0) {
    const int64_t group = method.weight.blockK;
    for (int64_t begin = 0; begin < rows.k; begin += group) {
      const int64_t end = std::min(rows.k, begin + group);
      float amax = 0;
      auto each = [&](auto function) {
        for (int64_t row = 0; row < rows.count; ++row)
          for (int64_t column = begin; column < end; ++column)
            function(rows.values[size_t(row * rows.k + column)]);
      };
      each([&](float value) { amax = std::max(amax, std::fabs(value)); });
      const float scale = decodeUE8M0(encodeUE8M0Scale(amax));
      each([&](float &value) {
        value = decodeE4M3(quantizeE4M3(value, scale)) * scale;
      });
    }
    return;
  }
  if (unit.parts.size() < 2 || unit.isExperts() ||
      contract.weight.kind != Granularity::Kind::PerTensor)
    return;
  float largest = 0;
  for (const Part &shard : unit.parts)
    if (const TensorInfo *tensor =
            find(shard, 0, shard.decision->method.scaleName))
      for (float scale : readScales(*tensor))
        largest = std::max(largest, scale);
  if (largest > 0)
    for (float &value : rows.values)
      value = decodeE4M3(quantizeE4M3(value, largest)) * largest;
}

/// Rounds activations [kTokens, k] as the contract says.
/// \returns false if the stored scale is not there.
bool Measurer::quantize(const Part &part, std::vector<float> &x) {
  const Contract &contract = part.decision->contract;
  if (!contract.activation)
    return true;
  const int64_t k = int64_t(x.size()) / kTokens;
  float stored = 0;
  if (contract.isStatic) {
    const TensorInfo *tensor = find(part, 0, "input_scale");
    std::vector<float> scales =
        tensor ? readScales(*tensor) : std::vector<float>();
    if (scales.size() != 1 || !(scales[0] > 0))
      return false;
    stored = scales[0];
  }
  const int64_t group =
      contract.activation->isBlock() ? contract.activation->blockK : k;
  for (int64_t token = 0; token < kTokens; ++token)
    for (int64_t begin = 0; begin < k; begin += group) {
      std::span<float> values(&x[size_t(token * k + begin)],
                              size_t(std::min(group, k - begin)));
      float amax = 0;
      for (float value : values)
        amax = std::max(amax, std::fabs(value));
      const float scale = contract.isStatic ? stored
                          : contract.ue8m0 ? decodeUE8M0(encodeUE8M0Scale(amax))
                                           : dynamicScale(amax);
      for (float &value : values)
        value = decodeE4M3(quantizeE4M3(value, scale)) * scale;
    }
  return true;
}

/// The error of one matrix; nothing if it has another format.
std::optional<double> Measurer::measure(const Unit &unit, const Part &part) {
  const ResolvedModule &method = part.decision->method;
  const TensorInfo *weight = find(part, 0, "weight");
  const TensorInfo *scale = find(part, 0, method.scaleName);
  if (method.format != WeightFormat() || method.whileLoading || !weight ||
      !scale || weight->type != StoredType::F8_E4M3)
    return std::nullopt;
  std::vector<float> scales = readScales(*scale);
  if (scales.empty())
    return std::nullopt;
  const Rows reference = readRows(part, *weight, scales);
  Rows rows = reference;
  rewrite(unit, part, rows);
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  std::vector<float> x(size_t(kTokens * rows.k));
  for (float &value : x)
    value = decodeBF16(encodeBF16(normal(random)));
  std::vector<float> rounded = x;
  if (!quantize(part, rounded))
    return std::nullopt;
  double difference = 0, largest = 0;
  for (int64_t token = 0; token < kTokens; ++token)
    for (int64_t row = 0; row < rows.count; ++row) {
      double exact = 0, actual = 0;
      for (int64_t column = 0; column < rows.k; ++column) {
        size_t at = size_t(row * rows.k + column);
        size_t in = size_t(token * rows.k + column);
        exact += double(reference.values[at]) * x[in];
        actual += double(rows.values[at]) * rounded[in];
      }
      difference = std::max(difference, std::fabs(actual - exact));
      largest = std::max(largest, std::fabs(exact));
    }
  return largest > 0 ? difference / largest : 0;
}

void octet::measureNumerics(CheckContext &context) {
  Result<MappedCheckpoint> mapped =
      MappedCheckpoint::map(context.checkpoint->tensors);
  if (!mapped) {
    context.addError(mapped.takeStatus().takeInfo());
    return;
  }
  Measurer measurer(context, *mapped);
  NumericsReport report;
  for (const Unit &unit : context.units) {
    if (!unit.first().decision->method.quantized)
      continue;
    std::optional<double> worst;
    for (const Part &part : unit.parts) {
      measurer.checkScales(part);
      measurer.checkCodes(part);
      if (std::optional<double> error = measurer.measure(unit, part))
        worst = std::max(worst.value_or(0), *error);
    }
    if (!worst) {
      ++report.otherModules;
      continue;
    }
    report.errors.emplace_back(unit.path, *worst);
  }
  context.report.numerics = std::move(report);
}
