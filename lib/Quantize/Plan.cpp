//===- Plan.cpp - What becomes of each tensor -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/QuantMethods/NameMatcher.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;
using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Which tensors
//===----------------------------------------------------------------------===//

static constexpr std::string_view kWeight = ".weight";

static std::string_view lastComponent(std::string_view path) {
  return path.substr(path.rfind('.') + 1);
}

static bool isInLayer(std::string_view name) {
  return name.find("layers.") != name.npos &&
         name.find("vision") == name.npos && name.find("visual") == name.npos;
}

/// The weight of a linear that an FP8 checkpoint quantises. Not the indexer's
/// head weights and not the projection of an MTP layer (P9, FORMATS.md).
static bool isLinear(const TensorInfo &tensor, std::string_view module) {
  if (tensor.shape.size() != 2 || !isInLayer(module))
    return false;
  std::string_view leaf = lastComponent(module);
  if (leaf == "weights_proj" || leaf == "indexers_proj" || leaf == "eh_proj")
    return false;
  bool expert = module.find(".experts.") != module.npos &&
                (leaf == "w1" || leaf == "w2" || leaf == "w3");
  return expert || leaf.find("_proj") != leaf.npos;
}

/// Shards that a run-time module joins: quantised together or not at all (C8).
static constexpr std::string_view kFused[][3] = {
    {"q_proj", "k_proj", "v_proj"},
    {"gate_proj", "up_proj", ""},
    {"w1", "w3", ""},
    {"q_a_proj", "kv_a_proj_with_mqa", ""},
};

namespace {

class Planner {
public:
  Planner(const Checkpoint &checkpoint, const QuantizeOptions &options)
      : checkpoint(checkpoint), options(options) {}
  Result<QuantizePlan> run();

private:
  Status checkSource();
  Status readIgnore();
  Result<bool> isIgnored(std::string_view module);
  Status checkFused(std::string_view module);
  Status addTensor(const TensorInfo &tensor);
  Result<OutputTensor> makeScale(const TensorInfo &tensor);
  OutputTensor makeInputScale(const TensorInfo &tensor);
  Status checkNew(const OutputTensor &scale, const TensorInfo &weight);
  Status makeShards();
  Status makeShard(PlannedShard &shard);

