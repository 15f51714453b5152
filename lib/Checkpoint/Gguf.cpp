//===- Gguf.cpp - Headers of GGUF files -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format, after its public description; all numbers lowest byte first:
//
//   4 bytes   "GGUF"
//   u32       version: 2 or 3, which are alike
//   u64, u64  number of tensors, number of metadata entries
//   entries   key (string), u32 type of the value, value
//   tensors   name (string), u32 rank, u64 sides, innermost first, u32 type,
//             u64 offset from the start of the data
//   padding   to a multiple of general.alignment (32 if absent)
//   data      each tensor at a multiple of the alignment; gaps are allowed
//
//   string    u64 length, bytes        list      u32 type, u64 count, values
//
// Nothing of that is believed. The header has no length of its own: it is read
// through a window and may not go beyond kMaxHeaderBytes.
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Gguf.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

using namespace octet;

namespace {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

struct GgmlType {
  uint32_t number;
  std::string_view name;
  /// What it is here; nothing if it is only known by name.
  std::optional<std::pair<StoredType, Packing>> readAs = std::nullopt;
};

constexpr std::pair<StoredType, Packing> plain(StoredType type) {
  return {type, Packing::None};
}
constexpr std::pair<StoredType, Packing> packed(Packing packing) {
  return {StoredType::F32, packing};
}

constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", plain(StoredType::F32)},
    {1, "F16", plain(StoredType::F16)},
    {2, "Q4_0", packed(Packing::Q4_0)},
    {3, "Q4_1", packed(Packing::Q4_1)},
    {6, "Q5_0", packed(Packing::Q5_0)},
    {7, "Q5_1", packed(Packing::Q5_1)},
    {8, "Q8_0", packed(Packing::Q8_0)},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K", packed(Packing::Q4_K)},
    {13, "Q5_K"},
    {14, "Q6_K", packed(Packing::Q6_K)},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {30, "BF16", plain(StoredType::BF16)},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
};

std::string listReadTypes() {
  std::string text;
  for (const GgmlType &type : kGgmlTypes)
    if (type.readAs)
      text += (text.empty() ? "" : ", ") + std::string(type.name);
  return text;
}

/// Types of metadata values.
enum class ValueType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  List,
  U64,
  I64,
  F64,
};
constexpr uint32_t kNumValueTypes = 13;

/// The fewest bytes that a value takes: bounds a count before it is believed.
constexpr int64_t kLeastBytes[kNumValueTypes] = {1, 1, 2,  2, 4, 4, 4,
                                                 1, 8, 12, 8, 8, 8};

constexpr int64_t kWindowBytes = 1 << 20;
constexpr int64_t kMaxKeyBytes = 1 << 16;
constexpr int64_t kDefaultAlignment = 32;
constexpr int64_t kMaxAlignment = 1 << 20;

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

class Reader {
public:
  Reader(InputFile file, const std::string &path)
      : file(std::move(file)), path(path), subject(escapePath(path)) {}

  Result<GgufFile> run();

private:
  Status fail(std::string message) {
    return inputError(subject, where + std::move(message));
  }
  /// Bytes that the header may still have.
  int64_t remaining() const {
    return std::min(file.size(), kMaxHeaderBytes) - position;
  }
  Status readBytes(std::span<char> out);
  template <typename T>
  Result<T> readNumber();
  /// A number of things that take at least `least` bytes each.
  Result<int64_t> readCount(const char *what, int64_t least, int64_t limit);
  Result<std::string> readString(const char *what, int64_t limit);

  Status readPrefix();
  Status readEntry();
  Result<GgufValue> readValue(ValueType type);
  Result<ValueType> readValueType();
  Result<GgufValue> readList(int depth);
  Status skipValue(ValueType type, int depth);
  template <typename T>
  Result<GgufValue> readElements(ValueType type, int64_t count);
  Result<int64_t> readInteger(ValueType type);
  Result<double> readFloat(ValueType type);

  Status readTensor();
  Status readType(TensorInfo &tensor);
  Status placeTensors();

  InputFile file;
  const std::string &path;
  std::string subject, where;
  std::string window;
  int64_t windowBegin = 0, position = 0;

  int64_t tensorCount = 0, entryCount = 0;
  GgufMetadata metadata;
  TensorTable table;
};

