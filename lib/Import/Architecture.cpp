//===- Architecture.cpp - What decoder families share ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <array>
#include <cmath>

using namespace octet;

static constexpr std::array kArchitectures = {
#define OCTET_ARCHITECTURE(NAME, READER) Architecture{NAME, READER},
#include "Architectures.def"
};

/// Layers beyond this are no model; the bound keeps a lying config from asking
/// for memory.
static constexpr int64_t kMaxLayers = 1 << 16;

Result<const Architecture *> octet::findArchitecture(ConfigReader &config) {
  const nlohmann::json *names = config.find("architectures");
  std::string known;
  for (const Architecture &architecture : kArchitectures)
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  if (!names || !names->is_array() || names->empty() ||
      !(*names)[0].is_string())
    return inputError(config.getSubject(),
                      config.describe("architectures") +
                          "; expected a list with one of " + known);
  std::string name = (*names)[0].get<std::string>();
  for (const Architecture &architecture : kArchitectures)
    if (architecture.name == name)
      return &architecture;
  return inputError(config.getSubject(), "unknown architecture " +
                                             quoteName(name) + "; known are " +
                                             known);
}

/// Keys that say nothing about what is computed.
static void ignoreDecoration(ConfigReader &config) {
  config.ignore({"_name_or_path",
                 "attention_dropout",
                 "architectures",
                 "auto_map",
                 "bos_token_id",
                 "compression_config",
                 "dtype",
                 "eos_token_id",
                 "id2label",
                 "initializer_range",
                 "label2id",
                 "max_length",
                 "model_type",
                 "pad_token_id",
                 "pretraining_tp",
                 "quantization_config",
                 "tokenizer_class",
                 "torch_dtype",
                 "transformers_version",
                 "unk_token_id",
                 "use_cache",
                 "attn_implementation",
                 "_attn_implementation",
                 "resid_pdrop",
                 "embd_pdrop",
                 "hidden_dropout",
                 "output_attentions",
                 "output_hidden_states",
                 "return_dict",
                 "chunk_size_feed_forward",
                 "problem_type",
                 "unsloth_version",
                 "unsloth_fixed",
                 "task_specific_params",
                 "language",
                 "license"});
}

static Status readHeads(ConfigReader &config, DecoderConfig &result) {
  OCTET_TRY_ASSIGN(result.heads, config.getSize("num_attention_heads"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> kvHeads,
                   config.findSize("num_key_value_heads"));
  result.kvHeads = kvHeads.value_or(result.heads);
  if (result.heads % result.kvHeads != 0)
    return inputError(config.getSubject(),
                      config.describe("num_attention_heads") + " and " +
                          config.describe("num_key_value_heads") +
                          "; the first has to be a multiple of the second",
                      "W3b");
  OCTET_TRY_ASSIGN(std::optional<int64_t> headDim, config.findSize("head_dim"));
  if (!headDim && result.hidden % result.heads != 0)
    return inputError(config.getSubject(),
                      "has no head_dim, and hidden_size " +
                          std::to_string(result.hidden) +
                          " is not a multiple of num_attention_heads " +
                          std::to_string(result.heads),
                      "C15");
  result.headDim = headDim.value_or(result.hidden / result.heads);
  std::optional<int64_t> width = checkedMul(result.heads, result.headDim);
  if (!width || *width > kMaxSize)
    return inputError(config.getSubject(),
                      config.describe("num_attention_heads") +
                          " and head_dim is " + std::to_string(result.headDim) +
                          "; their product is more than " +
                          std::to_string(kMaxSize),
                      "C15");
  return Status::success();
}

Result<DecoderConfig> octet::readDecoder(ConfigReader &config,
                                         std::vector<std::string> &warnings,
                                         bool isLatent) {
  ignoreDecoration(config);
  DecoderConfig result;
  OCTET_TRY_ASSIGN(result.vocab, config.getSize("vocab_size"));
  OCTET_TRY_ASSIGN(result.hidden, config.getSize("hidden_size"));
  OCTET_TRY_ASSIGN(result.intermediate, config.getSize("intermediate_size"));
  OCTET_TRY_ASSIGN(result.layers, config.getSize("num_hidden_layers"));
  if (result.layers > kMaxLayers)
    return inputError(config.getSubject(),
                      config.describe("num_hidden_layers") +
                          "; expected at most " + std::to_string(kMaxLayers),
                      "C15");
  if (!isLatent) {
    OCTET_TRY(readHeads(config, result));
    result.attentionScale = float(1 / std::sqrt(double(result.headDim)));
  } else {
    OCTET_TRY_ASSIGN(result.heads, config.getSize("num_attention_heads"));
  }
  OCTET_TRY_ASSIGN(result.maxPositions,
                   config.getSize("max_position_embeddings"));
  OCTET_TRY_ASSIGN(std::optional<double> eps,
                   config.findPositive("rms_norm_eps"));
  if (!eps)
    return inputError(config.getSubject(),
                      "has no rms_norm_eps; expected a finite number greater "
                      "than 0",
                      "C15");
  result.normEps = float(*eps);
  if (!std::isfinite(result.normEps) || result.normEps <= 0)
    return inputError(config.getSubject(),
                      config.describe("rms_norm_eps") +
                          "; expected a number that float32 can hold",
                      "C15");
  OCTET_TRY_ASSIGN(std::optional<std::string> act,
                   config.findString("hidden_act"));
  if (act.value_or("silu") != "silu" && *act != "swish")
    return inputError(config.getSubject(),
                      config.describe("hidden_act") +
                          "; 'silu' is built for this architecture",
                      "C15");
  OCTET_TRY_ASSIGN(result.tied, config.getFlag("tie_word_embeddings", false));
  OCTET_TRY_ASSIGN(result.rope,
                   readRope(config, result.maxPositions, warnings));
  result.windows.assign(size_t(result.layers), 0);
  return result;
}

Result<int64_t> octet::readSlidingWindow(ConfigReader &config) {
  constexpr int64_t kDefaultWindow = 4096;
  if (!config.contains("sliding_window"))
    return config.isNull("sliding_window") ? 0 : kDefaultWindow;
  return config.getSize("sliding_window");
}

Status octet::readWindows(ConfigReader &config, int64_t window,
                          bool (*slides)(int64_t, int64_t),
                          int64_t firstSliding, DecoderConfig &result) {
  const nlohmann::json *types = config.find("layer_types");
  if (types && (!types->is_array() || types->size() != size_t(result.layers)))
    return inputError(config.getSubject(),
                      "layer_types is " +
                          (types->is_array()
                               ? "a list of " + std::to_string(types->size())
                               : describeJson(*types)) +
                          "; expected a list of num_hidden_layers, which is " +
                          std::to_string(result.layers),
                      "C15");
  for (int64_t layer = 0; layer < result.layers; ++layer) {
    bool sliding = window > 0 && slides(layer, firstSliding);
    if (types) {
      const nlohmann::json &type = (*types)[size_t(layer)];
      if (type != "full_attention" && type != "sliding_attention")
        return inputError(config.getSubject(),
                          "layer_types[" + std::to_string(layer) + "] is " +
                              describeJson(type) +
                              "; 'full_attention' and 'sliding_attention' are "
                              "built for this architecture",
                          "C15");
      sliding = type == "sliding_attention";
      if (sliding && window == 0)
        return inputError(config.getSubject(),
                          "layer_types[" + std::to_string(layer) +
                              "] is 'sliding_attention' and there is no "
                              "sliding_window; expected its width",
                          "C15");
    }
    result.windows[size_t(layer)] = sliding ? window : 0;
  }
  return Status::success();
}