  const Checkpoint &checkpoint;
  const QuantizeOptions &options;
  NameList ignore;
  QuantizePlan plan;
};

/// The source is not quantised: by its config, and by what it stores.
Status Planner::checkSource() {
  std::string subject = escapePath(checkpoint.path);
  const char *hint = "; 'octet quantize' reads checkpoints in BF16, F16 or F32 "
                     "and GGUF files, 'octet compile' reads this one as it is";
  OCTET_TRY_ASSIGN(
      std::optional<FoundConfig> found,
      findQuantConfig(checkpoint.config, checkpoint.hfQuantConfig));
  if (found) {
    auto method = found->fields.find("quant_method");
    std::string word =
        method != found->fields.end() && method->is_string()
            ? " by " + quoteName(method->get_ref<const std::string &>())
            : "";
    return inputError(subject, "is quantised already" + word + hint, "C5")
        .note(found->source + " says so");
  }
  for (const TensorInfo &tensor : checkpoint.tensors.all())
    if (storedTypeName(tensor.type).starts_with("F8_"))
      return inputError(subject,
                        "is quantised already: tensor " +
                            quoteName(tensor.name) + " is " +
                            tensor.describe() + hint,
                        "C5");
  return Status::success();
}

Status Planner::readIgnore() {
  for (size_t i = 0; i < options.ignore.size(); ++i) {
    OCTET_TRY_ASSIGN(NameEntry entry,
                     NameEntry::parse(options.ignore[i], "command line",
                                      "--ignore", int64_t(i)));
    ignore.entries.push_back(std::move(entry));
  }
  return Status::success();
}

Result<bool> Planner::isIgnored(std::string_view module) {
  OCTET_TRY_ASSIGN(const NameEntry *entry, ignore.match(module, ""));
  return entry != nullptr;
}

/// All shards of `module`'s fused module have the same fate (C8).
Status Planner::checkFused(std::string_view module) {
  std::string_view leaf = lastComponent(module);
  std::string prefix(module.substr(0, module.size() - leaf.size()));
  for (const auto &group : kFused) {
    if (std::find(std::begin(group), std::end(group), leaf) == std::end(group))
      continue;
    for (std::string_view other : group) {
      if (other.empty() || other == leaf)
        continue;
      std::string sibling = prefix + std::string(other);
      if (!checkpoint.tensors.find(sibling + std::string(kWeight)))
        continue;
      OCTET_TRY_ASSIGN(bool mine, isIgnored(module));
      OCTET_TRY_ASSIGN(bool theirs, isIgnored(sibling));
      if (mine != theirs)
        return inputError(
            "--ignore",
            quoteName(mine ? module : std::string_view(sibling)) +
                " is ignored and " +
                quoteName(mine ? std::string_view(sibling) : module) +
                " is not; they are fused when the model runs and are skipped "
                "together or not at all",
            "C8");
    }
  }
  return Status::success();
}

Result<OutputTensor> Planner::makeScale(const TensorInfo &tensor) {
  std::string module =
      tensor.name.substr(0, tensor.name.size() - kWeight.size());
  bool declaredFp8 = options.format != QuantizeFormat::CompressedTensors;
  OutputTensor scale;
  scale.type = StoredType::F32;
  scale.name = module + ".weight_scale";
  switch (options.to) {
  case QuantizeTo::Block:
    if (declaredFp8)
      scale.name = module + ".weight_scale_inv";
    scale.shape = {cdiv(tensor.shape[0], options.blockN),
                   cdiv(tensor.shape[1], options.blockK)};
    break;
  case QuantizeTo::Channel:
    scale.shape = {tensor.shape[0], 1};
    break;
  case QuantizeTo::Tensor:
    if (!declaredFp8)
      scale.shape = {1};
    break;
  }
  std::optional<int64_t> count = checkedProduct(scale.shape);
  std::optional<int64_t> bytes = count ? checkedMul(*count, 4) : std::nullopt;
  if (!bytes)
    return inputError("tensor " + quoteName(tensor.name),
                      "its scales would be more than 2^63 - 1 bytes");
  scale.bytes = *bytes;
  return scale;
}

OutputTensor Planner::makeInputScale(const TensorInfo &tensor) {
  OutputTensor scale;
  scale.type = StoredType::F32;
  scale.name = tensor.name.substr(0, tensor.name.size() - kWeight.size()) +
               ".input_scale";
  if (options.format == QuantizeFormat::CompressedTensors)
    scale.shape = {1};
  scale.bytes = 4;
  return scale;
}

Status Planner::checkNew(const OutputTensor &scale, const TensorInfo &weight) {
  if (!checkpoint.tensors.find(scale.name))
    return Status::success();
  return inputError(escapePath(checkpoint.path),
                    "has " + quoteName(scale.name) + " beside " +
                        quoteName(weight.name) + ": is quantised already",
                    "C5");
}

static Status cannotRead(const TensorInfo &tensor) {
  return inputError("tensor " + quoteName(tensor.name),
                    "is " + tensor.describe() +
                        "; a weight to quantise is BF16, F16, F32, F64 or a "
                        "packed type of GGUF");
}

Status Planner::addTensor(const TensorInfo &tensor) {
  PlannedTensor planned;
  planned.source = &tensor;
  planned.data.name = tensor.name;
  planned.data.shape = tensor.shape;
  planned.data.type =
      tensor.packing == Packing::None ? tensor.type : StoredType::BF16;
  int64_t count = *checkedProduct(tensor.shape); // the headers fit
  planned.data.bytes = count * byteWidth(planned.data.type);

  std::string module;
  if (tensor.name.ends_with(kWeight))
    module = tensor.name.substr(0, tensor.name.size() - kWeight.size());
  bool linear = isLinear(tensor, module) && count > 0;
  if (linear) {
    OCTET_TRY_ASSIGN(bool ignored, isIgnored(module));
    OCTET_TRY(checkFused(module));
    linear = !ignored;
  }
  if (linear) {
    bool isFloat =
        tensor.type == StoredType::F32 || tensor.type == StoredType::BF16 ||
        tensor.type == StoredType::F16 || tensor.type == StoredType::F64;
    if (!isFloat)
      return cannotRead(tensor);
    planned.data.type = StoredType::F8_E4M3;
    planned.data.bytes = count;
    OCTET_TRY_ASSIGN(planned.scale, makeScale(tensor));
    OCTET_TRY(checkNew(*planned.scale, tensor));
    if (options.calibrate) {
      planned.inputScale = makeInputScale(tensor);
      OCTET_TRY(checkNew(*planned.inputScale, tensor));
    }
    ++plan.quantised;
  } else if (tensor.shape.size() == 2 && !module.empty() && isInLayer(module)) {
    plan.notConverted.push_back(module);
  } else if (tensor.shape.size() > 2 && isInLayer(tensor.name)) {
    plan.notes.push_back("tensor " + quoteName(tensor.name) + ": " +
                         tensor.describe() +
                         " has more than two sides and stays as it is");
  }
  plan.tensors.push_back(std::move(planned));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Offsets and header of one file. Widest elements first, as in
/// writeSafetensors: each tensor begins at a multiple of its element.
Status Planner::makeShard(PlannedShard &shard) {
  std::vector<OutputTensor *> order;
  for (size_t i = shard.begin; i < shard.end; ++i)
    plan.tensors[i].forEachOutput(
        [&](OutputTensor &tensor) { order.push_back(&tensor); });
  std::sort(order.begin(), order.end(),
            [](const OutputTensor *a, const OutputTensor *b) {
              return std::pair(-byteWidth(a->type), std::string_view(a->name)) <
                     std::pair(-byteWidth(b->type), std::string_view(b->name));
            });
  // transformers reads only files that say so.
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  auto &entries = header.get_ref<nlohmann::json::object_t &>();
  int64_t offset = 0;
  for (OutputTensor *tensor : order) {
    int64_t end = offset + tensor->bytes;
    entries[tensor->name] = {{"dtype", storedTypeName(tensor->type)},
                             {"shape", tensor->shape},
                             {"data_offsets", {offset, end}}};
    tensor->offset = std::exchange(offset, end);
  }
  std::string text = dumpJson(header);
  text.append(size_t(alignTo(int64_t(text.size()), 8)) - text.size(), ' ');
  if (text.size() > size_t(kMaxHeaderBytes))
    return inputError(
        "--shard-gib",
        "the header of one file would be " + std::to_string(text.size()) +
            " bytes, over the limit of " + std::to_string(kMaxHeaderBytes) +
            "; smaller shards have smaller headers");
  for (int i = 0; i < 8; ++i)
    shard.header += char(text.size() >> (8 * i) & 0xFF);
  shard.header += text;
  for (OutputTensor *tensor : order)
    tensor->offset += int64_t(shard.header.size());
  shard.bytes = int64_t(shard.header.size()) + offset;
  return Status::success();
}

Status Planner::makeShards() {
  int64_t inShard = 0;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlannedTensor &tensor = plan.tensors[i];
    int64_t bytes = 0;
    tensor.forEachOutput(
        [&](const OutputTensor &output) { bytes += output.bytes; });
    bool full = !plan.shards.empty() && bytes > options.shardBytes - inShard;
    if (plan.shards.empty() || full) {
      plan.shards.push_back({"", "", i, i, 0});
      inShard = 0;
    }
    plan.shards.back().end = i + 1;
    inShard += bytes;
  }
  size_t count = plan.shards.size();
  for (size_t i = 0; i < count; ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1,
                  count);
    plan.shards[i].name = count == 1 ? "model.safetensors" : name;
    OCTET_TRY(makeShard(plan.shards[i]));
  }
  return Status::success();
}

