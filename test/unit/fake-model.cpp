//===- fake-model.cpp - Makes executables of fake_program.c ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   fake-model checkpoint DIR                      writes the checkpoint
//   fake-model pack SHARED_OBJECT OUT [RUNNER [TOKENIZER [CHAT_TEMPLATE]]]
//                                                  a program, or an executable
//   fake-model several OUT RUNNER {TARGET SHARED_OBJECT}…
//                                                  an executable of several
//
// For the lit tests of the command line, which need no compiler this way.
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include <cstdio>
#include <string_view>

using namespace octet;
using namespace octet::test;

int main(int argc, char **argv) {
  Status status = usageError("fake-model", "see the comment in its source");
  std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "checkpoint" && argc == 3)
    status = writeFakeCheckpoint(argv[2], fakeTensors());
  else if (verb == "pack" && argc >= 4 && argc <= 7)
    status = packProgram(argv[2], argc >= 5 ? argv[4] : "", argv[3],
                         argc >= 6 ? argv[5] : "", argc == 7 ? argv[6] : "");
  else if (verb == "several" && argc >= 6 && argc % 2 == 0) {
    std::vector<std::pair<std::string, std::string>> programs;
    for (int i = 4; i < argc; i += 2)
      programs.emplace_back(argv[i], argv[i + 1]);
    status = packPrograms(programs, argv[3], argv[2]);
  }
  if (status.ok())
    return 0;
  std::fputs(status.info().format().c_str(), stderr);
  return status.info().exitCode();
}
