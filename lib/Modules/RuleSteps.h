//===- RuleSteps.h - Which step a rule belongs to ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_MODULES_RULESTEPS_H
#define OCTET_LIB_MODULES_RULESTEPS_H

#include <array>
#include <string_view>

namespace octet {

struct RuleStep {
  std::string_view rule;
  int step;
};

/// Rules that are no errors of step 2. Sorted by step.
inline constexpr std::array kRuleSteps = {
    RuleStep{"C1", 1},  RuleStep{"C2", 1},  RuleStep{"C3", 1},
    RuleStep{"C10", 1}, RuleStep{"C14", 1}, RuleStep{"C9", 3},
    RuleStep{"B6", 3},  RuleStep{"C7", 4},  RuleStep{"C8", 4},
    RuleStep{"C11", 4}, RuleStep{"C12", 4}, RuleStep{"C13", 4},
    RuleStep{"W13", 4}, RuleStep{"W14", 4}, RuleStep{"W15", 4},
    RuleStep{"P16", 4}, RuleStep{"W1", 5},  RuleStep{"W3", 5},
    RuleStep{"W3b", 5}, RuleStep{"W3c", 5}, RuleStep{"W4", 5},
    RuleStep{"W5", 5},  RuleStep{"W5b", 5}, RuleStep{"W2", 6},
    RuleStep{"W6", 6},  RuleStep{"P8", 6},  RuleStep{"N4", 6},
    RuleStep{"W7", 7},  RuleStep{"W8", 7},  RuleStep{"W9", 7},
    RuleStep{"W10", 7}, RuleStep{"W11", 7}, RuleStep{"W12", 7},
    RuleStep{"B1", 7},  RuleStep{"B2", 7},  RuleStep{"B3", 7},
    RuleStep{"B4", 7},  RuleStep{"B5", 7},  RuleStep{"B7", 7},
    RuleStep{"P7", 7},  RuleStep{"N7", 7},  RuleStep{"N8", 7},
};

/// The step of SPEC section 6 in which a rule is checked, from 1 on. What has
/// no rule is of config.json, step 2.
constexpr int getRuleStep(std::string_view rule) {
  for (const RuleStep &each : kRuleSteps)
    if (each.rule == rule)
      return each.step;
  return 2;
}

} // namespace octet

#endif // OCTET_LIB_MODULES_RULESTEPS_H
