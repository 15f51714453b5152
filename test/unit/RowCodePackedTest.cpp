//===- RowCodePackedTest.cpp - Row code that reads packed tables ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostProgram.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace octet;
using namespace octet::test;

// Rows of a table as a GGUF file packs it, whole and from an element inside of
// a half block: the bits of lib/Checkpoint, at every level (P1).
TEST(RowCode, PackedTablesAreWidened) {
  struct Case {
    Packing packing;
    const char *type;
    int64_t width, offset, count;
  };
  constexpr int64_t kRows = 7;
  const Case cases[] = {
      {Packing::Q8_0, "i8, group<32>, f16", 96, 0, 96},
      {Packing::Q4_0, "i4, group<32>, f16", 96, 0, 96},
      {Packing::Q4_1, "i4, group<32>, f16, minimums", 32, 0, 32},
      {Packing::Q8_0, "i8, group<32>, f16", 96, 5, 43},
      {Packing::Q4_0, "i4, group<32>, f16", 96, 13, 37},
      {Packing::Q4_1, "i4, group<32>, f16, minimums", 128, 17, 111},
  };
  std::mt19937 random(20261130);
  for (const Case &c : cases) {
    const std::string type = "!q.tensor<7x" + std::to_string(c.width) + "x" +
                             c.type + ", layout = gguf>";
    HostProgram program(makeModule(fill(R"(
    %y = kernel.place 0 : !kernel.buffer<tensor<?x$Nxf32>>
    %t = q.weight @t : $T
    %p = model.field positions of %b : tensor<?xi32>
    kernel.rowwise "packed" tokens of %b ins(%t : $T) access [indexed]
        indices(%p : tensor<?xi32>) outs(%y : !kernel.buffer<tensor<?x$Nxf32>>) {
    ^bb0(%r: tensor<$Kxf32>):
      %s = kernel.slice %r at $O : tensor<$Kxf32> -> tensor<$Nxf32>
      kernel.yield %s : tensor<$Nxf32>
    })",
                                        std::map<std::string, std::string>{
                                            {"K", std::to_string(c.width)},
                                            {"N", std::to_string(c.count)},
                                            {"O", std::to_string(c.offset)},
                                            {"T", type}}),
                                   kRows * c.count * 4 + 64,
                                   "  q.slot @t[1] : " + type),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();

    const int64_t blockBytes = packedBlockBytes(c.packing);
    std::vector<std::byte> table(size_t(kRows * c.width / 32 * blockBytes));
    for (std::byte &byte : table)
      byte = std::byte(random());
    for (size_t at = 0; at < table.size(); at += size_t(blockBytes))
      for (int field = 0; field < 2; ++field) { // of Q8_0, Q4_0 two codes
        const uint16_t bits =
            encodeF16(float(int(random() % 2001) - 1000) / 4096);
        std::memcpy(&table[at + 2 * size_t(field)], &bits, 2);
      }
    std::vector<float> values(size_t(kRows * c.width));
    unpackBlocks(c.packing, table, values);
    const std::vector<int32_t> index = {3, 0, 6, 3, 5};
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.setWeight(0, table.data());
      octet_batch batch{};
      batch.num_rows = int64_t(index.size());
      batch.positions = index.data();
      ASSERT_EQ(run.step(batch), 0);
      for (size_t row = 0; row < index.size(); ++row)
        for (int64_t i = 0; i < c.count; ++i)
          ASSERT_EQ(std::bit_cast<uint32_t>(
                        run.at<float>(0)[int64_t(row) * c.count + i]),
                    std::bit_cast<uint32_t>(
                        values[size_t(index[row] * c.width + c.offset + i)]))
              << packingName(c.packing) << " element " << c.offset + i
              << " of row " << index[row] << " level " << level;
    }
  }
}
