//===- CubinCache.h - Compiled kernels by content ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `$XDG_CACHE_HOME/octet/kernels/KEY.kernel`, one file a kernel and target. The
// key is the SHA-256 of all that decides what NVRTC makes: source, the
// templates it includes, options and version. A file is
//
//   "octet kernel 1\n"  SHA-256 of the rest (32 bytes)
//   five lengths (u64, little endian), then: entry, target, NVRTC's version,
//   cubin, PTX
//
// and enters by renaming a finished temporary, so any number of processes may
// share the folder. A damaged file is a miss and is written anew.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_CUBINCACHE_H
#define OCTET_CUDASOURCE_CUBINCACHE_H

#include "octet/CudaSource/Nvrtc.h"
#include <optional>

namespace octet::cuda {

/// `$XDG_CACHE_HOME/octet`, else `~/.cache/octet`; empty if there is neither.
std::string getCacheFolder();

/// The key of what NVRTC `version` makes of `source` for `target`.
std::string makeKey(std::string_view source, std::string_view target,
                    std::string_view version);

/// What a file says of itself.
struct CacheEntry {
  std::string key, entry, target, nvrtc;
  int64_t bytes = 0; ///< of the file
  bool damaged = false;
};

class CubinCache {
public:
  /// \param folder  where the files are; empty: nothing is kept.
  explicit CubinCache(std::string folder) : folder(std::move(folder)) {}
  /// The user's: `kernels` in getCacheFolder().
  static CubinCache ofUser();

  const std::string &path() const { return folder; }

  /// Nothing if there is none, or a damaged one.
  std::optional<CompiledKernel> find(const std::string &key) const;
  /// \returns a machine error if the folder cannot be written.
  Status add(const std::string &key, std::string_view entry,
             std::string_view target, std::string_view version,
             const CompiledKernel &kernel) const;

  /// By entry, then target. An absent folder is an empty one.
  Result<std::vector<CacheEntry>> list() const;
  /// Removes all entries; \returns how many.
  Result<int64_t> clear() const;
  /// What became of the entries of this one.
  struct Copied {
    int64_t copied = 0, present = 0;  ///< `present` in the other before
    std::vector<std::string> damaged; ///< files that were left out
  };
  /// Copies the good entries of this one that `to` lacks.
  Result<Copied> copyTo(const CubinCache &to) const;

private:
  std::string pathOf(const std::string &key) const;
  std::string folder;
};

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_CUBINCACHE_H
