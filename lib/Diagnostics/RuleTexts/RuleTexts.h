//===- RuleTexts.h - The tables of rules, one a section ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_DIAGNOSTICS_RULETEXTS_RULETEXTS_H
#define OCTET_LIB_DIAGNOSTICS_RULETEXTS_RULETEXTS_H

#include "octet/Diagnostics/Rules.h"

namespace octet {

std::span<const Rule> getNumberRules();   ///< N
std::span<const Rule> getConfigRules();   ///< C
std::span<const Rule> getWeightRules();   ///< W
std::span<const Rule> getKernelRules();   ///< B
std::span<const Rule> getBoundaryRules(); ///< P

} // namespace octet

#endif // OCTET_LIB_DIAGNOSTICS_RULETEXTS_RULETEXTS_H
