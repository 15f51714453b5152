//===- QuantMethodsTest.cpp - Configs, names, modules, contracts ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

Result<std::optional<QuantConfig>>
read(const char *fields, std::string_view user = "", Target target = {}) {
  FoundConfig found{json::parse(fields), kSource};
  return readQuantConfig(&found, user, target);
}

QuantConfig readGood(const char *fields, std::string_view user = "") {
  Result<std::optional<QuantConfig>> config = read(fields, user);
  EXPECT_TRUE(config.ok()) << text(config);
  return config.ok() && *config ? **config : QuantConfig();
}

//===----------------------------------------------------------------------===//
// C1, C14: finding the config
//===----------------------------------------------------------------------===//

std::string findSource(const char *config, const char *sidecar = "null") {
  Result<std::optional<FoundConfig>> found =
      findQuantConfig(json::parse(config), json::parse(sidecar));
  if (!found)
    return text(found);
  return *found ? (*found)->source : "none";
}

TEST(FindQuantConfig, FirstFoundWinsC1) {
  const char *sidecar = R"({"quantization": {"quant_algo": "FP8"}})";
  EXPECT_EQ(findSource(R"({"quantization_config": {"quant_method": "fp8"},
                          "compression_config": {}})",
                       sidecar),
            kSource);
  EXPECT_EQ(findSource(R"({"text_config": {"quantization_config": {}},
                          "compression_config": {}})",
                       sidecar),
            "config.json: text_config.quantization_config");
  EXPECT_EQ(findSource(R"({"compression_config": {}})", sidecar),
            "config.json: compression_config");
  EXPECT_EQ(findSource("{}", sidecar), "hf_quant_config.json: quantization");
  EXPECT_EQ(findSource(R"({"quantization_config": null})"), "none");
}

TEST(FindQuantConfig, AnythingButAnObjectIsRefusedC1) {
  EXPECT_EQ(findSource(R"({"quantization_config": ["fp8"]})"),
            "error: config.json: quantization_config: is "
            "[\"fp8\"], expected an object [C1]");
}

TEST(Registry, NamesAreComparedWholeIgnoringCaseC14) {
  EXPECT_EQ(readGood(R"({"quant_method": "FP8"})").method, "fp8");
  EXPECT_EQ(readGood(R"({"quant_method": "MXFP8"})").method, "mxfp8");
  // Without quant_method but with quant_algo it is ModelOpt.
  EXPECT_EQ(readGood(R"({"quant_algo": "FP8"})").method, "modelopt");
  EXPECT_EQ(
      readGood(R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})").method,
      "modelopt_fp4");
  // MXFP8 is not FP8.
  EXPECT_EQ(
      readGood(R"({"quant_method": "modelopt", "quant_algo": "MXFP8"})").method,
      "mxfp8");
}

TEST(Registry, UnknownNameListsTheValidOnesC2) {
  std::string error = text(read(R"({"quant_method": "fp9"})"));
  EXPECT_TRUE(error.starts_with(
      "error: config.json: quantization_config.quant_method: no method is "
      "called 'fp9'; valid for target cpu are 'auto-round', 'awq', "))
      << error;
  for (const char *name : {"'fp8'", "'compressed-tensors'", "'quark'", "[C2]"})
    EXPECT_NE(error.find(name), std::string::npos) << name;
  EXPECT_EQ(text(read("{}")),
            "error: config.json: quantization_config: has neither "
            "quant_method nor quant_algo; expected the name of a method [C2]");
}

TEST(Registry, EveryNameIsReadC2) {
  const std::vector<std::string_view> all = {
      "auto-round",  "awq",      "awq_marlin",   "compressed-tensors",
      "fbgemm_fp8",  "fp8",      "gguf",         "gptq",
      "gptq_marlin", "modelopt", "modelopt_fp4", "mxfp4",
      "mxfp8",       "quark",    "w8a8_fp8",     "w8a8_int8"};
  EXPECT_EQ(getMethodNames(TargetFamily::Cpu), all);
  EXPECT_EQ(getMethodNames(TargetFamily::Cuda), all);
}

//===----------------------------------------------------------------------===//
// C3: a method named by the user
//===----------------------------------------------------------------------===//

const char *kChannel = R"({"quant_method": "compressed-tensors",
  "format": "float-quantized", "ignore": ["lm_head"], "config_groups": {
  "group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "channel",
                "symmetric": true, "dynamic": false},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "token",
                          "symmetric": true, "dynamic": true}}}})";
const char *kStatic = R"({"quant_method": "compressed-tensors",
  "format": "float-quantized", "config_groups": {
  "group_0": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    "input_activations": {"num_bits": 8, "type": "float", "strategy": "tensor",
                          "dynamic": false}}}})";