Status Reader::readBytes(std::span<char> out) {
  if (int64_t(out.size()) > remaining()) {
    if (position + int64_t(out.size()) > file.size())
      return fail("the file ends at byte " + std::to_string(file.size()) +
                  ", " + std::to_string(out.size()) +
                  " more are needed at byte " + std::to_string(position));
    return fail("the header is over the limit of " +
                std::to_string(kMaxHeaderBytes) + " bytes");
  }
  while (!out.empty()) {
    int64_t at = position - windowBegin;
    if (at >= int64_t(window.size())) {
      window.resize(size_t(std::min(kWindowBytes, file.size() - position)));
      OCTET_TRY(file.read(position, window));
      windowBegin = position;
      at = 0;
    }
    size_t count = std::min(out.size(), window.size() - size_t(at));
    std::memcpy(out.data(), window.data() + at, count);
    out = out.subspan(count);
    position += int64_t(count);
  }
  return Status::success();
}

template <typename T>
Result<T> Reader::readNumber() {
  std::array<char, sizeof(T)> bytes;
  OCTET_TRY(readBytes(bytes));
  uint64_t value = 0;
  for (size_t i = sizeof(T); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return T(value);
}

Result<int64_t> Reader::readCount(const char *what, int64_t least,
                                  int64_t limit) {
  OCTET_TRY_ASSIGN(uint64_t count, readNumber<uint64_t>());
  if (count > uint64_t(limit))
    return fail(std::string(what) + " is " + std::to_string(count) +
                ", over the limit of " + std::to_string(limit));
  if (count > uint64_t(remaining() / least))
    return fail(std::string(what) + " is " + std::to_string(count) +
                ", more than the " + std::to_string(file.size() - position) +
                " bytes after it can hold");
  return int64_t(count);
}

Result<std::string> Reader::readString(const char *what, int64_t limit) {
  OCTET_TRY_ASSIGN(int64_t length, readCount(what, /*least=*/1, limit));
  std::string text(size_t(length), '\0');
  OCTET_TRY(readBytes(text));
  return text;
}

Status Reader::readPrefix() {
  std::array<char, 4> magic;
  if (file.size() < 24)
    return fail("is " + std::to_string(file.size()) +
                " bytes; a GGUF file has at least 24");
  OCTET_TRY(readBytes(magic));
  if (std::string_view(magic.data(), 4) != "GGUF")
    return fail("is no GGUF file: it begins with " +
                quoteName({magic.data(), 4}));
  OCTET_TRY_ASSIGN(metadata.version, readNumber<uint32_t>());
  if (metadata.version != 2 && metadata.version != 3) {
    uint32_t swapped = __builtin_bswap32(metadata.version);
    if (swapped == 2 || swapped == 3)
      return fail("is a big-endian GGUF file; only little-endian ones are "
                  "read");
    return fail("is GGUF version " + std::to_string(metadata.version) +
                "; versions 2 and 3 are read");
  }
  // A tensor has at least a length, a rank, a type and an offset.
  OCTET_TRY_ASSIGN(tensorCount,
                   readCount("the number of tensors", 24, kMaxGgufTensors));
  OCTET_TRY_ASSIGN(entryCount, readCount("the number of metadata entries", 13,
                                         kMaxGgufKeys));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

Result<ValueType> Reader::readValueType() {
  OCTET_TRY_ASSIGN(uint32_t type, readNumber<uint32_t>());
  if (type >= kNumValueTypes)
    return fail("its value has the unknown type " + std::to_string(type));
  return ValueType(type);
}

Result<int64_t> Reader::readInteger(ValueType type) {
  auto widen = [](auto result) -> Result<int64_t> {
    if (!result.ok())
      return result.takeStatus();
    return int64_t(*result);
  };
  switch (type) {
  case ValueType::U8:
    return widen(readNumber<uint8_t>());
  case ValueType::I8:
    return widen(readNumber<int8_t>());
  case ValueType::U16:
    return widen(readNumber<uint16_t>());
  case ValueType::I16:
    return widen(readNumber<int16_t>());
  case ValueType::U32:
    return widen(readNumber<uint32_t>());
  case ValueType::I32:
    return widen(readNumber<int32_t>());
  case ValueType::U64: {
    OCTET_TRY_ASSIGN(uint64_t value, readNumber<uint64_t>());
    if (value > uint64_t(INT64_MAX))
      return fail("its value " + std::to_string(value) + " is above 2^63 - 1");
    return int64_t(value);
  }
  default:
    return widen(readNumber<int64_t>());
  }
}

/// A float32 as the double that its shortest decimal names: what was 1e-05 in
/// config.json is so again.
double fromShortest(float value) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, value);
  double result = value;
  if (error == std::errc())
    std::from_chars(text, end, result);
  return result;
}

