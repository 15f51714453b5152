//===- TextStreamTest.cpp - Stop strings in a stream ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/TextStream.h"
#include <gtest/gtest.h>
#include <random>

using namespace octet::rt;

TEST(StopFilter, HoldsBackWhatMayBeAStop) {
  StopFilter filter({"END", "\n\n"});
  std::string out;
  EXPECT_FALSE(filter.push("one\n", out));
  EXPECT_EQ(out, "one");
  EXPECT_FALSE(filter.push("two E", out));
  EXPECT_EQ(out, "one\ntwo ");
  EXPECT_FALSE(filter.push("NE", out));
  EXPECT_EQ(out, "one\ntwo EN");
  EXPECT_TRUE(filter.push("ND and more", out));
  EXPECT_EQ(out, "one\ntwo EN");
  EXPECT_TRUE(filter.push("END", out));
  filter.finish(out);
  EXPECT_EQ(out, "one\ntwo EN");
}

TEST(StopFilter, FinishGivesTheRest) {
  StopFilter filter({"END"});
  std::string out;
  EXPECT_FALSE(filter.push("the EN", out));
  EXPECT_EQ(out, "the ");
  filter.finish(out);
  EXPECT_EQ(out, "the EN");
}

/// Character by character, what comes out is the text before the
/// stop that is complete first.
TEST(StopFilter, EndsBeforeTheFirstStop) {
  std::mt19937 random(1);
  const std::vector<std::string> stops{"aba", "bb", "cab"};
  for (int round = 0; round < 2000; ++round) {
    std::string text, out;
    while (text.size() < 30)
      text += char('a' + random() % 3);
    size_t expected = text.size();
    for (size_t end = 1; end <= text.size() && expected == text.size(); ++end)
      for (const std::string &stop : stops)
        if (std::string_view(text).substr(0, end).ends_with(stop))
          expected = std::min(expected, end - stop.size());
    StopFilter filter(stops);
    bool stopped = false;
    for (size_t at = 0; at < text.size() && !stopped;) {
      // One at a time: two stops in one piece end at the leftmost.
      stopped = filter.push(text.substr(at, 1), out);
      ++at;
    }
    if (!stopped)
      filter.finish(out);
    EXPECT_EQ(out, text.substr(0, expected)) << text;
  }
}