TEST(Registry, UserMethodReadsALayoutItCanC3) {
  QuantConfig config = readGood(kChannel, "w8a8_fp8");
  EXPECT_EQ(config.method, "w8a8_fp8");
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].scheme.weight, Granularity::perChannel());
  EXPECT_EQ(readGood(kStatic, "fp8").method, "fp8");
}

TEST(Registry, UserMethodRefusesAnotherLayoutC3) {
  EXPECT_EQ(text(read(kStatic, "w8a8_fp8")),
            "error: --quantization w8a8_fp8: cannot read this checkpoint's "
            "layout, which is 'compressed-tensors' (config.json: "
            "quantization_config); it reads one scale a channel and dynamic "
            "activations, which 'group_0' of config_groups is not [C3]");
  EXPECT_NE(text(read(R"({"quant_method": "awq"})", "fp8")).find("[C3]"),
            std::string::npos);
  // W10 is fp8's; the others need something stored.
  EXPECT_NE(text(readQuantConfig(nullptr, "w8a8_fp8", Target())).find("[C3]"),
            std::string::npos);
}

TEST(Registry, UnquantisedCheckpointWithFp8IsQuantisedWhileLoadingW10) {
  Result<std::optional<QuantConfig>> config =
      readQuantConfig(nullptr, "fp8", Target());
  ASSERT_TRUE(config.ok() && *config);
  EXPECT_FALSE((*config)->serialized);
  Result<std::optional<QuantConfig>> none =
      readQuantConfig(nullptr, "", Target());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

//===----------------------------------------------------------------------===//
// C4, C5, C15: fields
//===----------------------------------------------------------------------===//

TEST(Fp8Config, FieldsC4) {
  QuantConfig config = readGood(R"({"quant_method": "fp8", "fmt": "e4m3",
    "activation_scheme": "dynamic", "weight_block_size": [64, 128],
    "modules_to_not_convert": ["lm_head"], "scale_fmt": "ue8m0",
    "kv_cache_scheme": "static"})");
  EXPECT_EQ(config.scheme->weight, Granularity::block(64, 128));
  EXPECT_EQ(config.scheme->activation, Activation::Dynamic);
  EXPECT_TRUE(config.ue8m0);
  EXPECT_EQ(config.kvCache, "kv_cache_scheme is 'static'");
  EXPECT_EQ(config.ignore.entries.size(), 1u);
  EXPECT_TRUE(config.warnings.empty());
  auto kvCache = [](const char *value) {
    return readGood((std::string(R"({"quant_method": "fp8",
                     "kv_cache_quant_algo": )") +
                     value + "}")
                        .c_str())
        .kvCache;
  };
  EXPECT_EQ(kvCache(R"("FP8")"), "kv_cache_quant_algo is 'FP8'");
  EXPECT_NE(kvCache(R"({"num_bits": 8, "type": "float"})"), "");
  EXPECT_EQ(kvCache(R"({"num_bits": 4, "type": "int"})"), "");
  EXPECT_EQ(kvCache("null"), "");
  config = readGood(R"({"quant_method": "fp8", "ignored_layers": ["a", "b"],
    "activation_scheme": "static"})");
  EXPECT_EQ(config.ignore.entries.size(), 2u);
  EXPECT_EQ(config.scheme->activation, Activation::Static);
}

TEST(Fp8Config, WrongFieldsAreRefusedC4) {
  auto refuse = [](const char *field) {
    return text(read(
        (std::string(R"({"quant_method": "fp8", )") + field + "}").c_str()));
  };
  EXPECT_EQ(refuse(R"("activation_scheme": "token")"),
            "error: config.json: quantization_config.activation_scheme: is "
            "'token', expected 'static' or 'dynamic' [C4]");
  EXPECT_EQ(refuse(R"("weight_block_size": [128, 0])"),
            "error: config.json: quantization_config.weight_block_size: is "
            "[128,0], expected two positive integers [bn, bk] [C4]");
  EXPECT_EQ(refuse(R"("weight_block_size": [128.0, 128])"),
            "error: config.json: quantization_config.weight_block_size: is "
            "[128.0,128], expected two positive integers [bn, bk] [C4]");
  EXPECT_EQ(refuse(R"("weight_block_size": 128)"),
            "error: config.json: quantization_config.weight_block_size: is "
            "128, expected two positive integers [bn, bk] [C4]");
  EXPECT_EQ(refuse(R"("modules_to_not_convert": "lm_head")"),
            "error: config.json: quantization_config.modules_to_not_convert: "
            "is 'lm_head', expected a list of names [C4]");
  EXPECT_EQ(refuse(R"("ignored_layers": ["a", 1])"),
            "error: config.json: quantization_config.ignored_layers[1]: is 1, "
            "expected a name [C4]");
  EXPECT_EQ(refuse(R"("scale_fmt": "e5m2")"),
            "error: config.json: quantization_config.scale_fmt: is 'e5m2', "
            "expected 'ue8m0' or no such field [C4]");
}