Result<QuantizePlan> Planner::run() {
  OCTET_TRY(checkSource());
  OCTET_TRY(readIgnore());
  plan.notConverted.push_back("lm_head");
  OCTET_TRY(ignore.markTensor("lm_head.weight")); // tied ones are not stored
  for (const TensorInfo &tensor : checkpoint.tensors.all()) {
    OCTET_TRY(ignore.markTensor(tensor.name));
    OCTET_TRY(addTensor(tensor));
  }
  if (!plan.quantised)
    return inputError(escapePath(checkpoint.path),
                      "has no weight of a linear to quantise: two sides, in a "
                      "layer, named *_proj.weight" +
                          std::string(options.ignore.empty()
                                          ? ""
                                          : ", and not on the ignore list"));
  for (const std::string &entry : ignore.getUnused())
    plan.warnings.push_back(entry + " matches nothing [C7]");
  OCTET_TRY(makeShards());
  return std::move(plan);
}

} // namespace

Result<QuantizePlan> octet::planQuantize(const Checkpoint &checkpoint,
                                         const QuantizeOptions &options) {
  return Planner(checkpoint, options).run();
}

//===----------------------------------------------------------------------===//
// What config.json and the index say
//===----------------------------------------------------------------------===//

/// One `weights` or `input_activations` of compressed-tensors.
static Json makeScheme(const char *strategy, bool dynamic) {
  Json scheme;
  scheme["actorder"] = nullptr;
  scheme["block_structure"] = nullptr;
  scheme["dynamic"] = dynamic;
  scheme["group_size"] = nullptr;
  scheme["num_bits"] = 8;
  scheme["observer"] = dynamic ? Json() : Json("minmax");
  scheme["observer_kwargs"] = Json::object();
  scheme["strategy"] = strategy;
  scheme["symmetric"] = true;
  scheme["type"] = "float";
  return scheme;
}

