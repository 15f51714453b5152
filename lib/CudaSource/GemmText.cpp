//===- GemmText.cpp - What the text of every product has ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/GemmText.h"
#include <limits>
#include <numeric>

using namespace octet;
using namespace octet::cuda;

int64_t octet::cuda::elementBytes(int32_t type) {
  switch (type) {
  case OCTET_F32:
    return 4;
  case OCTET_BF16:
  case OCTET_F16:
    return 2;
  default:
    return 1;
  }
}

std::string octet::cuda::cppType(int32_t type) {
  switch (type) {
  case OCTET_BF16:
    return "octet::cuda::Bf16";
  case OCTET_F16:
    return "octet::cuda::F16";
  case OCTET_E4M3:
    return "octet::cuda::E4m3";
  case OCTET_E8M0:
    return "octet::cuda::E8m0";
  default:
    return "float";
  }
}

std::string octet::cuda::scalingText(int32_t mode) {
  const char *name = mode == OCTET_SCALE_TENSOR    ? "Tensor"
                     : mode == OCTET_SCALE_CHANNEL ? "Row"
                     : mode == OCTET_SCALE_BLOCK   ? "Block"
                                                   : "None";
  return std::string("octet::cuda::Scaling::") + name;
}

static std::string join(const std::vector<int64_t> &values,
                        std::string_view separator) {
  std::string text;
  for (int64_t value : values)
    text +=
        (text.empty() ? "" : std::string(separator)) + std::to_string(value);
  return text;
}

std::string octet::cuda::shardsText(const GemmProblem &p) {
  return "octet::cuda::Shards<" + join(p.shards, ", ") + ">";
}

std::string_view octet::cuda::familyName(const GemmProblem &p) {
  std::string_view name = p.kernel;
  if (name.ends_with("_gemm"))
    name.remove_suffix(5);
  return name;
}

std::string octet::cuda::problemName(const GemmProblem &p) {
  auto mode = [](int32_t scale) -> std::string {
    return scale == OCTET_SCALE_TENSOR    ? "tensor"
           : scale == OCTET_SCALE_CHANNEL ? "channel"
                                          : "block";
  };
  std::string name;
  for (int32_t type : {p.xType, p.wType, p.yType})
    name += std::string(typeName(type)) + "_";
  if (p.biasType >= 0)
    name += "bias_" + std::string(typeName(p.biasType)) + "_";
  if (p.xScaleMode != OCTET_SCALE_NONE)
    name +=
        "x_" + mode(p.xScaleMode) + (p.columnMajorScales ? "_columns_" : "_");
  if (p.wScaleMode != OCTET_SCALE_NONE)
    name += "w_" + mode(p.wScaleMode) + "_";
  if (hasBlocks(p))
    name += std::string(typeName(p.wScaleType)) + "_" +
            std::to_string(p.blockN) + "x" + std::to_string(p.blockK) + "_";
  return name + "n" + join(p.shards, "_") + "_k" + std::to_string(p.k);
}

void GemmSignature::add(int arg, const std::string &type, const char *name,
                        bool isThere) {
  arguments += isThere ? std::string(name) + ", " : "nullptr, ";
  if (!isThere)
    return;
  parameters += type + " *" + name + ", ";
  params.push_back(Param::address(arg));
}

void GemmSignature::addMap(const GemmProblem &p, int arg, const char *name,
                           int64_t rows, int boxRows) {
  constexpr int kRowBytes = 128;
  parameters += std::string("const __grid_constant__ octet::cuda::TensorMap ") +
                name + ", ";
  arguments += std::string("&") + name + ", ";
  Param map;
  map.kind = OCTET_PARAM_TENSOR_MAP;
  map.arg = arg;
  map.type = arg == GemmProblem::X ? p.xType : p.wType;
  map.swizzle = kRowBytes;
  map.rows = rows;
  map.cols = p.k;
  map.boxRows = boxRows;
  map.boxCols = int32_t(kRowBytes / elementBytes(map.type));
  params.push_back(map);
}

void GemmSignature::addScaleMap(const GemmProblem &p, const char *name,
                                int boxCols) {
  parameters += std::string("const __grid_constant__ octet::cuda::TensorMap ") +
                name + ", ";
  arguments += std::string("&") + name + ", ";
  Param map;
  map.kind = OCTET_PARAM_TENSOR_MAP;
  map.arg = GemmProblem::XScale;
  map.type = OCTET_F32;
  map.rows = divideUp(p.k, p.blockK);
  map.cols = -1; // rows of the launch, the pitch rounded up to 16 bytes
  map.boxRows = int32_t(128 / p.blockK);
  map.boxCols = boxCols;
  params.push_back(map);
}

