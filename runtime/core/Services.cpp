//===- Services.cpp - What a program may call -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the C table of abi.h and the arithmetic of runtime/cpu: finds
// tensors, owns what is computed, and turns a bad value into an error that
// names its file, tensor and rule. A description that disagrees with the
// (already compared) tensor table is the compiler's fault, not the user's.
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Services.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/core/Context.h"
#include "runtime/core/Fp4Gemm.h"
#include "runtime/core/KvCache.h"
#include "runtime/core/LoadServices.h"
#include "runtime/core/RandomWeights.h"
#include "runtime/cpu/CpuBackend.h"
#include "runtime/cpu/LoadOps.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include <cmath>
#include <cstring>

using namespace octet;
using namespace octet::rt;

//===----------------------------------------------------------------------===//
// Step
//===----------------------------------------------------------------------===//

static void parallelFor(octet_ctx *ctx, const octet_rows_desc *desc, int64_t n,
                        octet_row_fn fn, void *arg) {
  Context::from(ctx).pool->parallelFor(n, desc->grain, fn, arg);
}

static void gemm(octet_ctx *ctx, const octet_gemm_desc *desc, int64_t m,
                 const void *x, const float *xScale, const octet_weight *w,
                 const octet_weight *bias, void *y) {
  Context &c = Context::from(ctx);
  if (desc->x_type == OCTET_E2M1)
    return gemmOfFp4(c, *desc, m, x, xScale, *w, bias, y);
  kernelTable(c.level).gemm(*c.pool, *desc, m, x, xScale, *w, bias, y);
}

static void attention(octet_ctx *ctx, const octet_attention_desc *desc,
                      int64_t layer, const octet_batch *batch, const void *q,
                      const float *kScale, const float *vScale, void *y) {
  Context &c = Context::from(ctx);
  kernelTable(c.level).attention(*c.pool, *desc, c.kv[layer], *batch, q, kScale,
                                 vScale, y);
}

static void trace(octet_ctx *ctx, const char *name, int64_t index, int32_t type,
                  int64_t rows, int64_t cols, const void *data) {
  if (TraceSink *sink = Context::from(ctx).sink)
    sink->trace(name, index, type, rows, cols, data);
}

//===----------------------------------------------------------------------===//
// Finding tensors
//===----------------------------------------------------------------------===//

static std::optional<int32_t> dtypeOf(StoredType type) {
  switch (type) {
  case StoredType::F32:
    return OCTET_F32;
  case StoredType::BF16:
    return OCTET_BF16;
  case StoredType::F16:
    return OCTET_F16;
  case StoredType::F8_E4M3:
    return OCTET_E4M3;
  case StoredType::F8_E5M2:
    return OCTET_E5M2;
  case StoredType::F8_E4M3FNUZ:
    return OCTET_E4M3FNUZ;
  case StoredType::F8_E5M2FNUZ:
    return OCTET_E5M2FNUZ;
  case StoredType::F8_E8M0:
    return OCTET_E8M0;
  case StoredType::I8:
    return OCTET_I8;
  case StoredType::I32:
    return OCTET_I32;
  default:
    return std::nullopt;
  }
}

ScaledMatrix rt::matrixOf(const octet_tensor_desc &desc,
                          const octet_part &part) {
  ScaledMatrix m;
  m.data = part.data;
  m.scale = part.scale;
  m.rows = part.rows;
  m.cols = desc.cols;
  m.blockN = desc.block_n;
  m.blockK = desc.block_k;
  m.type = desc.type;
  m.scaleMode = desc.scale_mode;
  m.scaleType = desc.scale_type;
  return m;
}

/// The octet_dtype of blocks, if they are read as they are.
static std::optional<int32_t> dtypeOf(Packing packing) {
  switch (packing) {
  case Packing::Q8_0:
    return OCTET_Q8_0;
  case Packing::Q4_0:
    return OCTET_Q4_0;
  case Packing::Q4_1:
    return OCTET_Q4_1;
  default:
    return std::nullopt;
  }
}