TEST(Fp8Config, BlockNeedsDynamicActivationsC5) {
  EXPECT_EQ(text(read(R"({"quant_method": "fp8", "activation_scheme": "static",
                          "weight_block_size": [128, 128]})")),
            "error: config.json: quantization_config.weight_block_size: is "
            "[128, 128] and activation_scheme is 'static'; one static scale "
            "cannot describe per-block activations, activation_scheme "
            "'dynamic' can [C5]");
}

TEST(Fp8Config, BlockNeedsStoredCodesC5) {
  EXPECT_EQ(
      text(read(R"({"quant_method": "fp8", "weight_block_size": [128, 128],
                          "is_checkpoint_fp8_serialized": false})")),
      "error: config.json: quantization_config.weight_block_size: is "
      "[128, 128] but the checkpoint is not FP8-serialised; convert it "
      "offline first with 'octet quantize CKPT -o DIR --to fp8-block' "
      "[C5]");
}

TEST(Fp8Config, QuantisedWhileLoadingW10) {
  auto resolve = [](const char *scheme, bool scale, const char *declared) {
    QuantConfig config = readGood((std::string(R"({"quant_method": "fp8",
           "is_checkpoint_fp8_serialized": false, "activation_scheme": ")") +
                                   scheme + R"("})")
                                      .c_str());
    ModuleFacts facts;
    facts.module = "a.b";
    facts.declared = declared;
    facts.tensors["weight"] = {StoredType::BF16, {4, 8}};
    if (scale)
      facts.tensors["input_scale"] = {StoredType::F32, {}};
    return resolveModule(&config, facts);
  };
  Result<ResolvedModule> dynamic = resolve("dynamic", false, "");
  ASSERT_TRUE(dynamic.ok()) << text(dynamic);
  EXPECT_TRUE(dynamic->whileLoading);
  EXPECT_EQ(dynamic->activation, Activation::Dynamic);
  EXPECT_FALSE(resolve("dynamic", false, "ignored: x[0] 'a.b'")->quantized);
  EXPECT_FALSE(resolve("static", false, "ignored: x[0] 'a.b'")->quantized);
  EXPECT_EQ(resolve("static", true, "")->activation, Activation::Static);
  EXPECT_EQ(text(resolve("static", false, "")),
            "error: a.b: no 'input_scale', which activation_scheme 'static' "
            "reads, for its BF16 weight that is quantised while loading; "
            "activation_scheme 'dynamic' needs none [W10]");
}

TEST(Fp8Config, UnknownFieldsAreReportedC15) {
  QuantConfig config = readGood(R"({"quant_method": "fp8", "rotate": true,
    "nothing": null, "off": false})");
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].subject,
            "config.json: quantization_config.rotate");
  EXPECT_EQ(config.warnings[0].rule, "C15");
}

TEST(CompressedTensors, Groups) {
  QuantConfig config = readGood(kStatic);
  ASSERT_EQ(config.groups.size(), 1u);
  EXPECT_EQ(config.groups[0].scheme.weight, Granularity::perTensor());
  EXPECT_EQ(config.groups[0].scheme.activation, Activation::Static);
  EXPECT_TRUE(config.groups[0].allLinears);
  // Activations that are not quantised at all: weight-only.
  config = readGood(R"({"quant_method": "compressed-tensors",
    "format": "float-quantized", "config_groups": {"g": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                "block_structure": [128, 64]}, "input_activations": null}}})");
  EXPECT_EQ(config.groups[0].scheme.weight, Granularity::block(128, 64));
  EXPECT_EQ(config.groups[0].scheme.activation, Activation::None);
}

TEST(CompressedTensors, WhatIsNotReadIsRefusedByNameC2) {
  auto refuse = [](const char *format, const char *weights) {
    return text(read((std::string(R"({"quant_method": "compressed-tensors",
      "format": ")") + format +
                      R"(", "config_groups": {"g": {"targets":
      ["Linear"], "weights": )" +
                      weights + "}}}")
                         .c_str()));
  };
  const char *good = R"({"num_bits": 8, "type": "float"})";
  EXPECT_EQ(refuse("marlin-24", good),
            "error: config.json: quantization_config.config_groups.g.format: "
            "is 'marlin-24', which is not read; 'float-quantized', "
            "'int-quantized', 'naive-quantized', 'pack-quantized', "
            "'nvfp4-pack-quantized', 'dense' and 'mixed-precision' are [C2]");
  EXPECT_EQ(refuse("float-quantized", R"({"num_bits": 4, "type": "int"})"),
            "error: config.json: quantization_config.config_groups.g.weights: "
            "has type 'int' of 4 bits, format 'float-quantized' stores 'float' "
            "of 8 bits [C2]");
  EXPECT_EQ(refuse("float-quantized", R"({"num_bits": 8, "type": "float",
                                          "strategy": "attn_head"})"),
            "error: config.json: "
            "quantization_config.config_groups.g.weights.strategy: is "
            "'attn_head', which is not built for FP8 weights; 'tensor', "
            "'channel' and 'block' are [C2]");
  EXPECT_EQ(refuse("pack-quantized", R"({"num_bits": 4, "type": "int",
                                         "group_size": 32})"),
            "no error");
}

