//===- QuantFormatsTest.cpp - The methods beyond FP8 ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Config reading, expected tensors, decisions on stored tensors and contracts
// of the methods that the passes do not compile yet.
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/QuantMethods.h"
#include <gtest/gtest.h>

using namespace octet;
using nlohmann::json;

namespace {

const char *kSource = "config.json: quantization_config";

/// The message of an error, as a user reads it, without notes.
std::string text(const Status &status) {
  if (status.ok())
    return "no error";
  std::string formatted = status.info().format();
  return formatted.substr(0, formatted.find('\n'));
}
template <typename T>
std::string text(const Result<T> &result) {
  return result.ok() ? "no error" : text(result.status());
}

Target parse(const char *name) {
  Result<Target> target = parseTarget(name, "--target");
  return target ? *target : Target();
}

Result<std::optional<QuantConfig>> read(const std::string &fields,
                                        std::string_view user = "",
                                        const char *target = "cpu") {
  FoundConfig found{json::parse(fields), kSource};
  return readQuantConfig(&found, user, parse(target), Purpose::Describe);
}

QuantConfig readGood(const std::string &fields, std::string_view user = "",
                     const char *target = "cpu") {
  Result<std::optional<QuantConfig>> config = read(fields, user, target);
  EXPECT_TRUE(config.ok()) << text(config);
  return config.ok() && *config ? **config : QuantConfig();
}

/// "name DTYPE [shape]" of each expected tensor, the optional ones in brackets.
std::vector<std::string> expect(std::string_view method, const Scheme &scheme,
                                int64_t n, int64_t k, int64_t experts = 0) {
  std::vector<std::string> lines;
  for (const ExpectedTensor &tensor :
       expectTensors(method, scheme, n, k, experts)) {
    std::string line =
        tensor.names.front() + " " +
        StoredTensor{tensor.types.front(), tensor.shapes.front()}.describe();
    lines.push_back(tensor.required ? line : "(" + line + ")");
  }
  return lines;
}

using Lines = std::vector<std::string>;

/// A module whose tensors are the expected ones.
ModuleFacts store(std::string_view method, const Scheme &scheme, int64_t n,
                  int64_t k, int64_t experts = 0) {
  ModuleFacts facts;
  facts.module = "a.b";
  facts.n = n;
  facts.k = k;
  facts.experts = experts;
  facts.isExpert = experts > 0;
  for (const ExpectedTensor &tensor :
       expectTensors(method, scheme, n, k, experts))
    if (tensor.required)
      facts.tensors[tensor.names.front()] = {tensor.types.front(),
                                             tensor.shapes.front()};
  return facts;
}

/// The contract of a config's default scheme on a target.
Result<Contract> contractOn(const QuantConfig &config, const char *target,
                            const ContractQuery &query = {}) {
  const Scheme &scheme = *config.scheme;
  int64_t experts = config.expertsOnly ? 4 : 0;
  Result<ResolvedModule> module =
      resolveModule(&config, store(config.method, scheme, 256, 256, experts));
  EXPECT_TRUE(module.ok()) << text(module);
  if (!module)
    return module.takeStatus();
  return contractFor(*module, parse(target), query, "a.b");
}

//===----------------------------------------------------------------------===//
// mxfp8 (C6, B6)
//===----------------------------------------------------------------------===//

TEST(Mxfp8, ReadsTheFieldsOfFp8) {
  QuantConfig config = readGood(R"({"quant_method": "mxfp8", "fmt": "e4m3",
    "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
    "weight_block_size": [1, 32], "ignored_layers": ["lm_head"]})");
  EXPECT_TRUE(config.warnings.empty());
  EXPECT_EQ(config.ignore.entries.size(), 1u);
  EXPECT_EQ(expect("mxfp8", *config.scheme, 64, 256),
            (Lines{"weight F8_E4M3 [64, 256]", "weight_scale_inv U8 [64, 8]"}));
}

TEST(Mxfp8, AnotherBlockIsReplacedC6) {
  QuantConfig config = readGood(R"({"quant_method": "MXFP8",
    "weight_block_size": [128, 128]})");
  EXPECT_EQ(config.scheme->weight, Granularity::group(32));
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].message,
            "is [128, 128] and is taken as [1, 32], "
            "the group of 'mxfp8'");
  EXPECT_EQ(config.warnings[0].rule, "C6");
  EXPECT_NE(text(read(R"({"quant_method": "mxfp8",
                          "activation_scheme": "static"})"))
                .find("[C5]"),
            std::string::npos);
}

TEST(Mxfp8, ContractsB6) {
  QuantConfig config = readGood(R"({"quant_method": "mxfp8"})");
  for (const char *target : {"cpu", "sm_100f", "sm_120f"}) {
    Result<Contract> contract = contractOn(config, target);
    ASSERT_TRUE(contract.ok()) << text(contract);
    EXPECT_EQ(contract->activation, Granularity::group(32)) << target;
    EXPECT_TRUE(contract->ue8m0);
  }
  EXPECT_EQ(text(contractOn(config, "sm_90a")),
            "error: a.b: MXFP8 runs on the CPU and from sm_100 on, not on "
            "sm_90a; --mxfp8-as block or --mxfp8-as weight-only runs it there "
            "[B6]");
  Result<Contract> block = contractOn(config, "sm_90a", {.mxfp8As = "block"});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->weight, Granularity::block(128, 128));
  EXPECT_EQ(nameActivation(*block), "dynamic-token-group-128");
  Result<Contract> weightOnly =
      contractOn(config, "sm_90a", {.mxfp8As = "weight-only"});
  ASSERT_TRUE(weightOnly.ok());
  EXPECT_EQ(nameActivation(*weightOnly), "none");
  EXPECT_NE(text(checkMethodTarget("mxfp8", parse("sm_90a"), "--target"))
                .find("[B6]"),
            std::string::npos);
  EXPECT_TRUE(
      checkMethodTarget("mxfp8", parse("sm_90a"), "--target", "block").ok());
  EXPECT_NE(
      text(checkMethodTarget("mxfp8", parse("sm_70"), "--target")).find("[C9]"),
      std::string::npos);
}

