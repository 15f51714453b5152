//===- RandomWeights.cpp - A shape without a checkpoint -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/RandomWeights.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Values that the elements of a tensor are drawn from.
static constexpr size_t kPalette = 4096;
/// Elements that one hash draws.
static constexpr int64_t kDraws = 4;
/// Where each tensor starts: a vector's width.
static constexpr int64_t kAlign = 64;
/// Of FP8 and INT8 codes. Their largest, 3.7 of these, is below 127.
static constexpr float kCodeDeviation = 32;
/// Of biases, and the scale of whatever a table of weights does not explain.
static constexpr float kSmall = 0.02f;

/// The quantiles (i + 1/2) / kPalette of the standard normal distribution.
static const std::array<float, kPalette> &normalQuantiles() {
  static const std::array<float, kPalette> quantiles = [] {
    std::array<float, kPalette> q;
    double x = 0;
    for (size_t i = kPalette / 2; i < kPalette; ++i) {
      // Newton's method, from the left of a root of a concave function.
      const double p = (double(i) + 0.5) / kPalette;
      for (int step = 0; step < 16; ++step)
        x += (p - 0.5 * std::erfc(-x * M_SQRT1_2)) /
             (std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI));
      q[i] = float(x);
      q[kPalette - 1 - i] = -float(x);
    }
    return q;
  }();
  return quantiles;
}

