//===- FuzzSafetensors.cpp - Headers, an index, data ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: a zero byte and one safetensors file; or the files of a folder, each
// as
//
//   u8 name (1 + index into kNames), u16 length (lowest byte first), bytes
//
// where the last one takes what is left if its length is beyond the end.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "lib/Quantize/Plan.h"
#include "octet/Support/File.h"
#include <array>
#include <cstring>
#include <filesystem>

using namespace octet;
using namespace octet::fuzz;

static constexpr std::array kNames = {
    "model.safetensors",    "model.safetensors.index.json",
    "config.json",          "m1.safetensors",
    "m2.safetensors",       "generation_config.json",
    "hf_quant_config.json", "a b\n.safetensors",
};

/// No byte of a file belongs to nobody (the format allows no gap).
static void requireNoGap(const TensorTable &table) {
  for (size_t file = 0; file < table.files.size(); ++file) {
    int64_t total = 0;
    uint64_t header = 0;
    Result<InputFile> input = InputFile::open(table.files[file]);
    require(input.ok(), "a file that was read is there");
    std::array<char, 8> length;
    require(input->read(0, length).ok(), "a file has a length");
    std::memcpy(&header, length.data(), length.size());
    for (const TensorInfo &tensor : table.all())
      if (size_t(tensor.file) == file) {
        total += tensor.bytes;
        require(uint64_t(tensor.offset) >= 8 + header,
                "data are after the header", tensor.name);
      }
    require(8 + int64_t(header) + total == table.fileBytes[file],
            "every byte belongs to a tensor", table.files[file]);
  }
}

/// What was read, written by ourselves, has the same hash.
static void writeAgain(const TensorTable &table) {
  if (table.files.size() != 1 || table.fileBytes[0] > 1 << 16)
    return;
  Result<MappedCheckpoint> mapped = MappedCheckpoint::map(table);
  if (!mapped)
    return;
  std::vector<TensorToWrite> tensors;
  for (const TensorInfo &tensor : table.all())
    tensors.push_back(
        {tensor.name, tensor.type, tensor.shape, mapped->bytes(tensor)});
  const std::string path = inputFolder() + "/written";
  Status written = writeSafetensors(path, tensors);
  require(written.ok(), "what was read can be written",
          written.ok() ? "" : written.info().format());
  Result<TensorTable> again = readSafetensors(path);
  require(again.ok(), "what was written can be read",
          again.ok() ? "" : again.status().info().format());
  require(again->hash() == table.hash(), "the hash survives");
}

static void readFile(std::string_view bytes) {
  Result<TensorTable> table = readSafetensors(writeInput("one", bytes));
  if (!table)
    return requireGoodError(table.status());
  requireGoodTable(*table);
  requireNoGap(*table);
  readTensors(*table);
  writeAgain(*table);
}

static void planAll(const Checkpoint &checkpoint) {
  for (QuantizeTo to :
       {QuantizeTo::Block, QuantizeTo::Channel, QuantizeTo::Tensor}) {
    QuantizeOptions options;
    options.to = to;
    options.shardBytes = 4096;
    Result<QuantizePlan> plan = planQuantize(checkpoint, options);
    if (!plan) {
      requireGoodError(plan.status());
      continue;
    }
    require(plan->tensors.size() == checkpoint.tensors.all().size(),
            "each tensor is written");
    size_t next = 0;
    for (const PlannedShard &shard : plan->shards) {
      require(shard.begin == next && shard.end >= shard.begin,
              "each tensor is in one file", shard.name);
      next = shard.end;
    }
    require(next == plan->tensors.size(), "each tensor is in a file");
  }
}

static void readFolder(std::string_view rest) {
  const std::string &folder = inputFolder();
  std::error_code ignored;
  for (const char *name : kNames)
    std::filesystem::remove(folder + "/" + name, ignored);
  while (rest.size() > 3) {
    const size_t name = uint8_t(rest[0] - 1) % kNames.size();
    const size_t length = uint8_t(rest[1]) | uint8_t(rest[2]) << 8;
    rest.remove_prefix(3);
    writeInput(kNames[name], rest.substr(0, length));
    rest.remove_prefix(std::min(length, rest.size()));
  }
  Result<Checkpoint> checkpoint = openCheckpoint(folder);
  if (!checkpoint) {
    check(folder, checkOptions("cpu", /*ranks=*/1));
    return requireGoodError(checkpoint.status());
  }
  require(checkpoint->config.is_object(), "config.json is an object");
  requireGoodTable(checkpoint->tensors);
  requireNoGap(checkpoint->tensors);
  readTensors(checkpoint->tensors);
  planAll(*checkpoint);
  check(folder, checkOptions("cpu", /*ranks=*/1));
  check(folder, checkOptions("sm_90a", /*ranks=*/2));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string_view bytes = toText(data, size);
  if (!bytes.empty() && bytes[0] == '\0')
    readFile(bytes.substr(1));
  else
    readFolder(bytes);
  return 0;
}