Result<double> Reader::readFloat(ValueType type) {
  if (type == ValueType::F64) {
    OCTET_TRY_ASSIGN(uint64_t bits, readNumber<uint64_t>());
    return std::bit_cast<double>(bits);
  }
  OCTET_TRY_ASSIGN(uint32_t bits, readNumber<uint32_t>());
  return fromShortest(std::bit_cast<float>(bits));
}

Result<GgufValue> Reader::readValue(ValueType type) {
  switch (type) {
  case ValueType::F32:
  case ValueType::F64: {
    OCTET_TRY_ASSIGN(double value, readFloat(type));
    return GgufValue(value);
  }
  case ValueType::Bool: {
    OCTET_TRY_ASSIGN(uint8_t value, readNumber<uint8_t>());
    if (value > 1)
      return fail("its value is the boolean " + std::to_string(value) +
                  "; one is 0 or 1");
    return GgufValue(value == 1);
  }
  case ValueType::String: {
    OCTET_TRY_ASSIGN(std::string value,
                     readString("the length of its text", kMaxHeaderBytes));
    return GgufValue(std::move(value));
  }
  case ValueType::List:
    return readList(1);
  default: {
    OCTET_TRY_ASSIGN(int64_t value, readInteger(type));
    return GgufValue(value);
  }
  }
}

template <typename T>
Result<GgufValue> Reader::readElements(ValueType type, int64_t count) {
  std::vector<T> elements;
  elements.reserve(size_t(count)); // the bytes for them are there
  for (int64_t i = 0; i < count; ++i) {
    OCTET_TRY_ASSIGN(GgufValue value, readValue(type));
    if (const bool *truth = std::get_if<bool>(&value)) {
      if constexpr (std::is_same_v<T, int64_t>)
        elements.push_back(*truth);
    } else {
      elements.push_back(std::get<T>(std::move(value)));
    }
  }
  return GgufValue(std::move(elements));
}

Status Reader::skipValue(ValueType type, int depth) {
  if (type == ValueType::List) {
    OCTET_TRY_ASSIGN([[maybe_unused]] GgufValue inner, readList(depth));
  } else {
    OCTET_TRY_ASSIGN([[maybe_unused]] GgufValue value, readValue(type));
  }
  return Status::success();
}

Result<GgufValue> Reader::readList(int depth) {
  if (depth > kMaxGgufDepth)
    return fail("its lists nest deeper than " + std::to_string(kMaxGgufDepth) +
                " levels");
  OCTET_TRY_ASSIGN(ValueType type, readValueType());
  OCTET_TRY_ASSIGN(int64_t count,
                   readCount("the length of its list",
                             kLeastBytes[uint32_t(type)], kMaxGgufElements));
  switch (type) {
  case ValueType::String:
    return readElements<std::string>(type, count);
  case ValueType::F32:
  case ValueType::F64:
    return readElements<double>(type, count);
  case ValueType::List:
    for (int64_t i = 0; i < count; ++i)
      OCTET_TRY(skipValue(type, depth + 1));
    return GgufValue();
  default:
    return readElements<int64_t>(type, count);
  }
}

