//===- Safetensors.cpp - Headers of safetensors files ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format, after its public description:
//
//   8 bytes      length N of the header, unsigned, lowest byte first
//   N bytes      the header: one JSON object, UTF-8, the first byte is '{';
//                blanks may follow it
//   the rest     the data
//
//   { "__metadata__": { "key": "text", … },                     may be absent
//     "NAME": { "dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24] }, … }
//
// `data_offsets` are [begin, end) in bytes from the start of the data. Tensors
// do not overlap and leave no byte of the data out; the order of names is free.
// A shape of [] is one element, a side of 0 is none.
//
// Nothing of that is believed. A header is read as a stream of events, since
// one of 100 MB would be gigabytes as a tree.
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/JsonSax.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

using namespace octet;

//===----------------------------------------------------------------------===//
// Element types
//===----------------------------------------------------------------------===//

namespace {

struct TypeRow {
  std::string_view name;
  int64_t bytes;
};

/// In the order of StoredType.
constexpr std::array<TypeRow, 18> kTypes = {{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"F8_E8M0", 1},
    {"F8_E4M3FNUZ", 1},
    {"F8_E5M2FNUZ", 1},
    {"U16", 2},
    {"I16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"U32", 4},
    {"I32", 4},
    {"F32", 4},
    {"U64", 8},
    {"I64", 8},
    {"F64", 8},
}};
static_assert(size_t(StoredType::F64) + 1 == kTypes.size(),
              "kTypes has one row for each StoredType");

} // namespace

int64_t octet::byteWidth(StoredType type) { return kTypes[size_t(type)].bytes; }

std::string_view octet::storedTypeName(StoredType type) {
  return kTypes[size_t(type)].name;
}

std::optional<StoredType> octet::parseStoredType(std::string_view name) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == name)
      return StoredType(i);
  return std::nullopt;
}

