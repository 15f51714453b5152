//===- CudaFixture.h - A CUDA program in a test --------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_CUDAFIXTURE_H
#define OCTET_TEST_UNIT_CUDAFIXTURE_H

#include "FakeModel.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Payload.h"
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>

namespace octet::test {

/// Loads PROGRAM.so of `objects` with the fake checkpoint in `folder`.
/// \param driver  of a CUDA program; empty: the system's.
/// \param nvrtc   as LoadOptions::nvrtc.
inline Result<std::unique_ptr<rt::Model>>
loadFake(const std::string &objects, const std::string &program,
         const std::string &folder, const std::string &driver,
         const std::string &nvrtc = "") {
  const std::string file = folder + "/program";
  OCTET_TRY(packProgram(objects + "/" + program + ".so", "", file));
  OCTET_TRY_ASSIGN(rt::Payload payload, rt::Payload::open(file));
  OCTET_TRY_ASSIGN(auto loaded, rt::Program::load(payload));
  rt::LoadOptions options{.threads = 2};
  options.driver = driver;
  options.nvrtc = nvrtc;
  return rt::Model::load(std::move(loaded), folder, options);
}

inline rt::Sequence prompt(int64_t length, int seed) {
  rt::Sequence s;
  for (int64_t i = 0; i < length; ++i)
    s.tokens.push_back(int32_t((i * i * 7 + i * 13 + seed * 29) % kFakeVocab));
  return s;
}

/// A token of each sequence, chosen by its place and the step.
inline std::vector<float> decode(rt::Engine &engine,
                                 std::span<rt::Sequence> sequences, int step) {
  std::vector<rt::Feed> feeds;
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].tokens.push_back(
        int32_t((size_t(step) * 17 + i * 5) % kFakeVocab));
    feeds.push_back({&sequences[i], 1, 1});
  }
  std::vector<float> logits(feeds.size() * size_t(kFakeVocab));
  Status done = engine.step(feeds, logits);
  EXPECT_TRUE(done.ok()) << done.info().format();
  return logits;
}

inline void expectNear(std::span<const float> a, std::span<const float> b,
                       const std::string &what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  // Sums of at most 128 products in another order.
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(a[i], b[i], 1e-4) << what << ": element " << i;
}
} // namespace octet::test

#endif // OCTET_TEST_UNIT_CUDAFIXTURE_H
