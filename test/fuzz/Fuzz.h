//===- Fuzz.h - What the fuzz targets share ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A target reads a hostile input as the library does and states what holds of
// the result; sanitizers and asserts state the rest. Inputs of several parts
// have zero bytes between them, which no JSON and no template holds.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_FUZZ_FUZZ_H
#define OCTET_TEST_FUZZ_FUZZ_H

#include "octet/Check/Check.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace octet::fuzz {

/// Ends the process unless a property holds; libFuzzer then keeps the input.
/// \param detail  printed with it.
void require(bool holds, const char *property, std::string_view detail = "");

/// An error for a terminal: exit status 1, subject and message not empty, its
/// lines without control characters and in UTF-8.
void requireGoodError(const Status &status);
/// The same for the text of a warning, which is one line.
void requireGoodText(std::string_view text);

inline std::string_view toText(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}
/// Removes and returns what is before the first zero byte, or all.
std::string_view takePart(std::string_view &text);

/// A folder of this process for input files, empty; removed at its end.
const std::string &inputFolder();
/// Writes a file there and returns its path.
std::string writeInput(const std::string &name, std::string_view bytes);

/// What every table promises: names sorted, unique and in UTF-8; bytes that lie
/// in their file, do not overlap and are as many as type and shape say.
void requireGoodTable(const TensorTable &table);
/// Reads each tensor: as elements, which are the file's bytes, and as floats.
/// Tensors over 1 MiB are passed over.
void readTensors(const TensorTable &table);

/// What `octet check` is asked: on so many ranks (TP), memory too.
CheckOptions checkOptions(const char *target, int64_t ranks);
/// Runs `octet check`: its messages are fit for a terminal, its JSON is JSON.
void check(const std::string &path, const CheckOptions &options);

/// libFuzzer's mutator for inputs that begin with JSON: three times of four a
/// value of the tree is changed, else any byte.
size_t mutateJson(uint8_t *data, size_t size, size_t maxSize, unsigned seed);

/// The custom mutator of a target whose input begins with JSON.
#define OCTET_FUZZ_MUTATES_JSON                                                \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,        \
                                            size_t maxSize, unsigned seed) {   \
    return octet::fuzz::mutateJson(data, size, maxSize, seed);                 \
  }

} // namespace octet::fuzz

#endif // OCTET_TEST_FUZZ_FUZZ_H
