//===- Format.h - Figures of a ledger as text -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_LEDGER_FORMAT_H
#define OCTET_LIB_LEDGER_FORMAT_H

#include "octet/Ledger/Ledger.h"

namespace octet {

/// `8x4096`; empty for a scalar.
std::string formatShape(const std::vector<int64_t> &shape);

/// `F8_E4M3[6144]`, without scales.
std::string formatCodes(const LedgerPart &part);
/// `F32[48]`, `UE8M0[48]`, `F32 static`.
std::string formatScales(const LedgerScales &scales);
/// Both, joined by ` + `.
std::string formatPart(const LedgerPart &part);
/// Parts joined by ` + `.
std::string formatParts(const std::vector<LedgerPart> &parts);

/// Three digits: `6.25 %`, `0.391 %`, `2.18e-04 %`.
std::string formatPercent(double part);
/// `6.25 %, rms 2.55 %`.
std::string formatError(const LedgerError &error);
/// What formatError leaves out: below what, and of what. May be empty.
std::string formatErrorDetail(const LedgerError &error);

/// `layer 3`, `layers 0 to 2 and 5`; the number behind it where it is long.
std::string formatLayers(const LedgerSection &section);

/// Rules separated by spaces.
std::string joinRules(const std::vector<std::string> &rules);

/// `14.2 GB`, of 1000s; exact below 10000 bytes.
std::string formatBytes(int64_t bytes);

/// `{l}.` and what is before it left out.
std::string shortenModule(const std::string &path);

/// `weight`, or the last word of a slot that is more than its module's weight:
/// `bias`, `gate_up_proj`.
std::string nameWeight(const std::string &module, const LedgerPart &part);

/// Bytes of all parts, scales included.
int64_t sumBytes(const std::vector<LedgerPart> &parts);

} // namespace octet

#endif // OCTET_LIB_LEDGER_FORMAT_H