/// The elements of a tensor that a GGUF file packs or reorders (W16), in memory
/// of their own: as `asStored`, or unpacked.
static const void *copyRows(Context &c, const TensorInfo &tensor, int64_t bytes,
                            bool asStored) {
  auto *data = static_cast<std::byte *>(c.allocate(bytes));
  if (!data)
    return nullptr;
  TensorReader reader(*c.mapped, tensor);
  const int64_t rowBytes = reader.rows() ? bytes / reader.rows() : 0;
  struct Rows {
    const TensorReader &reader;
    std::byte *data;
    int64_t rowBytes;
    bool asStored;
  } rows{reader, data, rowBytes, asStored};
  c.pool->parallelFor(
      reader.rows(), /*grain=*/16,
      [](void *arg, int64_t begin, int64_t end) {
        const Rows &r = *static_cast<const Rows *>(arg);
        std::span<std::byte> out{r.data + begin * r.rowBytes,
                                 size_t((end - begin) * r.rowBytes)};
        if (r.asStored)
          r.reader.readStored(begin, end - begin, out);
        else
          r.reader.readElements(begin, end - begin, out);
      },
      &rows);
  c.mapped->release(tensor);
  return data;
}

/// The bytes of row `index` of the tensor table at an address fit for its
/// elements; nullptr after recording an error.
/// \param headRows  the order of rows that the program was compiled for (W16).
static const void *find(Context &c, const octet_tensor_desc &desc,
                        int64_t index, int32_t type, int64_t count,
                        int64_t headRows) {
  auto bug = [&](std::string what) {
    c.fail(internalError(desc.module, std::move(what)));
    return nullptr;
  };
  if (index < 0 || index >= int64_t(c.rows.size()))
    return bug("the program loads tensor " + std::to_string(index) + " of " +
               std::to_string(c.rows.size()));
  const TensorInfo &tensor = *c.rows[index];
  c.touched.push_back(&tensor);
  const bool inBlocks = blockBytes(type) != 0;
  std::optional<int64_t> bytes;
  if (count >= 0)
    bytes = inBlocks ? std::optional(rowBytes(type, count))
                     : checkedMul(count, elementBytes(type));
  auto stored = inBlocks ? dtypeOf(tensor.packing) : dtypeOf(tensor.type);
  // Exponents, under the name that most files have for them (N7).
  if (type == OCTET_E8M0 && tensor.type == StoredType::U8)
    stored = OCTET_E8M0;
  // Bytes that hold two codes each.
  if (type == OCTET_I8 && tensor.type == StoredType::U8)
    stored = OCTET_I8;
  // Random tensors lie in order.
  const bool sameRows = c.random || tensor.headRows == headRows;
  if (stored != type || !bytes || !sameRows ||
      checkedProduct(tensor.shape) != count)
    return bug("the program loads tensor " + quoteName(tensor.name) + " (" +
               tensor.describe() + ") as " + std::to_string(count) +
               " elements of type " + std::to_string(type));
  if (tensor.headRows || (tensor.packing != Packing::None && !inBlocks))
    return copyRows(c, tensor, *bytes, /*asStored=*/inBlocks);
  const std::byte *data =
      (c.random ? c.random->bytes(tensor) : c.mapped->bytes(tensor)).data();
  // A header of odd length leaves all tensors of its file unaligned.
  if (inBlocks ||
      reinterpret_cast<uintptr_t>(data) % size_t(elementBytes(type)) == 0)
    return data;
  void *copy = c.allocate(tensor.bytes);
  if (copy)
    std::memcpy(copy, data, size_t(tensor.bytes));
  return copy;
}

