//===- Gguf.h - GGUF files --------------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GGUF file is a checkpoint in one file: typed metadata, then a tensor table,
// then the data. Everything here is hostile input, as in Checkpoint.h, and no
// weight is read (but for one table of rope factors, 256 bytes).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CHECKPOINT_GGUF_H
#define OCTET_CHECKPOINT_GGUF_H

#include "octet/Checkpoint/Checkpoint.h"
#include <variant>

namespace octet {

/// A value of the metadata. Integers of all widths are int64_t (one above
/// 2^63 - 1 is refused), floats are double. A list in a list is checked and
/// left out.
using GgufValue = std::variant<std::monostate, bool, int64_t, double,
                               std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

/// Limits beside those of Checkpoint.h; metadata and table together are at most
/// kMaxHeaderBytes.
inline constexpr int64_t kMaxGgufKeys = 1 << 16;
inline constexpr int64_t kMaxGgufTensors = 1 << 20;
inline constexpr int64_t kMaxGgufElements = kMaxJsonValues; ///< of one list
inline constexpr int kMaxGgufDepth = 4;                     ///< of lists
inline constexpr int64_t kMaxGgufRank = 4;
inline constexpr int64_t kMaxGgufLayers = 1 << 14;

/// The metadata of one file.
struct GgufMetadata {
  std::string subject; ///< the file, escaped, for errors
  uint32_t version = 0;
  std::map<std::string, GgufValue, std::less<>> values;

  /// nullptr if the key is absent.
  const GgufValue *find(std::string_view key) const;
  /// Nothing if the key is absent; an input error for a value of another kind.
  Result<std::optional<bool>> findBool(std::string_view key) const;
  Result<std::optional<int64_t>> findInteger(std::string_view key) const;
  Result<std::optional<double>> findNumber(std::string_view key) const;
  Result<std::optional<std::string>> findString(std::string_view key) const;
  /// nullptr if absent.
  Result<const std::vector<std::string> *>
  findStrings(std::string_view key) const;
  Result<const std::vector<int64_t> *> findIntegers(std::string_view key) const;
  Result<const std::vector<double> *> findNumbers(std::string_view key) const;
};

/// Metadata and table as the file has them: its own names, sides reversed to
/// [N, K], rows in the file's order.
struct GgufFile {
  std::shared_ptr<const GgufMetadata> metadata;
  TensorTable tensors;
};

/// Reads the header of a GGUF file, versions 2 and 3, lowest byte first.
/// \returns an input error that names the file and the key or tensor: no GGUF
/// file, truncated, another version or byte order, counts and lengths beyond
/// the file or the limits, a key or tensor twice, a type that is not known or
/// not read (by its name in ggml), sides that overflow or cut a block, offsets
/// that are not aligned, out of range or overlap.
Result<GgufFile> readGguf(const std::string &path);

/// Whether a file's name ends in `.gguf`, in small or capital letters.
bool isGgufName(std::string_view path);

/// The file as a checkpoint: config and generation config from the metadata,
/// the tensor names of a folder, W16. Architectures: llama (Llama, Mistral),
/// qwen2, qwen3; others are refused by name.
Result<Checkpoint> openGguf(const std::string &path);

/// The tokenizer of the metadata, as it is there.
struct GgufTokenizer {
  std::string model; ///< "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;   ///< name of the pre-tokenizer, "" if not given
  std::vector<std::string> tokens;
  std::vector<double> scores;      ///< as many as tokens, or none
  std::vector<int64_t> types;      ///< as many as tokens, or none
  std::vector<std::string> merges; ///< "left right", best first
  std::optional<int64_t> bos, eos, eot, unknown, padding;
  std::optional<bool> addBos, addEos, addSpacePrefix;
  std::optional<std::string> chatTemplate;
};
/// Values of GgufTokenizer::types.
enum class GgufTokenType : int64_t {
  Normal = 1,
  Unknown,
  Control,
  UserDefined,
  Unused,
  Byte,
};

/// Nothing if the metadata have no tokens; an input error if lists differ in
/// length or an id is out of range.
Result<std::optional<GgufTokenizer>>
readGgufTokenizer(const GgufMetadata &metadata);

} // namespace octet

#endif // OCTET_CHECKPOINT_GGUF_H
