//===- StepInputs.cpp - The arrays of a batch, for the device -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/StepInputs.h"
#include "octet/Support/Checked.h"
#include <algorithm>
#include <cstring>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

std::vector<int64_t> octet::rt::cu::bucketsUpTo(int64_t most) {
  std::vector<int64_t> buckets;
  for (int64_t rows : {1, 2, 4, 8, 16, 24, 32, 48})
    if (rows < most)
      buckets.push_back(rows);
  for (int64_t rows = 64; rows < most; rows += 64)
    buckets.push_back(rows);
  buckets.push_back(most);
  return buckets;
}

BatchLayout BatchLayout::of(int64_t rows, int64_t outputs, int64_t sequences,
                            int64_t pages) {
  constexpr int64_t kAlign = 64;
  BatchLayout layout{};
  int64_t at = 0;
  auto place = [&at](int64_t count, size_t width) {
    const int64_t begin = at;
    at = alignTo(at + count * int64_t(width), kAlign);
    return begin;
  };
  layout.ids = place(rows, sizeof(int32_t));
  layout.positions = place(rows, sizeof(int32_t));
  layout.slots = place(rows, sizeof(int32_t));
  layout.outputRows = place(outputs, sizeof(int32_t));
  layout.sequences = place(sequences, sizeof(octet_device_sequence));
  // Last: their number changes from step to step.
  layout.pages = place(pages, sizeof(int32_t));
  layout.bytes = at;
  return layout;
}

Status StepInputs::allocate(const Driver &driver, const ProgramInfo &info) {
  const int64_t pages =
      info.maxSeqs * cdiv(info.maxContext, OCTET_PAGE) + /*spare=*/1;
  const int64_t rows = std::max(info.maxStepTokens, info.maxSeqs);
  const int64_t most = BatchLayout::of(rows, rows, rows, pages).bytes +
                       rows * int64_t(sizeof(octet_sample_row));
  const std::string subject = "step";
  OCTET_TRY(pinned.allocate(driver, most, subject));
  OCTET_TRY(device.allocate(driver, most, subject));
  if (info.isModule) {
    moduleIn = info.moduleIn;
    OCTET_TRY(input.allocate(
        driver, info.maxStepTokens * moduleIn * int64_t(sizeof(float)),
        subject));
  }
  return Status::success();
}

DeviceBatch StepInputs::write(const octet_batch &batch, int64_t rows,
                              int32_t spare) {
  const int64_t padding = rows - batch.num_rows;
  sequences.assign(batch.sequences, batch.sequences + batch.num_sequences);
  int64_t pages = padding ? 1 : 0;
  for (const octet_sequence &s : sequences)
    pages += cdiv(s.context, OCTET_PAGE);
  for (int64_t i = 0; i < padding; ++i)
    sequences.push_back({batch.num_rows + i, 1, 1, nullptr});
  const int64_t outputs = batch.num_outputs + padding;
  const int64_t count = int64_t(sequences.size());

  DeviceBatch result{BatchLayout::of(rows, outputs, count, pages), batch, {}};
  const BatchLayout &layout = result.layout;
  bytes = layout.bytes;
  auto at = [&](int64_t offset) {
    return reinterpret_cast<int32_t *>(pinned.data() + offset);
  };
  auto fill = [&](int64_t offset, const int32_t *from, int64_t length,
                  int32_t value) {
    int32_t *to = at(offset);
    if (from)
      std::memcpy(to, from, size_t(length) * sizeof(int32_t));
    else
      std::fill_n(to, length, 0);
    std::fill_n(to + length, padding, value);
  };
  fill(layout.ids, batch.ids, batch.num_rows, 0);
  fill(layout.positions, batch.positions, batch.num_rows, 0);
  fill(layout.slots, batch.slots, batch.num_rows, spare * OCTET_PAGE);
  fill(layout.outputRows, batch.output_rows, batch.num_outputs, 0);
  for (int64_t i = 0; i < padding; ++i)
    at(layout.outputRows)[batch.num_outputs + i] = int32_t(batch.num_rows + i);

  auto *table = reinterpret_cast<octet_device_sequence *>(pinned.data() +
                                                          layout.sequences);
  int32_t *list = at(layout.pages);
  int32_t used = 0;
  for (int64_t i = 0; i < count; ++i) {
    const octet_sequence &s = sequences[size_t(i)];
    // All of the padding shares the last page.
    const int32_t first = s.pages ? used : int32_t(pages) - 1;
    table[i] = {int32_t(s.first_row), int32_t(s.num_rows), int32_t(s.context),
                first};
    if (!s.pages)
      continue;
    const int64_t own = cdiv(s.context, OCTET_PAGE);
    std::memcpy(list + used, s.pages, size_t(own) * sizeof(int32_t));
    used += int32_t(own);
  }
  if (padding)
    list[pages - 1] = spare;

  const CUdeviceptr base = device.address();
  auto on = [&](int64_t offset) {
    return reinterpret_cast<const int32_t *>(base + CUdeviceptr(offset));
  };
  octet_batch &out = result.batch;
  out.num_rows = rows;
  out.ids = batch.ids ? on(layout.ids) : nullptr;
  hostInput = batch.input;
  hostRows = batch.num_rows;
  out.input = batch.input ? input.pointer<const float>() : nullptr;
  out.positions = on(layout.positions);
  out.slots = on(layout.slots);
  out.num_sequences = count;
  out.sequences = sequences.data();
  out.num_outputs = outputs;
  out.output_rows = on(layout.outputRows);
  out.output = nullptr;
  result.frame = {count, base + CUdeviceptr(layout.sequences),
                  base + CUdeviceptr(layout.pages)};
  return result;
}

CUdeviceptr StepInputs::addSampling(std::span<const octet_sample_row> given,
                                    int64_t rows) {
  const int64_t at = bytes;
  auto *out = reinterpret_cast<octet_sample_row *>(pinned.data() + at);
  std::ranges::copy(given, out);
  std::fill(out + given.size(), out + rows, octet_sample_row{});
  bytes += rows * int64_t(sizeof(octet_sample_row));
  return device.address() + CUdeviceptr(at);
}

Status StepInputs::send(const Driver &driver, CUstream stream,
                        const std::string &subject) {
  OCTET_TRY(OCTET_CUDA(driver, subject, cuMemcpyHtoDAsync, device.address(),
                       pinned.data(), size_t(bytes), stream));
  if (hostInput)
    OCTET_TRY(OCTET_CUDA(driver, subject, cuMemcpyHtoDAsync, input.address(),
                         hostInput, size_t(hostRows * moduleIn) * sizeof(float),
                         stream));
  return Status::success();
}