void GemmSignature::addRowCount() {
  parameters += "int m";
  arguments += "m";
  params.push_back(Param::rowCount());
}

std::string octet::cuda::wrapList(const std::string &head,
                                  std::string_view list) {
  constexpr size_t kWidth = 100;
  constexpr std::string_view kIndent = "\n    ";
  std::string text = head;
  size_t lineStart = 0;
  while (!list.empty()) {
    const size_t comma = list.find(", ");
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(comma == list.npos ? list.size() : comma + 2);
    const bool isFirst = text.size() == head.size();
    if (!isFirst)
      text += ",";
    // Room for what ends the list.
    if (text.size() - lineStart + 1 + item.size() + 3 > kWidth) {
      lineStart = text.size() + 1;
      text += kIndent;
    } else if (!isFirst) {
      text += " ";
    }
    text += item;
  }
  return text;
}

std::string octet::cuda::entryText(const KernelInstance &instance,
                                   const char *function,
                                   const GemmSignature &signature, int perSm) {
  return "static_assert(Config::kSharedBytes == " +
         std::to_string(instance.sharedBytes) +
         ",\n              \"the launch gives the shared memory that the "
         "template has\");\n\n"
         "extern \"C\" __global__ void __launch_bounds__(" +
         std::to_string(instance.threads) +
         (perSm > 0 ? ", " + std::to_string(perSm) : "") + ")\n" +
         wrapList(instance.entry + "(", signature.parameters) +
         ") {\n  octet::cuda::" + function + "<Config>(" + signature.arguments +
         ");\n}\n";
}

std::string octet::cuda::rejectBulkCopied(const GemmProblem &p) {
  auto is16 = [](int32_t type) {
    return type == OCTET_BF16 || type == OCTET_F16;
  };
  auto isFloat = [&](int32_t type) { return is16(type) || type == OCTET_F32; };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  bool isFp8 = p.xType == OCTET_E4M3;
  if (p.n <= 0 || p.k <= 0 || p.n > kMost || p.k > kMost ||
      p.k * elementBytes(p.xType) % 16 != 0)
    return "rows of K=" + std::to_string(p.k) +
           " are no multiple of 16 bytes that a bulk copy moves";
  if (p.shards.empty() ||
      std::accumulate(p.shards.begin(), p.shards.end(), int64_t(0)) != p.n)
    return "the shards are not the rows of the weight, N=" +
           std::to_string(p.n);
  if (p.xType != p.wType || !(is16(p.xType) || isFp8))
    return "it multiplies two BF16, F16 or E4M3, not " +
           std::string(typeName(p.xType)) + " and " +
           std::string(typeName(p.wType));
  if (!isFloat(p.yType) || (p.biasType >= 0 && !isFloat(p.biasType)))
    return "y and bias are F32, BF16 or F16";
  if ((p.xScaleMode != OCTET_SCALE_NONE) != isFp8 ||
      (p.wScaleMode != OCTET_SCALE_NONE) != isFp8)
    return "operands have scales where they are E4M3";
  return "";
}

KernelLaunch octet::cuda::startGemmLaunch(const GemmProblem &p) {
  KernelLaunch launch;
  launch.module = p.module;
  launch.label = p.kernel;
  int64_t scales = 0;
  if (hasBlocks(p))
    for (int64_t rows : p.shards)
      scales += divideUp(rows, p.blockN) * divideUp(p.k, p.blockK);
  else if (p.wScaleMode != OCTET_SCALE_NONE)
    scales =
        p.wScaleMode == OCTET_SCALE_CHANNEL ? p.n : int64_t(p.shards.size());
  launch.bytes =
      p.n * p.k * elementBytes(p.wType) + scales * elementBytes(p.wScaleType);
  launch.rowBytes = p.k * elementBytes(p.xType) + p.n * elementBytes(p.yType);
  if (p.xScaleMode == OCTET_SCALE_BLOCK)
    launch.rowBytes += divideUp(p.k, p.blockK) * 4;
  launch.rowFlops = 2 * p.n * p.k;
  return launch;
}
