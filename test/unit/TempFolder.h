//===- TempFolder.h - A folder for one test ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_TEMPFOLDER_H
#define OCTET_TEST_UNIT_TEMPFOLDER_H

#include <filesystem>
#include <stdlib.h>
#include <string>

namespace octet::test {

/// A new empty folder where the system keeps temporary files, or an empty
/// string. The test removes it.
inline std::string makeTempFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "octet-XXXXXX").string();
  return mkdtemp(name.data()) ? name : std::string();
}

} // namespace octet::test

#endif // OCTET_TEST_UNIT_TEMPFOLDER_H
