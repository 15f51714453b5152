//===- Checkpoint.cpp - A checkpoint folder -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The index, model.safetensors.index.json, is an object:
//
//   { "metadata": { "total_size": 12345 },          anything, not read
//     "weight_map": { "TENSOR": "FILE", … } }       FILE is in the same folder
//
// It is read as a stream of events like a header (Safetensors.cpp).
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Checkpoint/Gguf.h"
#include "octet/Checkpoint/JsonSax.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>
#include <filesystem>
#include <map>

using namespace octet;
namespace fs = std::filesystem;

static constexpr std::string_view kIndexName = "model.safetensors.index.json";
static constexpr std::string_view kSuffix = ".safetensors";

static bool exists(const std::string &path) {
  std::error_code ignored;
  // A link to nowhere is there, so that opening it says what is wrong.
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//

namespace {

struct IndexEntry {
  std::string tensor;
  int32_t file; ///< index into Index::files
};

struct Index {
  std::vector<IndexEntry> entries; ///< sorted by tensor
  std::vector<std::string> files;  ///< plain names, sorted
};

/// Reads weight_map; everything beside it only has its nesting bounded.
class IndexReader : public detail::JsonHandler {
public:
  using JsonHandler::JsonHandler;

  bool null() { return value("null"); }
  bool boolean(bool) { return value("a boolean"); }
  bool number_integer(int64_t) { return value("a number"); }
  bool number_unsigned(uint64_t) { return value("a number"); }
  bool number_float(double, const std::string &) { return value("a number"); }
  bool string(std::string &text);
  bool start_object(size_t) { return enter("an object"); }
  bool start_array(size_t) { return enter("a list"); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool key(std::string &name);

  /// Sorts both lists; an error for a tensor listed twice.
  Result<Index> finish();

private:
  bool value(const char *what);
  bool enter(const char *what);
  bool leave() {
    if (--depth == 1)
      inMap = false;
    return true;
  }

  int depth = 0;
  bool atMap = false; ///< the last key of the outer object was weight_map
  bool inMap = false;
  bool seenMap = false;
  std::string tensor; ///< the last key of weight_map
  std::vector<IndexEntry> entries;
  std::map<std::string, int32_t, std::less<>> fileNumbers;
};

bool IndexReader::value(const char *what) {
  if (depth == 0)
    return fail(std::string("is ") + what + "; it must be a JSON object");
  if (depth == 1 && atMap)
    return fail(std::string("weight_map is ") + what +
                "; it must be an object");
  if (inMap)
    return fail("weight_map: tensor " + quoteName(tensor) + " has " + what +
                " for its file; it must be a string");
  return true;
}

bool IndexReader::enter(const char *what) {
  bool isObject = what == std::string_view("an object");
  bool isExpected = isObject && (depth == 0 || (depth == 1 && atMap));
  if (!isExpected && !value(what))
    return false;
  inMap = depth == 1 && atMap;
  if (++depth > kMaxJsonDepth)
    return fail("nests deeper than " + std::to_string(kMaxJsonDepth) +
                " levels");
  return true;
}

bool IndexReader::key(std::string &name) {
  if (inMap)
    tensor = name;
  if (depth != 1)
    return true;
  atMap = name == "weight_map";
  if (atMap && std::exchange(seenMap, true))
    return fail("has 'weight_map' twice");
  return true;
}

bool IndexReader::string(std::string &text) {
  if (!inMap)
    return value("a string");
  auto at = fileNumbers.find(text);
  if (at == fileNumbers.end()) {
    // A name that leaves the folder could make us read any file.
    if (text.empty() || text == "." || text == ".." ||
        text.find_first_of(std::string_view("/\\\0", 3)) != text.npos)
      return fail("weight_map: tensor " + quoteName(tensor) + " is in file " +
                  quoteName(text) +
                  "; it must be a plain name in the same folder");
    at = fileNumbers.emplace(text, int32_t(fileNumbers.size())).first;
  }
  entries.push_back({tensor, at->second});
  return true;
}

Result<Index> IndexReader::finish() {
  if (!seenMap)
    return inputError(subject, "has no 'weight_map'");
  if (entries.empty())
    return inputError(subject, "weight_map is empty");
  Index index;
  std::vector<int32_t> order(fileNumbers.size()); // old number to new
  for (const auto &[name, number] : fileNumbers) {
    order[number] = int32_t(index.files.size());
    index.files.push_back(name);
  }
  for (IndexEntry &entry : entries)
    entry.file = order[entry.file];
  std::sort(entries.begin(), entries.end(),
            [](const IndexEntry &a, const IndexEntry &b) {
              return a.tensor < b.tensor;
            });
  for (size_t i = 1; i < entries.size(); ++i)
    if (entries[i].tensor == entries[i - 1].tensor)
      return inputError(subject, "weight_map lists tensor " +
                                     quoteName(entries[i].tensor) + " twice");
  index.entries = std::move(entries);
  return index;
}

Result<Index> readIndex(const std::string &path) {
  std::string subject = escapePath(path);
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > kMaxJsonBytes)
    return inputError(
        subject, "is " + std::to_string(file.size()) + " bytes; JSON over " +
                     std::to_string(kMaxJsonBytes) + " bytes is not read");
  std::string text(file.size(), '\0');
  OCTET_TRY(file.read(0, text));
  IndexReader reader(subject);
  OCTET_TRY(detail::parseJsonEvents(text, reader));
  return reader.finish();
}

/// An error whose further instances are notes: ten, then how many more.
class Collected {
public:
  void add(std::string message) {
    ++count;
    if (first.empty())
      first = std::move(message);
    else if (notes.size() < 9)
      notes.push_back(std::move(message));
  }
  Status take(const std::string &subject) {
    if (!count)
      return Status::success();
    Status status = inputError(subject, first);
    for (std::string &note : notes)
      status.note(std::move(note));
    if (count > 10)
      status.note("and " + std::to_string(count - 10) + " more");
    return status;
  }

private:
  std::string first;
  std::vector<std::string> notes;
  int64_t count = 0;
};

/// The map and the headers must say the same; both are sorted by name.
Status checkIndex(const std::string &subject, const Index &index,
                  const TensorTable &table) {
  Collected wrong;
  auto listed = index.entries.begin();
  auto stored = table.tensors.begin();
  while (listed != index.entries.end() || stored != table.tensors.end()) {
    bool noStored = stored == table.tensors.end();
    bool noListed = listed == index.entries.end();
    int order = noStored   ? -1
                : noListed ? 1
                           : listed->tensor.compare(stored->name);
    if (order < 0) {
      wrong.add("weight_map: tensor " + quoteName(listed->tensor) +
                " is not in the header of " +
                quoteName(index.files[listed->file]));
      ++listed;
    } else if (order > 0) {
      wrong.add("weight_map does not list tensor " + quoteName(stored->name) +
                ", which is in " + quoteName(index.files[stored->file]));
      ++stored;
    } else {
      if (listed->file != stored->file)
        wrong.add("weight_map: tensor " + quoteName(stored->name) + " is in " +
                  quoteName(index.files[stored->file]) + ", not in " +
                  quoteName(index.files[listed->file]));
      ++listed;
      ++stored;
    }
  }
  return wrong.take(subject);
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

Status readTable(const std::string &folder, std::span<const std::string> names,
                 TensorTable &table) {
  for (size_t i = 0; i < names.size(); ++i)
    OCTET_TRY(
        readSafetensorsHeader(folder + "/" + names[i], int32_t(i), table));
  return table.finish();
}

/// All *.safetensors of a folder, sorted.
Result<std::vector<std::string>> listFiles(const std::string &folder) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator at(folder, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.ends_with(kSuffix))
      names.push_back(std::move(name));
  }
  if (error)
    return inputError(escapePath(folder), "cannot be read: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

Status readTensors(const std::string &folder, TensorTable &table) {
  std::string single = "model.safetensors";
  if (exists(folder + "/" + single))
    return readTable(folder, {&single, 1}, table);
  std::string indexPath = folder + "/" + std::string(kIndexName);
  if (!exists(indexPath)) {
    OCTET_TRY_ASSIGN(std::vector<std::string> names, listFiles(folder));
    if (names.empty())
      return inputError(escapePath(folder),
                        "has no tensors; there must be model.safetensors, " +
                            std::string(kIndexName) +
                            " or another *.safetensors file");
    return readTable(folder, names, table);
  }
  OCTET_TRY_ASSIGN(Index index, readIndex(indexPath));
  std::string subject = escapePath(indexPath);
  Collected missing;
  for (const std::string &name : index.files)
    if (!exists(folder + "/" + name))
      missing.add("weight_map names file " + quoteName(name) +
                  ", which is not in the folder");
  OCTET_TRY(missing.take(subject));
  OCTET_TRY(readTable(folder, index.files, table));
  return checkIndex(subject, index, table);
}

/// Reads `name` of the folder if it is there; it must be a JSON object.
Status readSidecar(const std::string &folder, const char *name,
                   nlohmann::json &value) {
  std::string path = folder + "/" + name;
  if (!exists(path))
    return Status::success();
  OCTET_TRY_ASSIGN(value, readJsonFile(path));
  if (!value.is_object())
    return inputError(escapePath(path), std::string("is a JSON ") +
                                            value.type_name() +
                                            "; it must be an object");
  return Status::success();
}

} // namespace

Result<Checkpoint> octet::openCheckpoint(const std::string &path,
                                         OpenOptions options) {
  std::string subject = escapePath(path);
  std::error_code error;
  fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    return inputError(subject, "no such file or folder");
  if (error)
    return inputError(subject, "cannot be opened: " + error.message());

  Checkpoint checkpoint;
  checkpoint.path = path;
  if (!fs::is_directory(status)) {
    if (isGgufName(path))
      return openGguf(path);
    if (options.needConfig || !path.ends_with(kSuffix))
      return inputError(subject, "is not a folder; a checkpoint is a folder "
                                 "with config.json and *.safetensors, or a "
                                 "*.gguf file");
    OCTET_TRY_ASSIGN(checkpoint.tensors, readSafetensors(path));
    return checkpoint;
  }
  OCTET_TRY(readSidecar(path, "config.json", checkpoint.config));
  if (options.needConfig && checkpoint.config.is_null())
    return inputError(subject, "has no config.json");
  OCTET_TRY(
      readSidecar(path, "hf_quant_config.json", checkpoint.hfQuantConfig));
  OCTET_TRY(
      readSidecar(path, "generation_config.json", checkpoint.generationConfig));
  checkpoint.hasTokenizer = exists(path + "/tokenizer.json");
  OCTET_TRY(readTensors(path, checkpoint.tensors));
  return checkpoint;
}
