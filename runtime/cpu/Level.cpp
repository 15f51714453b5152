//===- Level.cpp - The SIMD level of this machine
//-----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CPUID says what the processor has, XCR0 which registers the operating system
// saves. Both are needed.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/Level.h"

#include <cpuid.h>
#include <cstdint>
#include <initializer_list>
#include <sys/syscall.h>
#include <unistd.h>

namespace octet::rt {
namespace {

struct CpuidLeaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidLeaf r;
  if (!__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx))
    return {};
  return r;
}

bool has(uint32_t word, std::initializer_list<int> bits) {
  for (int bit : bits)
    if (!(word >> bit & 1))
      return false;
  return true;
}

uint32_t enabledStates() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

/// AMX-BF16 and AMX-TILE, tile configuration and data saved, and the kernel's
/// leave to use them.
bool mayUseTiles(uint32_t features, uint32_t states) {
  constexpr int kTileData = 18;
  constexpr long kRequestPermission = 0x1023; // ARCH_REQ_XCOMP_PERM
  return has(features, {22, 24}) && (states >> 17 & 3) == 3 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

} // namespace

int detectLevel() {
  const CpuidLeaf basic = cpuid(1, 0);
  const CpuidLeaf extended = cpuid(7, 0);
  const CpuidLeaf more = cpuid(7, 1);
  const CpuidLeaf amd = cpuid(0x80000001u, 0);

  // FMA, SSE4.2, MOVBE, POPCNT, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT.
  if (!has(basic.ecx, {12, 20, 22, 23, 27, 28, 29}) ||
      !has(extended.ebx, {3, 5, 8}) || !has(amd.ecx, {5}))
    return -1;
  const uint32_t states = enabledStates();
  if ((states & 0x6) != 0x6) // XMM, YMM
    return -1;
  // AVX512 F, DQ, CD, BW, VL; opmask, upper halves, upper registers.
  if (!has(extended.ebx, {16, 17, 28, 30, 31}) || (states & 0xE6) != 0xE6)
    return OCTET_LEVEL_V3;
  // AVX512-VBMI, AVX512-BF16.
  if (!has(extended.ecx, {1}) || !has(more.eax, {5}))
    return OCTET_LEVEL_AVX512;
  return mayUseTiles(extended.edx, states) ? OCTET_LEVEL_AMX : OCTET_LEVEL_BF16;
}

std::string_view levelName(int level) {
  switch (level) {
  case OCTET_LEVEL_V3:
    return "v3";
  case OCTET_LEVEL_AVX512:
    return "avx512";
  case OCTET_LEVEL_BF16:
    return "bf16";
  case OCTET_LEVEL_AMX:
    return "amx";
  default:
    return "none";
  }
}

std::optional<int> parseLevel(std::string_view name) {
  for (int level = 0; level < OCTET_NUM_LEVELS; ++level)
    if (name == levelName(level))
      return level;
  return std::nullopt;
}

} // namespace octet::rt