//===----------------------------------------------------------------------===//
// C7, C8: names
//===----------------------------------------------------------------------===//

bool matches(const char *entry, const char *path) {
  Result<NameEntry> parsed = NameEntry::parse(entry, kSource, "ignore", 0);
  EXPECT_TRUE(parsed.ok()) << text(parsed);
  Result<bool> hit = parsed->matches(path);
  EXPECT_TRUE(hit.ok()) << text(hit);
  return hit.ok() && *hit;
}

TEST(NameEntry, RunsOfWholeComponentsC7) {
  EXPECT_TRUE(matches("mlp.gate", "model.layers.1.mlp.gate"));
  EXPECT_FALSE(matches("mlp.gate", "model.layers.1.mlp.gate_proj"));
  EXPECT_FALSE(matches("mlp.gate", "model.layers.1.mlp.gate_up_proj"));
  EXPECT_TRUE(matches("mlp", "model.layers.1.mlp.gate_proj"));
  EXPECT_TRUE(matches("layers.1", "model.layers.1.mlp.gate_proj"));
  EXPECT_FALSE(matches("layers.1", "model.layers.10.mlp.gate_proj"));
  EXPECT_FALSE(matches("layers.0", "model.layers.10.mlp.gate_proj"));
  EXPECT_FALSE(matches("", "model.norm"));
  // A dot is a dot, a star a star.
  EXPECT_FALSE(matches("mlp.down", "mlp_down"));
  EXPECT_FALSE(matches("model.layers.*.mlp", "model.layers.1.mlp"));
}

TEST(NameEntry, WrapperPrefixesC7) {
  const char *path = "model.layers.0.self_attn.o_proj";
  for (const char *entry :
       {"layers.0.self_attn.o_proj", "model.layers.0.self_attn.o_proj",
        "language_model.layers.0.self_attn.o_proj",
        "language_model.model.layers.0.self_attn.o_proj",
        "model.language_model.layers.0.self_attn.o_proj"}) {
    EXPECT_TRUE(matches(entry, path)) << entry;
    EXPECT_TRUE(matches("model.layers.0.self_attn.o_proj", entry)) << entry;
  }
  EXPECT_FALSE(matches("model.visual", path));
}