TEST(Mxfp8, ExponentsAreNoFp8ScalesC14) {
  // Read as fp8, exponent bytes are refused; read as mxfp8, floats are.
  QuantConfig config = readGood(R"({"quant_method": "mxfp8"})");
  ModuleFacts facts = store("mxfp8", *config.scheme, 64, 256);
  EXPECT_TRUE(resolveModule(&config, facts).ok());
  facts.tensors["weight_scale_inv"] = {StoredType::F32, {64, 8}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: a.b: 'weight_scale_inv' is F32 [64, 8]; expected U8 "
            "[64, 8] (64x256 in groups of 32) in U8 or F8_E8M0 [W1]");
  facts.tensors["weight_scale_inv"] = {StoredType::U8, {64, 2}};
  EXPECT_NE(text(resolveModule(&config, facts)).find("expected U8 [64, 8]"),
            std::string::npos);
  facts.tensors.erase("weight_scale_inv");
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: a.b: no 'weight_scale_inv' for its F8_E4M3 weight; "
            "expected U8 [64, 8] (64x256 in groups of 32) [W6]");
  ModuleFacts odd = store("mxfp8", *config.scheme, 64, 250);
  EXPECT_EQ(text(resolveModule(&config, odd)),
            "error: a.b: K is 250, not a multiple of the group of 32 [W1]");
}

//===----------------------------------------------------------------------===//
// compressed-tensors
//===----------------------------------------------------------------------===//

std::string group(const char *format, const char *weights,
                  const char *inputs = "null") {
  return std::string(R"({"quant_method": "compressed-tensors", "format": ")") +
         format + R"(", "config_groups": {"g": {"targets": ["Linear"],
         "weights": )" +
         weights + R"(, "input_activations": )" + inputs + "}}}";
}

const char *kInt8 = R"({"num_bits": 8, "type": "int", "strategy": "channel"})";
const char *kInt8Token = R"({"num_bits": 8, "type": "int",
                             "strategy": "token", "dynamic": true})";

TEST(CompressedTensors, Int8) {
  QuantConfig config = readGood(group("int-quantized", kInt8, kInt8Token));
  const Scheme &scheme = config.groups[0].scheme;
  EXPECT_EQ(scheme.format.code, CodeType::Int8);
  EXPECT_EQ(expect("compressed-tensors", scheme, 64, 128),
            (Lines{"weight I8 [64, 128]", "weight_scale F32 [64, 1]"}));
  ModuleFacts facts = store("compressed-tensors", scheme, 64, 128);
  facts.declared = "group: g";
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_EQ(nameFormat(*module), "int8-channel");
  // INT8 tensor cores exist from sm_80 on.
  for (const char *target : {"cpu", "sm_80", "sm_90a"})
    EXPECT_EQ(nameActivation(*contractFor(*module, parse(target), {}, "x")),
              "dynamic-token")
        << target;
  // The same checkpoint by the name of its semantics (C3).
  EXPECT_EQ(
      readGood(group("int-quantized", kInt8, kInt8Token), "w8a8_int8").method,
      "w8a8_int8");
  EXPECT_NE(text(read(group("int-quantized", kInt8, kInt8Token), "w8a8_fp8"))
                .find("[C3]"),
            std::string::npos);
  EXPECT_NE(
      text(read(group("int-quantized", kInt8, kInt8Token), "fp8")).find("[C3]"),
      std::string::npos);
  EXPECT_EQ(readGood(group("naive-quantized", kInt8, kInt8Token))
                .groups[0]
                .scheme.format.code,
            CodeType::Int8);
}

TEST(CompressedTensors, PackedWords) {
  QuantConfig config = readGood(group(
      "pack-quantized", R"({"num_bits": 4, "type": "int", "strategy": "group",
      "group_size": 32, "symmetric": false, "actorder": "group"})"));
  const Scheme &scheme = config.groups[0].scheme;
  EXPECT_EQ(expect("compressed-tensors", scheme, 64, 256),
            (Lines{"weight_packed I32 [64, 32]", "weight_scale F32 [64, 8]",
                   "weight_shape I64 [2]", "weight_zero_point I32 [8, 8]",
                   "weight_g_idx I32 [256]"}));
  ModuleFacts facts = store("compressed-tensors", scheme, 64, 256);
  facts.declared = "group: g";
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_EQ(nameFormat(*module), "int4-group");
  Contract contract = *contractFor(*module, parse("sm_90a"), {}, "x");
  EXPECT_EQ(nameActivation(contract), "none"); // B4
  EXPECT_TRUE(contract.repacked);
  EXPECT_FALSE(contractFor(*module, Target(), {}, "x")->repacked);
  // 8 bits, a channel: `weight` keeps the order of K.
  QuantConfig wide =
      readGood(group("pack-quantized", R"({"num_bits": 8, "type": "int",
      "strategy": "channel", "actorder": "weight"})"));
  EXPECT_EQ(expect("compressed-tensors", wide.groups[0].scheme, 64, 250),
            (Lines{"weight_packed I32 [64, 63]", "weight_scale F32 [64, 1]",
                   "weight_shape I64 [2]"}));
  EXPECT_EQ(text(read(group("pack-quantized",
                            R"({"num_bits": 4, "type": "int"})", kInt8Token))),
            "error: config.json: "
            "quantization_config.config_groups.g.input_activations: is not "
            "null; 'pack-quantized' is weight-only on every target, expected "
            "null [B4]");
}

