//===- CudaTargetsTest.cpp - Which program of several is run --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Targets.h"
#include "gtest/gtest.h"
#include <vector>

using namespace octet::rt::cu;

static std::string choose(const std::vector<std::string> &targets,
                          std::optional<int> capability) {
  return targets[chooseTarget(targets, capability)];
}

TEST(CudaTargets, MachineCodeBeforePtxBeforeTheProcessor) {
  const std::vector<std::string> all = {"cpu",    "sm_80",   "sm_89",
                                        "sm_90a", "sm_100f", "sm_120f"};
  EXPECT_EQ(choose(all, 80), "sm_80");
  EXPECT_EQ(choose(all, 86), "sm_80");
  EXPECT_EQ(choose(all, 89), "sm_89");
  EXPECT_EQ(choose(all, 90), "sm_90a");
  EXPECT_EQ(choose(all, 103), "sm_100f");
  EXPECT_EQ(choose(all, 121), "sm_120f");
  // Newer than all of them: the PTX of the newest that has some.
  EXPECT_EQ(choose(all, 130), "sm_89");
  EXPECT_EQ(choose({"sm_80", "sm_89"}, 90), "sm_89");
  EXPECT_EQ(choose({"sm_89", "sm_80"}, 90), "sm_89");
  // Older than all.
  EXPECT_EQ(choose(all, 75), "cpu");
  EXPECT_EQ(choose(all, std::nullopt), "cpu");
  EXPECT_EQ(choose({"sm_90a", "cpu"}, 80), "cpu");
  // A relative, for which the sources are compiled.
  EXPECT_EQ(choose({"cpu", "sm_90a"}, 91), "sm_90a");
  EXPECT_EQ(choose({"cpu", "sm_90a", "sm_89"}, 91), "sm_89");
}

// The first one's error says what is missing.
TEST(CudaTargets, FirstWhereNoneFits) {
  EXPECT_EQ(choose({"sm_100f", "sm_90a"}, 89), "sm_100f");
  EXPECT_EQ(choose({"sm_100f", "sm_90a"}, std::nullopt), "sm_100f");
  EXPECT_EQ(choose({"", "sm_x", "sm_90a"}, 90), "sm_90a");
  EXPECT_EQ(choose({"", "sm_x"}, 90), "");
}

TEST(CudaTargets, Native) {
  auto native = [](int capability) {
    return nativeTarget(ProbedDevice{capability, "A GPU"}).target;
  };
  EXPECT_EQ(native(80), "sm_80");
  EXPECT_EQ(native(87), "sm_86");
  EXPECT_EQ(native(89), "sm_89");
  EXPECT_EQ(native(90), "sm_90a");
  EXPECT_EQ(native(103), "sm_100f");
  EXPECT_EQ(native(121), "sm_120f");
  // Too old, or of a family without kernels, though PTX would run there.
  EXPECT_EQ(native(75), "cpu");
  EXPECT_EQ(native(110), "cpu");
  EXPECT_EQ(nativeTarget(ProbedDevice{75, "A GPU"}).why,
            "no kernels are written for A GPU of compute capability 7.5");
  EXPECT_EQ(nativeTarget(std::nullopt).target, "cpu");
}

TEST(CudaTargets, DeviceOfADriver) {
  std::optional<ProbedDevice> device =
      probeDevice(OCTET_FAKE_DIR "/fake-cuda.so");
  ASSERT_TRUE(device);
  EXPECT_EQ(device->capability, 90);
  EXPECT_EQ(device->name, "Fake GPU");
}

TEST(CudaTargets, NoDriverIsNoDevice) {
  EXPECT_FALSE(probeCapability("/nowhere/libcuda.so.1"));
  EXPECT_FALSE(probeCapability("libm.so.6"));
}
