//===- RandomWeights.h - A shape without a checkpoint -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `--weights random`: memory for each tensor of the program's table, filled
// with values that a trained model could have. For measuring a shape and for
// tests; what the model says is noise.
//
// An element is a function of the tensor's place in the table and of the
// element's index alone (a hash picks one of 4096 values), so neither threads
// nor order matter: two runs have the same weights.
//
//   matrix [N, K]      N(0, 1 / K): a product keeps the size of its input
//   norm weight        1
//   bias, other vector N(0, 0.02^2)
//   FP8 matrix         codes of N(0, 32^2): at most 118, no NaN
//   its scales         1 / (32 sqrt(K)), a factor of up to two apart
//   other scales       0.02: activations and keys of up to 9 (static)
//   packed integers    any bits; 64-bit ones and booleans 0
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_RANDOMWEIGHTS_H
#define OCTET_RUNTIME_CORE_RANDOMWEIGHTS_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include "runtime/core/Program.h"
#include "runtime/cpu/ThreadPool.h"
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace octet::rt {

/// What `--weights` takes in place of a folder. (`./random` is a folder.)
inline constexpr std::string_view kRandomWeights = "random";

class RandomWeights {
public:
  RandomWeights(RandomWeights &&) noexcept;
  RandomWeights &operator=(RandomWeights &&) noexcept;
  ~RandomWeights();

  /// Draws all tensors of a program.
  /// \param subject  of errors, and the file of TensorTable::files.
  /// \returns a machine error with both numbers if they do not fit into the
  /// memory; an input error if two of one name differ;
  /// those that are alike are drawn once (a tied embedding, W15).
  static Result<RandomWeights> draw(std::span<const ProgramTensor> tensors,
                                    ThreadPool &pool,
                                    const std::string &subject);

  /// The tensors as a table; their offsets are into one file that is nowhere.
  const TensorTable &table() const { return tensors; }
  std::span<const std::byte> bytes(const TensorInfo &tensor) const {
    return {base + tensor.offset, size_t(tensor.bytes)};
  }
  /// Gives the memory back: bytes() may not be called any more.
  void drop();
  /// What drawing took, to leave it out of a start's time.
  double seconds() const { return elapsed; }

private:
  RandomWeights() = default;
  TensorTable tensors;
  std::byte *base = nullptr;
  size_t size = 0;
  double elapsed = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_RANDOMWEIGHTS_H