static Json makeCompressedTensors(const QuantizeOptions &options,
                                  const std::vector<std::string> &ignore) {
  Json weights, inputs = makeScheme("token", true);
  switch (options.to) {
  case QuantizeTo::Block:
    weights = makeScheme("block", false);
    weights["block_structure"] = {options.blockN, options.blockK};
    inputs = makeScheme("group", true);
    inputs["group_size"] = options.blockK;
    break;
  case QuantizeTo::Channel:
    weights = makeScheme("channel", false);
    break;
  case QuantizeTo::Tensor:
    weights = makeScheme("tensor", false);
    if (options.calibrate)
      inputs = makeScheme("tensor", false);
    break;
  }
  Json config;
  config["config_groups"]["group_0"] = {{"input_activations", inputs},
                                        {"output_activations", nullptr},
                                        {"targets", Json::array({"Linear"})},
                                        {"weights", weights}};
  config["format"] = "float-quantized";
  config["global_compression_ratio"] = nullptr;
  config["ignore"] = ignore;
  config["kv_cache_scheme"] = nullptr;
  config["quant_method"] = "compressed-tensors";
  config["quantization_status"] = "compressed";
  return config;
}

Json octet::makeQuantizationConfig(
    const QuantizeOptions &options,
    const std::vector<std::string> &notConverted) {
  if (options.format == QuantizeFormat::CompressedTensors)
    return makeCompressedTensors(options, notConverted);
  Json config;
  if (options.to == QuantizeTo::Channel) {
    config["quant_method"] = "w8a8_fp8";
    config["ignore"] = notConverted;
    return config;
  }
  config["activation_scheme"] = options.calibrate ? "static" : "dynamic";
  config["fmt"] = "e4m3";
  config["quant_method"] = "fp8";
  if (options.to == QuantizeTo::Block)
    config["weight_block_size"] = {options.blockN, options.blockK};
  config["modules_to_not_convert"] = notConverted;
  return config;
}

Json octet::makeIndex(const QuantizePlan &plan) {
  int64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const PlannedShard &shard : plan.shards)
    for (size_t i = shard.begin; i < shard.end; ++i)
      plan.tensors[i].forEachOutput([&](const OutputTensor &tensor) {
        map[tensor.name] = shard.name;
        total += tensor.bytes;
      });
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = std::move(map);
  return index;
}
