//===- ProfileProbe.h - What the machine could do ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two ceilings that a model is measured against, taken with the threads of
// the model itself: bytes that can be read from memory, and multiply-adds that
// fit into registers.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_PROFILEPROBE_H
#define OCTET_RUNTIME_CORE_PROFILEPROBE_H

#include "octet/Support/Status.h"
#include "runtime/cpu/ThreadPool.h"
#include <cstddef>
#include <cstdint>

namespace octet::rt {

/// A buffer that no cache holds.
class ReadProbe {
public:
  /// \param bytes  at least; 0: the larger of 1 GiB and four times the
  ///               last-level cache, or a quarter of the memory if that is
  ///               less.
  /// \returns a machine error if there is no such memory.
  static Result<ReadProbe> create(ThreadPool &pool, int64_t bytes);
  ReadProbe(ReadProbe &&) noexcept;
  ReadProbe &operator=(ReadProbe &&) noexcept;
  ~ReadProbe();

  /// Reads all of it once on the pool's threads.
  /// \returns bytes per second, of the fastest of `passes`.
  double measure(ThreadPool &pool, int passes) const;
  /// Reads the next `bytes` of it, rounded to whole pieces, from where the last
  /// call ended and around.
  /// \returns bytes per second.
  double measureNext(ThreadPool &pool, int64_t bytes);
  int64_t bytes() const { return int64_t(size); }

private:
  ReadProbe() = default;
  void read(ThreadPool &pool, int64_t first, int64_t pieces) const;
  std::byte *base = nullptr;
  size_t size = 0;
  int64_t next = 0; ///< piece of measureNext
};

/// The instruction that a SIMD level multiplies with.
enum class DotKind { Float32Fma, BFloat16Dot, BFloat16Tile };

/// "f32 fma", "bf16 dot" or "bf16 tile".
const char *dotKindName(DotKind kind);

/// The one that the products of an octet_level use on BF16 operands, or on F32
/// ones.
DotKind dotKindOf(int level, bool isBFloat16);

/// Floating-point operations per second on operands in registers (a
/// multiply-add is two), of all threads of the pool, of the fastest of some
/// short runs.
double measureDotPeak(ThreadPool &pool, int level, DotKind kind);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_PROFILEPROBE_H
