//===- Upload.h - Weights on their way to the device ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All threads fill one of several pinned buffers while the others are on their
// way: neither the file, nor the processor's memory, nor the link waits for the
// others. What a file holds as the device wants it is read straight into the
// buffer, past the mapping, whose pages would cost a fault each.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_UPLOAD_H
#define OCTET_RUNTIME_CUDA_UPLOAD_H

#include "octet/Support/Clock.h"
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

/// How fast it was.
struct UploadTimes {
  int64_t bytes = 0;
  double seconds = 0; ///< from the first weight to the arrival of the last
  double filling = 0; ///< of them, reading files and copying into buffers
  double waiting = 0; ///< and waiting for a buffer: the link's
  double bytesPerSecond() const { return seconds > 0 ? bytes / seconds : 0; }
};

class Uploader {
public:
  /// Larger ones cost more to pin, once, than they gain.
  static constexpr int64_t kDefaultBuffer = int64_t(16) << 20;

  /// \param subject  the program's file.
  Uploader(const Driver &driver, ThreadPool &pool, std::string subject,
           int64_t bufferBytes = kDefaultBuffer)
      : driver(driver), pool(pool), subject(std::move(subject)),
        bufferBytes(bufferBytes) {}

  /// Bytes in a mapping of `mapped` are read from its files instead; until
  /// finish().
  void readFrom(const MappedCheckpoint *mapped) { files = mapped; }

  /// Takes memory of the device for a weight and puts its copy on the way.
  /// What is no mapping of a file may go when this returns; temporary memory of
  /// the device is copied there.
  /// \param out  [out] one part of device addresses.
  Status upload(const octet_tensor_desc &desc, const UploadPlan &plan,
                octet_weight &out);
  /// Memory of the device until forgetTemporaries(), at a 256-byte boundary.
  Result<CUdeviceptr> takeTemporary(int64_t bytes, const std::string &module);
  /// Puts pieces, one after the other, on the way to such memory; send() is
  /// what makes them arrive before what is put on the stream next. 0: no
  /// pieces.
  Result<CUdeviceptr> stage(std::span<const UploadPiece> pieces,
                            const std::string &module);
  /// Sends what the current buffer holds, and takes the next one.
  Status send();
  CUstream handle() const { return stream.handle(); }
  /// What is on the stream may still use it; what comes later finds it free.
  void forgetTemporaries() { temporary = {}; }

  /// Waits until all of it has arrived.
  /// \returns the device's memory that holds the weights.
  Result<std::vector<DeviceBuffer>> finish();
  const UploadTimes &times() const { return total; }

private:
  static constexpr int kSlots = 4;
  struct Slot {
    PinnedBuffer buffer;
    Event free; ///< when its bytes are on the device
    bool isOnItsWay = false;
  };
  Result<CUdeviceptr> place(int64_t bytes, const std::string &module);
  Status copy(CUdeviceptr to, std::span<const UploadPiece> pieces);
  Status copy(CUdeviceptr to, const UploadPiece &piece);
  /// Puts bytes at `out` of the current buffer, at once or when it is sent.
  void put(const void *from, std::byte *out, int64_t bytes);
  /// Reads from files what the current buffer still lacks.
  Status fill();
  /// Before the first copy.
  Status begin();
  bool isTemporary(const void *address) const;

  const Driver &driver;
  ThreadPool &pool;
  std::string subject;
  int64_t bufferBytes;
  Stream stream;
  const MappedCheckpoint *files = nullptr;
  Slot slots[kSlots];
  int current = 0;
  int64_t used = 0; ///< bytes of the current buffer
  struct Read {
    MappedCheckpoint::Place from;
    std::byte *to;
    int64_t bytes;
  };
  std::vector<Read> reads; ///< of the current buffer
  struct Transfer {
    CUdeviceptr to;
    int64_t from, bytes; ///< in the current buffer
  };
  std::vector<Transfer> transfers; ///< of the current buffer
  std::vector<DeviceBuffer> chunks;
  int64_t chunkUsed = 0; ///< of the last one
  std::vector<DeviceBuffer> temporaries;
  struct {
    size_t buffer = 0;
    int64_t used = 0;
  } temporary; ///< the next free place
  UploadTimes total;
  Clock::time_point start;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_UPLOAD_H
