//===- Steps.h - Which step a rule belongs to, and what passed --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CHECK_STEPS_H
#define OCTET_LIB_CHECK_STEPS_H

#include "Units.h"

namespace octet {

/// The step, from 1 on, that an error's rule belongs to. An error without a
/// rule is one of config.json.
int getStep(const ErrorInfo &error);

/// Gives the steps their titles.
void nameSteps(CheckReport &report);

/// The state and summary of each step; the errors of the first that failed
/// become the report's.
void summarize(CheckContext &context);

} // namespace octet

#endif // OCTET_LIB_CHECK_STEPS_H
