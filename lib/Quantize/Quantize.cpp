//===- Quantize.cpp - Quantising a checkpoint offline ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Quantize/Quantize.h"
#include "Output.h"
#include "Plan.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Quantize/GgufTokenizerFiles.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Support/MappedFiles.h"
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <sched.h>
#include <sys/statvfs.h>
#include <thread>

using namespace octet;
namespace fs = std::filesystem;

namespace {

/// Files of a checkpoint that say nothing about how weights are stored.
constexpr const char *kSidecars[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
    "preprocessor_config.json",
};

/// Elements that a thread takes at a time where rows are independent.
constexpr int64_t kChunkElements = 1 << 18;

int64_t countThreads(int asked) {
  if (asked > 0)
    return asked;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    return std::max(CPU_COUNT(&set), 1);
  return std::max(int64_t(std::thread::hardware_concurrency()), int64_t(1));
}

/// Writes one checkpoint.
class Writer {
public:
  Writer(const QuantizeOptions &options, const Checkpoint &checkpoint,
         MappedCheckpoint mapped, QuantizePlan plan)
      : options(options), checkpoint(checkpoint), mapped(std::move(mapped)),
        plan(std::move(plan)), threads(countThreads(options.threads)) {}

  Result<QuantizeResult> run();

private:
  bool interrupted() const {
    return options.interrupted && *options.interrupted;
  }
  Status checkSpace(const std::string &folder) const;
  template <typename Fn>
  Status forChunks(int64_t rows, int64_t chunk, const Fn &fn);
  /// Rows of a chunk that starts at a multiple of `unit` rows.
  static int64_t chunkRows(int64_t cols, int64_t unit) {
    return alignTo(
        std::max<int64_t>(kChunkElements / std::max<int64_t>(cols, 1), 1),
        unit);
  }
  void readChunk(const TensorReader &reader, int64_t first, int64_t rows,
                 std::vector<float> &floats);
  Status quantizeTensor(const PlannedTensor &tensor, PositionedFile &file);
  Status quantizeInBlocks(const PlannedTensor &tensor, int64_t bn, int64_t bk);
  Status quantizeWhole(const PlannedTensor &tensor);
  Status copyTensor(const PlannedTensor &tensor, PositionedFile &file);
  Status calibrate(const std::string &folder);
  Status checkMaxima() const;
  Status writeInputScale(const PlannedTensor &tensor, PositionedFile &file);
  Status writeShard(const std::string &folder, const PlannedShard &shard);
  Status writeText(const std::string &path, const std::string &text);
  Status writeSidecars(const std::string &folder);
  void report(int64_t bytes) {
    done += bytes;
    if (options.progress)
      options.progress(done, total);
  }

  const QuantizeOptions &options;
  const Checkpoint &checkpoint;
  MappedCheckpoint mapped;
  QuantizePlan plan;
  int64_t threads;
  int64_t done = 0, total = 0;
  InputMaxima maxima;
  QuantizeResult result;

