//===- Upload.h - Weights on their way to the device ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights are copied by all threads into one of two pinned buffers while the
// other one is on its way: neither the file, nor the processor's memory, nor
// the link waits for the others.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_UPLOAD_H
#define OCTET_RUNTIME_CUDA_UPLOAD_H

#include "runtime/core/Context.h"
#include "runtime/cuda/Device.h"
#include <span>
#include <vector>

namespace octet::rt::cu {

/// Where the shards of a weight and their scales come from, in bytes.
struct UploadPiece {
  const void *from; ///< null: zeros
  int64_t bytes;
};
struct UploadPlan {
  std::vector<UploadPiece> data, scales; ///< a piece a shard, contiguous
  int64_t rows = 0;
};
/// \param tensorElements  of a shard that is a vector: how many elements row
/// `tensor` of the table has, or -1.
/// \returns an internal error for a weight that no CUDA program has.
Result<UploadPlan> planUpload(const octet_tensor_desc &desc,
                              const octet_weight &in,
                              std::span<const int64_t> shardElements);

class Uploader {
public:
  static constexpr int64_t kDefaultBuffer = int64_t(64) << 20;

  /// \param subject  the program's file.
  Uploader(const Driver &driver, ThreadPool &pool, std::string subject,
           int64_t bufferBytes = kDefaultBuffer)
      : driver(driver), pool(pool), subject(std::move(subject)),
        bufferBytes(bufferBytes) {}

  /// Takes memory of the device for a weight and puts its copy on the way.
  /// `in` may go when this returns.
  /// \param out  [out] one part of device addresses.
  Status upload(const octet_tensor_desc &desc, const UploadPlan &plan,
                octet_weight &out);
  /// Waits until all of it has arrived.
  /// \returns the device's memory that holds the weights.
  Result<std::vector<DeviceBuffer>> finish();
  int64_t totalBytes() const { return uploaded; }

private:
  struct Slot {
    PinnedBuffer buffer;
    Event free; ///< when its bytes are on the device
    bool isOnItsWay = false;
  };
  Result<CUdeviceptr> place(int64_t bytes, const std::string &module);
  Status copy(CUdeviceptr to, std::span<const UploadPiece> pieces);
  Status copy(CUdeviceptr to, const UploadPiece &piece);
  /// Sends what the current buffer holds, and takes the other one.
  Status send();

  const Driver &driver;
  ThreadPool &pool;
  std::string subject;
  int64_t bufferBytes;
  Stream stream;
  Slot slots[2];
  int current = 0;
  int64_t used = 0; ///< bytes of the current buffer
  struct Transfer {
    CUdeviceptr to;
    int64_t from, bytes; ///< in the current buffer
  };
  std::vector<Transfer> transfers; ///< of the current buffer
  std::vector<DeviceBuffer> chunks;
  int64_t chunkUsed = 0; ///< of the last one
  int64_t uploaded = 0;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_UPLOAD_H