static std::string printList(std::span<const int64_t> values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string_view octet::packingName(Packing packing) {
  static constexpr std::string_view kNames[] = {"",     "Q4_0", "Q4_1", "Q5_0",
                                                "Q5_1", "Q8_0", "Q4_K", "Q6_K"};
  return kNames[size_t(packing)];
}

std::string_view TensorInfo::storedName() const {
  return packing == Packing::None ? storedTypeName(type) : packingName(packing);
}

std::string TensorInfo::describe() const {
  return std::string(storedName()) + " " + printList(shape);
}

//===----------------------------------------------------------------------===//
// One header
//===----------------------------------------------------------------------===//

namespace {

/// Turns the events of a header into rows of the table. Each state accepts few
/// events, and the nesting is fixed, so that there is no depth to bound.
class HeaderReader : public detail::JsonHandler {
public:
  /// \param dataBegin  first byte of the data, from the start of the file.
  HeaderReader(std::string subject, int32_t file, int64_t dataBegin,
               int64_t dataBytes, std::vector<TensorInfo> &tensors)
      : JsonHandler(std::move(subject)), file(file), dataBegin(dataBegin),
        dataBytes(dataBytes), tensors(tensors) {}

  bool null() {
    // "__metadata__": null is what some writers make of an absent one.
    if (state == State::Names && inMetadata)
      return true;
    return refuse("null");
  }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_float(double, const std::string &text) {
    return refuse("the number " + escapePath(text.substr(0, 40)));
  }
  bool number_integer(int64_t value) {
    return refuse("the number " + std::to_string(value));
  }
  bool number_unsigned(uint64_t value);
  bool string(std::string &text);
  bool start_object(size_t);
  bool end_object();
  bool start_array(size_t);
  bool end_array();
  bool key(std::string &name);

private:
  enum class State { Start, Names, Metadata, Entry, Shape, Offsets };
  enum Field : uint8_t { Dtype = 1, Shape = 2, Offsets = 4 };

  bool refuse(const std::string &what);
  bool failTensor(const std::string &message) {
    return fail("tensor " + quoteName(current.name) + ": " + message);
  }
  bool checkTensor();

  State state = State::Start;
  bool inMetadata = false;
  bool seenMetadata = false;
  uint8_t seen = 0;    ///< fields of the current entry
  Field field = Dtype; ///< of the last key
  TensorInfo current = {};
  std::array<int64_t, 2> offsets = {};
  size_t offsetCount = 0;

  const int32_t file;
  const int64_t dataBegin;
  const int64_t dataBytes;
  std::vector<TensorInfo> &tensors;
};

/// An event that the state does not accept.
bool HeaderReader::refuse(const std::string &what) {
  switch (state) {
  case State::Start:
    return fail("the header is " + what + "; it must be a JSON object");
  case State::Names:
    if (inMetadata)
      return fail("'__metadata__' is " + what + "; it must be an object");
    return failTensor("its entry is " + what + "; it must be an object");
  case State::Metadata:
    return fail("'__metadata__' holds " + what + "; its values are strings");
  case State::Entry:
    if (field == Dtype)
      return failTensor("'dtype' is " + what + "; it must be a string");
    return failTensor(
        std::string(field == Shape ? "'shape'" : "'data_offsets'") + " is " +
        what + "; it must be a list of integers");
  case State::Shape:
    return failTensor("shape[" + std::to_string(current.shape.size()) +
                      "] is " + what +
                      "; a side is an integer from 0 to 2^63 - 1");
  case State::Offsets:
    return failTensor("data_offsets[" + std::to_string(offsetCount) + "] is " +
                      what + "; an offset is an integer from 0 to 2^63 - 1");
  }
  return false;
}

bool HeaderReader::number_unsigned(uint64_t value) {
  bool listed = state == State::Shape || state == State::Offsets;
  if (!listed || value > uint64_t(INT64_MAX))
    return refuse("the number " + std::to_string(value));
  if (state == State::Shape) {
    if (current.shape.size() == kMaxRank)
      return failTensor("its shape has more than " + std::to_string(kMaxRank) +
                        " sides");
    current.shape.push_back(int64_t(value));
    return true;
  }
  if (offsetCount == 2)
    return failTensor("data_offsets has more than 2 numbers");
  offsets[offsetCount++] = int64_t(value);
  return true;
}

bool HeaderReader::string(std::string &text) {
  if (state == State::Metadata)
    return true;
  if (state != State::Entry || field != Dtype)
    return refuse("the string " + quoteName(text));
  std::optional<StoredType> type = parseStoredType(text);
  if (!type) {
    std::string known;
    for (const TypeRow &row : kTypes)
      known += (known.empty() ? "" : ", ") + std::string(row.name);
    return failTensor("dtype " + quoteName(text) + " is unknown; known are " +
                      known);
  }
  current.type = *type;
  return true;
}

bool HeaderReader::start_object(size_t) {
  if (state == State::Start)
    state = State::Names;
  else if (state == State::Names)
    state = inMetadata ? State::Metadata : State::Entry;
  else
    return refuse("an object");
  return true;
}

bool HeaderReader::end_object() {
  if (state == State::Entry && !checkTensor())
    return false;
  // After the outermost object nothing but blanks may follow, which the parser
  // checks.
  state = State::Names;
  return true;
}

bool HeaderReader::start_array(size_t) {
  if (state != State::Entry || field == Dtype)
    return refuse("a list");
  state = field == Shape ? State::Shape : State::Offsets;
  return true;
}

bool HeaderReader::end_array() {
  if (state == State::Offsets && offsetCount != 2)
    return failTensor("data_offsets has " + std::to_string(offsetCount) +
                      " numbers; it needs 2");
  state = State::Entry;
  return true;
}

bool HeaderReader::key(std::string &name) {
  if (state == State::Metadata)
    return true;
  if (state == State::Names) {
    inMetadata = name == "__metadata__";
    if (inMetadata) {
      if (std::exchange(seenMetadata, true))
        return fail("has '__metadata__' twice");
      return true;
    }
    // It would end the name wherever C reads it.
    if (name.find('\0') != name.npos)
      return fail("tensor " + quoteName(name) + ": its name holds a zero byte");
    current.name = name;
    current.shape.clear();
    offsetCount = 0;
    seen = 0;
    return true;
  }
  if (name == "dtype")
    field = Dtype;
  else if (name == "shape")
    field = Shape;
  else if (name == "data_offsets")
    field = Offsets;
  else
    return failTensor("has the unknown field " + quoteName(name) +
                      "; known are dtype, shape, data_offsets");
  if (seen & field)
    return failTensor("has '" + name + "' twice");
  seen |= field;
  return true;
}

/// All that one entry can be wrong about by itself.
bool HeaderReader::checkTensor() {
  if (!(seen & Dtype))
    return failTensor("has no 'dtype'");
  if (!(seen & Shape))
    return failTensor("has no 'shape'");
  if (!(seen & Offsets))
    return failTensor("has no 'data_offsets'");

  auto [begin, end] = offsets;
  std::string printed = "data_offsets " + printList(offsets);
  std::optional<int64_t> count = checkedProduct(current.shape);
  std::optional<int64_t> need =
      count ? checkedMul(*count, byteWidth(current.type)) : std::nullopt;
  if (!need)
    return failTensor(current.describe() + " is more than 2^63 - 1 bytes");
  if (begin > end)
    return failTensor(printed + " end before they begin");
  if (end > dataBytes)
    return failTensor(printed + " end beyond the " + std::to_string(dataBytes) +
                      " bytes of data");
  if (end - begin != *need)
    return failTensor(printed + " hold " + std::to_string(end - begin) +
                      " bytes, " + current.describe() + " needs " +
                      std::to_string(*need));
  current.file = file;
  current.offset = dataBegin + begin; // both are inside the file
  current.bytes = *need;
  tensors.push_back(current);
  return true;
}

/// That the tensors from `first` on cover the data, each byte once.
Status checkCover(const std::string &subject, int64_t dataBegin,
                  int64_t dataBytes, std::span<const TensorInfo> tensors) {
  std::vector<uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  // An empty tensor comes before the one that begins at the same byte; the
  // name makes the message the same however the file orders them.
  auto sortKey = [&](uint32_t i) {
    return std::tuple(tensors[i].offset, tensors[i].bytes,
                      std::string_view(tensors[i].name));
  };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return sortKey(a) < sortKey(b); });
  auto range = [&](const TensorInfo &tensor) {
    int64_t begin = tensor.offset - dataBegin;
    return "[" + std::to_string(begin) + ", " +
           std::to_string(begin + tensor.bytes) + "]";
  };
  int64_t end = dataBegin;
  const TensorInfo *previous = nullptr;
  for (uint32_t i : order) {
    const TensorInfo &tensor = tensors[i];
    if (tensor.offset < end)
      return inputError(
          subject, "tensor " + quoteName(tensor.name) + ": data_offsets " +
                       range(tensor) + " overlap those of " +
                       quoteName(previous->name) + ", " + range(*previous));
    if (tensor.offset > end)
      return inputError(
          subject,
          "tensor " + quoteName(tensor.name) + ": data_offsets " +
              range(tensor) + " leave a gap; the tensor must begin at " +
              std::to_string(end - dataBegin) +
              (previous ? ", where " + quoteName(previous->name) + " ends"
                        : ", where the data begins"));
    end += tensor.bytes;
    previous = &tensor;
  }
  if (end - dataBegin != dataBytes)
    return inputError(subject, "its tensors end at byte " +
                                   std::to_string(end - dataBegin) + " of " +
                                   std::to_string(dataBytes) +
                                   " bytes of data; no byte may be left over");
  return Status::success();
}

} // namespace

