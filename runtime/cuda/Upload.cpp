//===- Upload.cpp - Weights on their way to the device --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Upload.h"
#include "octet/Support/Checked.h"
#include "runtime/core/LoadServices.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include <algorithm>
#include <cstring>
#include <mutex>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

/// Of data and of scales.
static constexpr int64_t kAlign = 256;
/// Weights share chunks of device memory; a larger one has its own.
static constexpr int64_t kChunk = int64_t(64) << 20;
/// A thread's share of a copy or read.
static constexpr int64_t kGrain = int64_t(256) << 10;

Result<UploadPlan>
octet::rt::cu::planUpload(const octet_tensor_desc &desc, const octet_weight &in,
                          std::span<const int64_t> shardElements) {
  auto bug = [&](const std::string &what) {
    return internalError(desc.module, what);
  };
  if (desc.type == OCTET_TILES || in.num_parts < 1 ||
      in.num_parts > OCTET_MAX_PARTS)
    return bug("the program uploads " + std::to_string(in.num_parts) +
               " shards of type " + std::to_string(desc.type));
  UploadPlan plan;
  // Shards of a vector lie along its only side, which a part does not count.
  const bool isVector = desc.rows == 1 && in.num_parts > 1;
  int64_t known = 0;
  const UploadPiece *unknown = nullptr;
  plan.data.reserve(size_t(in.num_parts));
  for (int64_t i = 0; i < in.num_parts; ++i) {
    const octet_part &part = in.parts[i];
    const int64_t elements = isVector ? shardElements[size_t(i)] : desc.cols;
    if (elements < 0 && unknown)
      return bug("two shards of a vector without a tensor");
    const int64_t bytes = elements < 0 ? -1
                                       : rowBytes(desc.type, elements) *
                                             (isVector ? 1 : part.rows);
    plan.data.push_back({part.data, bytes});
    if (bytes < 0)
      unknown = &plan.data.back();
    else
      known += bytes;
    plan.rows += part.rows;
    if (!part.data && !isVector)
      return bug("shard " + std::to_string(i) + " has no data");
    if (desc.scale_mode == OCTET_SCALE_NONE || !part.scale)
      continue;
    plan.scales.push_back({part.scale, matrixOf(desc, part).numScales() *
                                           elementBytes(desc.scale_type)});
  }
  if (!plan.scales.empty() && int64_t(plan.scales.size()) != in.num_parts)
    return bug("some shards have scales and some have none");
  if (!isVector)
    return plan;
  plan.rows = 1;
  const int64_t rest = rowBytes(desc.type, desc.cols) - known;
  if (unknown)
    const_cast<UploadPiece *>(unknown)->bytes = rest;
  if (rest < 0 || (!unknown && rest != 0))
    return bug("the shards of a vector of " + std::to_string(desc.cols) +
               " elements have " + std::to_string(known) + " bytes");
  return plan;
}

static int64_t bytesOf(std::span<const UploadPiece> pieces) {
  int64_t bytes = 0;
  for (const UploadPiece &piece : pieces)
    bytes += piece.bytes;
  return bytes;
}

Result<CUdeviceptr> Uploader::place(int64_t bytes, const std::string &module) {
  const int64_t wanted = alignTo(std::max<int64_t>(bytes, 1), kAlign);
  if (chunks.empty() || chunkUsed + wanted > chunks.back().size()) {
    DeviceBuffer chunk;
    OCTET_TRY(chunk.allocate(driver, std::max(wanted, kChunk), module));
    // One that is full at once leaves the room of the last one usable.
    if (wanted >= kChunk && !chunks.empty()) {
      chunks.insert(chunks.end() - 1, std::move(chunk));
      return (chunks.end() - 2)->address();
    }
    chunks.push_back(std::move(chunk));
    chunkUsed = 0;
  }
  const CUdeviceptr address = chunks.back().address() + CUdeviceptr(chunkUsed);
  chunkUsed += wanted;
  return address;
}

void Uploader::put(const void *from, std::byte *out, int64_t bytes) {
  const std::byte *in = static_cast<const std::byte *>(from);
  auto place = files && from ? files->find(from) : std::nullopt;
  if (place) {
    for (int64_t done = 0; done < bytes; done += kGrain)
      reads.push_back({{place->file, place->offset + done},
                       out + done,
                       std::min(kGrain, bytes - done)});
    return;
  }
  const auto begun = Clock::now();
  if (!in)
    std::memset(out, 0, size_t(bytes));
  else
    pool.parallelFor(cdiv(bytes, kGrain), 1, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * kGrain;
      const int64_t last = std::min(end * kGrain, bytes);
      std::memcpy(out + first, in + first, size_t(last - first));
    });
  total.filling += secondsSince(begun);
}

Status Uploader::fill() {
  const auto begun = Clock::now();
  std::mutex guard;
  Status error;
  pool.parallelChunks(
      int64_t(reads.size()), /*chunk=*/1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Read &read = reads[size_t(i)];
          Status done = files->read(read.from, {read.to, size_t(read.bytes)});
          std::lock_guard lock(guard);
          if (error.ok() && !done.ok())
            error = std::move(done);
        }
      });
  reads.clear();
  total.filling += secondsSince(begun);
  return error;
}