/// splitmix64 (Steele, Lea and Flood, 2014) of a counter.
static inline uint64_t hash(uint64_t counter) {
  uint64_t z = counter * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

namespace {
/// What the elements of one tensor are: `middle + deviation * normal`, or, with
/// `spread`, from half of `middle` to `middle`.
struct Values {
  float middle = 0;
  float deviation = 0;
  bool spread = false;
};
} // namespace

static bool isCode(StoredType type) {
  return type == StoredType::F8_E4M3 || type == StoredType::F8_E4M3FNUZ ||
         type == StoredType::F8_E5M2 || type == StoredType::F8_E5M2FNUZ ||
         type == StoredType::I8;
}

/// The name before the scale's own: "X." of "X.weight_scale_inv".
static std::optional<std::string_view> scaleOwner(std::string_view name) {
  for (std::string_view end : {"_scale_inv", "_scale", ".scale"})
    if (name.ends_with(end)) {
      name.remove_suffix(end.size());
      return name;
    }
  return std::nullopt;
}

static Values valuesOf(const TensorTable &table, const TensorInfo &tensor) {
  const std::string &name = tensor.name;
  if (std::optional<std::string_view> owner = scaleOwner(name)) {
    const TensorInfo *weight = table.find(*owner);
    if (!weight)
      weight = table.find(std::string(*owner) + ".weight");
    if (!weight || !isCode(weight->type) || weight->shape.empty())
      return {.middle = kSmall};
    const double k = double(std::max<int64_t>(weight->shape.back(), 1));
    return {.middle = float(1 / (kCodeDeviation * std::sqrt(k))),
            .spread = true};
  }
  if (isCode(tensor.type))
    return {.deviation = kCodeDeviation};
  if (tensor.shape.size() >= 2)
    return {.deviation = float(1 / std::sqrt(double(std::max<int64_t>(
                                       tensor.shape.back(), 1))))};
  if (name.ends_with("norm.weight") || name.ends_with("layernorm.weight"))
    return {.middle = 1};
  return {.deviation = kSmall};
}

/// kPalette elements of a type, little-endian one after the other; nothing for
/// integers without a meaning here.
static std::optional<std::vector<std::byte>> paletteOf(StoredType type,
                                                       const Values &values) {
  const size_t width = size_t(byteWidth(type));
  std::vector<std::byte> palette(kPalette * width);
  for (size_t i = 0; i < kPalette; ++i) {
    float x = values.middle + values.deviation * normalQuantiles()[i];
    if (values.spread)
      x = values.middle * (0.5f + 0.5f * float(i) / kPalette);
    std::byte *out = palette.data() + i * width;
    auto put = [&](auto element) { std::memcpy(out, &element, width); };
    switch (type) {
    case StoredType::F32:
      put(x);
      break;
    case StoredType::F64:
      put(double(x));
      break;
    case StoredType::BF16:
      put(encodeBF16(x));
      break;
    case StoredType::F16:
      put(encodeF16(x));
      break;
    case StoredType::F8_E4M3:
      put(encodeE4M3(x));
      break;
    case StoredType::F8_E4M3FNUZ: {
      // Twice the value in the same bits; minus zero would be NaN (N8).
      const uint8_t code = encodeE4M3(x);
      put(uint8_t(code == 0x80 ? 0 : code));
      break;
    }
    case StoredType::F8_E5M2:
      put(uint8_t(encodeF16(x) >> 8));
      break;
    case StoredType::F8_E5M2FNUZ: {
      // Half the value in the same bits; minus zero would be NaN (N8).
      const auto code = uint8_t(encodeF16(x) >> 8);
      put(uint8_t(code == 0x80 ? 0 : code));
      break;
    }
    case StoredType::I8:
      put(quantizeInt8(x, 1));
      break;
    case StoredType::U8: // exponents of MXFP8; other bytes have any value
      if (!values.spread)
        return std::nullopt;
      [[fallthrough]];
    case StoredType::F8_E8M0:
      put(uint8_t(127 + std::ilogb(x > 0 ? x : 1.0f)));
      break;
    default:
      return std::nullopt;
    }
  }
  return palette;
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

/// Elements [begin, end) of a tensor, `begin` a multiple of kDraws.
template <typename T>
static void drawElements(const std::byte *palette, uint64_t key, T *out,
                         int64_t begin, int64_t end) {
  const T *values = reinterpret_cast<const T *>(palette);
  int64_t i = begin;
  for (; i + kDraws <= end; i += kDraws) {
    const uint64_t bits = hash(key + uint64_t(i / kDraws));
    for (int64_t j = 0; j < kDraws; ++j)
      out[i + j] = values[bits >> (16 * j) & (kPalette - 1)];
  }
  for (const uint64_t bits = hash(key + uint64_t(i / kDraws)); i < end; ++i)
    out[i] = values[bits >> (16 * (i % kDraws)) & (kPalette - 1)];
}

static void drawBits(uint64_t key, std::byte *out, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += 8) {
    const uint64_t bits = hash(key + uint64_t(i / 8));
    std::memcpy(out + i, &bits, size_t(std::min<int64_t>(end - i, 8)));
  }
}

/// \param number  of the tensor in the table.
/// Blocks of uniform codes with one scale, of deviation 1/sqrt(K) and middle 0.
static void drawBlocks(const TensorInfo &tensor, uint64_t key, std::byte *data,
                       ThreadPool &pool) {
  const int64_t blockBytes = packedBlockBytes(tensor.packing);
  const bool isByte = tensor.packing == Packing::Q8_0;
  const double codes = isByte ? 256 : 16;
  const double k = double(std::max<int64_t>(tensor.shape.back(), 1));
  const double deviation = std::sqrt((codes * codes - 1) / 12);
  const float d = float(1 / (deviation * std::sqrt(k)));
  const uint16_t fields[] = {encodeF16(d), encodeF16(-7.5f * d)};
  const size_t header = tensor.packing == Packing::Q4_1 ? 4 : 2;
  constexpr int64_t kGrain = 1 << 12;
  const int64_t count = tensor.bytes / blockBytes;
  auto run = [&](int64_t begin, int64_t end) {
    end = std::min(end * kGrain, count);
    for (int64_t i = begin * kGrain; i < end; ++i) {
      std::byte *block = data + i * blockBytes;
      std::memcpy(block, fields, header);
      drawBits(key + uint64_t(i) * 8, block + header, 0,
               blockBytes - int64_t(header));
    }
  };
  pool.parallelFor(cdiv(count, kGrain), 1, run);
}

static void drawTensor(const TensorTable &table, size_t number, std::byte *data,
                       ThreadPool &pool) {
  const TensorInfo &tensor = table.tensors[number];
  // Tensors are far apart in the counter: none is longer than 2^40.
  const uint64_t key = uint64_t(number + 1) << 40;
  if (tensor.packing != Packing::None)
    return drawBlocks(tensor, key, data, pool);
  const int64_t width = byteWidth(tensor.type);
  const int64_t count = tensor.bytes / width;
  constexpr int64_t kGrain = 1 << 16;
  auto palette = paletteOf(tensor.type, valuesOf(table, tensor));
  if (!palette && (width == 8 || tensor.type == StoredType::BOOL))
    return; // The memory is zero already.
  auto run = [&](int64_t begin, int64_t end) {
    begin *= kGrain;
    end = std::min(end * kGrain, count);
    if (!palette)
      return drawBits(key, data, begin * width, end * width);
    auto draw = [&](auto element) {
      drawElements(palette->data(), key,
                   reinterpret_cast<decltype(element) *>(data), begin, end);
    };
    switch (width) {
    case 1:
      return draw(uint8_t());
    case 2:
      return draw(uint16_t());
    case 4:
      return draw(uint32_t());
    default:
      return draw(uint64_t());
    }
  };
  pool.parallelFor(cdiv(count, kGrain), 1, run);
}

RandomWeights::RandomWeights(RandomWeights &&o) noexcept {
  *this = std::move(o);
}

RandomWeights &RandomWeights::operator=(RandomWeights &&o) noexcept {
  std::swap(tensors, o.tensors);
  std::swap(base, o.base);
  std::swap(size, o.size);
  std::swap(elapsed, o.elapsed);
  return *this;
}

RandomWeights::~RandomWeights() { drop(); }

void RandomWeights::drop() {
  if (base)
    munmap(base, size);
  base = nullptr;
}

Result<RandomWeights> RandomWeights::draw(std::span<const ProgramTensor> list,
                                          ThreadPool &pool,
                                          const std::string &subject) {
  const auto start = std::chrono::steady_clock::now();
  RandomWeights weights;
  TensorTable &table = weights.tensors;
  std::map<std::string_view, const ProgramTensor *> drawn;
  for (const ProgramTensor &tensor : list) {
    // One that is loaded in two forms (a tied embedding) is drawn once.
    auto [entry, isNew] = drawn.try_emplace(tensor.name, &tensor);
    if (!isNew && entry->second->describe() != tensor.describe())
      return inputError(subject, "tensor " + quoteName(tensor.name) +
                                     " is both " + entry->second->describe() +
                                     " and " + tensor.describe());
    if (!isNew)
      continue;
    // The shape's product was checked when the program was read.
    auto bytes = checkedProduct(tensor.shape);
    const bool packed = tensor.packing != Packing::None;
    if (bytes)
      bytes = packed ? checkedMul(*bytes / packedBlockElements(tensor.packing),
                                  packedBlockBytes(tensor.packing))
                     : checkedMul(*bytes, byteWidth(tensor.type));
    if (!bytes)
      return inputError(subject, "tensor " + quoteName(tensor.name) +
                                     " has more bytes than 64 bits can count");
    TensorInfo info{};
    info.name = tensor.name;
    info.type = tensor.type;
    info.shape = tensor.shape;
    info.bytes = *bytes;
    info.packing = tensor.packing;
    table.tensors.push_back(std::move(info));
  }
  table.files = {subject};
  OCTET_TRY(table.finish());

  std::optional<int64_t> total = 0;
  for (TensorInfo &tensor : table.tensors) {
    tensor.offset = *total;
    total = checkedAdd(*total, tensor.bytes);
    if (!total || *total > INT64_MAX - kAlign)
      return inputError(subject, "the tensors have more bytes than 64 bits can "
                                 "count");
    total = alignTo(*total, kAlign);
  }
  table.fileBytes = {*total};

  // An untouched mapping costs nothing, so ask the machine before the kernel
  // ends the process half-way through.
  auto physical = checkedMul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE));
  auto tooLarge = [&](const std::string &why) {
    return machineError(subject, "random weights of this shape take " +
                                     std::to_string(*total) +
                                     " bytes of "
                                     "memory, " +
                                     why);
  };
  if (physical && *physical > 0 && *total > *physical)
    return tooLarge("this machine has " + std::to_string(*physical));
  weights.size = size_t(std::max<int64_t>(*total, 1));
  void *map = mmap(nullptr, weights.size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED)
    return tooLarge(std::strerror(errno));
  weights.base = static_cast<std::byte *>(map);
  // Large pages where there are some: fewer faults here, fewer walks later.
  madvise(map, weights.size, MADV_HUGEPAGE);
  for (size_t i = 0; i < table.tensors.size(); ++i)
    drawTensor(table, i, weights.base + table.tensors[i].offset, pool);
  weights.elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return weights;
}
