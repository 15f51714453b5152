//===- Compile.cpp - A checkpoint to an executable ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Pipeline/Compile.h"

#include "dialects/AllDialects.h"
#include "dialects/Model/ModelDialect.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "octet/Diagnostics/Diagnostics.h"
#include "octet/HostCode/HostCode.h"
#include "octet/Pipeline/Pipelines.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Quantize/GgufTokenizerFiles.h"
#include "octet/Support/ConfigSubject.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Support/Output.h"
#include "octet/Text/ChatTemplate.h"
#include "octet/Text/Tokenizer.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatAdapters.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace octet {

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

static Status writeText(const std::string &path, llvm::StringRef text) {
  if (path.empty() || path == "-")
    return print(text);
  std::span<const std::byte> piece(
      reinterpret_cast<const std::byte *>(text.data()), text.size());
  return writeFile(path, {&piece, 1});
}

static std::string printModule(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  os << '\n';
  return text;
}

namespace {
/// Writes the module after each phase (--dump-ir) and counts the phases for
/// the progress line.
class PhaseObserver : public PassInstrumentation {
public:
  PhaseObserver(std::string folder, bool progress)
      : folder(std::move(folder)), progress(progress) {}

  void runBeforePass(Pass *pass, Operation *) override {
    if (progress && phase + 1 < getPhases().size())
      llvm::errs() << "  " << getPhases()[phase + 1].name << '\n';
  }

  void runAfterPass(Pass *, Operation *op) override {
    ++phase;
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      return;
    // Lowering drops it.
    if (auto bytes = module->getAttrOfType<IntegerAttr>("kernel.arena_bytes"))
      arenaBytes = bytes.getInt();
    dump(module);
  }

  /// Writes NN-PHASE.mlir; the first error stays in `status`.
  void dump(ModuleOp module) {
    if (folder.empty() || !status.ok())
      return;
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(
        path,
        llvm::formatv("{0:2}-{1}.mlir",
                      llvm::fmt_align(phase, llvm::AlignStyle::Right, 2, '0'),
                      getPhases()[phase].name)
            .str());
    status = writeText(path.str().str(), printModule(module));
  }

  Status status;
  int64_t arenaBytes = 0;

private:
  std::string folder;
  bool progress;
  unsigned phase = 0;
};
} // namespace

/// tokenizer.json of the folder, or what a GGUF file's metadata say; nothing if
/// there is none.
static Result<std::optional<std::string>>
readTokenizer(const Checkpoint &checkpoint) {
  std::optional<std::string> text;
  if (!checkpoint.hasTokenizer)
    return text;
  if (checkpoint.gguf) {
    OCTET_TRY_ASSIGN(std::optional<TokenizerFiles> files,
                     makeTokenizerFiles(*checkpoint.gguf));
    if (files)
      text = std::move(files->tokenizer);
    return text;
  }
  OCTET_TRY_ASSIGN(InputFile file,
                   InputFile::open(checkpoint.path + "/tokenizer.json"));
  text.emplace(size_t(file.size()), '\0');
  OCTET_TRY(file.read(0, *text));
  return text;
}

/// A template that cannot write the simplest conversation is told now, not
/// when somebody talks to the model.
static void tryChatTemplate(const ChatTemplate &chat,
                            const std::string &subject) {
  ChatOptions options;
  options.subject = subject;
  Result<std::string> text = chat.render(
      {{{"role", "user"}, {"content", "Hello"}}}, std::move(options));
  if (!text.ok())
    llvm::errs() << "warning: " << text.status().info().subject << ": "
                 << text.status().info().message
                 << "; `run --chat` ends with this error\n";
}

/// The sections beside the program: what the runtime needs of the checkpoint.
static Result<std::vector<PayloadSection>>
readSections(const Checkpoint &checkpoint) {
  std::vector<PayloadSection> sections;
  if (!checkpoint.generationConfig.is_null()) {
    std::string text = checkpoint.generationConfig.dump(
        -1, ' ', true, nlohmann::json::error_handler_t::replace);
    sections.push_back({"generation", {text.begin(), text.end()}});
  }
  // A model without a tokenizer that we can use still runs on ids.
  Result<std::optional<std::string>> text = readTokenizer(checkpoint);
  Status usable = text.ok() ? Status::success() : text.takeStatus();
  if (usable.ok() && *text) {
    std::string subject = escapePath(checkpoint.path);
    if (!checkpoint.gguf)
      subject += "/tokenizer.json";
    Result<Tokenizer> tokenizer = Tokenizer::fromJson(**text, subject);
    if (tokenizer.ok())
      sections.push_back(
          {"tokenizer.json", {(*text)->begin(), (*text)->end()}});
    else
      usable = tokenizer.takeStatus();
  }
  if (!usable.ok())
    llvm::errs() << "warning: " << usable.info().subject << ": "
                 << usable.info().message
                 << "; the executable takes prompts as ids only\n";
  Result<std::optional<ChatTemplate>> chat = readChatTemplate(checkpoint);
  if (!chat.ok()) {
    llvm::errs() << "warning: " << chat.status().info().subject << ": "
                 << chat.status().info().message
                 << "; the executable takes no conversations\n";
  } else if (*chat) {
    tryChatTemplate(**chat, escapePath(checkpoint.path) + ": chat template");
    std::string section = writeChatTemplate(**chat);
    sections.push_back(
        {std::string(kChatTemplateSection), {section.begin(), section.end()}});
  }
  return sections;
}

