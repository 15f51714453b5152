//===- Fuzz.cpp - What the fuzz targets share -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "../unit/TempFolder.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace octet;

//===----------------------------------------------------------------------===//
// Properties
//===----------------------------------------------------------------------===//

void fuzz::require(bool holds, const char *property, std::string_view detail) {
  if (holds)
    return;
  std::fprintf(stderr, "property does not hold: %s\n%.*s\n", property,
               int(std::min(detail.size(), size_t(2000))), detail.data());
  std::abort();
}

static void requirePrintable(std::string_view text, bool newlines) {
  fuzz::require(isUtf8(text), "a message is UTF-8", text);
  for (unsigned char c : text)
    fuzz::require((c >= ' ' && c != 0x7f) || (newlines && c == '\n'),
                  "a message has no control characters", text);
}

void fuzz::requireGoodText(std::string_view text) {
  require(!text.empty(), "a warning says something");
  requirePrintable(text, /*newlines=*/false);
}

void fuzz::requireGoodError(const Status &status) {
  require(!status.ok(), "a failed result has an error");
  const ErrorInfo &info = status.info();
  const std::string text = info.format();
  require(info.exitCode() == 1, "a hostile input is an input error", text);
  require(!info.subject.empty(), "an error has a subject", text);
  require(!info.message.empty(), "an error has a message", text);
  require(text.starts_with("error: ") && text.ends_with("\n"),
          "an error has its form", text);
  requirePrintable(text, /*newlines=*/true);
}

void fuzz::requireGoodTable(const TensorTable &table) {
  require(table.files.size() == table.fileBytes.size(), "a size for each file");
  std::vector<const TensorInfo *> order;
  const TensorInfo *last = nullptr;
  for (const TensorInfo &tensor : table.all()) {
    const std::string what = tensor.describe();
    require(!last || last->name < tensor.name, "names are sorted and unique",
            tensor.name);
    require(isUtf8(tensor.name), "names are UTF-8", tensor.name);
    require(table.find(tensor.name) == &tensor, "a name is found", tensor.name);
    require(tensor.file >= 0 && size_t(tensor.file) < table.files.size(),
            "a tensor is in a file", tensor.name);
    const int64_t size = table.fileBytes[tensor.file];
    require(tensor.offset >= 0 && tensor.bytes >= 0 && tensor.offset <= size &&
                tensor.bytes <= size - tensor.offset,
            "a tensor lies in its file", what);
    std::optional<int64_t> count = checkedProduct(tensor.shape);
    require(count.has_value(), "a shape does not overflow", what);
    if (tensor.packing == Packing::None) {
      std::optional<int64_t> bytes = checkedMul(*count, byteWidth(tensor.type));
      require(bytes == tensor.bytes, "bytes are type times shape", what);
    } else {
      const int64_t block = packedBlockElements(tensor.packing);
      require(!tensor.shape.empty() && tensor.shape.back() % block == 0 &&
                  tensor.bytes ==
                      *count / block * packedBlockBytes(tensor.packing),
              "bytes are those of the blocks", what);
    }
    if (tensor.bytes)
      order.push_back(&tensor);
    last = &tensor;
  }
  auto place = [](const TensorInfo *t) {
    return std::pair(t->file, t->offset);
  };
  std::sort(order.begin(), order.end(),
            [&](const TensorInfo *a, const TensorInfo *b) {
              return place(a) < place(b);
            });
  for (size_t i = 1; i < order.size(); ++i)
    require(order[i - 1]->file != order[i]->file ||
                order[i - 1]->offset + order[i - 1]->bytes <= order[i]->offset,
            "tensors do not overlap", order[i]->name);
  const std::string hash = table.hash();
  require(hash.size() == 32 &&
              hash.find_first_not_of("0123456789abcdef") == hash.npos,
          "a hash is 32 hex digits", hash);
}

void fuzz::readTensors(const TensorTable &table) {
  Result<MappedCheckpoint> mapped = MappedCheckpoint::map(table);
  if (!mapped)
    return requireGoodError(mapped.status());
  constexpr int64_t kMost = 1 << 20;
  for (const TensorInfo &tensor : table.all()) {
    TensorReader reader(*mapped, tensor);
    std::optional<int64_t> count = checkedMul(reader.rows(), reader.cols());
    require(count == checkedProduct(tensor.shape), "rows x cols is the shape",
            tensor.describe());
    if (*count > kMost || reader.rows() == 0)
      continue;
    const bool isPacked = tensor.packing != Packing::None;
    std::vector<float> floats(size_t(*count), 0);
    if (reader.isFloat())
      reader.readFloats(0, reader.rows(), floats);
    // Aligned for floats, as packed elements need.
    std::vector<double> space(size_t(cdiv(*count * byteWidth(tensor.type), 8)));
    std::span<std::byte> elements =
        std::as_writable_bytes(std::span(space))
            .first(size_t(*count * byteWidth(tensor.type)));
    // By halves, so that rows in the middle are a start too.
    const int64_t half = reader.rows() / 2;
    const size_t rowBytes = elements.size() / size_t(reader.rows());
    reader.readElements(0, half, elements.first(size_t(half) * rowBytes));
    reader.readElements(half, reader.rows() - half,
                        elements.subspan(size_t(half) * rowBytes));
    if (elements.empty())
      continue;
    if (isPacked)
      require(std::memcmp(elements.data(), floats.data(), elements.size()) == 0,
              "packed elements are their floats", tensor.describe());
    else if (tensor.isPlain())
      require(std::memcmp(elements.data(), mapped->bytes(tensor).data(),
                          elements.size()) == 0,
              "plain elements are the file's bytes", tensor.describe());
  }
}

CheckOptions fuzz::checkOptions(const char *target, int64_t ranks) {
  CheckOptions options;
  options.target = target;
  options.ranks.tp = ranks;
  options.memory = true;
  return options;
}

void fuzz::check(const std::string &path, const CheckOptions &options) {
  CheckReport report = checkCheckpoint(path, options);
  for (const ErrorInfo &error : report.errors)
    requireGoodError(error);
  for (const auto *list : {&report.warnings, &report.notes})
    for (const ErrorInfo &info : *list)
      requireGoodError(info);
  const std::string json = formatCheckJson(report);
  require(json.ends_with("\n") && nlohmann::json::accept(json),
          "the report is JSON", json);
  requirePrintable(formatCheckText(report, /*colour=*/false),
                   /*newlines=*/true);
  requirePrintable(formatCheckMessages(report), /*newlines=*/true);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

std::string_view fuzz::takePart(std::string_view &text) {
  const size_t at = std::min(text.find('\0'), text.size());
  std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

const std::string &fuzz::inputFolder() {
  static const struct Folder {
    Folder() : path(octet::test::makeTempFolder()) {
      require(!path.empty(), "a folder for inputs can be made");
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path;
  } folder;
  return folder.path;
}

std::string fuzz::writeInput(const std::string &name, std::string_view bytes) {
  std::string path = inputFolder() + "/" + name;
  // Written over, never replaced: that is much faster.
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(fd >= 0 &&
              ::write(fd, bytes.data(), bytes.size()) == ssize_t(bytes.size()),
          "an input can be written", path);
  ::close(fd);
  return path;
}