TEST(CompressedTensors, Nvfp4Divides) {
  const char *weights = R"({"num_bits": 4, "type": "float",
                            "strategy": "tensor_group", "group_size": 16})";
  const char *inputs = R"({"num_bits": 4, "type": "float",
    "strategy": "tensor_group", "group_size": 16, "dynamic": "local"})";
  QuantConfig config = readGood(group("nvfp4-pack-quantized", weights, inputs));
  const Scheme &scheme = config.groups[0].scheme;
  EXPECT_EQ(scheme.format.global, GlobalScale::Divides);
  EXPECT_EQ(
      expect("compressed-tensors", scheme, 64, 256),
      (Lines{"weight_packed U8 [64, 128]", "weight_scale F8_E4M3 [64, 16]",
             "weight_global_scale F32 []", "input_global_scale F32 []"}));
  QuantConfig weightOnly = readGood(group("nvfp4-pack-quantized", weights));
  EXPECT_EQ(
      expect("compressed-tensors", weightOnly.groups[0].scheme, 64, 256),
      (Lines{"weight_packed U8 [64, 128]", "weight_scale F8_E4M3 [64, 16]",
             "weight_global_scale F32 []"}));
  EXPECT_NE(text(read(group("nvfp4-pack-quantized",
                            R"({"num_bits": 4, "type": "float",
                                "group_size": 32})")))
                .find("NVFP4 has groups of 16 [N7]"),
            std::string::npos);
}

TEST(CompressedTensors, MixedPrecisionTakesEachGroupsFormat) {
  QuantConfig config = readGood(R"({"quant_method": "compressed-tensors",
    "format": "mixed-precision", "ignore": ["lm_head"], "config_groups": {
    "experts": {"format": "pack-quantized", "targets": ["re:.*experts.*"],
      "weights": {"num_bits": 4, "type": "int", "group_size": 32}},
    "rest": {"format": "float-quantized", "targets": ["Linear"],
      "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
      "input_activations": {"num_bits": 8, "type": "float",
                            "strategy": "token", "dynamic": true}}}})");
  auto declared = [&](const char *path, ModuleKind kind) {
    return declareKind(config, path, "", kind)->declared;
  };
  EXPECT_EQ(declared("model.layers.3.mlp.experts.1.up_proj",
                     ModuleKind::RoutedExpert),
            "group: experts");
  EXPECT_EQ(declared("model.layers.3.self_attn.o_proj", ModuleKind::Linear),
            "group: rest");
  // A router is no linear for a method (C11), whatever a class name says.
  EXPECT_FALSE(
      declareKind(config, "model.layers.3.mlp.gate", "", ModuleKind::Router)
          ->scheme);
}

//===----------------------------------------------------------------------===//
// fbgemm_fp8, ModelOpt
//===----------------------------------------------------------------------===//

TEST(FbgemmFp8, BoundsTheScale) {
  QuantConfig config = readGood(R"({"quant_method": "fbgemm_fp8",
    "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]})");
  EXPECT_EQ(config.scheme->weight, Granularity::perChannel());
  EXPECT_EQ(config.scheme->input.bound, 1200.0);
  Result<Contract> contract = contractOn(config, "cpu");
  ASSERT_TRUE(contract.ok()) << text(contract);
  EXPECT_EQ(contract->input.bound, 1200.0);
  EXPECT_EQ(text(read(R"({"quant_method": "fbgemm_fp8",
                          "activation_scale_ub": -1})")),
            "error: config.json: quantization_config.activation_scale_ub: is "
            "-1, expected a finite number greater than 0 [C4]");
}

TEST(ModelOpt, AlgorithmsInAnyCaseC14) {
  auto scheme = [](const char *word) {
    return *readGood(std::string(R"({"quant_algo": ")") + word + "\"}").scheme;
  };
  EXPECT_EQ(scheme("FP8").activation, Activation::Static);
  EXPECT_EQ(scheme("fp8_per_channel_per_token").weight,
            Granularity::perChannel());
  EXPECT_EQ(scheme("FP8_PB_WO").weight, Granularity::block(128, 128));
  EXPECT_EQ(scheme("FP8_PB_REAL").activation, Activation::Dynamic);
  EXPECT_EQ(expect("modelopt_fp4", scheme("NVFP4"), 64, 256),
            (Lines{"weight U8 [64, 128]", "weight_scale F8_E4M3 [64, 16]",
                   "weight_scale_2 F32 []", "input_scale F32 []"}));
  EXPECT_EQ(expect("modelopt_fp4", scheme("W4A16_NVFP4"), 64, 256),
            (Lines{"weight U8 [64, 128]", "weight_scale F8_E4M3 [64, 16]",
                   "weight_scale_2 F32 []"}));
  EXPECT_EQ(expect("mxfp8", scheme("MXFP8"), 64, 256)[1],
            "weight_scale_inv U8 [64, 8]");
  EXPECT_EQ(readGood(R"({"quant_algo": "nvfp4"})").method, "modelopt_fp4");
  EXPECT_EQ(
      readGood(R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})").method,
      "mxfp8");
  EXPECT_EQ(
      readGood(R"({"quant_method": "modelopt", "quant_algo": "FP8"})").method,
      "modelopt");
  EXPECT_NE(text(read(R"({"quant_algo": "W4A8_AWQ"})")).find("[C2]"),
            std::string::npos);
  EXPECT_NE(text(read(R"({"quant_algo": "FP8X"})"))
                .find("is 'FP8X'; expected one of 'fp8', "),
            std::string::npos);
}

