//===- HtmlStyle.h - The look of a ledger's page ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_LEDGER_HTMLSTYLE_H
#define OCTET_LIB_LEDGER_HTMLSTYLE_H

namespace octet {

/// The style sheet: light and dark, narrow screens, print. Refers to nothing
/// outside of the page.
extern const char *const kLedgerStyle;

} // namespace octet

#endif // OCTET_LIB_LEDGER_HTMLSTYLE_H
