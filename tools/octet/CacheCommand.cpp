//===- CacheCommand.cpp - octet cache -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/CudaSource/CubinCache.h"
#include "octet/Pipeline/Compile.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace octet {

using cuda::CacheEntry;
using cuda::CubinCache;
using nlohmann::ordered_json;

namespace {
struct CacheOptions {
  CompileOptions compile; ///< of warm
  std::string folder;     ///< of export and import
  bool json = false;
};
} // namespace

/// The user's cache, or an error where no folder can be told.
static Result<CubinCache> openCache() {
  CubinCache cache = CubinCache::ofUser();
  if (cache.path().empty())
    return machineError("octet cache", "neither XDG_CACHE_HOME nor HOME names "
                                       "a folder");
  return cache;
}

static std::string formatJson(const ordered_json &json) {
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) +
         "\n";
}

static Status list(const CacheOptions &options) {
  OCTET_TRY_ASSIGN(CubinCache cache, openCache());
  OCTET_TRY_ASSIGN(std::vector<CacheEntry> entries, cache.list());
  int64_t bytes = 0;
  for (const CacheEntry &entry : entries)
    bytes += entry.bytes;
  if (options.json) {
    ordered_json kernels = ordered_json::array();
    for (const CacheEntry &entry : entries)
      kernels.push_back({{"key", entry.key},
                         {"entry", entry.entry},
                         {"target", entry.target},
                         {"nvrtc", entry.nvrtc},
                         {"bytes", entry.bytes},
                         {"damaged", entry.damaged}});
    return print(formatJson(
        {{"folder", cache.path()}, {"bytes", bytes}, {"kernels", kernels}}));
  }
  std::string text;
  for (const CacheEntry &entry : entries)
    text += fmt::format("{:8} {:6} {:>9}  {}\n",
                        entry.damaged ? "damaged" : entry.target, entry.nvrtc,
                        entry.bytes,
                        entry.damaged ? entry.key : escapePath(entry.entry));
  return print(text + fmt::format("{} kernels, {} bytes in {}\n",
                                  entries.size(), bytes,
                                  escapePath(cache.path())));
}

/// "3 kernels removed from FOLDER", or the same as JSON.
static Status report(const CacheOptions &options, std::string_view done,
                     int64_t count, const std::string &folder) {
  if (options.json)
    return print(formatJson({{"folder", folder}, {"kernels", count}}));
  return print(fmt::format("{} kernel{} {} {}\n", count, count == 1 ? "" : "s",
                           done, escapePath(folder)));
}

static Status clear(const CacheOptions &options) {
  OCTET_TRY_ASSIGN(CubinCache cache, openCache());
  OCTET_TRY_ASSIGN(int64_t count, cache.clear());
  return report(options, "removed from", count, cache.path());
}

static Status copy(const CacheOptions &options, bool isImport) {
  OCTET_TRY_ASSIGN(CubinCache cache, openCache());
  CubinCache other(options.folder);
  if (isImport && ::access(options.folder.c_str(), R_OK | X_OK) != 0)
    return inputError(escapePath(options.folder),
                      "there is no such folder, or it cannot be read");
  OCTET_TRY_ASSIGN(CubinCache::Copied result,
                   isImport ? other.copyTo(cache) : cache.copyTo(other));
  for (const std::string &path : result.damaged)
    std::fprintf(stderr, "warning: %s: is damaged and was left out\n",
                 escapePath(path).c_str());
  if (isImport && result.copied + result.present == 0)
    return inputError(escapePath(options.folder),
                      "holds no kernels; `octet cache export DIR` writes a "
                      "folder of them");
  const std::string &folder = isImport ? cache.path() : options.folder;
  if (options.json)
    return print(formatJson({{"folder", folder},
                             {"kernels", result.copied},
                             {"present", result.present},
                             {"damaged", result.damaged.size()}}));
  return print(fmt::format("{} kernel{} copied to {}, {} there before\n",
                           result.copied, result.copied == 1 ? "" : "s",
                           escapePath(folder), result.present));
}

static Status warm(const CacheOptions &given) {
  CacheOptions options = given;
  resolveNative(options.compile.import.target);
  const ImportOptions &import = options.compile.import;
  OCTET_TRY(checkNames(import.target, import.numerics, import.quantization));
  Result<Target> target = parseTarget(import.target, "--target");
  if (!target || target->isCpu() || !checkKernelTarget(*target).ok())
    return usageError("--target " + escapeName(import.target),
                      "kernels are compiled for CUDA targets: sm_80, sm_86, "
                      "sm_89, sm_90a, sm_100f, sm_120f");
  OCTET_TRY_ASSIGN(CubinCache cache, openCache());
  OCTET_TRY_ASSIGN(std::vector<CacheEntry> before, cache.list());
  OCTET_TRY(runPhases(options.compile, [](mlir::ModuleOp, const Checkpoint &) {
    return Status::success();
  }));
  OCTET_TRY_ASSIGN(std::vector<CacheEntry> entries, cache.list());
  if (entries.empty())
    return machineError(escapePath(cache.path()), "no kernel could be kept");
  // Another process may have cleared it meanwhile.
  const int64_t added =
      std::max<int64_t>(0, int64_t(entries.size()) - int64_t(before.size()));
  if (options.json)
    return print(formatJson({{"folder", cache.path()},
                             {"kernels", added},
                             {"total", entries.size()}}));
  return print(fmt::format("{} kernel{} added to {}, which has {}\n", added,
                           added == 1 ? "" : "s", escapePath(cache.path()),
                           entries.size()));
}

void addCacheCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<CacheOptions>();
  CLI::App *verb = app.add_subcommand(
      "cache", "Compiled CUDA kernels that are kept for the next time");
  verb->require_subcommand(1);
  verb->footer("They are in $XDG_CACHE_HOME/octet/kernels, else in "
               "~/.cache/octet/kernels. A folder that\n`export` wrote can be "
               "imported on another machine, whose first compilation then "
               "needs no\nNVRTC time.");
  auto add = [&](const char *name, const char *help,
                 std::function<Status(const CacheOptions &)> run) {
    CLI::App *sub = verb->add_subcommand(name, help);
    sub->add_flag("--json", o->json, "For programs");
    sub->callback([o, run = std::move(run), &action] {
      action = [o, run] { return run(*o); };
    });
    return sub;
  };
  add("list", "What is kept: target, NVRTC, bytes, name", list);
  CLI::App *sub =
      add("warm", "Compile the kernels of a checkpoint, and nothing else",
          [](const CacheOptions &options) { return warm(options); });
  o->compile.compileTo = "emit-kernels";
  sub->add_option("CHECKPOINT", o->compile.checkpoint,
                  "Folder with config.json and *.safetensors, or a GGUF file")
      ->check(notEmpty())
      ->required();
  addImportOptions(sub, o->compile.import);
  addKernelOptions(sub, o->compile.phases);
  sub->parse_complete_callback([o] {
    o->compile.progress = o->compile.phases.progress = isatty(STDERR_FILENO);
  });
  add("clear", "Remove all of them", clear);
  for (bool isImport : {false, true}) {
    sub = add(isImport ? "import" : "export",
              isImport ? "Copy kernels that another machine exported into the "
                         "cache"
                       : "Copy the cache to a folder",
              [isImport](const CacheOptions &options) {
                return copy(options, isImport);
              });
    sub->add_option("DIR", o->folder, "The other folder")
        ->check(notEmpty())
        ->required();
  }
}

} // namespace octet
