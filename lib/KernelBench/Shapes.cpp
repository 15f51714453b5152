//===- Shapes.cpp - Lists of shapes ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/KernelBench/KernelBench.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <charconv>

using namespace octet;

static constexpr int64_t kMostSide = int64_t(1) << 24;

static constexpr std::string_view kBlanks = " \t\r,;x";

/// The numbers of a line; nothing if one is none or not 1 to kMostSide.
static std::optional<std::vector<int64_t>> readNumbers(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    size_t begin = text.find_first_not_of(kBlanks);
    if (begin == text.npos)
      return numbers;
    text.remove_prefix(begin);
    std::string_view word = text.substr(0, text.find_first_of(kBlanks));
    int64_t number = 0;
    const char *end = word.data() + word.size();
    auto [stop, error] = std::from_chars(word.data(), end, number);
    if (error != std::errc() || stop != end || number < 1 || number > kMostSide)
      return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(word.size());
  }
}

static Result<GemmShape> toShape(std::string_view text, std::string subject,
                                 bool isUsage) {
  std::optional<std::vector<int64_t>> numbers = readNumbers(text);
  if (numbers && numbers->size() == 3)
    return GemmShape{(*numbers)[0], (*numbers)[1], (*numbers)[2]};
  std::string what = quoteName(text) +
                     " is not a shape; M N K with each from 1 to " +
                     std::to_string(kMostSide);
  return isUsage ? usageError(std::move(subject), std::move(what))
                 : inputError(std::move(subject), std::move(what));
}

Result<GemmShape> octet::parseShape(std::string_view text) {
  return toShape(text, "--shape", /*isUsage=*/true);
}

Result<std::vector<GemmShape>> octet::readShapes(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  constexpr int64_t kMostBytes = 1 << 20;
  if (file.size() > kMostBytes)
    return inputError(escapePath(path),
                      "a list of shapes of " + std::to_string(file.size()) +
                          " bytes; at most " + std::to_string(kMostBytes));
  std::string text(size_t(file.size()), '\0');
  OCTET_TRY(file.read(0, text));
  std::vector<GemmShape> shapes;
  std::string_view rest = text;
  for (int line = 1; !rest.empty(); ++line) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view one = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    one = one.substr(0, one.find('#'));
    if (one.find_first_not_of(kBlanks) == one.npos)
      continue;
    OCTET_TRY_ASSIGN(GemmShape shape,
                     toShape(one, escapePath(path) + ":" + std::to_string(line),
                             /*isUsage=*/false));
    shapes.push_back(shape);
  }
  if (shapes.empty())
    return inputError(escapePath(path), "it has no shape; lines of M N K");
  return shapes;
}
