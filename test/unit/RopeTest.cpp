//===- RopeTest.cpp - Rotary embeddings of configs (C15) ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Import/Rope.h"
#include <gtest/gtest.h>

using namespace octet;
using nlohmann::json;

namespace {

Result<RopeFrequencies> readFrequencies(const char *text, int64_t headDim,
                                        std::vector<std::string> &warnings) {
  json object = json::parse(text);
  ConfigReader config(object, "config.json");
  OCTET_TRY_ASSIGN(RopeParameters rope, readRope(config, 4096, warnings));
  return computeRope(rope, headDim);
}

void expectFrequencies(const char *text, int64_t headDim,
                       const std::vector<double> &inverse, double scale = 1) {
  std::vector<std::string> warnings;
  Result<RopeFrequencies> result = readFrequencies(text, headDim, warnings);
  ASSERT_TRUE(result.ok()) << result.status().info().format();
  EXPECT_TRUE(warnings.empty()) << warnings[0];
  ASSERT_EQ(result->inverse.size(), inverse.size());
  // Float32 arithmetic against doubles: a few roundings of 2^-24.
  for (size_t i = 0; i < inverse.size(); ++i)
    EXPECT_NEAR(result->inverse[i] / inverse[i], 1, 1e-6) << i;
  EXPECT_NEAR(result->scale, scale, 1e-6);
}

std::string refuseRope(const char *text) {
  std::vector<std::string> warnings;
  Result<RopeFrequencies> result = readFrequencies(text, 8, warnings);
  return result.ok() ? "" : result.status().info().format();
}

TEST(Rope, DefaultAndLinear) {
  std::vector<double> plain = {1, 0.1, 0.01, 0.001};
  expectFrequencies(R"({"rope_theta": 10000.0, "rope_scaling": null})", 8,
                    plain);
  expectFrequencies(R"({})", 8, plain); // the default base
  expectFrequencies(
      R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10000}})",
      8, plain);
  expectFrequencies(R"({"rope_scaling": {"type": "linear", "factor": 2.0}})", 8,
                    {0.5, 0.05, 0.005, 0.0005});
  // Half of each head.
  expectFrequencies(R"({"partial_rotary_factor": 0.5})", 16, plain);
}

// The formulas of transformers' modeling_rope_utils.py in Python doubles.
TEST(Rope, Llama3) {
  expectFrequencies(
      R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "llama3",
          "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}})",
      16,
      {1, 0.316227766, 0.04275117875, 0.003952847075, 0.00125, 0.0003952847075,
       0.000125, 3.952847075e-05});
}

TEST(Rope, Yarn) {
  const char *text =
      R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn",
          "factor": 4.0, "original_max_position_embeddings": 4096}})";
  expectFrequencies(text, 16,
                    {1, 0.316227766, 0.1, 0.02569350599, 0.00625,
                     0.001383496476, 0.00025, 7.90569415e-05},
                    1.138629436);
  // Ends of the ramp that are not rounded.
  expectFrequencies(
      R"({"rope_theta": 10000.0, "rope_scaling": {"rope_type": "yarn",
          "factor": 4.0, "truncate": false, "attention_factor": 1.5}})",
      16,
      {1, 0.316227766, 0.1, 0.02861360881, 0.006556971521, 0.001285632031,
       0.00025, 7.90569415e-05},
      1.5);
  // Equal mscales cancel out.
  expectFrequencies(
      R"({"rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn",
          "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0}})",
      16,
      {1, 0.316227766, 0.1, 0.02569350599, 0.00625, 0.001383496476, 0.00025,
       7.90569415e-05},
      1);
}

TEST(Rope, TheTwoSpellingsMeanTheSameC15) {
  expectFrequencies(
      R"({"rope_theta": 10000.0,
          "rope_scaling": {"type": "linear", "factor": 2.0},
          "rope_parameters": {"rope_type": "linear", "factor": 2.0,
                              "rope_theta": 10000.0}})",
      8, {0.5, 0.05, 0.005, 0.0005});
  // Nested per attention type, all the same.
  expectFrequencies(
      R"({"rope_parameters": {
          "full_attention": {"rope_type": "default", "rope_theta": 10000},
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}})",
      8, {1, 0.1, 0.01, 0.001});
}

TEST(Rope, ContradictionsC15) {
  EXPECT_EQ(refuseRope(R"({"rope_theta": 10000.0,
                           "rope_parameters": {"rope_theta": 500000.0}})"),
            "error: config.json: rope_theta is 10000.0 and in config.json: "
            "rope_parameters rope_theta is 500000.0; they mean the same thing "
            "[C15]\n");
  EXPECT_NE(refuseRope(R"({"rope_scaling": {"type": "linear", "factor": 2.0},
                           "rope_parameters": {"rope_type": "linear",
                                               "factor": 4.0}})")
                .find("contradict each other [C15]"),
            std::string::npos);
  EXPECT_NE(refuseRope(R"({"rope_scaling": {"type": "linear",
                           "rope_type": "yarn", "factor": 2.0}})")
                .find("rope_type is 'yarn' and type is 'linear'"),
            std::string::npos);
  EXPECT_NE(refuseRope(R"({"rope_parameters": {
              "full_attention": {"rope_theta": 10000},
              "sliding_attention": {"rope_theta": 20000}}})")
                .find("one rotary embedding for all layers is built"),
            std::string::npos);
}

TEST(Rope, WrongFields) {
  EXPECT_EQ(refuseRope(R"({"rope_scaling": {"rope_type": "longrope"}})"),
            "error: config.json: rope_scaling: rope_type is 'longrope'; "
            "'default', 'linear', 'llama3' and 'yarn' run [C15]\n");
  EXPECT_EQ(refuseRope(R"({"rope_scaling": {"rope_type": "linear"}})"),
            "error: config.json: rope_scaling: has no factor; expected a "
            "finite number greater than 0 [C15]\n");
  EXPECT_EQ(refuseRope(R"({"rope_scaling": "linear"})"),
            "error: config.json: rope_scaling is 'linear'; expected an object "
            "[C15]\n");
  for (const char *theta : {"0", "-1", "1", "\"10000\"", "true"})
    EXPECT_NE(
        refuseRope((std::string(R"({"rope_theta": )") + theta + "}").c_str()),
        "")
        << theta;
  EXPECT_NE(refuseRope(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 4, "high_freq_factor": 4,
      "original_max_position_embeddings": 128}})"),
            "");
  EXPECT_NE(refuseRope(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2,
      "attention_factor": 1e300}})"),
            "");
  EXPECT_EQ(refuseRope(R"({"rope_scaling": {"rope_type": "yarn", "factor": 2,
      "beta_fast": 0.5}})"),
            "error: config.json: rope_scaling: beta_fast is 0.5 and beta_slow "
            "is 1.0; the first has to be at least the second [C15]\n");
  EXPECT_EQ(refuseRope(R"({"rope_theta": 1e-30})"),
            "error: config.json: rope_theta is 1e-30; expected a number "
            "greater than 1 [C15]\n");
  // Frequencies that leave float32.
  EXPECT_NE(refuseRope(R"({"rope_theta": 1e300})"), "");
}

TEST(Rope, UnknownKeysAreReportedC15) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(readFrequencies(R"({"rope_scaling": {"rope_type": "linear",
      "factor": 2.0, "mrope_section": [1, 2]}})",
                              8, warnings)
                  .ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            "config.json: rope_scaling: unknown key 'mrope_section' with value "
            "[1,2] is not used; it could change results [C15]");
}

} // namespace
