//===- Checkpoint.h - A checkpoint folder, headers only ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a checkpoint holds, a folder or a GGUF file: config.json and its
// sidecars as JSON, and the tensor table of its files. Everything here is
// hostile input: a header may lie about sizes, offsets, names. No weight byte
// is read. No LLVM: the executable uses this library too.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CHECKPOINT_CHECKPOINT_H
#define OCTET_CHECKPOINT_CHECKPOINT_H

#include "octet/Support/File.h"
#include "octet/Support/Status.h"
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// Element types of safetensors files, by their names there.
enum class StoredType : uint8_t {
  BOOL,
  U8,
  I8,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  U16,
  I16,
  F16,
  BF16,
  U32,
  I32,
  F32,
  U64,
  I64,
  F64
};

/// Size of one element in bytes: 1, 2, 4 or 8.
int64_t byteWidth(StoredType type);
/// The safetensors name, such as "F8_E4M3".
std::string_view storedTypeName(StoredType type);
/// The type of that name, or nothing for a name we do not know.
std::optional<StoredType> parseStoredType(std::string_view name);

/// How the elements of a GGUF tensor are packed in blocks along K (FORMATS.md).
/// None: elements of a StoredType, one after the other.
enum class Packing : uint8_t { None, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K };

/// "Q4_K"; "" for None.
std::string_view packingName(Packing packing);
/// The packing of that name; nothing for "" and unknown names.
std::optional<Packing> parsePacking(std::string_view name);
/// Matrices of it are multiplied as they are; others become F32 while loading.
bool staysPacked(Packing packing);

/// One tensor of the table.
struct TensorInfo {
  std::string name;
  StoredType type; ///< of the elements, F32 where they are packed
  std::vector<int64_t> shape;
  int32_t file;   ///< index into Checkpoint::files
  int64_t offset; ///< first byte, from the start of the file
  int64_t bytes;  ///< size in the file, in bytes
  Packing packing = Packing::None;
  /// Rows of a head whose halves the file stores interleaved (W16): row
  /// `2 i + j` of the file is row `j * headRows / 2 + i`. 0 if rows lie in
  /// order. TensorReader.h undoes packing and order.
  int64_t headRows = 0;

  /// The file holds the elements as `type` and `shape` say.
  bool isPlain() const { return packing == Packing::None && headRows == 0; }
  /// The name of what is stored: "BF16", "Q4_K".
  std::string_view storedName() const;
  /// "F8_E4M3 [256, 320]".
  std::string describe() const;
};

/// The headers of all safetensors files of one checkpoint, sorted by name.
class TensorTable {
public:
  /// nullptr if there is none of that name.
  const TensorInfo *find(std::string_view name) const;
  std::span<const TensorInfo> all() const { return tensors; }

  /// Paths of the files, in the order of TensorInfo::file.
  std::vector<std::string> files;
  /// Sizes of the files in bytes, same order.
  std::vector<int64_t> fileBytes;
  std::vector<TensorInfo> tensors; ///< sorted by name, names unique

  /// Sorts the tensors by name, after the last header was read.
  /// \returns an input error if a name is there twice (both files named) or
  /// the sizes of all tensors do not add up to an int64_t.
  Status finish();

  /// 32 lower-case hex digits over every (name, dtype, shape) in order: equal
  /// for two checkpoints that a program cannot tell apart by their headers.
  /// FNV-1a with 128 bits, of `NAME \0 DTYPE \0 RANK SIDE…` for each tensor,
  /// numbers as 8 bytes, lowest first. It tells checkpoints apart by accident,
  /// not by malice: it is no cryptographic hash.
  std::string hash() const;
};

/// Limits that keep a lying file from taking the machine down.
inline constexpr int64_t kMaxHeaderBytes = int64_t(100) << 20;
inline constexpr int64_t kMaxJsonBytes = int64_t(64) << 20;
inline constexpr int kMaxJsonDepth = 64;
/// Values and keys of one JSON document: a document of kMaxJsonBytes could hold
/// 30 million, which take 2 GB. The largest tokenizers have 2 million.
inline constexpr int64_t kMaxJsonValues = int64_t(8) << 20;
/// Sides of one tensor.
inline constexpr size_t kMaxRank = 16;

/// Reads the header of one safetensors file and appends its tensors.
/// \param path  the file.
/// \param file  its index in the table.
/// \param table [out] gets the tensors, unsorted; `finish` sorts and checks.
/// \returns an input error that names the file and the tensor: truncated file,
/// header length beyond the file or over kMaxHeaderBytes, JSON that does not
/// parse or nests too deep, unknown dtype, negative or overflowing shape,
/// offsets out of range, bytes that disagree with dtype x shape, overlap, bytes
/// that belong to no tensor (the format allows no gap, and none at the end).
/// A name twice is found by `finish`.
Status readSafetensorsHeader(const std::string &path, int32_t file,
                             TensorTable &table);

