//===- Memory.cpp - octet check --memory --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Bytes on one rank. Where there are headers the program is compiled as far as
// plan-buffers, whose numbers are those of `info`. config.json alone gives
// estimates, from the shapes that are reported: weights as they stand after the
// loading rewrites (W7-W12) without the tables of RoPE, and for a step
//
//   rows of a step x (2 hidden + widest linear, input and output)
//     + the rows of their experts x (hidden + 3 I_p), all in --dtype
//     + max_seqs x vocabulary of the rank x 4       logits
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <charconv>

using namespace octet;

namespace {

struct Device {
  std::string_view name;
  int64_t mib; ///< what its driver reports
};

/// Sorted by name.
constexpr std::array kDevices = {
    Device{"a100", 40960},    Device{"a100-80g", 81920}, Device{"b200", 183359},
    Device{"h100", 81559},    Device{"h200", 143771},    Device{"l40s", 46068},
    Device{"rtx4090", 24564}, Device{"rtx5090", 32607},
};

/// Defaults of octet compile (DESIGN, "Defaults").
constexpr int64_t kDefaultContext = 8192, kDefaultSeqs = 8,
                  kDefaultStepTokens = 2048;
constexpr int64_t kExpertsPerToken = 8; ///< where config.json does not say

} // namespace

Result<int64_t> octet::parseDeviceMemory(std::string_view text) {
  int64_t bytes = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, bytes);
  if (error == std::errc() && stop == end && bytes > 0)
    return bytes;
  std::string names;
  for (const Device &device : kDevices) {
    if (device.name == text)
      return device.mib << 20;
    names += (names.empty() ? "" : ", ") + std::string(device.name);
  }
  return usageError("--device-memory " + escapeName(text),
                    "expected a number of bytes, or one of " + names);
}