TEST(NameEntry, RegularExpressionsOnlyAfterReC7) {
  EXPECT_TRUE(matches("re:.*self_attn.*", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(matches("re:layers\\.0\\..*", "model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(matches("re:layers\\.0\\..*", "model.layers.10.mlp.up_proj"));
  // From the start, as re.match; not necessarily to the end.
  EXPECT_TRUE(matches("re:model", "model.layers.0"));
  EXPECT_FALSE(matches("re:mlp", "model.layers.0.mlp"));
  EXPECT_TRUE(matches("re:model\\.layers\\.(?!1\\.).*gate_proj$",
                      "model.layers.0.mlp.gate_proj"));
  EXPECT_FALSE(matches(".*self_attn.*", "model.layers.0.self_attn.q_proj"));
  EXPECT_EQ(text(NameEntry::parse("re:(", kSource, "ignore", 3)),
            "error: config.json: quantization_config: ignore[3] 're:(' is no "
            "regular expression: missing closing parenthesis at character 1 "
            "[C7]");
}

TEST(NameEntry, HostileExpressionEndsC7) {
  Result<NameEntry> entry = NameEntry::parse("re:(a+)+$", kSource, "ignore", 0);
  ASSERT_TRUE(entry.ok());
  EXPECT_NE(text(entry->matches(std::string(60, 'a') + "!"))
                .find("takes too many steps"),
            std::string::npos);
}

TEST(NameList, AbsentNullAndEmptyAreThreeThingsC7) {
  auto presence = [](const char *fields) {
    return NameList::read(json::parse(fields), "ignore", kSource)->presence;
  };
  EXPECT_EQ(presence("{}"), NameList::Presence::Absent);
  EXPECT_EQ(presence(R"({"ignore": null})"), NameList::Presence::Null);
  EXPECT_EQ(presence(R"({"ignore": []})"), NameList::Presence::Given);
}

TEST(NameList, EntriesThatMatchNothingC7) {
  NameList list =
      *NameList::read(json::parse(R"({"ignore": ["lm_head", "model.visual",
        "model.layers.61.eh_proj", "mlp.gate.e_score_correction_bias",
        "re:.*router$"]})"),
                      "ignore", kSource);
  ASSERT_TRUE(list.match("lm_head", "").ok());
  for (const char *tensor : {"model.layers.61.eh_proj.weight",
                             "model.layers.3.mlp.gate.e_score_correction_bias",
                             "model.layers.3.mlp.router.weight"})
    ASSERT_TRUE(list.markTensor(tensor).ok());
  EXPECT_EQ(list.getUnused(),
            std::vector<std::string>{"ignore[1] 'model.visual'"});
}

TEST(DeclareModule, FusedNameIsTestedBeforeItIsUnfoldedC8) {
  QuantConfig config = readGood(R"({"quant_method": "fp8",
    "modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate_up_proj"]})");
  auto declare = [&](const char *module, const char *fused, bool stored) {
    return *declareModule(config, module, fused, stored);
  };
  EXPECT_EQ(declare("model.layers.0.mlp.gate_proj",
                    "model.layers.0.mlp.gate_up_proj", false),
            "ignored: modules_to_not_convert[1] "
            "'model.layers.0.mlp.gate_up_proj'");
  EXPECT_EQ(declare("model.layers.1.mlp.gate_proj",
                    "model.layers.1.mlp.gate_up_proj", false),
            "");
  // A tensor of the checkpoint has that name: the entry means it alone.
  EXPECT_EQ(declare("model.layers.0.mlp.gate_proj",
                    "model.layers.0.mlp.gate_up_proj", true),
            "");
}

TEST(DeclareModule, MostSpecificTargetWins) {
  QuantConfig config = readGood(R"({"quant_method": "compressed-tensors",
    "format": "float-quantized", "ignore": ["re:.*lm_head"], "config_groups": {
    "a_class": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float"}},
    "b_pattern": {"targets": ["re:.*down_proj"], "weights": {"num_bits": 8, "type": "float"}},
    "c_path": {"targets": ["model.layers.1.mlp.down_proj"],
               "weights": {"num_bits": 8, "type": "float"}}}})");
  auto declare = [&](const char *module) {
    return *declareModule(config, module, "", false);
  };
  EXPECT_EQ(declare("model.layers.0.mlp.up_proj"), "group: a_class");
  EXPECT_EQ(declare("model.layers.0.mlp.down_proj"), "group: b_pattern");
  EXPECT_EQ(declare("model.layers.1.mlp.down_proj"), "group: c_path");
  EXPECT_EQ(declare("lm_head"), "ignored: ignore[0] 're:.*lm_head'");
}

//===----------------------------------------------------------------------===//
// C13, W1, W2, W6: one module
//===----------------------------------------------------------------------===//

const char *kBlockConfig =
    R"({"quant_method": "fp8", "weight_block_size": [128, 128]})";

ModuleFacts makeFacts(StoredType type, std::vector<int64_t> shape) {
  ModuleFacts facts;
  facts.module = "model.layers.5.mlp.gate_proj";
  facts.file = "model-00002-of-00007.safetensors";
  facts.tensors["weight"] = {type, std::move(shape)};
  return facts;
}

TEST(ResolveModule, BlockScalesInEverySpellingW2) {
  QuantConfig config = readGood(kBlockConfig);
  for (const char *name : {"weight_scale_inv", "weight_scale"})
    for (std::vector<int64_t> shape :
         {std::vector<int64_t>{3, 2}, std::vector<int64_t>{3, 1, 2, 1}})
      for (StoredType type : {StoredType::F32, StoredType::BF16}) {
        ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {320, 256});
        facts.tensors[name] = {type, shape};
        Result<ResolvedModule> module = resolveModule(&config, facts);
        ASSERT_TRUE(module.ok()) << text(module);
        EXPECT_TRUE(module->quantized);
        EXPECT_EQ(module->weight, Granularity::block(128, 128));
        EXPECT_EQ(module->scaleType, type);
        EXPECT_EQ(module->scaleName, name);
      }
}

TEST(ResolveModule, MissingScaleW6) {
  QuantConfig config = readGood(kBlockConfig);
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {18432, 4096});
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: no 'weight_scale_inv' for "
            "its F8_E4M3 weight; expected F32 [144, 32] (18432x4096 in "
            "128x128 blocks) [W6]");
  facts.tensors["weight_scale"] = {StoredType::F32, {1}};
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.status().info().format(),
            "error: model.layers.5.mlp.gate_proj: no 'weight_scale_inv' for "
            "its F8_E4M3 weight; expected F32 [144, 32] (18432x4096 in "
            "128x128 blocks) [W6]\n"
            "note:  model-00002-of-00007.safetensors: has "
            "'model.layers.5.mlp.gate_proj.weight_scale' [1], a per-tensor "
            "scale\n");
}

