//===- LedgerCommand.cpp - octet ledger -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/Ledger/Collect.h"
#include "octet/Pipeline/Compile.h"
#include "octet/Support/File.h"
#include "octet/Support/Output.h"
#include <algorithm>
#include <memory>
#include <unistd.h>

namespace octet {

namespace {
struct LedgerOptions {
  CompileOptions compile;
  std::optional<int64_t> layer;
  std::string html;
  bool json = false;
};
} // namespace

static bool hasLayer(const LedgerSection &section, int64_t layer) {
  return std::any_of(section.layers.begin(), section.layers.end(),
                     [&](const std::pair<int64_t, int64_t> &run) {
                       return run.first <= layer && layer <= run.second;
                     });
}

/// Leaves the section of one layer and its weights.
static Status selectLayer(Ledger &ledger, int64_t layer) {
  int64_t last = -1;
  for (const LedgerSection &section : ledger.sections)
    for (const auto &run : section.layers)
      last = std::max(last, run.second);
  std::erase_if(ledger.sections, [&](const LedgerSection &section) {
    return !hasLayer(section, layer);
  });
  keepReadWeights(ledger);
  if (!ledger.sections.empty())
    return Status::success();
  return usageError("--layer " + std::to_string(layer),
                    "the model has layers 0 to " + std::to_string(last));
}

static Status ledger(const LedgerOptions &options) {
  if (options.json && options.html == "-")
    return usageError("--html", "'-' is stdout, where --json prints; a file");
  const ImportOptions &import = options.compile.import;
  OCTET_TRY(checkNames(import.target, import.numerics, import.quantization));
  OCTET_TRY(
      checkNotInput("--html", options.html, {&options.compile.checkpoint, 1}));
  std::optional<Ledger> result;
  OCTET_TRY(runPhases(options.compile,
                      [&](mlir::ModuleOp module, const Checkpoint &) {
                        OCTET_TRY_ASSIGN(result, collectLedger(module));
                        return Status::success();
                      }));
  if (options.layer)
    OCTET_TRY(selectLayer(*result, *options.layer));
  if (options.json)
    OCTET_TRY(print(formatLedgerJson(*result)));
  if (options.html.empty())
    return options.json ? Status::success() : print(formatLedgerText(*result));
  std::string page = formatLedgerHtml(*result);
  if (options.html == "-")
    return print(page);
  std::span<const std::byte> piece(
      reinterpret_cast<const std::byte *>(page.data()), page.size());
  return writeFile(options.html, {&piece, 1});
}

/// The form of --json.
static constexpr const char *kSchema =
    "--json prints one object:\n"
    "  facts      what was read and asked for, by name\n"
    "  sections   kind (embedding, layer, head), title, layers ([first, last]\n"
    "             of each run), layer_count, boundaries in the order of a\n"
    "             token, totals (of a token in one layer: roundings to 8 bits\n"
    "             or less, dtype_changes, bytes)\n"
    "  boundary   rules, op, module ({l} is the layer), in, arithmetic, out,\n"
    "             bytes (of out), weights, error, sum_bound, cache, moved,\n"
    "             notes\n"
    "  a value    dtype, shape and elements of one token or of a weight,\n"
    "             code_bytes, scales (granularity, dtype, shape, count, "
    "bytes,\n"
    "             power_of_two, static), bytes (both)\n"
    "  error      of one rounding to `format`: at_most, rms, as a part of the\n"
    "             value, or (of: largest) of the largest value of its scale;\n"
    "             below normal_from of the largest it is `absolute` of that\n"
    "  weights    slot, stored tensors, count of layers, weight (a value),\n"
    "             rewrites while loading (rules, what, error if any)\n"
    "  totals     of the whole model on one rank\n";

void addLedgerCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<LedgerOptions>();
  CLI::App *verb = app.add_subcommand(
      "ledger",
      "The precision ledger: dtype, scales, rounding, bytes and error "
      "at each operator boundary of a token's way");
  verb->add_option("CHECKPOINT", o->compile.checkpoint,
                   "Folder with config.json and *.safetensors, or a GGUF file")
      ->check(notEmpty())
      ->required();
  verb->add_flag("--json", o->json, "For programs; the form is below");
  verb->add_option("--html", o->html,
                   "Write one page that needs nothing else; '-' is stdout")
      ->check(notEmpty())
      ->type_name("FILE");
  addWhole(verb, "--layer", o->layer, "Only what happens in this layer", 0,
           int64_t(1) << 31);
  addImportOptions(verb, o->compile.import);
  verb->footer(kSchema);
  verb->callback([o, &action] {
    o->compile.compileTo = kLedgerPhase;
    o->compile.progress = isatty(STDERR_FILENO);
    action = [o] {
      resolveNative(o->compile.import.target);
      return ledger(*o);
    };
  });
}

} // namespace octet