Status octet::readSafetensorsHeader(const std::string &path, int32_t file,
                                    TensorTable &table) {
  std::string subject = escapePath(path);
  OCTET_TRY_ASSIGN(InputFile input, InputFile::open(path));
  if (input.size() < 8)
    return inputError(subject, "is " + std::to_string(input.size()) +
                                   " bytes; a safetensors file has at least 8");
  std::array<char, 8> prefix;
  OCTET_TRY(input.read(0, prefix));
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(prefix[i]);
  if (length > uint64_t(input.size() - 8))
    return inputError(subject, "header length " + std::to_string(length) +
                                   " goes beyond the file, which has " +
                                   std::to_string(input.size() - 8) +
                                   " bytes after it; the file is truncated or "
                                   "no safetensors file");
  if (length > uint64_t(kMaxHeaderBytes))
    return inputError(subject, "header length " + std::to_string(length) +
                                   " is over the limit of " +
                                   std::to_string(kMaxHeaderBytes) + " bytes");
  std::string text(length, '\0');
  OCTET_TRY(input.read(8, text));
  // nlohmann would also take a byte order mark or blanks first.
  if (text.empty() || text[0] != '{')
    return inputError(
        subject,
        "the header is no JSON object: it " +
            (text.empty() ? "is empty"
                          : "begins with " + quoteName(text.substr(0, 1))));

  int64_t dataBegin = 8 + int64_t(length);
  int64_t dataBytes = input.size() - dataBegin;
  size_t first = table.tensors.size();
  HeaderReader reader(subject, file, dataBegin, dataBytes, table.tensors);
  OCTET_TRY(detail::parseJsonEvents(text, reader));
  OCTET_TRY(checkCover(subject, dataBegin, dataBytes,
                       std::span(table.tensors).subspan(first)));
  if (table.files.size() <= size_t(file)) {
    table.files.resize(size_t(file) + 1);
    table.fileBytes.resize(size_t(file) + 1);
  }
  table.files[file] = path;
  table.fileBytes[file] = input.size();
  return Status::success();
}