static int32_t load(octet_ctx *ctx, const octet_tensor_desc *desc,
                    int64_t tensor, int64_t scale, octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_part part{nullptr, nullptr, desc->rows, int32_t(tensor),
                  int32_t(scale)};
  const int64_t sides[] = {desc->rows, desc->cols};
  part.data = find(c, *desc, tensor, desc->type,
                   checkedProduct(sides).value_or(-1), desc->head_rows);
  if (!part.data)
    return 1;
  if (scale >= 0) {
    part.scale = find(c, *desc, scale, desc->scale_type,
                      matrixOf(*desc, part).numScales(), /*headRows=*/0);
    if (!part.scale)
      return 1;
  }
  *out = octet_weight{1, {part}};
  return 0;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

int32_t rt::badValue(Context &c, const octet_tensor_desc *desc, int32_t tensor,
                     std::string what, std::string_view rule,
                     std::string_view why) {
  if (tensor < 0 || tensor >= int64_t(c.rows.size()))
    return c.fail(inputError(desc ? desc->module : "weights",
                             "a computed scale is " + std::move(what),
                             std::string(rule)));
  const TensorInfo &info = *c.rows[tensor];
  if (why.empty())
    why = desc && blockBytes(desc->type) ? "it has to be finite"
                                         : "a scale is finite and positive";
  return c.fail(inputError(c.fileOf(info),
                           "tensor " + quoteName(info.name) + ": " +
                               std::move(what) + "; " + std::string(why),
                           std::string(rule)));
}

std::string rt::indexText(const Context &c, int32_t tensor, int64_t index) {
  if (tensor < 0 || tensor >= int64_t(c.rows.size()))
    return "[" + std::to_string(index) + "]";
  const std::vector<int64_t> &shape = c.rows[tensor]->shape;
  std::string text;
  for (size_t i = shape.size(); i-- > 0; index /= shape[i])
    text = std::to_string(index % shape[i]) + (text.empty() ? "" : ", ") + text;
  return text.empty() ? "" : "[" + text + "]";
}

/// A scale or minimum that stands in a block of row and group.
static int32_t badBlock(Context &c, const octet_tensor_desc &desc,
                        const octet_part &part, const BadScale &bad) {
  const int64_t fields = blockFields(desc.type);
  const int64_t block = bad.index / fields;
  const int64_t groups = desc.cols / kBlockElements;
  // Rows in the order of the file, where loading changed it (W16).
  int64_t row = block / groups;
  const bool known = part.tensor >= 0 && part.tensor < int64_t(c.rows.size());
  if (const int64_t head = known ? c.rows[part.tensor]->headRows : 0) {
    const int64_t within = row % head;
    row += 2 * (within % (head / 2)) + within / (head / 2) - within;
  }
  return badValue(c, &desc, part.tensor,
                  std::string(bad.index % fields ? "minimum" : "scale") +
                      " of row " + std::to_string(row) + ", block " +
                      std::to_string(block % groups) + " is " +
                      describe(bad.kind));
}

static int32_t checkScalesOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                             const octet_weight *w) {
  Context &c = Context::from(ctx);
  for (int64_t i = 0; i < w->num_parts; ++i) {
    const octet_part &part = w->parts[i];
    const bool inBlocks = blockBytes(desc->type) != 0;
    if (!part.scale && !inBlocks)
      return c.fail(internalError(desc->module,
                                  "the program checks scales that it did not "
                                  "load"));
    BadScale bad = checkScales(*c.pool, matrixOf(*desc, part));
    if (!bad)
      continue;
    if (inBlocks)
      return badBlock(c, *desc, part, bad);
    std::string where = indexText(c, part.scale_tensor, bad.index);
    return badValue(c, desc, part.scale_tensor,
                    (where.empty() ? "" : "element " + where + " is ") +
                        (where.empty() ? "it is " : "") + describe(bad.kind));
  }
  return 0;
}