TEST(ModelOpt, NamesAreGlobsC7) {
  QuantConfig config = readGood(R"({"quant_algo": "NVFP4", "group_size": 16,
    "exclude_modules": ["lm_head", "model.layers.0*", "model.layers.1.*",
                        "*mlp.gate"]})");
  auto isIgnored = [&](const char *path) {
    return declareKind(config, path, "", ModuleKind::Linear)
        ->declared.starts_with("ignored");
  };
  EXPECT_TRUE(isIgnored("model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(isIgnored("model.layers.1.mlp.up_proj"));
  EXPECT_FALSE(isIgnored("model.layers.10.mlp.up_proj"));
  EXPECT_TRUE(isIgnored("model.layers.7.mlp.gate"));
  EXPECT_FALSE(isIgnored("model.layers.7.mlp.gate_proj"));
  EXPECT_TRUE(isIgnored("language_model.model.layers.0.mlp.down_proj"));
}

TEST(ModelOpt, MixedPrecisionNamesModules) {
  QuantConfig config = readGood(R"({"quant_algo": "MIXED_PRECISION",
    "kv_cache_quant_algo": "FP8", "quantized_layers": {
      "model.layers.0.mlp.up_proj": {"quant_algo": "FP8"},
      "model.layers.1.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
      "model.layers.2.mlp.up_proj": {"quant_algo": "FP8"}}})");
  EXPECT_EQ(config.method, "modelopt");
  EXPECT_EQ(config.groups.size(), 2u);
  EXPECT_EQ(config.kvCache, "kv_cache_quant_algo is 'FP8'");
  auto declared = [&](const char *path) {
    return declareKind(config, path, "", ModuleKind::Linear)->declared;
  };
  EXPECT_EQ(declared("model.layers.2.mlp.up_proj"), "group: fp8");
  EXPECT_EQ(declared("model.layers.1.mlp.up_proj"), "group: nvfp4");
  EXPECT_EQ(declared("model.layers.1.mlp.down_proj"), "no group");
  EXPECT_NE(text(read(R"({"quant_algo": "MIXED_PRECISION"})"))
                .find("quantized_layers: is absent"),
            std::string::npos);
}

TEST(ModelOpt, ContradictionsAreRefused) {
  EXPECT_EQ(text(read(R"({"quant_algo": "NVFP4", "group_size": 32})")),
            "error: config.json: quantization_config.group_size: is 32, "
            "'NVFP4' has groups of 16 [N7]");
  EXPECT_EQ(text(read(R"({"quant_algo": "NVFP4", "config_groups": {"g":
                          {"weights": {"num_bits": 8, "type": "float"}}}})")),
            "error: config.json: "
            "quantization_config.config_groups.g.weights.num_bits: is 8 and "
            "quant_algo means 4 bits; one of the two [C4]");
  // Only the cache is quantised.
  QuantConfig config =
      readGood(R"({"quant_algo": null, "kv_cache_quant_algo": "FP8"})");
  EXPECT_FALSE(config.scheme);
  EXPECT_FALSE(config.kvCache.empty());
}

TEST(ModelOpt, Nvfp4ContractsB4) {
  QuantConfig config = readGood(R"({"quant_algo": "NVFP4"})");
  for (const char *target : {"cpu", "sm_80", "sm_90a"}) {
    Result<Contract> contract = contractOn(config, target);
    ASSERT_TRUE(contract.ok()) << text(contract);
    EXPECT_EQ(nameActivation(*contract), "none") << target;
  }
  Result<Contract> native = contractOn(config, "sm_100f");
  ASSERT_TRUE(native.ok());
  EXPECT_EQ(nameActivation(*native), "dynamic-token-group-16");
  EXPECT_TRUE(native->input.belowStored);
}

//===----------------------------------------------------------------------===//
// mxfp4 (C12)
//===----------------------------------------------------------------------===//

TEST(Mxfp4, ExpertsOnlyC12) {
  QuantConfig config = readGood(R"({"quant_method": "mxfp4",
    "modules_to_not_convert": ["model.layers.*.self_attn",
                               "model.layers.*.mlp.router"]})");
  EXPECT_EQ(expect("mxfp4", *config.scheme, 64, 128, 4),
            (Lines{"_blocks U8 [4, 64, 4, 16]", "_scales U8 [4, 64, 4]"}));
  auto hasScheme = [&](const char *path, ModuleKind kind) {
    return declareKind(config, path, "", kind)->scheme.has_value();
  };
  EXPECT_TRUE(hasScheme("model.layers.0.mlp.experts.down_proj",
                        ModuleKind::RoutedExpert));
  EXPECT_FALSE(hasScheme("model.layers.0.mlp.up_proj", ModuleKind::Linear));
  EXPECT_EQ(declareKind(config, "model.layers.0.self_attn.q_proj", "",
                        ModuleKind::Linear)
                ->declared,
            "ignored: modules_to_not_convert[0] 'model.layers.*.self_attn'");

  ModuleFacts facts = store("mxfp4", *config.scheme, 64, 128, 4);
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_EQ(nameFormat(*module), "mxfp4");
  facts.tensors["_scales"] = {StoredType::U8, {4, 64, 8}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: a.b: 'b_scales' is U8 [4, 64, 8]; expected U8 [4, 64, 4] "
            "(4 experts of 64x128 in groups of 32) [W1]");
  facts.isExpert = false;
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: a.b: weight is U8; method 'mxfp4' quantises routed experts "
            "only, expected BF16, F16 or F32 [C12]");
  ModuleFacts plain;
  plain.module = "a.b";
  plain.tensors["weight"] = {StoredType::BF16, {64, 128}};
  EXPECT_FALSE(resolveModule(&config, plain)->quantized);
}

