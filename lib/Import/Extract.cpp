//===- Extract.cpp - One module alone -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderBuilder.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace mlir;
using namespace octet;

namespace {
/// A module of a layer that can be extracted, with the widths of a row.
struct Extractable {
  std::string name;
  int64_t in, out;
};
} // namespace

/// Attention, linears, and the block that holds an MLP or experts.
static std::vector<Extractable> getLayerModules(const DecoderConfig &config,
                                                const ModuleList &list,
                                                int64_t layer) {
  std::string prefix = "model.layers." + std::to_string(layer) + ".";
  std::vector<Extractable> modules;
  std::string block;
  for (const ModuleEntry &entry : findLayer(list, layer)) {
    std::string name = entry.path.substr(prefix.size());
    std::string top = name.substr(0, name.find('.'));
    bool isBlock = top == "mlp" || top == "block_sparse_moe";
    if (isBlock && block.empty()) {
      block = top;
      modules.push_back({block, config.hidden, config.hidden});
    }
    if (entry.kind == ModuleKind::Attention)
      modules.push_back({name, config.hidden, config.hidden});
    // kv_b_proj is part of its attention (W12).
    if (entry.kind == ModuleKind::Linear && !name.ends_with(".kv_b_proj"))
      modules.push_back({name, entry.k, entry.n});
  }
  return modules;
}

static std::string listExtractable(const std::vector<Extractable> &modules) {
  std::string names;
  for (const Extractable &module : modules)
    names += (names.empty() ? "" : ", ") + module.name;
  return names;
}

Result<ExtractedModule> octet::findExtracted(const DecoderConfig &config,
                                             const ModuleList &list,
                                             const std::string &name) {
  ExtractedModule result;
  std::string_view rest = normalizeName(name);
  if (rest == "lm_head") {
    result = {"lm_head", "lm_head", -1, config.hidden, config.vocab};
    return result;
  }
  constexpr std::string_view kLayers = "layers.";
  if (!rest.starts_with(kLayers))
    return usageError("--extract " + escapeName(name),
                      "no module of that name; 'lm_head', or below "
                      "'model.layers.N': " +
                          listExtractable(getLayerModules(config, list, 0)));
  rest.remove_prefix(kLayers.size());
  size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  std::string_view number = rest.substr(0, digits);
  int64_t layer = -1;
  if (!number.empty() && number.size() <= 9 &&
      (number.size() == 1 || number[0] != '0'))
    layer = std::stoll(std::string(number));
  if (layer < 0 || layer >= config.layers)
    return usageError("--extract " + escapeName(name),
                      "no layer of that number; the model has layers 0 to " +
                          std::to_string(config.layers - 1));
  std::string below(digits < rest.size() && rest[digits] == '.'
                        ? rest.substr(digits + 1)
                        : std::string_view());
  std::vector<Extractable> modules = getLayerModules(config, list, layer);
  for (const Extractable &module : modules)
    // transformers calls Mixtral's block `mlp` too.
    if (module.name == below ||
        (below == "mlp" && module.name == "block_sparse_moe"))
      return ExtractedModule{"model.layers." + std::to_string(layer) + "." +
                                 module.name,
                             module.name, layer, module.in, module.out};
  return usageError("--extract " + escapeName(name),
                    "a linear, 'self_attn' or 'mlp' can be extracted; below "
                    "'model.layers." +
                        std::to_string(layer) + "' there are " +
                        listExtractable(modules));
}

void DecoderBuilder::buildExtracted(const ExtractedModule &extracted,
                                    const LayerFacts *facts,
                                    const StoredModule *head) {
  startStep();
  Value input = field(model::Field::Input, rows(extracted.in));
  if (!facts) {
    endStep(lmHead(input, *head));
    return;
  }
  layer = index(extracted.layer);
  Value selected;
  if (extracted.name == "self_attn")
    endStep(selfAttention(input, *facts, selected));
  else if (!StringRef(extracted.name).contains('.'))
    endStep(feedForward(input, *facts));
  else // alone it is no shard of a fused module
    endStep(linear(input, facts->get(extracted.name), /*fused=*/false));
}

void octet::buildExtracted(ModuleOp module, const DecoderConfig &config,
                           const DecoderOptions &options,
                           const ExtractedModule &extracted,
                           const LayerFacts *layer,
                           const StoredModule *lmHead) {
  DecoderBuilder(module, config, options)
      .buildExtracted(extracted, layer, lmHead);
}
