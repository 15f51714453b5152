//===- ActivationDtype.h - Which dtype activations have ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_MODULES_ACTIVATIONDTYPE_H
#define OCTET_LIB_MODULES_ACTIVATIONDTYPE_H

#include "lib/Import/ConfigReader.h"
#include "octet/QuantMethods/Target.h"

namespace octet {

/// `bf16`, `f16` or `f32`: the user's, else `dtype` or `torch_dtype` of the
/// config, also in text_config, else what the norm weights have. float32
/// becomes bf16 unless the user asks for f32 (DESIGN, "Defaults").
/// \param option     `--dtype`, or empty.
/// \param normIsF16  `model.norm.weight` is stored in F16.
/// \param note       [out] what was settled, or left alone.
/// \returns an input error for a dtype that does not run on the target (C9).
Result<std::string> chooseActivationDtype(ConfigReader &config,
                                          const std::string &option,
                                          const Target &target, bool normIsF16,
                                          std::string &note);

} // namespace octet

#endif // OCTET_LIB_MODULES_ACTIVATIONDTYPE_H
