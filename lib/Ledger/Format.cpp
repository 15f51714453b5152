//===- Format.cpp - Figures of a ledger as text ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Format.h"

#include <cstdio>

using namespace octet;

static std::string formatDouble(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::string octet::formatShape(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t side : shape)
    text += (text.empty() ? "" : "x") + std::to_string(side);
  return text;
}

static std::string formatTyped(const std::string &dtype,
                               const std::vector<int64_t> &shape) {
  return shape.empty() ? dtype : dtype + "[" + formatShape(shape) + "]";
}

std::string octet::formatCodes(const LedgerPart &part) {
  return formatTyped(part.dtype, part.shape);
}

std::string octet::formatScales(const LedgerScales &scales) {
  return scales.isStatic ? scales.dtype + " static"
                         : formatTyped(scales.dtype, scales.shape);
}

std::string octet::formatPart(const LedgerPart &part) {
  return part.scales ? formatCodes(part) + " + " + formatScales(*part.scales)
                     : formatCodes(part);
}

std::string octet::formatParts(const std::vector<LedgerPart> &parts) {
  std::string text;
  for (const LedgerPart &part : parts)
    text += (text.empty() ? "" : " + ") + formatPart(part);
  return text;
}

std::string octet::formatPercent(double part) {
  return formatDouble("%.3g", 100 * part) + " %";
}

std::string octet::formatError(const LedgerError &error) {
  return formatPercent(error.relative) + ", rms " + formatPercent(error.rms);
}

std::string octet::formatErrorDetail(const LedgerError &error) {
  if (error.ofLargest)
    return "parts of the largest value of a scale";
  if (error.normalFrom == 0)
    return "";
  return "below 1/" + formatDouble("%.0f", 1 / error.normalFrom) +
         " of the largest value of a scale at most 1/" +
         formatDouble("%.0f", 1 / error.absolute) + " of that";
}

std::string octet::formatLayers(const LedgerSection &section) {
  std::string text;
  for (size_t i = 0; i < section.layers.size(); ++i) {
    auto [first, last] = section.layers[i];
    text += i == 0 ? "" : i + 1 == section.layers.size() ? " and " : ", ";
    text += std::to_string(first);
    if (last > first)
      text += " to " + std::to_string(last);
  }
  if (text.empty())
    return "";
  int64_t count = section.countLayers();
  if (count == 1)
    return "layer " + text;
  return "layers " + text + " (" + std::to_string(count) + ")";
}

std::string octet::joinRules(const std::vector<std::string> &rules) {
  std::string text;
  for (const std::string &rule : rules)
    text += (text.empty() ? "" : " ") + rule;
  return text;
}

std::string octet::formatBytes(int64_t bytes) {
  constexpr const char *kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 10000)
    return std::to_string(bytes) + " B";
  double size = double(bytes) / 1000;
  size_t unit = 0;
  while (size >= 1000 && unit + 1 < std::size(kUnits)) {
    size /= 1000;
    ++unit;
  }
  return formatDouble("%.4g", size) + " " + kUnits[unit];
}

std::string octet::shortenModule(const std::string &path) {
  size_t at = path.find("{l}.");
  return at == path.npos ? path : path.substr(at + 4);
}

std::string octet::nameWeight(const std::string &module,
                              const LedgerPart &part) {
  std::string last = module.substr(module.rfind('.') + 1);
  size_t dot = part.name.rfind('.');
  // Slots of several kinds of layers end in a number.
  std::string name = part.name;
  if (dot != name.npos && name.compare(dot, 5, ".kind") == 0) {
    name.resize(dot);
    dot = name.rfind('.');
  }
  // `down_proj.bias` of experts belongs together.
  if (size_t at = name.rfind("." + last + "."); at != name.npos)
    return name.substr(at + last.size() + 2);
  std::string word = dot == name.npos ? name : name.substr(dot + 1);
  return word.empty() || word == last ? "weight" : word;
}

int64_t octet::sumBytes(const std::vector<LedgerPart> &parts) {
  int64_t sum = 0;
  for (const LedgerPart &part : parts)
    sum += part.getBytes();
  return sum;
}