TEST(Mxfp4, PackedExpertsUnderFp8C14) {
  QuantConfig config = readGood(R"({"quant_method": "fp8",
    "expert_dtype": "fp4", "weight_block_size": [128, 128]})");
  ModuleFacts facts;
  facts.module = "a.b";
  facts.isExpert = true;
  facts.n = 64;
  facts.k = 256;
  facts.tensors["weight"] = {StoredType::I8, {64, 128}};
  facts.tensors["scale"] = {StoredType::F8_E8M0, {64, 8}};
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_EQ(nameFormat(*module), "mxfp4");
  ASSERT_EQ(module->notes.size(), 1u);
  EXPECT_EQ(module->notes[0].rule, "C14");
  facts.isExpert = false;
  EXPECT_NE(text(resolveModule(&config, facts)).find("[C13]"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// awq, gptq, auto-round (C10)
//===----------------------------------------------------------------------===//

const char *kAwq = R"({"quant_method": "awq", "bits": 4, "group_size": 128,
  "zero_point": true, "version": "gemm", "modules_to_not_convert": null})";

TEST(Awq, TensorsAndContract) {
  QuantConfig config = readGood(kAwq);
  EXPECT_EQ(config.method, "awq");
  EXPECT_EQ(config.ignore.presence, NameList::Presence::Null);
  EXPECT_EQ(expect("awq", *config.scheme, 64, 256),
            (Lines{"qweight I32 [256, 8]", "qzeros I32 [2, 8]",
                   "scales F16 [2, 64]"}));
  Result<Contract> contract = contractOn(config, "cpu");
  ASSERT_TRUE(contract.ok()) << text(contract);
  EXPECT_EQ(nameActivation(*contract), "none");
  EXPECT_EQ(contract->format.zeroPoints, ZeroPoints::Stored);
  // Without the sides, the packed tensor implies them.
  ModuleFacts facts = store("awq", *config.scheme, 64, 256);
  facts.n = facts.k = 0;
  EXPECT_EQ(nameFormat(*resolveModule(&config, facts)), "awq-int4");
  facts.tensors["scales"] = {StoredType::F16, {1, 64}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: a.b: 'scales' is F16 [1, 64]; expected F16 [2, 64] (64x256 "
            "in groups of 128) [W1]");
  facts.tensors.erase("qweight");
  EXPECT_NE(text(resolveModule(&config, facts))
                .find("has no tensor 'qweight', which a weight of int 4 bits "
                      "in groups of 128 with zero points"),
            std::string::npos);
}

TEST(Awq, OtherLayoutsAreRefusedByNameC2) {
  EXPECT_EQ(text(read(R"({"quant_method": "awq", "version": "gemv"})")),
            "error: config.json: quantization_config.version: is 'gemv', a "
            "layout that is not read; 'gemm' is [C2]");
  EXPECT_NE(text(read(R"({"quant_method": "awq", "w_bit": 3})")).find("[C2]"),
            std::string::npos);
  EXPECT_NE(
      text(read(R"({"quant_method": "awq", "q_group_size": 0})")).find("[C4]"),
      std::string::npos);
}

TEST(Awq, RepackedOnlyWhereNobodyNamedOneC10) {
  QuantConfig upgraded = readGood(kAwq, "", "sm_90a");
  EXPECT_EQ(upgraded.method, "awq_marlin");
  ASSERT_EQ(upgraded.remarks.size(), 1u);
  EXPECT_EQ(upgraded.remarks[0].rule, "C10");
  QuantConfig kept = readGood(kAwq, "awq", "sm_90a");
  EXPECT_EQ(kept.method, "awq");
  EXPECT_EQ(kept.remarks.size(), 1u);
  EXPECT_EQ(readGood(kAwq).method, "awq"); // the CPU has no other layout
}

const char *kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 128,
  "desc_act": true, "sym": true})";

TEST(Gptq, TensorsWithAndWithoutOrder) {
  QuantConfig config = readGood(kGptq);
  EXPECT_EQ(config.scheme->format.zeroPoints, ZeroPoints::StoredMinusOne);
  EXPECT_TRUE(config.scheme->format.actOrder);
  EXPECT_EQ(expect("gptq", *config.scheme, 64, 256),
            (Lines{"qweight I32 [32, 64]", "qzeros I32 [2, 8]",
                   "scales F16 [2, 64]", "g_idx I32 [256]"}));
  QuantConfig wide = readGood(R"({"quant_method": "gptq", "bits": 8,
    "group_size": -1, "checkpoint_format": "gptq_v2"})");
  EXPECT_EQ(wide.scheme->format.zeroPoints, ZeroPoints::Stored);
  EXPECT_EQ(expect("gptq", *wide.scheme, 64, 256),
            (Lines{"qweight I32 [64, 64]", "qzeros I32 [1, 16]",
                   "scales F16 [1, 64]", "(g_idx I32 [256])"}));
  EXPECT_NE(text(read(R"({"quant_method": "gptq", "bits": 3})"))
                .find("is 3, which is not built; 4 and 8 are [C2]"),
            std::string::npos);
  EXPECT_NE(text(read(R"({"quant_method": "gptq"})")).find("bits: is absent"),
            std::string::npos);
}