/// The table of one safetensors file by itself, finished.
Result<TensorTable> readSafetensors(const std::string &path);

/// Parses JSON from a hostile text: size, nesting and number of values are
/// bounded; duplicate keys, zero bytes and text that is not UTF-8 are refused;
/// nothing throws. All strings of the result are UTF-8.
/// \param subject  the file name used in errors.
Result<nlohmann::json> parseJson(std::string_view text,
                                 const std::string &subject);
/// Reads and parses a file with the bounds of parseJson.
Result<nlohmann::json> readJsonFile(const std::string &path);
/// The value as one line of JSON. Unlike nlohmann's `dump` it never throws:
/// what is not UTF-8 becomes U+FFFD.
std::string dumpJson(const nlohmann::json &value);

struct GgufMetadata;

/// A checkpoint as found on disk: a folder, or one GGUF file, whose metadata
/// then stand for the JSON files (Gguf.h) and whose tensors have the names that
/// a folder would give them (W16).
struct Checkpoint {
  std::string path;                ///< the folder or file as the user gave it
  nlohmann::json config;           ///< config.json, an object
  nlohmann::json hfQuantConfig;    ///< hf_quant_config.json, or null
  nlohmann::json generationConfig; ///< generation_config.json, or null
  bool hasTokenizer = false; ///< tokenizer.json is there, or GGUF's tokens
  std::shared_ptr<const GgufMetadata> gguf; ///< null for a folder
  TensorTable tensors;
};

struct OpenOptions {
  /// Without config.json is an error unless this is false (`octet info`).
  bool needConfig = true;
};

/// Opens a folder: `model.safetensors`, or the files of
/// `model.safetensors.index.json` (whose weight_map must agree with the
/// headers: a tensor in another file, missing or unlisted is an error; its file
/// names are plain names in the folder), or, without either, all
/// `*.safetensors` of the folder in name order. With needConfig = false `path`
/// may also be one safetensors file. A file named *.gguf is a whole checkpoint.
Result<Checkpoint> openCheckpoint(const std::string &path,
                                  OpenOptions options = {});

/// A checkpoint's files mapped read-only; the weights are never copied whole.
/// Nobody may shorten a file while it is mapped: reading past its new end kills
/// the process (SIGBUS), as with every mapped file.
class MappedCheckpoint {
public:
  MappedCheckpoint(MappedCheckpoint &&) noexcept;
  MappedCheckpoint &operator=(MappedCheckpoint &&) noexcept;
  ~MappedCheckpoint();
  /// Maps each file of `table`. A file whose size is not what the header
  /// reader saw is an error.
  static Result<MappedCheckpoint> map(const TensorTable &table);
  /// The bytes of a tensor of the table given to `map`, as the file has them.
  std::span<const std::byte> bytes(const TensorInfo &tensor) const;
  /// Lets the machine have the memory that holds a tensor's bytes; they are
  /// read from the file again when somebody looks.
  void release(const TensorInfo &tensor) const;
  /// Starts to read a tensor that is wanted soon.
  void prefetch(const TensorInfo &tensor) const;

  /// Where an address in one of the mappings lies.
  struct Place {
    size_t file; ///< in the table
    int64_t offset;
  };
  std::optional<Place> find(const void *address) const;
  /// Reads the file itself, which takes no memory for the mapping.
  /// \returns a machine error if it has become shorter or cannot be read.
  Status read(Place from, std::span<std::byte> out) const;

private:
  MappedCheckpoint() = default;
  struct Mapping {
    void *base;
    size_t size;
    InputFile file;
  };
  std::vector<Mapping> mappings;
};

/// A tensor for writeSafetensors.
struct TensorToWrite {
  std::string name; ///< UTF-8, unique
  StoredType type;
  std::vector<int64_t> shape;
  std::span<const std::byte> data; ///< bytes of dtype x shape
};
/// Writes a safetensors file: a temporary beside it, then a rename, so nothing
/// half-written is left behind (see writeFile). Each tensor is aligned to its
/// element.
/// \returns a machine error if the file cannot be written, an internal error if
/// a tensor is not as its fields say.
Status writeSafetensors(const std::string &path,
                        std::span<const TensorToWrite> tensors);

} // namespace octet

#endif // OCTET_CHECKPOINT_CHECKPOINT_H