static int32_t convertScalesOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                               const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_weight result = *in;
  for (int64_t i = 0; i < in->num_parts; ++i) {
    octet_part &part = result.parts[i];
    if (desc->scale_type == OCTET_F32)
      continue;
    const int64_t count = matrixOf(*desc, part).numScales();
    float *scales = static_cast<float *>(c.allocate(count * sizeof(float)));
    if (!scales)
      return 1;
    convertScales(desc->scale_type, part.scale, count, scales);
    part.scale = scales;
  }
  *out = result;
  return 0;
}

static int32_t expandScales(octet_ctx *ctx, const octet_tensor_desc *desc,
                            const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_weight result = *in;
  for (int64_t i = 0; i < in->num_parts; ++i) {
    octet_part &part = result.parts[i];
    float *scales = static_cast<float *>(c.allocate(part.rows * sizeof(float)));
    if (!scales)
      return 1;
    expandScale(*static_cast<const float *>(part.scale), part.rows, scales);
    part.scale = scales;
  }
  *out = result;
  return 0;
}

//===----------------------------------------------------------------------===//
// Computed weights
//===----------------------------------------------------------------------===//

static int32_t quantizeWeightOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                                const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_weight result = *in;
  const KernelTable &kernels = kernelTable(c.level);
  const bool channel = desc->scale_mode == OCTET_SCALE_CHANNEL;
  float *whole = nullptr; // one scale of all parts
  if (!channel) {
    whole = static_cast<float *>(c.allocate(int64_t(sizeof(float))));
    if (!whole)
      return 1;
    float amax = 0;
    for (int64_t i = 0; i < in->num_parts; ++i)
      amax = std::max(amax, matrixAmax(*c.pool, kernels, desc->type,
                                       in->parts[i].data, in->parts[i].rows,
                                       desc->cols));
    *whole = dynamicScale(amax);
  }
  for (int64_t i = 0; i < in->num_parts; ++i) {
    octet_part &part = result.parts[i];
    auto *q = static_cast<uint8_t *>(c.allocate(part.rows * desc->cols));
    auto *scales = channel ? static_cast<float *>(
                                 c.allocate(part.rows * int64_t(sizeof(float))))
                           : whole;
    if (!q || !scales)
      return 1;
    quantizeWeight(*c.pool, kernels, desc->type, part.data, part.rows,
                   desc->cols, desc->scale_mode, q, scales);
    part.data = q;
    part.scale = scales;
    part.scale_tensor = -1;
  }
  *out = result;
  return 0;
}

static int32_t concat(octet_ctx *ctx, int64_t count,
                      const octet_weight *const *in, octet_weight *out) {
  octet_weight result{};
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < in[i]->num_parts; ++j) {
      if (result.num_parts == OCTET_MAX_PARTS)
        return Context::from(ctx).fail(internalError(
            "weights", "the program joins more than " +
                           std::to_string(OCTET_MAX_PARTS) + " shards"));
      result.parts[result.num_parts++] = in[i]->parts[j];
    }
  *out = result;
  return 0;
}

static int32_t reciprocal(octet_ctx *ctx, const octet_weight *in,
                          octet_weight *out) {
  auto *data =
      static_cast<float *>(Context::from(ctx).allocate(int64_t(sizeof(float))));
  if (!data)
    return 1;
  *data = 1.0f / *static_cast<const float *>(in->parts[0].data);
  *out = *in; // its row of the table, for messages
  out->parts[0].data = data;
  return 0;
}

/// One F32 value as a weight.
static int32_t constant(octet_ctx *ctx, float value, octet_weight *out) {
  auto *data =
      static_cast<float *>(Context::from(ctx).allocate(int64_t(sizeof(float))));
  if (!data)
    return 1;
  *data = value;
  *out = octet_weight{1, {{data, nullptr, 1, -1, -1}}};
  return 0;
}