  // Of the tensor at hand.
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::mutex badLock;
  int64_t badElement = -1; ///< the first one that is not finite
};

/// Calls fn(first, rows) for chunks of `rows`, on all threads.
template <typename Fn>
Status Writer::forChunks(int64_t rows, int64_t chunk, const Fn &fn) {
  const int64_t chunks = cdiv(rows, chunk);
  std::atomic<int64_t> next = 0;
  auto work = [&] {
    for (int64_t i = next++; i < chunks && !interrupted(); i = next++)
      fn(i * chunk, std::min(chunk, rows - i * chunk));
  };
  std::vector<std::thread> helpers;
  for (int64_t i = 1; i < std::min(threads, chunks); ++i)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
  if (interrupted())
    return machineError(escapePath(options.output),
                        "interrupted; nothing is left behind");
  return Status::success();
}

/// Rows as float32; remembers the first value that no scale can hold.
void Writer::readChunk(const TensorReader &reader, int64_t first, int64_t rows,
                       std::vector<float> &floats) {
  floats.resize(size_t(rows * reader.cols()));
  reader.readFloats(first, rows, floats);
  auto bad = std::find_if(floats.begin(), floats.end(),
                          [](float x) { return !std::isfinite(x); });
  if (bad == floats.end())
    return;
  int64_t element = first * reader.cols() + (bad - floats.begin());
  std::lock_guard lock(badLock);
  if (badElement < 0 || element < badElement)
    badElement = element;
}

/// One scale for each bn x bk block; channels are 1 x K (N2, N3, W4).
Status Writer::quantizeInBlocks(const PlannedTensor &tensor, int64_t bn,
                                int64_t bk) {
  TensorReader reader(mapped, *tensor.source);
  const int64_t cols = reader.cols();
  return forChunks(
      reader.rows(), chunkRows(cols, bn), [&](int64_t first, int64_t rows) {
        thread_local std::vector<float> floats;
        readChunk(reader, first, rows, floats);
        quantizeBlocks(
            floats, rows, cols, bn, bk,
            std::span(codes).subspan(size_t(first * cols)),
            std::span(scales).subspan(size_t(first / bn * cdiv(cols, bk))));
      });
}

/// One scale: the weights are read twice.
Status Writer::quantizeWhole(const PlannedTensor &tensor) {
  TensorReader reader(mapped, *tensor.source);
  const int64_t cols = reader.cols(), chunk = chunkRows(cols, 1);
  float amax = 0;
  std::mutex lock;
  OCTET_TRY(forChunks(reader.rows(), chunk, [&](int64_t first, int64_t rows) {
    thread_local std::vector<float> floats;
    readChunk(reader, first, rows, floats);
    float largest = 0;
    for (float x : floats)
      largest = std::max(largest, std::fabs(x));
    std::lock_guard guard(lock);
    amax = std::max(amax, largest);
  }));
  const float scale = scales[0] = dynamicScale(amax);
  return forChunks(reader.rows(), chunk, [&](int64_t first, int64_t rows) {
    thread_local std::vector<float> floats;
    readChunk(reader, first, rows, floats);
    uint8_t *out = codes.data() + first * cols;
    for (size_t i = 0; i < floats.size(); ++i)
      out[i] = quantizeE4M3(floats[i], scale);
  });
}

Status Writer::quantizeTensor(const PlannedTensor &tensor,
                              PositionedFile &file) {
  codes.resize(size_t(tensor.data.bytes));
  scales.resize(size_t(tensor.scale->bytes) / sizeof(float));
  badElement = -1;
  const int64_t cols = tensor.source->shape[1];
  switch (options.to) {
  case QuantizeTo::Block:
    OCTET_TRY(quantizeInBlocks(tensor, options.blockN, options.blockK));
    break;
  case QuantizeTo::Channel:
    OCTET_TRY(quantizeInBlocks(tensor, 1, cols));
    break;
  case QuantizeTo::Tensor:
    OCTET_TRY(quantizeWhole(tensor));
    break;
  }
  if (badElement >= 0)
    return inputError(
        escapePath(checkpoint.tensors.files[size_t(tensor.source->file)]),
        "tensor " + quoteName(tensor.source->name) + ": element [" +
            std::to_string(badElement / cols) + ", " +
            std::to_string(badElement % cols) +
            "] is NaN or infinite; a weight to quantise is finite",
        "N3");
  OCTET_TRY(file.write(tensor.data.offset, std::as_bytes(std::span(codes))));
  return file.write(tensor.scale->offset, std::as_bytes(std::span(scales)));
}

/// As it is stored; a packed tensor as BF16.
Status Writer::copyTensor(const PlannedTensor &tensor, PositionedFile &file) {
  const TensorInfo &source = *tensor.source;
  TensorReader reader(mapped, source);
  const int64_t cols = reader.cols();
  const int64_t rowBytes = cols * byteWidth(tensor.data.type);
  std::mutex lock;
  Status status;
  OCTET_TRY(forChunks(
      reader.rows(), chunkRows(cols, 1), [&](int64_t first, int64_t rows) {
        std::vector<std::byte> bytes(size_t(rows * rowBytes));
        if (source.packing == Packing::None) {
          reader.readElements(first, rows, bytes);
        } else {
          std::vector<float> floats(size_t(rows * cols));
          reader.readFloats(first, rows, floats);
          auto *out = reinterpret_cast<uint16_t *>(bytes.data());
          for (size_t i = 0; i < floats.size(); ++i)
            out[i] = encodeBF16(floats[i]);
        }
        std::lock_guard guard(lock);
        if (status.ok())
          status = file.write(tensor.data.offset + first * rowBytes, bytes);
      }));
  return status;
}

/// Every static scale can be made: the input was seen, and is a number.
Status Writer::checkMaxima() const {
  constexpr size_t kShown = 10;
  Status status;
  size_t count = 0;
  for (const PlannedTensor &tensor : plan.tensors) {
    if (!tensor.inputScale)
      continue;
    auto found = maxima.find(tensor.module());
    const char *what = nullptr;
    if (found == maxima.end())
      what = "no prompt of the calibration reached it";
    else if (std::isnan(found->second))
      what = "its input was NaN in the calibration";
    else if (std::isinf(found->second))
      what = "its input was infinite in the calibration";
    else if (found->second == 0)
      what = "its input was only zeros in the calibration";
    if (!what)
      continue;
    if (!count++)
      status = inputError(
          escapeName(tensor.module()),
          std::string(what) +
              "; a static activation scale is made of the largest input, which "
              "is finite and not 0. --ignore leaves the module as it is, and "
              "without --calibrate activation scales are dynamic",
          "W6");
    else if (count <= kShown)
      status.note(escapeName(tensor.module()) + ": " + what);
  }
  if (count > kShown)
    status.note("and " + std::to_string(count - kShown) + " more");
  return status;
}

Status Writer::calibrate(const std::string &folder) {
  if (!options.calibrate)
    return Status::success();
  std::string scratch = folder + "/calibration";
  std::error_code error;
  if (!fs::create_directory(scratch, error) || error)
    return machineError(escapePath(options.output),
                        "cannot be written: " + error.message());
  Result<InputMaxima> found = options.calibrate(scratch);
  OCTET_TRY(takeTruncation()); // that reads the checkpoint too
  OCTET_TRY_ASSIGN(maxima, std::move(found));
  fs::remove_all(scratch, error);
  if (error)
    return machineError(escapePath(scratch),
                        "cannot be removed: " + error.message());
  return checkMaxima();
}

Status Writer::writeInputScale(const PlannedTensor &tensor,
                               PositionedFile &file) {
  float scale = dynamicScale(maxima.find(tensor.module())->second);
  return file.write(tensor.inputScale->offset,
                    std::as_bytes(std::span(&scale, 1)));
}

Status Writer::writeShard(const std::string &folder,
                          const PlannedShard &shard) {
  OCTET_TRY_ASSIGN(
      PositionedFile file,
      PositionedFile::create(folder + "/" + shard.name, shard.bytes));
  OCTET_TRY(file.write(0, std::as_bytes(std::span(shard.header))));
  for (size_t i = shard.begin; i < shard.end; ++i) {
    const PlannedTensor &tensor = plan.tensors[i];
    if (tensor.data.bytes)
      OCTET_TRY(tensor.scale ? quantizeTensor(tensor, file)
                             : copyTensor(tensor, file));
    if (tensor.inputScale)
      OCTET_TRY(writeInputScale(tensor, file));
    OCTET_TRY(takeTruncation());
    mapped.release(*tensor.source);
    report(tensor.source->bytes);
  }
  return file.close();
}

Status Writer::writeText(const std::string &path, const std::string &text) {
  std::span<const std::byte> piece = std::as_bytes(std::span(text));
  return writeFile(path, {&piece, 1});
}

static std::string pretty(const nlohmann::ordered_json &value) {
  return value.dump(2, ' ', false,
                    nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

Status Writer::writeSidecars(const std::string &folder) {
  nlohmann::ordered_json config = checkpoint.config;
  config["quantization_config"] =
      makeQuantizationConfig(options, plan.notConverted);
  OCTET_TRY(writeText(folder + "/config.json", pretty(config)));
  if (plan.shards.size() > 1)
    OCTET_TRY(writeText(folder + "/model.safetensors.index.json",
                        pretty(makeIndex(plan))));
  if (checkpoint.gguf) {
    OCTET_TRY(writeText(folder + "/generation_config.json",
                        pretty(checkpoint.generationConfig)));
    Result<std::optional<TokenizerFiles>> files =
        makeTokenizerFiles(*checkpoint.gguf);
    if (!files.ok()) {
      const ErrorInfo &why = files.status().info();
      result.warnings.push_back("no tokenizer is written: " + why.subject +
                                ": " + why.message);
    } else if (*files) {
      OCTET_TRY(writeText(folder + "/tokenizer.json", (**files).tokenizer));
      OCTET_TRY(writeText(folder + "/tokenizer_config.json",
                          (**files).tokenizerConfig));
    }
    return Status::success();
  }
  for (const char *name : kSidecars) {
    std::string from = checkpoint.path + "/" + name;
    std::error_code error;
    if (!fs::exists(from, error))
      continue;
    OCTET_TRY_ASSIGN(InputFile file, InputFile::open(from));
    std::string text(size_t(file.size()), '\0');
    OCTET_TRY(file.read(0, text));
    OCTET_TRY(writeText(folder + "/" + name, text));
  }
  return Status::success();
}

/// Before any work: the sum is known.
Status Writer::checkSpace(const std::string &folder) const {
  struct statvfs info;
  if (::statvfs(folder.c_str(), &info) != 0)
    return Status::success(); // writing will tell
  auto available = checkedMul(int64_t(info.f_bavail), int64_t(info.f_frsize));
  if (!available || *available >= result.outputBytes)
    return Status::success();
  return machineError(escapePath(options.output),
                      "needs " + std::to_string(result.outputBytes) +
                          " bytes, " + std::to_string(*available) +
                          " are free there");
}

Result<QuantizeResult> Writer::run() {
  for (const PlannedTensor &tensor : plan.tensors)
    total += tensor.source->bytes;
  for (const PlannedShard &shard : plan.shards)
    result.outputBytes += shard.bytes;
  result.sourceBytes = total;
  result.quantised = plan.quantised;
  result.kept = int64_t(plan.tensors.size()) - plan.quantised;
  result.files = int64_t(plan.shards.size());
  result.warnings = std::move(plan.warnings);
  result.notes = std::move(plan.notes);
  OCTET_TRY_ASSIGN(StagingFolder staging,
                   StagingFolder::create(options.output));
  OCTET_TRY(checkSpace(staging.path()));
  OCTET_TRY(calibrate(staging.path()));
  OCTET_TRY(writeSidecars(staging.path()));
  for (const PlannedShard &shard : plan.shards)
    OCTET_TRY(writeShard(staging.path(), shard));
  OCTET_TRY(staging.commit());
  return std::move(result);
}

Status checkOptions(QuantizeOptions &options) {
  if (options.blockN < 1 || options.blockK < 1)
    return usageError("--block", "sides are at least 1");
  if (options.shardBytes < 1)
    return usageError("--shard-gib", "must be positive");
  if (options.calibrate && options.to != QuantizeTo::Tensor)
    return usageError("--calibrate",
                      "is for --to fp8-tensor; the activation scales of "
                      "fp8-block and fp8-channel are computed for each token");
  if (options.format == QuantizeFormat::Default)
    options.format = options.to == QuantizeTo::Channel
                         ? QuantizeFormat::CompressedTensors
                         : QuantizeFormat::Fp8;
  return Status::success();
}

} // namespace

Status octet::parseBlock(const std::string &text, QuantizeOptions &options) {
  const char *end = text.data() + text.size();
  auto [x, first] = std::from_chars(text.data(), end, options.blockN);
  bool good = first == std::errc() && x != end && *x == 'x';
  if (good) {
    auto [rest, second] = std::from_chars(x + 1, end, options.blockK);
    good = second == std::errc() && rest == end;
  }
  constexpr int64_t kLargest = 1 << 13; // blocks of formats have 128
  if (!good || options.blockN < 1 || options.blockK < 1 ||
      options.blockN > kLargest || options.blockK > kLargest)
    return usageError("--block " + escapeName(text),
                      "rows x columns are needed, such as 128x128, each 1 to " +
                          std::to_string(kLargest));
  return Status::success();
}

Result<QuantizeResult> octet::quantizeCheckpoint(const QuantizeOptions &given) {
  QuantizeOptions options = given;
  OCTET_TRY(checkOptions(options));
  OCTET_TRY_ASSIGN(Checkpoint checkpoint, openCheckpoint(options.checkpoint));
  OCTET_TRY_ASSIGN(QuantizePlan plan, planQuantize(checkpoint, options));
  OCTET_TRY_ASSIGN(MappedCheckpoint mapped,
                   MappedCheckpoint::map(checkpoint.tensors));
  return Writer(options, checkpoint, std::move(mapped), std::move(plan)).run();
}