/// Sizes of a hostile config saturate.
static int64_t multiply(int64_t a, int64_t b) {
  return checkedMul(a, b).value_or(INT64_MAX);
}
static int64_t add(int64_t a, int64_t b) {
  return checkedAdd(a, b).value_or(INT64_MAX);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Bytes of elements of a dtype, or of blocks of a GGUF packing.
static int64_t countBytes(const std::string &dtype, const Shape &shape) {
  const int64_t count = checkedProduct(shape).value_or(INT64_MAX);
  if (std::optional<StoredType> type = parseStoredType(dtype))
    return multiply(count, byteWidth(*type));
  if (std::optional<Packing> packing = parsePacking(dtype))
    return multiply(count / packedBlockElements(*packing),
                    packedBlockBytes(*packing));
  return multiply(count, 2);
}

static void addWeight(MemoryReport &memory, const std::string &dtype,
                      int64_t bytes) {
  if (bytes == 0)
    return;
  int64_t &sum = memory.weights[dtype];
  sum = add(sum, bytes);
  memory.weightBytes = add(memory.weightBytes, bytes);
}

/// Codes, scales and zero points of one matrix, or of those of some experts.
static void addMatrix(MemoryReport &memory, const MatrixReport &matrix,
                      const ModuleDecision &decision, bool isFused) {
  // Packings that no kernel reads become float32 (C2).
  std::optional<Packing> packing = parsePacking(matrix.weightDtype);
  const std::string dtype =
      packing && !staysPacked(*packing) ? "F32" : matrix.weightDtype;
  addWeight(memory, dtype,
            countBytes(dtype, matrix.paddedShape.value_or(matrix.weightShape)));
  if (matrix.zerosShape)
    addWeight(memory, "I32", countBytes("I32", *matrix.zerosShape));
  if (matrix.scaleDtype.empty())
    return;
  const Contract &contract = decision.contract;
  if (contract.format.scale == ScaleFormat::Exponents) {
    addWeight(memory, "UE8M0", countBytes("U8", matrix.scaleShape));
  } else if (contract.format.scale == ScaleFormat::E4M3) {
    addWeight(memory, "F8_E4M3", countBytes("U8", matrix.scaleShape));
  } else if (decision.method.weight.kind == Granularity::Kind::PerTensor &&
             contract.weight.kind == Granularity::Kind::PerChannel && isFused) {
    // Each shard's scale is expanded over its rows (W7).
    addWeight(memory, "F32", 4 * matrix.weightShape.front());
  } else if (decision.method.format.layout == WeightLayout::GptqWords ||
             decision.method.format.layout == WeightLayout::AwqWords) {
    addWeight(memory, matrix.scaleDtype,
              countBytes(matrix.scaleDtype, matrix.scaleShape));
  } else {
    addWeight(memory, "F32", countBytes("F32", matrix.scaleShape));
  }
}

/// Float32 elements that a loading rewrite makes of one shard, or 0.
static int64_t countRewritten(const CheckContext &context, const Part &part) {
  const ResolvedModule &method = part.decision->method;
  const Contract &contract = part.decision->contract;
  bool isMla = part.name == "kv_b_proj" && context.options.mla != "explicit";
  bool isCollapsed = method.quantized && part.module->fused.size() > 0 &&
                     method.weight.kind == Granularity::Kind::PerTensor &&
                     contract.weight.kind == Granularity::Kind::PerTensor; // W8
  bool isRescaled =
      method.quantized && contract.format.scale == ScaleFormat::Exponents &&
      method.format.scale == ScaleFormat::Float && !method.ue8m0; // W11
  bool isConverted = method.quantized &&
                     method.format.scale == ScaleFormat::Exponents &&
                     contract.format.scale != method.format.scale; // B6
  if (method.whileLoading || isCollapsed || isRescaled || isConverted || isMla)
    return multiply(part.n, std::max<int64_t>(part.k, 1));
  // A second copy in the kernel's order, a byte an element at most.
  return contract.repacked ? cdiv(multiply(part.n, part.k), 4) : 0;
}

static void measureUnit(CheckContext &context, const Unit &unit,
                        MemoryReport &memory) {
  for (const Part &part : unit.parts) {
    if (part.decision->tensors.contains("bias"))
      addWeight(memory, nameDtype(context.dtype), 2 * part.n);
    int64_t bytes = multiply(4, countRewritten(context, part));
    if (bytes <= memory.loadBytes)
      continue;
    memory.loadBytes = bytes;
    memory.loadModule = part.module->getPath(0);
  }
}

static void measureWeights(CheckContext &context, MemoryReport &memory) {
  std::unordered_map<std::string_view, const Unit *> units;
  for (const Unit &unit : context.units) {
    units[unit.path] = &unit;
    measureUnit(context, unit, memory);
  }
  const int64_t width = context.dtype == "f32" ? 4 : 2;
  for (const ModuleReport &module : context.report.modules) {
    auto found = units.find(module.path);
    if (found == units.end()) {
      if (!module.storageDtype.empty())
        addWeight(memory, module.storageDtype,
                  countBytes(module.storageDtype, module.matrix.weightShape));
      continue;
    }
    const Unit &unit = *found->second;
    bool isFused = unit.parts.size() > 1;
    if (module.w13)
      addMatrix(memory, *module.w13, *unit.first().decision, isFused);
    if (module.w2)
      addMatrix(memory, *module.w2, *unit.parts.back().decision, false);
    // `auto` is both forms where a kernel may choose by the rows of a step, and
    // on the CPU, where none may, the absorbed one (W12, B5).
    bool isReplaced =
        module.absorbed &&
        (context.options.mla == "absorbed" ||
         (context.options.mla == "auto" && context.target.isCpu()));
    // Shards of a fused matrix may differ in what a GGUF file packs.
    for (size_t i = 0; i < module.shards.size() && !isReplaced; ++i)
      addMatrix(memory, module.shards[i].second, *unit.parts[i].decision,
                isFused);
    if (!module.w13 && !isReplaced && module.shards.empty())
      addMatrix(memory, module.matrix, *unit.first().decision, isFused);
    if (module.absorbed)
      for (const Shape &half :
           {module.absorbed->first, module.absorbed->second})
        addWeight(memory, nameDtype(context.dtype),
                  multiply(width, checkedProduct(half).value_or(INT64_MAX)));
  }
}

//===----------------------------------------------------------------------===//
// KV cache, workspace
//===----------------------------------------------------------------------===//

static int64_t getConfigCount(const nlohmann::json &config,
                              std::initializer_list<const char *> keys,
                              int64_t fallback) {
  for (const char *key : keys)
    if (auto found = config.find(key); found != config.end())
      if (std::optional<int64_t> value = toInteger(*found); value && *value > 0)
        return std::min<int64_t>(*value, int64_t(1) << 31);
  return fallback;
}

static int64_t estimateWorkspace(const CheckContext &context,
                                 const nlohmann::json &config,
                                 const MemoryReport &memory) {
  const int64_t width = context.dtype == "f32" ? 4 : 2;
  int64_t hidden = 0, widest = 0, expertWidth = 0, vocab = 0;
  for (const Unit &unit : context.units) {
    int64_t out = 0;
    for (const Part &part : unit.parts)
      out += part.n;
    const Part &part = unit.first();
    if (unit.kind == ModuleKind::Embedding && !part.module->isDraft) {
      hidden = part.k;
      vocab = part.n;
    } else if (unit.isExperts()) {
      for (const Part &each : unit.parts)
        if (!each.isRowSplit())
          expertWidth = std::max(expertWidth, each.n);
    } else if (unit.kind == ModuleKind::Linear) {
      widest = std::max(widest, part.k + out);
    }
  }
  const int64_t tokens = multiply(memory.maxStepTokens, width);
  int64_t bytes = multiply(tokens, 2 * hidden + widest);
  if (expertWidth > 0)
    bytes = add(
        bytes, multiply(multiply(tokens,
                                 getConfigCount(config, {"num_experts_per_tok"},
                                                kExpertsPerToken)),
                        hidden + 3 * expertWidth));
  return add(bytes, multiply(4 * memory.maxSeqs, vocab));
}

/// The numbers of a memory that is too small, and what would fit.
static ErrorInfo describeShortage(const MemoryReport &memory) {
  ErrorInfo error;
  error.subject = "--device-memory " + std::to_string(*memory.deviceBytes);
  error.message = "weights of " + std::to_string(memory.weightBytes) +
                  " bytes, a KV cache of " + std::to_string(memory.kvBytes) +
                  " (" + std::to_string(memory.maxSeqs) + " sequences of " +
                  std::to_string(memory.maxContext) + " tokens, " +
                  std::to_string(memory.kvBytesPerToken) +
                  " a token) and a workspace of " +
                  std::to_string(memory.workspaceBytes) + " are " +
                  std::to_string(memory.getTotal()) + " bytes a rank; ";
  if (memory.fittingTokens > 0)
    error.message += std::to_string(memory.fittingTokens) +
                     " tokens of KV cache fit, such as --max-seqs 1 "
                     "--max-context " +
                     std::to_string(memory.fittingTokens);
  else
    error.message += "no KV cache fits beside the weights, a larger --tp or "
                     "--ep makes them smaller";
  return error;
}

/// The program's own numbers, if one compiles.
static void useProgram(CheckContext &context, MemoryReport &memory) {
  memory.isEstimate = true;
  if (!context.checkpoint || !context.options.measureProgram)
    return;
  Result<ProgramMemory> program = context.options.measureProgram();
  if (!program) {
    ErrorInfo warning;
    warning.subject = "--memory";
    warning.message = "octet compile refuses what was asked for, so the bytes "
                      "are estimates";
    if (const ErrorInfo &why = program.status().info(); !why.message.empty())
      warning.notes.push_back(why.subject + ": " + why.message);
    context.report.warnings.push_back(std::move(warning));
    return;
  }
  memory.isEstimate = false;
  memory.weights = program->weights;
  memory.weightBytes = program->weightBytes;
  memory.workspaceBytes = program->workspaceBytes;
  memory.kvBytesPerToken = program->kvBytesPerToken;
}

int64_t MemoryReport::getTotal() const {
  return add(add(weightBytes, kvBytes), workspaceBytes);
}

void octet::measureMemory(CheckContext &context, const nlohmann::json &json) {
  MemoryReport memory;
  const CheckOptions &options = context.options;
  const int64_t limit =
      getConfigCount(json, {"max_position_embeddings"}, kDefaultContext);
  memory.maxContext =
      options.maxContext.value_or(std::min(limit, kDefaultContext));
  memory.maxSeqs = options.maxSeqs.value_or(kDefaultSeqs);
  memory.maxStepTokens = options.maxStepTokens.value_or(kDefaultStepTokens);
  measureWeights(context, memory);
  for (const ModuleReport &module : context.report.modules)
    if (module.kv)
      memory.kvBytesPerToken =
          add(memory.kvBytesPerToken,
              module.kv->bytesPerToken + module.kv->indexBytesPerToken);
  memory.workspaceBytes = estimateWorkspace(context, json, memory);
  useProgram(context, memory);
  memory.kvBytes =
      multiply(memory.kvBytesPerToken, memory.maxContext * memory.maxSeqs);
  memory.deviceBytes = options.deviceMemory;
  if (memory.deviceBytes) {
    int64_t left =
        *memory.deviceBytes - add(memory.weightBytes, memory.workspaceBytes);
    if (left > 0 && memory.kvBytesPerToken > 0)
      memory.fittingTokens = left / memory.kvBytesPerToken;
    if (memory.getTotal() > *memory.deviceBytes)
      context.report.errors.push_back(describeShortage(memory));
  }
  context.report.memory = std::move(memory);
}