Result<TensorTable> octet::readSafetensors(const std::string &path) {
  TensorTable table;
  OCTET_TRY(readSafetensorsHeader(path, 0, table));
  OCTET_TRY(table.finish());
  return table;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

Status TensorTable::finish() {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorInfo &a, const TensorInfo &b) {
              return std::tie(a.name, a.file) < std::tie(b.name, b.file);
            });
  int64_t total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo &tensor = tensors[i];
    std::string subject = escapePath(files[tensor.file]);
    if (i && tensors[i - 1].name == tensor.name) {
      std::string quoted = quoteName(tensor.name);
      if (tensors[i - 1].file == tensor.file)
        return inputError(subject, "tensor " + quoted + " is there twice");
      return inputError(subject, "tensor " + quoted + " is also in " +
                                     escapePath(files[tensors[i - 1].file]));
    }
    if (__builtin_add_overflow(total, tensor.bytes, &total))
      return inputError(subject, "tensor " + quoteName(tensor.name) +
                                     ": with it the tensors are more than "
                                     "2^63 - 1 bytes");
  }
  return Status::success();
}

const TensorInfo *TensorTable::find(std::string_view name) const {
  auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorInfo &a, std::string_view b) { return a.name < b; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

namespace {

/// FNV-1a with 128 bits (Fowler, Noll, Vo): for each byte h = (h ^ byte) * p.
class Fnv128 {
public:
  void add(std::string_view text) {
    for (char c : text)
      hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  }
  void add(uint64_t number) {
    for (int i = 0; i < 8; ++i)
      hash = (hash ^ (number >> (8 * i) & 0xFF)) * kPrime;
  }
  std::string hex() const {
    std::string text;
    for (int shift = 124; shift >= 0; shift -= 4)
      text += "0123456789abcdef"[unsigned(hash >> shift) & 15];
    return text;
  }

private:
  using U128 = unsigned __int128;
  static constexpr U128 kPrime = U128(1) << 88 | 0x13B;
  U128 hash = U128(0x6C62272E07BB0142) << 64 | 0x62B821756295C58D;
};

} // namespace

std::string TensorTable::hash() const {
  using namespace std::literals;
  Fnv128 hash;
  for (const TensorInfo &tensor : tensors) {
    hash.add(tensor.name);
    hash.add("\0"sv);
    hash.add(tensor.storedName());
    hash.add("\0"sv);
    hash.add(uint64_t(tensor.shape.size()));
    for (int64_t side : tensor.shape)
      hash.add(uint64_t(side));
  }
  return hash.hex();
}