Status Reader::readEntry() {
  OCTET_TRY_ASSIGN(std::string key,
                   readString("the length of a metadata key", kMaxKeyBytes));
  where = "metadata key " + quoteName(key) + ": ";
  OCTET_TRY_ASSIGN(ValueType type, readValueType());
  OCTET_TRY_ASSIGN(GgufValue value, readValue(type));
  if (!metadata.values.try_emplace(std::move(key), std::move(value)).second)
    return fail("is there twice");
  where.clear();
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Status Reader::readType(TensorInfo &tensor) {
  OCTET_TRY_ASSIGN(uint32_t number, readNumber<uint32_t>());
  for (const GgmlType &type : kGgmlTypes) {
    if (type.number != number)
      continue;
    if (!type.readAs)
      return fail("has type " + std::string(type.name) +
                  ", which is not read; " + listReadTypes() + " are");
    std::tie(tensor.type, tensor.packing) = *type.readAs;
    return Status::success();
  }
  return fail("has the unknown type " + std::to_string(number) + "; " +
              listReadTypes() + " are read");
}

Status Reader::readTensor() {
  where.clear();
  OCTET_TRY_ASSIGN(std::string name,
                   readString("the length of a tensor's name", kMaxKeyBytes));
  where = "tensor " + quoteName(name) + ": ";
  if (name.empty() || !isUtf8(name) || name.find('\0') != name.npos)
    return fail("its name is empty, no UTF-8 or holds a zero byte");
  TensorInfo tensor{};
  tensor.name = std::move(name);
  OCTET_TRY_ASSIGN(uint32_t rank, readNumber<uint32_t>());
  if (rank > uint32_t(kMaxGgufRank))
    return fail("has " + std::to_string(rank) + " sides; at most " +
                std::to_string(kMaxGgufRank) + " are allowed");
  for (uint32_t i = 0; i < rank; ++i) {
    OCTET_TRY_ASSIGN(uint64_t side, readNumber<uint64_t>());
    if (side == 0 || side > uint64_t(INT64_MAX))
      return fail("side " + std::to_string(i) + " is " + std::to_string(side) +
                  "; a side is 1 to 2^63 - 1");
    tensor.shape.insert(tensor.shape.begin(), int64_t(side));
  }
  OCTET_TRY(readType(tensor));
  OCTET_TRY_ASSIGN(uint64_t offset, readNumber<uint64_t>());

  int64_t elements = packedBlockElements(tensor.packing);
  int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (cols % elements)
    return fail(tensor.describe() + " has rows of " + std::to_string(cols) +
                ", not a multiple of the block of " + std::to_string(elements));
  std::optional<int64_t> count = checkedProduct(tensor.shape);
  std::optional<int64_t> bytes;
  if (count)
    bytes =
        tensor.packing == Packing::None
            ? checkedMul(*count, byteWidth(tensor.type))
            : checkedMul(*count / elements, packedBlockBytes(tensor.packing));
  // The elements of a packed tensor must be countable in bytes of F32 too.
  if (!bytes || !checkedMul(*count, 4))
    return fail(tensor.describe() + " is more than 2^63 - 1 bytes");
  if (offset > uint64_t(file.size()))
    return fail("its offset " + std::to_string(offset) +
                " is beyond the file of " + std::to_string(file.size()) +
                " bytes");
  tensor.bytes = *bytes;
  tensor.offset = int64_t(offset); // placeTensors adds where the data begins
  table.tensors.push_back(std::move(tensor));
  return Status::success();
}

/// Offsets from the start of the file, aligned, inside it, without overlap.
Status Reader::placeTensors() {
  where.clear();
  OCTET_TRY_ASSIGN(std::optional<int64_t> given,
                   metadata.findInteger("general.alignment"));
  int64_t alignment = given.value_or(kDefaultAlignment);
  if (alignment < 1 || alignment > kMaxAlignment ||
      !std::has_single_bit(uint64_t(alignment)))
    return fail("metadata key 'general.alignment': is " +
                std::to_string(alignment) + "; a power of two up to " +
                std::to_string(kMaxAlignment) + " is needed");
  int64_t dataBegin = alignTo(position, alignment);
  for (TensorInfo &tensor : table.tensors) {
    where = "tensor " + quoteName(tensor.name) + ": ";
    if (tensor.offset % alignment)
      return fail("its offset " + std::to_string(tensor.offset) +
                  " is not a multiple of the alignment " +
                  std::to_string(alignment));
    // dataBegin and offset are each at most the file and an alignment.
    int64_t dataBytes = std::max<int64_t>(file.size() - dataBegin, 0);
    if (tensor.offset > dataBytes || tensor.bytes > dataBytes - tensor.offset)
      return fail(tensor.describe() + " of " + std::to_string(tensor.bytes) +
                  " bytes at offset " + std::to_string(tensor.offset) +
                  " ends beyond the " + std::to_string(dataBytes) +
                  " bytes of data");
    tensor.offset += dataBegin;
  }
  std::vector<const TensorInfo *> order;
  for (const TensorInfo &tensor : table.tensors)
    order.push_back(&tensor);
  std::sort(
      order.begin(), order.end(), [](const TensorInfo *a, const TensorInfo *b) {
        return std::tie(a->offset, a->name) < std::tie(b->offset, b->name);
      });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->offset < order[i - 1]->offset + order[i - 1]->bytes) {
      where = "tensor " + quoteName(order[i]->name) + ": ";
      return fail("overlaps " + quoteName(order[i - 1]->name));
    }
  return Status::success();
}