TEST(Gptq, DynamicRulesByModule) {
  QuantConfig config = readGood(R"({"quant_method": "gptq", "bits": 4,
    "group_size": 128, "dynamic": {"-:.*\\.o_proj": {},
    "+:.*\\.18\\..*gate.*": {"bits": 8, "group_size": 32}}})");
  auto declared = [&](const char *path) {
    return *declareKind(config, path, "", ModuleKind::Linear);
  };
  EXPECT_FALSE(declared("model.layers.3.self_attn.o_proj").scheme);
  EXPECT_EQ(declared("model.layers.18.mlp.gate_proj").scheme->weight,
            Granularity::group(32));
  EXPECT_EQ(declared("model.layers.18.mlp.gate_proj").scheme->format.code,
            CodeType::Int8);
  EXPECT_EQ(declared("model.layers.17.mlp.gate_proj").scheme->weight,
            Granularity::group(128));
  EXPECT_FALSE(declareKind(config, "lm_head", "", ModuleKind::LmHead)->scheme);
}

// C11: products of two operands in FP4 read whole bulk copies of K; weights
// only have no such bound.
TEST(Nvfp4, RowsOfProductsC11) {
  QuantConfig config = readGood(
      R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16})");
  ResolvedModule method;
  method.quantized = true;
  method.method = config.method;
  method.weight = config.scheme->weight;
  method.activation = config.scheme->activation;
  method.format = config.scheme->format;
  method.input = config.scheme->input;
  auto contract = [&](const char *target, int64_t k, bool quantize = true) {
    ContractQuery query;
    query.k = k;
    query.quantizeActivation = quantize;
    return contractFor(method, *parseTarget(target, "--target"), query, "a.b");
  };
  EXPECT_TRUE(contract("sm_100f", 160)->activation);
  EXPECT_EQ(
      text(contract("sm_100f", 144)),
      "error: a.b: K is 144; products of two operands in FP4 read rows of "
      "a multiple of 32 elements; --activation-quant off runs its weights "
      "[C11]");
  EXPECT_FALSE(contract("sm_100f", 144, false)->activation);
  EXPECT_FALSE(contract("sm_90a", 144)->activation);
}

// MX and NVFP4 of auto-round are those of compressed-tensors by another config
// (N7); activations only where act_bits says so.
TEST(AutoRound, FloatsN7) {
  QuantConfig weights = readGood(R"({"quant_method": "auto-round", "bits": 4,
    "group_size": 32, "data_type": "mx_fp"})");
  EXPECT_EQ(weights.scheme->activation, Activation::None);
  EXPECT_EQ(weights.scheme->format.scale, ScaleFormat::Exponents);
  EXPECT_EQ(expectTensors("auto-round", *weights.scheme, 64, 64)
                .front()
                .names.front(),
            "weight_packed");
  QuantConfig both = readGood(R"({"quant_method": "auto-round", "bits": 8,
    "group_size": 32, "data_type": "mx_fp", "act_bits": 8,
    "act_data_type": "mx_fp_rceil", "act_dynamic": true})");
  EXPECT_EQ(both.scheme->activation, Activation::Dynamic);
  EXPECT_EQ(both.scheme->format.code, CodeType::E4M3);
  QuantConfig nv = readGood(R"({"quant_method": "auto-round", "bits": 4,
    "group_size": 16, "data_type": "nv_fp", "act_bits": 4})");
  EXPECT_TRUE(nv.scheme->input.belowStored);
  EXPECT_EQ(nv.scheme->format.global, GlobalScale::Divides);
  auto refused = [](const char *more) {
    return text(read((R"({"quant_method": "auto-round", "bits": 4,
      "group_size": 16, "data_type": "nv_fp", )" +
                      std::string(more) + "}")
                         .c_str()));
  };
  EXPECT_NE(refused(R"("sym": false)").find("has no zero points"),
            std::string::npos);
  EXPECT_NE(refused(R"("act_bits": 4, "act_dynamic": false)").find("computed"),
            std::string::npos);
  EXPECT_NE(refused(R"("act_bits": 4, "act_data_type": "int")").find("[C2]"),
            std::string::npos);
}

// C7: the first rule of the file that matches counts, and those behind it have
// matched too. Parsing keeps the order, which objects of the tree do not have.
TEST(Gptq, FirstDynamicRuleCountsC7) {
  auto parse = [](const char *rules) {
    std::string text =
        R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": )";
    Result<nlohmann::json> json = parseJson(text + rules + "}", "config.json");
    EXPECT_TRUE(json);
    return json->dump();
  };
  auto declare = [](const std::string &json, const char *path) {
    QuantConfig config = readGood(json.c_str());
    Declaration result = *declareKind(config, path, "", ModuleKind::Linear);
    for (NameList *list : config.getLists())
      EXPECT_TRUE(list->allUsed()) << path;
    return result;
  };
  const char *path = "model.layers.0.self_attn.o_proj";
  std::string skipFirst = parse(R"({"-:.*o_proj": {}, "+:.*": {"bits": 8}})");
  EXPECT_FALSE(declare(skipFirst, path).scheme);
  EXPECT_TRUE(declare(skipFirst, path).declared.starts_with("ignored: "));
  std::string skipLast = parse(R"({"+:.*": {"bits": 8}, "-:.*o_proj": {}})");
  EXPECT_EQ(declare(skipLast, path).scheme->format.code, CodeType::Int8);
  std::string zFirst = parse(
      R"({"z?model.*": {"group_size": 64}, ".*o_proj": {"group_size": 32}})");
  EXPECT_EQ(declare(zFirst, path).scheme->weight, Granularity::group(64));
  std::string zLast = parse(
      R"({".*o_proj": {"group_size": 32}, "z?model.*": {"group_size": 64}})");
  EXPECT_EQ(declare(zLast, path).scheme->weight, Granularity::group(32));
}