TEST(ResolveModule, ScaleOfAnotherShapeW1) {
  QuantConfig config = readGood(kBlockConfig);
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {576, 7168});
  facts.tensors["weight_scale_inv"] = {StoredType::F32, {4, 56}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: 'weight_scale_inv' is F32 "
            "[4, 56]; expected F32 [5, 56] (576x7168 in 128x128 blocks) [W1]");
  facts.tensors["weight_scale_inv"] = {StoredType::U8, {5, 56}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: 'weight_scale_inv' is U8 "
            "[5, 56]; expected F32, BF16 or F16, exponents belong to 'mxfp8' "
            "[W1]");
}

TEST(ResolveModule, BothSpellingsW2) {
  QuantConfig config = readGood(kBlockConfig);
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {128, 128});
  facts.tensors["weight_scale_inv"] = {StoredType::F32, {1, 1}};
  facts.tensors["weight_scale"] = {StoredType::F32, {}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: has both 'weight_scale' F32 "
            "[] and 'weight_scale_inv' F32 [1, 1]; one of the two spellings "
            "[W2]");
}

TEST(ResolveModule, Fp8IsPerTensorOrPerChannelByTheStoredScaleC3) {
  QuantConfig config = readGood(R"({"quant_method": "fp8"})");
  auto granularity = [&](std::vector<int64_t> shape) {
    ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {64, 32});
    facts.tensors["weight_scale"] = {StoredType::F32, std::move(shape)};
    Result<ResolvedModule> module = resolveModule(&config, facts);
    EXPECT_TRUE(module.ok()) << text(module);
    return module->weight;
  };
  EXPECT_EQ(granularity({}), Granularity::perTensor());
  EXPECT_EQ(granularity({1}), Granularity::perTensor());
  EXPECT_EQ(granularity({64, 1}), Granularity::perChannel());
  EXPECT_EQ(granularity({64}), Granularity::perChannel());
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {64, 32});
  facts.tensors["weight_scale"] = {StoredType::F32, {1, 32}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: 'weight_scale' is F32 [1, "
            "32]; expected F32 [] (one scale) or F32 [64, 1] (one a channel) "
            "[W1]");
}

TEST(ResolveModule, StaticNeedsAnInputScaleW6) {
  QuantConfig config =
      readGood(R"({"quant_method": "fp8", "activation_scheme": "static"})");
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {64, 32});
  facts.tensors["weight_scale"] = {StoredType::F32, {}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: no 'input_scale', which a "
            "static activation scheme needs; expected F32 [] [W6]");
  facts.tensors["input_scale"] = {StoredType::F32, {2}};
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: 'input_scale' is F32 [2]; "
            "expected F32 [] (one scale for the activation) [W1]");
  facts.tensors["input_scale"] = {StoredType::BF16, {1}};
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_EQ(module->activation, Activation::Static);
}

TEST(ResolveModule, HeadersDecideWhatTheListsSayC13) {
  QuantConfig config = readGood(kBlockConfig);
  // Listed, and stored so.
  ModuleFacts facts = makeFacts(StoredType::BF16, {128, 128});
  facts.declared = "ignored: modules_to_not_convert[0] 'mlp'";
  Result<ResolvedModule> module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok());
  EXPECT_FALSE(module->quantized);
  EXPECT_TRUE(module->notes.empty());
  // In no list, stored in BF16 without scales.
  facts.declared = "";
  module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok());
  EXPECT_FALSE(module->quantized);
  ASSERT_EQ(module->notes.size(), 1u);
  EXPECT_EQ(module->notes[0].message, "is stored in BF16 without scales and "
                                      "stays unquantised, though no list "
                                      "names it");
  // Listed, but stored in FP8 with scales.
  facts = makeFacts(StoredType::F8_E4M3, {128, 128});
  facts.tensors["weight_scale_inv"] = {StoredType::F32, {1, 1}};
  facts.declared = "ignored: modules_to_not_convert[0] 'mlp'";
  module = resolveModule(&config, facts);
  ASSERT_TRUE(module.ok()) << text(module);
  EXPECT_TRUE(module->quantized);
  EXPECT_EQ(module->notes.size(), 1u);
}