static Status writeOutput(const CompileOptions &options, ModuleOp module,
                          const Checkpoint &checkpoint) {
  if (options.emit == EmitKind::IR || !options.compileTo.empty())
    return writeText(options.output, printModule(module));
  if (options.emit == EmitKind::LLVM) {
    OCTET_TRY_ASSIGN(std::string text, emitLLVM(module));
    return writeText(options.output, text);
  }
  OCTET_TRY_ASSIGN(std::vector<char> object, emitObject(module));
  if (options.emit == EmitKind::Object)
    return writeText(options.output, {object.data(), object.size()});
  OCTET_TRY_ASSIGN(std::vector<char> program, linkProgram(object));
  OCTET_TRY_ASSIGN(std::vector<PayloadSection> sections,
                   readSections(checkpoint));
  return options.emit == EmitKind::Program
             ? writeProgram(options.output, program, sections)
             : writeExecutable(options.output, program, sections);
}

//===----------------------------------------------------------------------===//
// The phases
//===----------------------------------------------------------------------===//

/// An error that passes have printed already.
static Status alreadyReported(ErrorKind kind = ErrorKind::Input) {
  return ErrorInfo{kind, "", "", "", {}};
}

/// Runs, if the machine has the memory; the limits decide how much it is.
static void warnOfLargeArena(int64_t bytes, int64_t maxStepTokens,
                             llvm::raw_ostream &messages) {
  if (bytes <= int64_t(1) << 32)
    return;
  messages << "warning: --max-step-tokens " << maxStepTokens
           << ": the activations of one step take "
           << llvm::formatv("{0:F1} GiB", double(bytes) / 0x1p30)
           << " of memory\n";
}

/// Weights that a GGUF file packs lose precision a second time.
static void noteRequantized(const CompileOptions &options,
                            const Checkpoint &checkpoint) {
  llvm::StringRef method = options.import.quantization;
  if (!checkpoint.gguf || method.empty() || method.equals_insensitive("gguf"))
    return;
  for (const TensorInfo &tensor : checkpoint.tensors.all())
    if (tensor.packing != Packing::None) {
      llvm::errs() << "note: --quantization " << method
                   << ": weights that the file packs, such as "
                   << packingName(tensor.packing) << " of "
                   << quoteName(tensor.name)
                   << ", are dequantised and quantised again while loading "
                      "[W10]\n";
      return;
    }
}

static Status traceInputs(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(createTraceInputs());
  return failed(manager.run(module)) ? alreadyReported() : Status::success();
}

Status runPhases(const CompileOptions &options, ModuleUser use) {
  unsigned last = getPhases().size() - 1;
  if (!options.compileTo.empty())
    last = *findPhase(options.compileTo);

  OCTET_TRY_ASSIGN(Checkpoint checkpoint, openCheckpoint(options.checkpoint));

  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  llvm::raw_ostream &messages = options.quiet ? llvm::nulls() : llvm::errs();
  DiagnosticPrinter printer(&context, messages, checkpoint.path);
  if (options.remarks && failed(printRemarks(context, llvm::errs())))
    return internalError("--remarks", "the remark engine does not start");

  if (options.progress)
    llvm::errs() << "  import\n";
  ImportNotes notes;
  Result<OwningOpRef<ModuleOp>> imported =
      importCheckpoint(checkpoint, options.import, context, notes);
  // Also if it failed: an oddity may be the cause. What --strict makes an error
  // of is said once.
  const bool isStrict =
      !imported && imported.status().info().subject == "--strict";
  for (const std::string &text :
       llvm::drop_begin(notes.warnings, isStrict ? 1 : 0))
    messages << "warning: " << placeConfig(text, checkpoint.path) << '\n';
  if (options.notes && !options.quiet)
    noteRequantized(options, checkpoint);
  if (options.notes)
    for (const std::string &text : notes.notes)
      messages << "note: " << placeConfig(text, checkpoint.path) << '\n';
  if (!imported) {
    ErrorInfo error = imported.takeStatus().takeInfo();
    error.subject = placeConfig(error.subject, checkpoint.path);
    return error;
  }
  OwningOpRef<ModuleOp> module = imported.take();

  if (options.traceInputs)
    OCTET_TRY(traceInputs(*module));
  int64_t maxStepTokens =
      (*module)
          ->getAttrOfType<model::SettingsAttr>(model::kSettingsName)
          .getMaxStepTokens();

  if (!options.dumpIR.empty())
    if (std::error_code ec = llvm::sys::fs::create_directories(
            options.dumpIR, /*IgnoreExisting=*/true, llvm::sys::fs::all_all))
      return machineError(options.dumpIR, ec.message());

  PassManager manager(&context);
  if (failed(applyPassManagerCLOptions(manager)))
    return alreadyReported(ErrorKind::Usage);
  applyDefaultTimingPassManagerCLOptions(manager);
  buildPhases(manager, 1, last, options.phases);
  auto owned =
      std::make_unique<PhaseObserver>(options.dumpIR, options.progress);
  PhaseObserver &observer = *owned;
  manager.addInstrumentation(std::move(owned));
  observer.dump(*module);
  OCTET_TRY(std::move(observer.status));
  if (failed(manager.run(*module)))
    return alreadyReported();
  OCTET_TRY(std::move(observer.status));
  warnOfLargeArena(observer.arenaBytes, maxStepTokens, messages);
  return use(*module, checkpoint);
}