// Without it, as in IR by hand, contradictions are refused.
TEST(Gptq, DynamicRulesWithoutOrderC7) {
  QuantConfig config = readGood(R"({"quant_method": "gptq", "bits": 4,
    "dynamic": {"+:.*": {"bits": 8}, "-:.*o_proj": {}}})");
  EXPECT_TRUE(declareKind(config, "a.q_proj", "", ModuleKind::Linear));
  Result<Declaration> both =
      declareKind(config, "a.o_proj", "", ModuleKind::Linear);
  ASSERT_FALSE(both);
  EXPECT_NE(text(both).find("which say different things"), std::string::npos);
}

TEST(Gptq, RepackedOnlyWhereNobodyNamedOneC10) {
  EXPECT_EQ(readGood(kGptq, "", "sm_90a").method, "gptq_marlin");
  EXPECT_EQ(readGood(kGptq, "gptq", "sm_90a").method, "gptq");
  EXPECT_EQ(readGood(kGptq, "gptq_marlin", "sm_90a").method, "gptq_marlin");
  const char *odd = R"({"quant_method": "gptq", "bits": 8, "group_size": 96})";
  EXPECT_EQ(readGood(odd, "", "sm_90a").method, "gptq");
  EXPECT_EQ(text(read(odd, "gptq_marlin", "sm_90a")),
            "error: --quantization gptq_marlin: cannot repack this checkpoint: "
            "group_size is 96; it takes 4 or 8 bits, groups of 32, 64, 128 or "
            "all of K, sym true [C10]");
}

TEST(AutoRound, PackingAndOverrides) {
  QuantConfig config = readGood(R"({"quant_method": "auto-round", "bits": 4,
    "group_size": 128, "sym": true, "data_type": "int",
    "packing_format": "auto_round:auto_gptq",
    "extra_config": {"model.layers.0.mlp.up_proj": {"bits": 16},
                     "model.layers.1.mlp.up_proj": {"bits": 8}}})");
  auto declared = [&](const char *path) {
    return *declareKind(config, path, "", ModuleKind::Linear);
  };
  EXPECT_FALSE(declared("model.layers.0.mlp.up_proj").scheme);
  EXPECT_EQ(declared("model.layers.1.mlp.up_proj").scheme->format.code,
            CodeType::Int8);
  EXPECT_EQ(declared("model.layers.2.mlp.up_proj").scheme->format.layout,
            WeightLayout::GptqWords);
  QuantConfig bounded = readGood(R"({"quant_method": "intel/auto-round",
    "bits": 4, "packing_format": "auto_round:auto_awq",
    "block_name_to_quantize": "model.layers"})");
  EXPECT_EQ(
      declareKind(bounded, "model.layers.0.mlp.up_proj", "", ModuleKind::Linear)
          ->scheme->format.layout,
      WeightLayout::AwqWords);
  EXPECT_FALSE(
      declareKind(bounded, "visual.up_proj", "", ModuleKind::Linear)->scheme);
  EXPECT_NE(text(read(R"({"quant_method": "auto-round", "bits": 4,
                          "data_type": "fp"})"))
                .find("is 'fp', a layout that is not read"),
            std::string::npos);
  EXPECT_NE(text(read(R"({"quant_method": "auto-round", "bits": 4,
                          "packing_format": "auto_round:llm_compressor"})"))
                .find("[C2]"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// quark, gguf
//===----------------------------------------------------------------------===//

TEST(Quark, GlobalLayersAndCache) {
  QuantConfig config = readGood(R"({"quant_method": "quark",
    "global_quant_config": {
      "weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor",
                 "is_dynamic": false, "observer_cls": "PerTensorMinMaxObserver"},
      "input_tensors": {"dtype": "fp8_e4m3", "qscheme": "per_tensor",
                        "is_dynamic": false},
      "output_tensors": null},
    "layer_quant_config": {
      "*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}},
      "*down_proj": {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_channel"},
                     "input_tensors": {"dtype": "fp8_e4m3", "is_dynamic": true,
                                       "qscheme": "per_token"}}},
    "exclude": ["*lm_head", "re:.*\\.o_proj"],
    "export": {"kv_cache_group": ["*k_proj", "*v_proj"]}})");
  auto declared = [&](const char *path) {
    return *declareKind(config, path, "", ModuleKind::Linear);
  };
  EXPECT_EQ(declared("model.layers.0.self_attn.k_proj").scheme->activation,
            Activation::Static);
  EXPECT_EQ(declared("model.layers.0.mlp.down_proj").scheme->weight,
            Granularity::perChannel());
  EXPECT_FALSE(declared("model.layers.0.self_attn.o_proj").scheme);
  EXPECT_FALSE(declared("lm_head").scheme);
  EXPECT_EQ(config.kvCache,
            R"(export.kv_cache_group is ["*k_proj","*v_proj"])");
  EXPECT_TRUE(config.warnings.empty());
}

TEST(Quark, Mxfp4InRowsOfNibbles) {
  QuantConfig config = readGood(R"({"quant_method": "quark",
    "global_quant_config": {
      "weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32,
                 "scale_format": "e8m0"},
      "input_tensors": {"dtype": "fp4", "qscheme": "per_group",
                        "group_size": 32, "is_dynamic": true,
                        "scale_format": "e8m0"}}})");
  EXPECT_EQ(expect("quark", *config.scheme, 64, 256),
            (Lines{"weight U8 [64, 128]", "weight_scale U8 [64, 8]"}));
  EXPECT_EQ(nameActivation(*contractOn(config, "cpu")), "none");
  EXPECT_EQ(nameActivation(*contractOn(config, "sm_100f")),
            "dynamic-token-group-32");
  EXPECT_NE(text(read(R"({"quant_method": "quark", "global_quant_config":
                          {"weight": {"dtype": "int3"}}})"))
                .find("is 'int3', which is not built"),
            std::string::npos);
  EXPECT_NE(text(read(R"({"quant_method": "quark"})"))
                .find("global_quant_config: is absent"),
            std::string::npos);
}