static float scalar(int32_t type, const void *data) {
  auto load = [data](auto value) {
    std::memcpy(&value, data, sizeof(value));
    return value;
  };
  switch (type) {
  case OCTET_BF16:
    return decodeBF16(load(uint16_t()));
  case OCTET_F16:
    return decodeF16(load(uint16_t()));
  default:
    return load(float());
  }
}

static int32_t maxScalar(octet_ctx *ctx, int64_t count,
                         const octet_weight *const *in, int32_t type,
                         octet_weight *out) {
  Context &c = Context::from(ctx);
  float largest = 0;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < in[i]->num_parts; ++j) {
      const octet_part &part = in[i]->parts[j];
      float value = scalar(type, part.data);
      // A scale that divides activations (W6); infinity would hide the others.
      if (!(value > 0) || std::isinf(value))
        return badValue(c, nullptr, part.tensor,
                        "it is " + std::to_string(value));
      largest = std::max(largest, value);
    }
  return constant(ctx, largest, out);
}

static int32_t kvScales(octet_ctx *ctx, const char *module, int64_t layer,
                        const octet_weight *k, const octet_weight *v,
                        int32_t type, octet_weight *outK, octet_weight *outV) {
  Context &c = Context::from(ctx);
  float values[2] = {0, 0};
  const octet_weight *given[2] = {k, v};
  for (int i = 0; i < 2; ++i) {
    if (!given[i])
      continue;
    const octet_part &part = given[i]->parts[0];
    values[i] = scalar(type, part.data);
    if (std::isnan(values[i]) || std::isinf(values[i]))
      return badValue(c, nullptr, part.tensor,
                      "it is " + std::to_string(values[i]));
  }
  auto [kScale, vScale] = std::pair(values[0], values[1]);
  if (kScale <= 0 && vScale <= 0) {
    if (c.kvType == OCTET_E4M3) {
      std::string name = module;
      if (size_t at = name.find("{l}"); at != name.npos)
        name.replace(at, 3, std::to_string(layer));
      else
        name += " of layer " + std::to_string(layer);
      c.warn(name + ": no positive k_scale or v_scale for its FP8 cache; both "
                    "are 1.0 [P8]");
    }
    kScale = vScale = 1;
  } else {
    kScale = kScale > 0 ? kScale : vScale;
    vScale = vScale > 0 ? vScale : kScale;
  }
  int32_t result = constant(ctx, kScale, outK);
  return result ? result : constant(ctx, vScale, outV);
}

static int32_t makeRopeTable(octet_ctx *ctx, const float *invFreq, int64_t half,
                             int64_t positions, float scale,
                             octet_weight *out) {
  Context &c = Context::from(ctx);
  const int64_t sides[] = {positions, half, 2, int64_t(sizeof(float))};
  auto bytes = checkedProduct(sides);
  auto *table = static_cast<float *>(c.allocate(bytes.value_or(-1)));
  if (!table)
    return 1;
  ropeTable(*c.pool, invFreq, half, positions, scale, table);
  *out = octet_weight{1, {{table, nullptr, positions, -1, -1}}};
  return 0;
}

const octet_runtime *rt::cpuServices() {
  static constexpr octet_runtime table = {
      .parallel_for = parallelFor,
      .gemm = gemm,
      .attention = attention,
      .trace = trace,
      .load = load,
      .check_scales = checkScalesOf,
      .convert_scales = convertScalesOf,
      .expand_scales = expandScales,
      .quantize_weight = quantizeWeightOf,
      .concat = concat,
      .max_scalar = maxScalar,
      .kv_scales = kvScales,
      .requantize = requantizeWeight,
      .merge_scales = mergeScalesOf,
      .constant = constant,
      .rope_table = makeRopeTable,
      .check_groups = checkGroupsOf,
      .share_global = shareGlobalOf,
      .reciprocal = reciprocal,
      .tile_weight = tileWeightOf,
      // Of CUDA programs.
      .upload = nullptr,
      .rewrite = nullptr,
      .forget = nullptr,
      .launch = nullptr,
  };
  return &table;
}
