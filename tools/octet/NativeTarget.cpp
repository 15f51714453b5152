//===- NativeTarget.cpp - --target native ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "runtime/cuda/Targets.h"
#include <cstdio>
#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringExtras.h>

void octet::resolveNative(std::string &target) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(target).split(names, ',');
  auto place = llvm::find(names, "native");
  if (place == names.end())
    return;
  // Opened only here: most commands do without a driver.
  const std::optional<rt::cu::ProbedDevice> device = rt::cu::probeDevice();
  const rt::cu::NativeTarget native = rt::cu::nativeTarget(device);
  if (device)
    std::fprintf(stderr, "note: --target native is %s: %s\n",
                 native.target.c_str(), native.why.c_str());
  // One that is named as well is meant once.
  if (llvm::is_contained(names, native.target))
    names.erase(place);
  else
    *place = native.target;
  target = llvm::join(names, ",");
}
