//===- Info.cpp - `info`: what this program is ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "runtime/api/Handles.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

/// A value of the info as plain text; "-" if it is not there.
static std::string text(const json &info, const char *key) {
  auto it = info.find(key);
  if (it == info.end() || it->is_null())
    return "-";
  return escapeName(it->is_string() ? it->get<std::string>() : dumpJson(*it));
}

/// The info without the tensor table, which is long, and with what the runtime
/// adds.
static std::string describeDecisions(const json &info) {
  auto it = info.find("decisions");
  if (it == info.end() || !it->is_array() || it->empty())
    return "";
  std::string out = "decisions\n";
  for (const json &d : *it)
    if (d.is_object())
      out +=
          fmt::format("  {}: method {}, weight {}, activation {}, kernel {}\n",
                      text(d, "module"), text(d, "method"), text(d, "weight"),
                      text(d, "activation"), text(d, "kernel"));
  return out;
}

/// A list of words; "-" if there are none.
static std::string describeWords(const json &list) {
  std::vector<std::string> words;
  if (list.is_array())
    for (const json &word : list)
      if (word.is_string())
        words.push_back(word.get<std::string>());
  return words.empty() ? "-"
                       : escapeName(fmt::format("{}", fmt::join(words, ", ")));
}

/// A checkpoint that is named has to be the one that was compiled, by its
/// headers; the folder of the program itself may be gone.
static Status checkWeights(const CommonOptions &common) {
  if (common.weights.empty() || common.weights == OCTET_RANDOM_WEIGHTS)
    return Status::success();
  OCTET_TRY_ASSIGN(std::shared_ptr<const Program> program,
                   common.file->program());
  OCTET_TRY_ASSIGN(Checkpoint checkpoint,
                   openCheckpoint(common.weights, {.needConfig = false}));
  return checkTensorTable(program->info, checkpoint.tensors, common.weights);
}

/// "31 images of 2100000 bytes for sm_90a, without PTX for newer devices".
static std::string describeImages(const json &info) {
  auto images = info.find("images");
  if (images == info.end() || !images->is_array())
    return "-";
  int64_t bytes = 0;
  bool hasPtx = !images->empty();
  for (const json &image : *images) {
    bytes += image.value("machine_code_bytes", int64_t(0));
    hasPtx = hasPtx && image.value("ptx_bytes", int64_t(0)) > 0;
  }
  return fmt::format("{} images of {} bytes for {}, {} PTX for newer devices",
                     images->size(), bytes, text(info, "target"),
                     hasPtx ? "with" : "without");
}

Status rt::infoVerb(const CommonOptions &common, bool asJson) {
  OCTET_TRY(checkWeights(common));
  OCTET_TRY_ASSIGN(json object, programInfo(common));
  if (asJson)
    return print(dumpJson(object) + "\n");

  const octet_limits &limits = common.limits;
  const bool isModule = limits.module_in > 0;
  std::string out;
  auto line = [&](std::string_view key, const std::string &value) {
    out += fmt::format("{:<16}{}\n", key, value);
  };
  line("octet", text(object, "octet"));
  line("architecture", text(object, "architecture"));
  if (isModule)
    line("module", fmt::format("{} ({} -> {})", text(object["module"], "path"),
                               limits.module_in, limits.module_out));
  line("target", text(object, "target"));
  if (object["targets"].size() > 1)
    line("targets",
         describeWords(object["targets"]) +
             "; above is the one that fits this machine, else the first");
  for (const char *key : {"numerics", "dtype", "checkpoint"})
    line(key, text(object, key));
  line("tensors", fmt::format("{}, hash {}", text(object, "tensor_count"),
                              text(object, "hash")));
  if (!isModule)
    line("model", fmt::format("{} layers, hidden {}, vocabulary {}",
                              text(object, "layers"), text(object, "hidden"),
                              limits.vocab));
  if (auto kv = object.find("kv");
      kv != object.end() && kv->is_object() && (*kv)["layers"] != 0)
    line("kv cache",
         fmt::format("{} layers of {} heads x {} {}, {} bytes a token",
                     text(*kv, "layers"), text(*kv, "kv_heads"),
                     text(*kv, "head_dim"), text(*kv, "type"),
                     text(object["memory"], "kv_per_token")));
  line("limits", fmt::format("context {} tokens, {} sequences and {} tokens "
                             "a step",
                             limits.max_context, limits.max_sequences,
                             limits.max_step_tokens));
  line("memory", fmt::format("weights {} bytes, intermediate values {} bytes",
                             text(object["memory"], "weights"),
                             text(object["memory"], "arena")));
  line("traces", describeWords(object["traces"]));
  line("simd", text(object, "simd") + " on this machine");
  auto driver = object.find("driver");
  const bool needsDriver = driver != object.end() && driver->is_string();
  line("driver",
       needsDriver ? text(object, "driver") + " or newer" : "none needed");
  if (needsDriver)
    line("kernels", describeImages(object));
  return print(out + describeDecisions(object));
}
