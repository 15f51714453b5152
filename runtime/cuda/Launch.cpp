//===- Launch.cpp - From a launch table to the stream ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Launch.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/cpu/Types.h"
#include <algorithm>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

//===----------------------------------------------------------------------===//
// Variant and grid
//===----------------------------------------------------------------------===//

const octet_variant *octet::rt::cu::chooseVariant(const octet_launch &launch,
                                                  int64_t rows,
                                                  int64_t longest) {
  const int64_t count = launch.by_longest ? longest : rows;
  for (int64_t i = 0; i < launch.num_variants; ++i)
    if (const octet_variant &variant = launch.variants[i];
        variant.max_rows < 0 || count <= variant.max_rows)
      return &variant;
  return nullptr;
}

int64_t octet::rt::cu::longestOf(const octet_batch &batch) {
  int64_t longest = 0;
  for (int64_t i = 0; i < batch.num_sequences; ++i)
    longest = std::max(longest, batch.sequences[i].num_rows);
  return longest;
}

static int64_t sideOf(const octet_grid &grid, int64_t rows, int64_t sequences) {
  int64_t count = grid.fixed + grid.per_sequence * sequences;
  if (grid.per_rows > 0)
    count += cdiv(rows, grid.per_rows);
  return grid.times * count;
}

std::array<int64_t, 3> octet::rt::cu::gridOf(const octet_kernel &kernel,
                                             int64_t rows, int64_t sequences,
                                             int64_t multiprocessors) {
  std::array<int64_t, 3> grid;
  for (int i = 0; i < 3; ++i)
    grid[i] = sideOf(kernel.grid[i], rows, sequences);
  const int64_t cluster = std::max(kernel.cluster, 1);
  if (kernel.per_sm > 0) {
    const int64_t most = kernel.per_sm * multiprocessors / cluster * cluster;
    grid = {std::min(grid[0] * grid[1] * grid[2], most), 1, 1};
  }
  grid[0] = cdiv(grid[0], cluster) * cluster;
  return grid;
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

static int dataTypeOf(int32_t type) {
  switch (type) {
  case OCTET_F32:
    return kMapFloat32;
  case OCTET_BF16:
    return kMapBfloat16;
  case OCTET_F16:
    return kMapFloat16;
  case OCTET_I32:
    return kMapInt32;
  case OCTET_E4M3:
  case OCTET_I8:
  case OCTET_E8M0:
    return kMapUint8;
  default:
    return -1;
  }
}

/// CUtensorMapSwizzle of a number of bytes, or -1.
static int swizzleOf(int32_t bytes) {
  switch (bytes) {
  case 0:
    return 0;
  case 32:
    return 1;
  case 64:
    return 2;
  case 128:
    return 3;
  default:
    return -1;
  }
}

Result<MapShape> octet::rt::cu::mapShapeOf(const octet_param &param,
                                           int64_t rows,
                                           const std::string &module) {
  MapShape shape;
  shape.dataType = dataTypeOf(param.type);
  shape.swizzle = swizzleOf(param.swizzle);
  if (shape.dataType < 0 || shape.swizzle < 0)
    return internalError(module, "a tensor map of type " +
                                     std::to_string(param.type) +
                                     " with a swizzle of " +
                                     std::to_string(param.swizzle) + " bytes");
  shape.rows = uint64_t(param.rows < 0 ? rows : param.rows);
  shape.cols = uint64_t(param.cols < 0 ? rows : param.cols);
  constexpr int64_t kPitchUnit = 16;
  shape.pitchBytes =
      uint64_t(param.pitch_bytes
                   ? param.pitch_bytes
                   : alignTo(int64_t(shape.cols) * elementBytes(param.type),
                             kPitchUnit));
  shape.boxRows = uint32_t(param.box_rows);
  shape.boxCols = uint32_t(param.box_cols);
  return shape;
}

Status LaunchParams::build(const Driver &driver, const octet_kernel &kernel,
                           const char *module, int64_t rows,
                           const StepFrame &frame, CUdeviceptr workspace,
                           const void *const *args) {
  const size_t count = size_t(kernel.num_params);
  words.clear();
  maps.clear();
  pointers.clear();
  // Addresses of elements are handed out, so nothing may move.
  words.reserve(count);
  maps.reserve(count);
  pointers.reserve(count);
  auto put = [&](uint64_t word) {
    words.push_back(word);
    pointers.push_back(&words.back());
  };
  for (size_t i = 0; i < count; ++i) {
    const octet_param &param = kernel.params[i];
    switch (param.kind) {
    case OCTET_PARAM_ADDRESS:
      put(reinterpret_cast<uint64_t>(args[param.arg]));
      break;
    case OCTET_PARAM_ROWS: // Little-endian: the low half is the int32_t.
      put(uint64_t(rows));
      break;
    case OCTET_PARAM_TENSOR_MAP: {
      OCTET_TRY_ASSIGN(MapShape shape, mapShapeOf(param, rows, module));
      maps.emplace_back();
      const uint64_t dims[2] = {shape.cols, shape.rows};
      const uint64_t strides[1] = {shape.pitchBytes};
      const uint32_t box[2] = {shape.boxCols, shape.boxRows};
      const uint32_t steps[2] = {1, 1};
      OCTET_TRY(OCTET_CUDA(
          driver, module, cuTensorMapEncodeTiled, &maps.back(), shape.dataType,
          2, const_cast<void *>(args[param.arg]), dims, strides, box, steps,
          /*interleave=*/0, shape.swizzle, kPromote256, /*oobFill=*/0));
      pointers.push_back(&maps.back());
      break;
    }
    case OCTET_PARAM_SEQUENCES:
      put(frame.sequences);
      break;
    case OCTET_PARAM_NUM_SEQUENCES:
      put(uint64_t(frame.numSequences));
      break;
    case OCTET_PARAM_PAGES:
      put(frame.pages);
      break;
    case OCTET_PARAM_WORKSPACE:
      put(workspace);
      break;
    default:
      return internalError(module, "kernel " + quoteName(kernel.entry) +
                                       " has a parameter of kind " +
                                       std::to_string(param.kind));
    }
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

static Status launchKernel(CUstream stream, const Driver &driver,
                           const Kernel &ready, bool mayOverlap,
                           const octet_kernel &kernel,
                           const octet_launch &launch, int64_t rows,
                           const StepFrame &frame, LaunchParams &params) {
  const std::array<int64_t, 3> grid =
      gridOf(kernel, rows, frame.numSequences, driver.device().multiprocessors);
  // Nothing to do, as for a variant's second kernel without a split.
  if (grid[0] * grid[1] * grid[2] == 0)
    return Status::success();
  CUlaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (kernel.cluster > 1) {
    CUlaunchAttribute &cluster = attributes[count++];
    cluster.id = kClusterDimension;
    cluster.value.clusterDim = {unsigned(kernel.cluster), 1, 1};
  }
  if (mayOverlap && (kernel.flags & OCTET_KERNEL_OVERLAPS)) {
    CUlaunchAttribute &overlap = attributes[count++];
    overlap.id = kProgrammaticStreamSerialization;
    overlap.value.programmaticStreamSerializationAllowed = 1;
  }
  CUlaunchConfig config{};
  config.gridDimX = unsigned(grid[0]);
  config.gridDimY = unsigned(grid[1]);
  config.gridDimZ = unsigned(grid[2]);
  config.blockDimX = unsigned(kernel.threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = unsigned(kernel.shared_bytes);
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  Status done = OCTET_CUDA(driver, launch.module, cuLaunchKernelEx, &config,
                           ready.function, params.list(), nullptr);
  if (!done.ok())
    done.note(std::string("kernel ") + escapeName(kernel.label) + " (" +
              escapeName(kernel.entry) + "), grid " + std::to_string(grid[0]) +
              "x" + std::to_string(grid[1]) + "x" + std::to_string(grid[2]) +
              " of " + std::to_string(kernel.threads) + " threads, " +
              std::to_string(kernel.shared_bytes) +
              " bytes of shared memory, clusters of " +
              std::to_string(std::max(kernel.cluster, 1)));
  return done;
}

Status octet::rt::cu::launchOn(CUstream stream, const Driver &driver,
                               Images &images, const octet_launch &launch,
                               const octet_batch &batch, int64_t rows,
                               const StepFrame &frame, const void *const *args,
                               LaunchParams &params) {
  if (rows == 0)
    return Status::success();
  const int64_t longest = launch.by_longest ? longestOf(batch) : rows;
  const octet_variant *variant = chooseVariant(launch, rows, longest);
  if (!variant)
    return internalError(launch.module,
                         "no variant of " + quoteName(launch.label) +
                             " serves " + std::to_string(rows) + " rows");
  CUdeviceptr workspace = 0; // of the last kernel that has one
  for (int64_t i = 0; i < variant->num_kernels; ++i) {
    const octet_kernel &kernel = variant->kernels[i];
    OCTET_TRY_ASSIGN(const Kernel *ready, images.find(kernel, launch.module));
    if (ready->workspace)
      workspace = ready->workspace;
    OCTET_TRY(params.build(driver, kernel, launch.module, rows, frame,
                           workspace, args));
    OCTET_TRY(launchKernel(stream, driver, *ready, images.mayOverlap(), kernel,
                           launch, rows, frame, params));
  }
  return Status::success();
}
