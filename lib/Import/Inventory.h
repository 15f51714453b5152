//===- Inventory.h - Every tensor of a checkpoint accounted for -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_INVENTORY_H
#define OCTET_LIB_IMPORT_INVENTORY_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/QuantMethods/QuantMethods.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace octet {

/// The tensors of a checkpoint, which of them the model uses, and what was
/// missing or of another shape than the config implies. Problems are collected
/// and reported together.
class Inventory {
public:
  explicit Inventory(const Checkpoint &checkpoint);

  /// Matrices stay as a GGUF file packs them, where kernels read that. Not
  /// where a method named by the user makes something else of them.
  void setKeepPacked(bool keep) { keepPacked = keep; }
  /// The tensor as the program will load it.
  StoredTensor describe(const TensorInfo &tensor) const;

  /// The tensors below a module: the rest of the name after `MODULE.`, which
  /// may have dots. Consumes nothing.
  std::vector<std::pair<std::string, const TensorInfo *>>
  getBelow(const std::string &module) const;
  bool hasModule(const std::string &module) const;
  const TensorInfo *find(const std::string &name) const {
    return checkpoint.tensors.find(name);
  }
  void consume(const TensorInfo &tensor);

  /// A tensor of that shape in BF16, F16 or F32, consumed; a problem is noted
  /// and nothing returned if it is missing or otherwise.
  /// \param why  "(intermediate_size x hidden_size)", for the message.
  std::optional<StoredTensor> requirePlain(const std::string &name,
                                           const std::vector<int64_t> &shape,
                                           std::string_view why);
  /// Notes a tensor that is missing.
  void addMissing(const std::string &name, const std::vector<int64_t> &shape,
                  std::string_view why);
  /// Notes a tensor of another shape or dtype.
  void addMismatch(const TensorInfo &tensor, std::string expected);

  /// Notes a module whose tensors are not those of another one, which they have
  /// to equal.
  void addDifference(const std::string &module, const std::string &other);

  /// Enough was found to stop looking.
  bool isHopeless() const { return problems.size() >= 1000; }
  /// Success, or one error for all problems: ten, then "and 43 more".
  Status takeProblems();
  /// The tensors that nothing consumed (W14).
  std::vector<const TensorInfo *> getUnconsumed() const;
  /// Base name of the file that holds a tensor.
  std::string getFile(const TensorInfo &tensor) const;

private:
  const Checkpoint &checkpoint;
  bool keepPacked = true;
  std::vector<bool> consumed; ///< by index in the table
  std::vector<ErrorInfo> problems;
};

} // namespace octet

#endif // OCTET_LIB_IMPORT_INVENTORY_H
