//===- Info.cpp - `info`: what this program is ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include "runtime/cpu/Level.h"
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
static json summary(const Program &program) {
  const ProgramInfo &info = program.info;
  json object = info.json;
  object.erase("tensors");
  object["tensor_count"] = info.tensors.size();
  object["driver"] = nullptr; // The CPU target needs none.
  int level = detectLevel();
  object["simd"] = level < 0 ? json() : json(levelName(level));
  object["memory"]["arena"] = program.abi->arena_bytes;
  // By what the runtime will take, whatever the compiler noted.
  const KvInfo &kv = info.kv;
  int64_t perToken =
      2 * kv.layers * kv.kvHeads * kv.headDim * elementBytes(kv.type);
  object["memory"]["kv_per_token"] = perToken;
  return object;
}

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

Status rt::infoVerb(const Program &program, const CommonOptions &,
                    bool asJson) {
  const ProgramInfo &info = program.info;
  json object = summary(program);
  if (asJson)
    return print(dumpJson(object) + "\n");

  std::string out;
  auto line = [&](std::string_view key, const std::string &value) {
    out += fmt::format("{:<16}{}\n", key, value);
  };
  line("octet", text(object, "octet"));
  line("architecture", text(object, "architecture"));
  if (info.isModule)
    line("module", fmt::format("{} ({} -> {})", escapeName(info.modulePath),
                               info.moduleIn, info.moduleOut));
  line("target", text(object, "target"));
  line("numerics", text(object, "numerics"));
  line("dtype", text(object, "dtype"));
  line("checkpoint", text(object, "checkpoint"));
  line("tensors",
       fmt::format("{}, hash {}", info.tensors.size(), escapeName(info.hash)));
  if (!info.isModule)
    line("model", fmt::format("{} layers, hidden {}, vocabulary {}",
                              text(object, "layers"), text(object, "hidden"),
                              info.vocab));
  if (info.kv.layers)
    line("kv cache",
         fmt::format("{} layers of {} heads x {} {}, {} bytes a token",
                     info.kv.layers, info.kv.kvHeads, info.kv.headDim,
                     text(object["kv"], "type"),
                     text(object["memory"], "kv_per_token")));
  line("limits",
       fmt::format("context {} tokens, {} sequences and {} tokens "
                   "a step",
                   info.maxContext, info.maxSeqs, info.maxStepTokens));
  line("memory", fmt::format("weights {} bytes, intermediate values {} bytes",
                             text(object["memory"], "weights"),
                             program.abi->arena_bytes));
  line("traces",
       info.traces.empty()
           ? "-"
           : escapeName(fmt::format("{}", fmt::join(info.traces, ", "))));
  line("simd", text(object, "simd") + " on this machine");
  line("driver", "none needed");
  return print(out + describeDecisions(object));
}