/// A program has the name of its checkpoint as JSON text.
static Status checkPath(const CompileOptions &options) {
  llvm::SmallString<128> path(options.checkpoint);
  if (!llvm::sys::fs::make_absolute(path) &&
      isUtf8(std::string_view(path.str())))
    return Status::success();
  return inputError(escapePath(options.checkpoint),
                    "its path is not UTF-8, and the executable keeps it as "
                    "text to find the weights; a name or link in UTF-8 works");
}

Result<std::vector<std::string>> splitTargets(const std::string &text) {
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(text).split(names, ',');
  if (names.size() == 1)
    return std::vector<std::string>{text};
  std::vector<std::string> targets;
  for (llvm::StringRef name : names) {
    if (name.empty())
      return usageError("--target " + escapeName(text),
                        "a name is empty; names stand with one comma between "
                        "two, as in sm_89,sm_90a");
    Result<Target> target = parseTarget(name, "--target");
    if (!target) {
      ErrorInfo error = target.takeStatus().takeInfo();
      error.kind = ErrorKind::Usage;
      return error;
    }
    if (llvm::is_contained(targets, target->name))
      return usageError("--target " + escapeName(text),
                        target->name + " stands there twice");
    targets.push_back(target->name);
  }
  return targets;
}

/// One program each; what else a checkpoint gives is the same for all. The
/// runtime takes the program that fits its device (runtime/cuda/Targets.h).
static Status compileTargets(const CompileOptions &options,
                             llvm::ArrayRef<std::string> targets) {
  std::vector<char> first;
  std::vector<PayloadSection> sections;
  for (auto [i, target] : llvm::enumerate(targets)) {
    CompileOptions one = options;
    one.import.target = target;
    one.notes &= i == 0;
    for (std::string *folder : {&one.dumpIR, &one.phases.dumpCuda})
      if (!folder->empty())
        *folder += "/" + target;
    if (options.progress)
      llvm::errs() << target << '\n';
    OCTET_TRY(runPhases(
        one, [&](ModuleOp module, const Checkpoint &checkpoint) -> Status {
          OCTET_TRY_ASSIGN(std::vector<char> object, emitObject(module));
          OCTET_TRY_ASSIGN(std::vector<char> program, linkProgram(object));
          if (i > 0) {
            sections.push_back({"program." + std::to_string(i), program});
            return Status::success();
          }
          first = std::move(program);
          OCTET_TRY_ASSIGN(sections, readSections(checkpoint));
          return Status::success();
        }));
  }
  std::string list = llvm::join(targets, ",");
  sections.push_back({"targets", {list.begin(), list.end()}});
  return options.emit == EmitKind::Program
             ? writeProgram(options.output, first, sections)
             : writeExecutable(options.output, first, sections);
}

Status compile(const CompileOptions &options) {
  OCTET_TRY(checkPath(options));
  if (options.output != "-")
    OCTET_TRY(checkNotInput("-o", options.output, {&options.checkpoint, 1}));
  OCTET_TRY_ASSIGN(std::vector<std::string> targets,
                   splitTargets(options.import.target));
  if (targets.size() > 1)
    return compileTargets(options, targets);
  return runPhases(options, [&](ModuleOp module, const Checkpoint &checkpoint) {
    return writeOutput(options, module, checkpoint);
  });
}

} // namespace octet
