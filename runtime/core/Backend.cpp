//===- Backend.cpp - Where a program runs: the processor ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Backend.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Services.h"

using namespace octet;
using namespace octet::rt;

namespace {
class CpuProgramBackend : public Backend {
public:
  explicit CpuProgramBackend(const Program &program) : program(program) {}
  Memory &memory() override { return hostMemory(); }
  const octet_runtime *services(bool profiled) const override {
    return profiled ? profiledServices() : cpuServices();
  }
  int32_t step(Context &ctx, const octet_batch &batch) override {
    return program.abi->step(&ctx, &batch);
  }

private:
  const Program &program;
};
} // namespace

std::unique_ptr<Backend> rt::makeCpuBackend(const Program &program) {
  return std::make_unique<CpuProgramBackend>(program);
}
