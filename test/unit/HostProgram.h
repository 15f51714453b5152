//===- HostProgram.h - Programs compiled and run in a test ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles IR to a shared object, maps it and runs its step with a runtime of
// the test's own, at any SIMD level and with any chunks of rows.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_HOSTPROGRAM_H
#define OCTET_TEST_UNIT_HOSTPROGRAM_H

#include "runtime/abi.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace octet::test {

/// `text` with each `$NAME` replaced.
std::string fill(std::string text,
                 const std::map<std::string, std::string> &values);
inline std::string fill(std::string text,
                        const std::map<std::string, int64_t> &values) {
  std::map<std::string, std::string> texts;
  for (auto &[name, value] : values)
    texts[name] = std::to_string(value);
  return fill(std::move(text), texts);
}

/// A module of settings, an empty @load and a @step with that body.
std::string makeModule(const std::string &step, int64_t arenaBytes,
                       const std::string &slots = "");

/// Levels of this machine: at least OCTET_LEVEL_V3, or none.
std::vector<int> levels();

class HostProgram {
public:
  /// Runs `pipeline` ("octet-lower-to-host,…") on the module and compiles it.
  /// An empty `program()` and a gtest failure if that goes wrong.
  HostProgram(const std::string &ir, const std::string &pipeline);
  ~HostProgram();
  HostProgram(const HostProgram &) = delete;
  HostProgram &operator=(const HostProgram &) = delete;

  const octet_program_t *program() const { return entry; }
  /// What the passes and the compiler said.
  const std::string &messages() const { return text; }

private:
  void compile(const std::string &ir, const std::string &pipeline);

  int fd = -1;
  void *handle = nullptr;
  const octet_program_t *entry = nullptr;
  std::string text;
};

/// A context whose products and attention are simple functions of all bits
/// they read, so that a difference anywhere reaches the output.
struct HostRun : octet_ctx {
  HostRun(const octet_program_t *program, int level);

  /// Chunks of at most this many rows, the last first; 0: all at once.
  int64_t chunk = 0;
  std::vector<uint8_t> memory;
  std::vector<octet_weight> slots;
  std::vector<octet_kv_layer> layers;
  /// What `trace` saw, in order.
  std::vector<std::vector<uint8_t>> traces;

  void setWeight(int64_t slot, const void *data, const void *scale = nullptr,
                 int64_t rows = 1);
  template <typename T>
  T *at(int64_t offset) {
    return reinterpret_cast<T *>(arena + offset);
  }
  int32_t step(const octet_batch &batch) { return entry->step(this, &batch); }

private:
  const octet_program_t *entry;
};

} // namespace octet::test

#endif // OCTET_TEST_UNIT_HOSTPROGRAM_H