Status Uploader::send() {
  if (transfers.empty())
    return Status::success();
  OCTET_TRY(fill());
  Slot &slot = slots[current];
  for (const Transfer &t : transfers)
    OCTET_TRY(OCTET_CUDA(driver, subject, cuMemcpyHtoDAsync, t.to,
                         slot.buffer.data() + t.from, size_t(t.bytes),
                         stream.handle()));
  OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, slot.free.handle(),
                       stream.handle()));
  slot.isOnItsWay = true;
  transfers.clear();
  used = 0;
  current = (current + 1) % kSlots;
  Slot &next = slots[current];
  const auto begun = Clock::now();
  if (next.isOnItsWay)
    OCTET_TRY(
        OCTET_CUDA(driver, subject, cuEventSynchronize, next.free.handle()));
  next.isOnItsWay = false;
  total.waiting += secondsSince(begun);
  return Status::success();
}

Result<CUdeviceptr> Uploader::takeTemporary(int64_t bytes,
                                            const std::string &module) {
  const int64_t wanted = alignTo(std::max<int64_t>(bytes, 1), kAlign);
  while (temporary.buffer < temporaries.size() &&
         temporary.used + wanted > temporaries[temporary.buffer].size())
    temporary = {temporary.buffer + 1, 0};
  if (temporary.buffer == temporaries.size()) {
    DeviceBuffer buffer;
    OCTET_TRY(buffer.allocate(driver, std::max(wanted, kChunk), module));
    temporaries.push_back(std::move(buffer));
  }
  const CUdeviceptr address =
      temporaries[temporary.buffer].address() + CUdeviceptr(temporary.used);
  temporary.used += wanted;
  return address;
}

bool Uploader::isTemporary(const void *address) const {
  const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(address);
  return std::ranges::any_of(temporaries, [&](const DeviceBuffer &buffer) {
    return at >= buffer.address() &&
           at - buffer.address() < CUdeviceptr(buffer.size());
  });
}

Status Uploader::copy(CUdeviceptr to, const UploadPiece &piece) {
  if (piece.bytes > 0 && isTemporary(piece.from))
    return OCTET_CUDA(driver, subject, cuMemcpyDtoDAsync, to,
                      reinterpret_cast<CUdeviceptr>(piece.from),
                      size_t(piece.bytes), stream.handle());
  for (int64_t done = 0; done < piece.bytes;) {
    if (used == bufferBytes)
      OCTET_TRY(send());
    const int64_t count = std::min(piece.bytes - done, bufferBytes - used);
    put(piece.from ? static_cast<const std::byte *>(piece.from) + done
                   : nullptr,
        slots[current].buffer.data() + used, count);
    // Neighbours travel together.
    if (!transfers.empty() &&
        transfers.back().to + CUdeviceptr(transfers.back().bytes) ==
            to + CUdeviceptr(done) &&
        transfers.back().from + transfers.back().bytes == used)
      transfers.back().bytes += count;
    else
      transfers.push_back({to + CUdeviceptr(done), used, count});
    used += count;
    done += count;
  }
  return Status::success();
}

Status Uploader::copy(CUdeviceptr to, std::span<const UploadPiece> pieces) {
  for (const UploadPiece &piece : pieces) {
    OCTET_TRY(copy(to, piece));
    to += CUdeviceptr(piece.bytes);
    if (!isTemporary(piece.from))
      total.bytes += piece.bytes;
  }
  return Status::success();
}

Status Uploader::begin() {
  driver.makeCurrent();
  if (stream.handle())
    return Status::success();
  start = Clock::now();
  OCTET_TRY(stream.create(driver, subject));
  for (Slot &slot : slots) {
    OCTET_TRY(slot.buffer.allocate(driver, bufferBytes, subject));
    OCTET_TRY(slot.free.create(driver, /*timing=*/false, subject));
  }
  return Status::success();
}

Result<CUdeviceptr> Uploader::stage(std::span<const UploadPiece> pieces,
                                    const std::string &module) {
  if (pieces.empty())
    return CUdeviceptr(0);
  OCTET_TRY(begin());
  OCTET_TRY_ASSIGN(CUdeviceptr to, takeTemporary(bytesOf(pieces), module));
  OCTET_TRY(copy(to, pieces));
  return to;
}

Status Uploader::upload(const octet_tensor_desc &desc, const UploadPlan &plan,
                        octet_weight &out) {
  OCTET_TRY(begin());
  octet_part part{nullptr, nullptr, plan.rows, -1, -1};
  OCTET_TRY_ASSIGN(CUdeviceptr data, place(bytesOf(plan.data), desc.module));
  OCTET_TRY(copy(data, plan.data));
  part.data = reinterpret_cast<const void *>(data);
  if (!plan.scales.empty()) {
    OCTET_TRY_ASSIGN(CUdeviceptr scales,
                     place(bytesOf(plan.scales), desc.module));
    OCTET_TRY(copy(scales, plan.scales));
    part.scale = reinterpret_cast<const void *>(scales);
  }
  out = octet_weight{1, {part}};
  return Status::success();
}

Result<std::vector<DeviceBuffer>> Uploader::finish() {
  driver.makeCurrent();
  if (stream.handle()) {
    OCTET_TRY(send());
    const auto begun = Clock::now();
    OCTET_TRY(
        OCTET_CUDA(driver, subject, cuStreamSynchronize, stream.handle()));
    total.waiting += secondsSince(begun);
    total.seconds = secondsSince(start);
  }
  files = nullptr;
  temporaries.clear();
  temporary = {};
  for (Slot &slot : slots)
    slot.buffer = PinnedBuffer();
  return std::move(chunks);
}
