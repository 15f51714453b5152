//===- InputMaxima.h - The largest traced values ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CALIBRATE_INPUTMAXIMA_H
#define OCTET_LIB_CALIBRATE_INPUTMAXIMA_H

#include "octet/Quantize/Quantize.h"
#include "runtime/core/Context.h"

namespace octet {

/// The largest absolute value of `count` elements of `type` (octet_dtype: F32,
/// BF16 or F16); NaN if one of them is NaN.
float findLargest(const void *data, int32_t type, int64_t count);

/// Keeps the largest absolute value of each trace of octet-trace-inputs, under
/// the module's path with the layer's number in it.
class InputMaximaSink : public rt::TraceSink {
public:
  void trace(const char *name, int64_t index, int32_t type, int64_t rows,
             int64_t cols, const void *data) override;
  InputMaxima take() { return std::move(maxima); }

private:
  InputMaxima maxima;
};

} // namespace octet

#endif // OCTET_LIB_CALIBRATE_INPUTMAXIMA_H
