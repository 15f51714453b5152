//===- Program.h - A compiled program in memory -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Maps the `program` section as a shared object and reads its info
// (runtime/README.md lists the keys).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_PROGRAM_H
#define OCTET_RUNTIME_CORE_PROGRAM_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include "runtime/abi.h"
#include "runtime/core/Payload.h"
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

/// One row of the program's tensor table.
struct ProgramTensor {
  std::string name;
  StoredType type; ///< of the elements, F32 of packed ones
  std::vector<int64_t> shape;
  /// As it has to be packed; None: plain, or unpacked while loading.
  Packing packing = Packing::None;
  /// "Q4_0 [576, 576]".
  std::string describe() const;
};

/// Rows of the KV cache, of every layer.
struct KvInfo {
  int64_t layers = 0; ///< 0: the program keeps no cache
  int64_t kvHeads = 0;
  int64_t headDim = 0;
  int32_t type = OCTET_F32; ///< octet_dtype
};

/// `octet_program.info`, checked.
struct ProgramInfo {
  nlohmann::json json; ///< all of it, for `info`
  std::string target, numerics, dtype, architecture;
  std::string checkpoint; ///< default of --weights
  std::string hash;       ///< TensorTable::hash of the compiled checkpoint
  std::vector<ProgramTensor> tensors;
  bool isModule = false;         ///< `kind`: compiled with --extract
  std::string modulePath;        ///< of a module
  int64_t moduleIn = 0;          ///< width of its input, in elements
  int64_t moduleOut = 0;         ///< width of its output, in elements
  int64_t vocab = 0;             ///< of a model
  std::vector<int64_t> bos, eos; ///< token ids
  KvInfo kv;
  int64_t maxContext = 0;    ///< tokens a sequence
  int64_t maxSeqs = 0;       ///< sequences a step
  int64_t maxStepTokens = 0; ///< tokens a step
  std::vector<std::string> traces;
  /// CUDA version of the oldest driver that will do, 1000 * major + 10 * minor.
  int driver = 0;

  /// Width of a row of `octet_batch.output`, in elements.
  int64_t outputWidth() const { return isModule ? moduleOut : vocab; }
};

/// Parses and checks info text. `subject` names the program in errors.
Result<ProgramInfo> parseProgramInfo(std::string_view text,
                                     const std::string &subject);

/// A program's shared object, loaded; unloaded with its last user.
class ProgramImage {
public:
  /// \returns an error that names `subject`: no place to map it from, or the
  /// system's loader refuses it.
  static Result<ProgramImage> load(std::span<const std::byte> image,
                                   const std::string &subject);
  ProgramImage(ProgramImage &&) noexcept;
  ProgramImage &operator=(ProgramImage &&) noexcept;
  ~ProgramImage();

  /// The address of an exported symbol, or null.
  const void *find(const char *symbol) const;

private:
  ProgramImage(void *handle, int fd) : handle(handle), fd(fd) {}
  void *handle;
  int fd; ///< of the anonymous memory it is mapped from, or -1
};

/// A program in memory. Const and without state: several models may run one.
struct Program {
  const octet_program_t *abi = nullptr;
  ProgramInfo info;
  std::string path; ///< the file it came from
  /// All targets of that file, of which `info.target` is the one that fits this
  /// machine.
  std::vector<std::string> targets;

  /// The targets in words: "sm_80, cpu".
  std::string heldTargets() const;

  /// Maps the `program` section of `payload` and checks what it exports. The
  /// payload is not needed afterwards.
  /// \returns an input error naming the file: not loadable, no
  /// `octet_program`, another ABI version, info that does not parse or lacks a
  /// key.
  static Result<std::shared_ptr<const Program>> load(const Payload &payload);

private:
  explicit Program(ProgramImage image) : image(std::move(image)) {}
  ProgramImage image;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_PROGRAM_H
