//===- MissingHead.h - A head that is neither tied nor stored ---*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_MODULES_MISSINGHEAD_H
#define OCTET_LIB_MODULES_MISSINGHEAD_H

#include "octet/Support/Status.h"

namespace octet {

/// The error of a checkpoint without `lm_head` whose config ties nothing (W15).
inline ErrorInfo describeMissingHead() {
  ErrorInfo error;
  error.subject = "lm_head";
  error.message = "no tensor 'lm_head.weight', and config.json says that the "
                  "embedding is not tied; the tensor, or tie_word_embeddings "
                  "true";
  error.rule = "W15";
  return error;
}

} // namespace octet

#endif // OCTET_LIB_MODULES_MISSINGHEAD_H