TEST(ResolveModule, ContradictionsAreRefusedC13) {
  QuantConfig config = readGood(kBlockConfig);
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {128, 128});
  facts.tensors["weight_scale_inv"] = {StoredType::F32, {1, 1}};
  EXPECT_EQ(text(resolveModule(nullptr, facts)),
            "error: model.layers.5.mlp.gate_proj: weight is F8_E4M3 but the "
            "checkpoint declares no quantisation method; a "
            "quantization_config, or '--quantization fp8' [C13]");
  facts.tensors["weight"].type = StoredType::BF16;
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: has 'weight_scale_inv' F32 "
            "[1, 1] but its weight is BF16 [128, 128]; a scale belongs to a "
            "quantised weight, such as F8_E4M3 [C13]");
  facts.tensors["weight"].type = StoredType::I8;
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: weight is I8 [128, 128], "
            "method 'fp8' stores F8_E4M3, BF16, F16 or F32 [C13]");
  facts.tensors["weight"].type = StoredType::F8_E5M2;
  Result<ResolvedModule> converted = resolveModule(&config, facts);
  ASSERT_TRUE(converted.ok()) << text(converted);
  ASSERT_EQ(converted->notes.size(), 1u);
  EXPECT_EQ(converted->notes[0].rule, "N8");
  EXPECT_EQ(converted->notes[0].message,
            "is stored in F8_E5M2 and becomes F8_E4M3 while loading");
}