Result<GgufFile> Reader::run() {
  metadata.subject = subject;
  OCTET_TRY(readPrefix());
  for (int64_t i = 0; i < entryCount; ++i)
    OCTET_TRY(readEntry());
  for (int64_t i = 0; i < tensorCount; ++i)
    OCTET_TRY(readTensor());
  OCTET_TRY(placeTensors());
  table.files = {path};
  table.fileBytes = {file.size()};
  OCTET_TRY(table.finish());
  return GgufFile{std::make_shared<GgufMetadata>(std::move(metadata)),
                  std::move(table)};
}

} // namespace

Result<GgufFile> octet::readGguf(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  return Reader(std::move(file), path).run();
}

//===----------------------------------------------------------------------===//
// Looking up metadata
//===----------------------------------------------------------------------===//

const GgufValue *GgufMetadata::find(std::string_view key) const {
  auto at = values.find(key);
  return at == values.end() ? nullptr : &at->second;
}

static Status wrongKind(const GgufMetadata &metadata, std::string_view key,
                        const char *expected) {
  static constexpr const char *kKinds[] = {
      "a list of lists",   "a boolean",      "an integer",
      "a number",          "a text",         "a list of integers",
      "a list of numbers", "a list of texts"};
  return inputError(metadata.subject, "metadata key " + quoteName(key) +
                                          ": is " +
                                          kKinds[metadata.find(key)->index()] +
                                          "; it must be " + expected);
}

template <typename T>
static Result<std::optional<T>> findScalar(const GgufMetadata &metadata,
                                           std::string_view key,
                                           const char *expected) {
  const GgufValue *value = metadata.find(key);
  if (!value)
    return std::optional<T>();
  if (const T *typed = std::get_if<T>(value))
    return std::optional<T>(*typed);
  return wrongKind(metadata, key, expected);
}

template <typename T>
static Result<const std::vector<T> *> findList(const GgufMetadata &metadata,
                                               std::string_view key,
                                               const char *expected) {
  const GgufValue *value = metadata.find(key);
  if (!value)
    return static_cast<const std::vector<T> *>(nullptr);
  if (const auto *typed = std::get_if<std::vector<T>>(value))
    return typed;
  return wrongKind(metadata, key, expected);
}

Result<std::optional<bool>> GgufMetadata::findBool(std::string_view key) const {
  return findScalar<bool>(*this, key, "a boolean");
}

Result<std::optional<int64_t>>
GgufMetadata::findInteger(std::string_view key) const {
  return findScalar<int64_t>(*this, key, "an integer");
}

Result<std::optional<double>>
GgufMetadata::findNumber(std::string_view key) const {
  if (const GgufValue *value = find(key))
    if (const auto *integer = std::get_if<int64_t>(value))
      return std::optional<double>(double(*integer));
  return findScalar<double>(*this, key, "a number");
}

Result<std::optional<std::string>>
GgufMetadata::findString(std::string_view key) const {
  return findScalar<std::string>(*this, key, "a text");
}

Result<const std::vector<std::string> *>
GgufMetadata::findStrings(std::string_view key) const {
  return findList<std::string>(*this, key, "a list of texts");
}

Result<const std::vector<int64_t> *>
GgufMetadata::findIntegers(std::string_view key) const {
  return findList<int64_t>(*this, key, "a list of integers");
}

Result<const std::vector<double> *>
GgufMetadata::findNumbers(std::string_view key) const {
  return findList<double>(*this, key, "a list of numbers");
}