TEST(Gguf, IsNoConfig) {
  EXPECT_NE(text(read(kAwq, "gguf")).find("[C3]"), std::string::npos);
}

//===----------------------------------------------------------------------===//
// Every reader, on what it cannot read
//===----------------------------------------------------------------------===//

TEST(Readers, EachRefusesAnotherLayoutC3) {
  for (const char *method :
       {"auto-round", "awq", "awq_marlin", "compressed-tensors", "fbgemm_fp8",
        "gguf", "gptq", "gptq_marlin", "modelopt", "modelopt_fp4", "mxfp4",
        "mxfp8", "quark", "w8a8_fp8", "w8a8_int8"}) {
    std::string error = text(read(R"({"quant_method": "fp8"})", method));
    EXPECT_TRUE(error.starts_with("error: --quantization " +
                                  std::string(method) + ": cannot read"))
        << error;
    EXPECT_TRUE(error.ends_with("[C3]")) << error;
  }
}

TEST(Readers, FieldsOfTheWrongTypeAreOneErrorEach) {
  for (const char *fields :
       {R"({"quant_method": "gptq", "bits": "4"})",
        R"({"quant_method": "gptq", "bits": 4, "dynamic": []})",
        R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:(": {}}})",
        R"({"quant_method": "awq", "group_size": 1e30})",
        R"({"quant_method": "awq", "zero_point": 1})",
        R"({"quant_method": "auto-round", "bits": 4, "extra_config": 1})",
        R"({"quant_method": "mxfp4", "modules_to_not_convert": "a"})",
        R"({"quant_method": "quark", "global_quant_config": []})",
        R"({"quant_method": "quark", "global_quant_config": {"weight": 1}})",
        R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": "1"})",
        R"({"quant_algo": "NVFP4", "exclude_modules": {}})",
        R"({"quant_algo": 4})",
        R"({"quant_algo": "MIXED_PRECISION", "quantized_layers": {"a": 1}})"}) {
    Result<std::optional<QuantConfig>> config = read(fields);
    ASSERT_FALSE(config.ok()) << fields;
    const ErrorInfo &info = config.status().info();
    EXPECT_EQ(info.kind, ErrorKind::Input);
    EXPECT_TRUE(info.rule == "C4" || info.rule == "C7") << text(config);
    EXPECT_TRUE(info.subject.starts_with(kSource)) << text(config);
  }
}

//===----------------------------------------------------------------------===//
// Names (C7)
//===----------------------------------------------------------------------===//

TEST(Globs, AnyCharactersAndPrefixes) {
  EXPECT_TRUE(matchesGlob("a*c", "abc"));
  EXPECT_TRUE(matchesGlob("a*", "a.b.c"));
  EXPECT_TRUE(matchesGlob("a.*.d", "a.b.c.d"));
  EXPECT_TRUE(matchesGlob("a.*.c", "a.b.c.d")); // a prefix
  EXPECT_FALSE(matchesGlob("a.*.c", "a.b.cd"));
  EXPECT_TRUE(matchesGlob("*", ""));
  EXPECT_TRUE(matchesGlob("a?c", "abc.d"));
  EXPECT_FALSE(matchesGlob("a", "b"));
  EXPECT_FALSE(matchesGlob("*b", "ab1"));
  EXPECT_TRUE(matchesGlob("*b", "a.b"));
  EXPECT_FALSE(matchesGlob("model.layers.1.*", "model.layers.10.x"));
  // Hostile: no more than pattern x path steps.
  std::string stars, path(2000, 'a');
  for (int i = 0; i < 200; ++i)
    stars += "*a";
  EXPECT_FALSE(matchesGlob(stars + "b", path));
}

TEST(NameIndex, FindsWhatEachEntryMatches) {
  NameList list;
  for (const char *entry :
       {"mlp.gate", "lm_head", "model.layers.3", "re:.*o_proj", "layers.3.x"})
    ASSERT_TRUE(list.add(entry, kSource, "ignore").ok());
  const char *paths[] = {"model.layers.3.mlp.gate",
                         "model.layers.30.mlp.gate",
                         "language_model.model.layers.3.q",
                         "model.layers.4.o_proj",
                         "model.layers.4.mlp.gate_proj",
                         "model.lm_head",
                         "layers.3.x.y",
                         "",
                         ".",
                         "a..b"};
  for (const char *path : paths) {
    const NameEntry *first = nullptr;
    for (const NameEntry &entry : list.entries)
      if (!first && *entry.matches(path))
        first = &entry;
    EXPECT_EQ(*list.match(path, ""), first) << path;
  }
  EXPECT_TRUE(list.allUsed());
}

TEST(NameIndex, AliasesOfAnArchitectureC7) {
  NameList list;
  ASSERT_TRUE(
      list.add("model.layers.0.self_attn.indexers_proj", kSource, "ignore")
          .ok());
  const char *path = "model.layers.0.self_attn.indexer.weights_proj";
  EXPECT_EQ(*list.match(path, ""), nullptr);
  const NameAlias aliases[] = {{"indexers_proj", "indexer.weights_proj"}};
  list.addAliases(aliases);
  EXPECT_NE(*list.match(path, ""), nullptr);
  EXPECT_EQ(*list.match("model.layers.1.self_attn.indexer.weights_proj", ""),
            nullptr);
  // The other name is still one.
  EXPECT_NE(*list.match("model.layers.0.self_attn.indexers_proj", ""), nullptr);
}

} // namespace