TEST(ResolveModule, NoAnswerIsAnErrorC11) {
  QuantConfig config = readGood(R"({"quant_method": "compressed-tensors",
    "format": "float-quantized", "config_groups": {"g": {
    "targets": ["re:.*up_proj"], "weights": {"num_bits": 8, "type": "float"}}}})");
  ModuleFacts facts = makeFacts(StoredType::F8_E4M3, {128, 128});
  facts.tensors["weight_scale"] = {StoredType::F32, {1}};
  facts.declared = *declareModule(config, facts.module, "", false);
  EXPECT_EQ(facts.declared, "no group");
  EXPECT_EQ(text(resolveModule(&config, facts)),
            "error: model.layers.5.mlp.gate_proj: weight is F8_E4M3 and no "
            "target of config_groups names it; a group with target 'Linear', "
            "its path or a pattern [C11]");
  facts.tensors.clear();
  facts.tensors["qweight"] = {StoredType::I32, {16, 128}};
  EXPECT_NE(text(resolveModule(&config, facts)).find("[C11]"),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// B3, B4, C9: targets and contracts
//===----------------------------------------------------------------------===//

Contract contract(Granularity weight, Activation activation,
                  const char *target = "cpu", ContractQuery query = {},
                  bool ue8m0 = false) {
  ResolvedModule method;
  method.quantized = true;
  method.method = "fp8";
  method.weight = weight;
  method.activation = activation;
  method.ue8m0 = ue8m0;
  Result<Contract> result =
      contractFor(method, *parseTarget(target, "--numerics"), query, "m");
  EXPECT_TRUE(result.ok()) << text(result);
  return result.ok() ? *result : Contract();
}

TEST(Contract, FollowsMethodAndTargetB1B3) {
  Contract block = contract(Granularity::block(128, 128), Activation::Dynamic);
  EXPECT_EQ(block.activation, Granularity::block(1, 128));
  EXPECT_FALSE(block.ue8m0);
  EXPECT_TRUE(contract(Granularity::block(128, 128), Activation::Dynamic,
                       "sm_90", {}, /*ue8m0=*/true)
                  .ue8m0);
  Contract channel = contract(Granularity::perChannel(), Activation::Dynamic);
  EXPECT_EQ(channel.activation, Granularity::perToken());
  Contract single = contract(Granularity::perTensor(), Activation::Static);
  EXPECT_EQ(single.weight, Granularity::perTensor());
  EXPECT_TRUE(single.isStatic);
  // A fused module has a scale a shard: the channel-wise kernel, on each
  // target.
  for (const char *target : {"cpu", "sm_89", "sm_90a"})
    EXPECT_EQ(contract(Granularity::perTensor(), Activation::Static, target,
                       {.fused = true})
                  .weight,
              Granularity::perChannel());
}

TEST(Contract, WeightOnlyB4) {
  for (const char *target : {"sm_80", "sm_86", "sm_87"}) {
    Contract result =
        contract(Granularity::perTensor(), Activation::Static, target);
    EXPECT_FALSE(result.activation) << target;
    EXPECT_FALSE(result.isStatic);
  }
  EXPECT_TRUE(contract(Granularity::perTensor(), Activation::Static, "sm_89")
                  .activation);
  EXPECT_FALSE(contract(Granularity::perChannel(), Activation::Dynamic, "cpu",
                        {.quantizeActivation = false})
                   .activation);
}

// Power-of-two scales on sm_100 for blocks of its fast kernel, and one scale
// for a fused matrix on sm_120: loading rewrites the weights.
TEST(Contract, RewritesW8W11) {
  auto block = [](int64_t n, int64_t k, const char *target, bool keeps) {
    return contract(Granularity::block(n, k), Activation::Dynamic, target,
                    {.keepScales = keeps});
  };
  for (int64_t side : {32, 128}) {
    Contract fast = block(side, side, "sm_100", false);
    EXPECT_EQ(fast.format.scale, ScaleFormat::Exponents);
    EXPECT_TRUE(fast.ue8m0);
    EXPECT_EQ(block(side, side, "sm_100", true).format.scale,
              ScaleFormat::Float);
    EXPECT_FALSE(block(side, side, "sm_100", true).ue8m0);
    EXPECT_EQ(block(side, side, "sm_90a", false).format.scale,
              ScaleFormat::Float);
  }
  EXPECT_EQ(block(64, 64, "sm_100", false).format.scale, ScaleFormat::Float);
  EXPECT_EQ(contract(Granularity::perTensor(), Activation::Static, "sm_120",
                     {.fused = true})
                .weight,
            Granularity::perTensor());
  EXPECT_EQ(contract(Granularity::perTensor(), Activation::Static, "cpu",
                     {.fused = true, .requantMax = true})
                .weight,
            Granularity::perTensor());
  // What is stored per channel is never collapsed (B3).
  EXPECT_EQ(contract(Granularity::perChannel(), Activation::Dynamic, "sm_120",
                     {.fused = true, .requantMax = true})
                .weight,
            Granularity::perChannel());
}

TEST(Target, NamesC9) {
  auto name = [](const char *text) {
    return parseTarget(text, "--target")->name;
  };
  EXPECT_EQ(name("cpu"), "cpu");
  EXPECT_EQ(name("sm_90"), "sm_90a");
  EXPECT_EQ(name("sm_100"), "sm_100f");
  EXPECT_EQ(name("sm_100a"), "sm_100f");
  EXPECT_EQ(name("sm_120"), "sm_120f");
  EXPECT_EQ(name("sm_89"), "sm_89");
  for (const char *bad : {"", "sm_", "sm_9", "gpu", "sm_90b", "sm_9999", "CPU"})
    EXPECT_EQ(text(parseTarget(bad, "--target")).find("[C9]") ==
                  std::string::npos,
              false)
        << bad;
}

TEST(Target, CapabilitiesC9) {
  auto check = [](const char *method, const char *target) {
    return text(checkMethodTarget(method, *parseTarget(target, "--target"),
                                  "--target"));
  };
  EXPECT_EQ(check("fp8", "cpu"), "no error");
  EXPECT_EQ(check("fp8", "sm_80"), "no error");
  EXPECT_EQ(check("w8a8_fp8", "sm_89"), "no error");
  // What runs on the target, and which targets run the method.
  std::string error = check("w8a8_fp8", "sm_80");
  EXPECT_TRUE(error.starts_with(
      "error: --target sm_80: method 'w8a8_fp8' needs compute capability 8.9 "
      "or higher, sm_80 is 8.0; 'auto-round', "))
      << error;
  EXPECT_NE(error.find(", 'compressed-tensors', 'fbgemm_fp8', 'fp8', "),
            std::string::npos)
      << error;
  EXPECT_TRUE(error.ends_with(
      "run there, FP8 with weights widened to BF16, and method 'w8a8_fp8' runs "
      "on cpu and from sm_89 on [C9]"))
      << error;
  EXPECT_NE(check("fp8", "sm_70").find("sm_70 is 7.0; no method runs there"),
            std::string::npos);
}

TEST(Target, ActivationDtypesC9) {
  Target cpu, gpu = *parseTarget("sm_90", "--target");
  EXPECT_TRUE(checkActivationDtype(cpu, "f32").ok());
  EXPECT_TRUE(checkActivationDtype(gpu, "bf16").ok());
  EXPECT_EQ(text(checkActivationDtype(gpu, "f32")),
            "error: --dtype f32: f32 activations run on the CPU target only, "
            "the target is sm_90a; bf16 and f16 run there [C9]");
  EXPECT_FALSE(checkActivationDtype(cpu, "fp8").ok());
}

TEST(KvScales, EverySpellingW2) {
  for (const char *name :
       {"k_scale", "v_scale", "kv_scale", "k_proj.k_scale", "qkv_proj.v_scale",
        "k_proj.output_scale", "v_proj.output_scale"})
    EXPECT_TRUE(isKvScaleName(name)) << name;
  for (const char *name : {"q_scale", "k_proj.weight_scale", "scale", "k_norm"})
    EXPECT_FALSE(isKvScaleName(name)) << name;
}

} // namespace
