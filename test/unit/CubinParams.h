//===- CubinParams.h - The parameters of a cubin's kernels ---- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For fake_cuda.cpp: kernels that it cannot run are known by their names and
// the sizes of their parameters, from the sections `.nv.info.NAME` of the ELF
// file. These hold entries of { u8 format; u8 attribute; u16 size; } and, for
// format 4, `size` bytes; attribute 0x17 is a parameter: { u32; u16 ordinal;
// u16 offset; u32 with its size in bits 18 to 31; }.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_CUBINPARAMS_H
#define OCTET_TEST_UNIT_CUBINPARAMS_H

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <map>
#include <string>
#include <vector>

namespace octet::test {

/// Sizes of the parameters of each kernel, in order; nothing for what is no
/// cubin.
inline std::map<std::string, std::vector<size_t>> readCubin(const void *image) {
  std::map<std::string, std::vector<size_t>> kernels;
  const auto *bytes = static_cast<const char *>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0)
    return kernels;
  auto read = [](const void *from, auto &to) {
    std::memcpy(&to, from, sizeof(to));
  };
  Elf64_Ehdr header;
  read(bytes, header);
  auto section = [&](size_t i) {
    Elf64_Shdr s;
    read(bytes + header.e_shoff + i * sizeof(s), s);
    return s;
  };
  const char *names = bytes + section(header.e_shstrndx).sh_offset;
  const std::string prefix = ".nv.info.";
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    const std::string name = names + s.sh_name;
    if (name.rfind(prefix, 0) != 0)
      continue;
    std::map<uint16_t, size_t> sizes; // by ordinal
    for (size_t at = 0; at + 4 <= s.sh_size;) {
      const char *entry = bytes + s.sh_offset + at;
      uint16_t size;
      read(entry + 2, size);
      if (entry[0] == 4 && uint8_t(entry[1]) == 0x17) {
        uint16_t ordinal;
        uint32_t flags;
        read(entry + 8, ordinal);
        read(entry + 12, flags);
        sizes[ordinal] = flags >> 18;
      }
      at += 4 + (entry[0] == 4 ? size : 0);
    }
    std::vector<size_t> &list = kernels[name.substr(prefix.size())];
    for (auto [ordinal, size] : sizes)
      list.push_back(size);
  }
  return kernels;
}

} // namespace octet::test

#endif // OCTET_TEST_UNIT_CUBINPARAMS_H
