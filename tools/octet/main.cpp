//===- main.cpp - The compiler driver -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Info.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "octet/Support/Escape.h"
#include "octet/Support/MappedFiles.h"
#include "octet/Support/Output.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include <cstdio>
#include <iostream>
#include <sstream>
#include <unistd.h>

using namespace octet;

void octet::addInfoCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<InfoOptions>();
  CLI::App *verb = app.add_subcommand(
      "info", "What a checkpoint holds, from its headers alone");
  verb->add_option("CHECKPOINT", o->path,
                   "Folder, or a GGUF or safetensors file")
      ->check(notEmpty())
      ->required();
  verb->add_flag("--json", o->json, "For programs");
  verb->add_flag("--tensors", o->tensors, "List each tensor");
  verb->callback([o, &action] {
    action = [o]() -> Status {
      std::ostringstream text;
      OCTET_TRY(printInfo(*o, text));
      return print(text.str());
    };
  });
}

/// Gives flags to LLVM's parser. It prints what it does not like and returns
/// nothing of it, so its text is caught on the way.
/// \returns the text, "" if all is well.
static std::string parseMlirFlags(const std::vector<char *> &flags) {
  std::string text;
  const int before = ::dup(STDERR_FILENO);
  std::FILE *caught = std::tmpfile();
  if (caught)
    ::dup2(::fileno(caught), STDERR_FILENO);
  const bool good = llvm::cl::ParseCommandLineOptions(
      int(flags.size()), flags.data(), "octet's MLIR flags\n", &llvm::errs());
  llvm::errs().flush();
  if (caught) {
    ::dup2(before, STDERR_FILENO);
    std::rewind(caught);
    for (int c; !good && (c = std::fgetc(caught)) != EOF && c != '\n';)
      text += char(c);
    std::fclose(caught);
  }
  ::close(before);
  return good || !text.empty() ? text : "its value is not one of those it has";
}

/// Takes the `--mlir-…` flags out of the arguments and gives them to LLVM's
/// parser; returns the others, without the program.
static std::vector<std::string> takeMlirFlags(int argc, char **argv) {
  std::vector<std::string> ours;
  std::vector<char *> theirs = {argv[0]};
  for (int i = 1; i < argc; ++i)
    if (llvm::StringRef(argv[i]).starts_with("--mlir-"))
      theirs.push_back(argv[i]);
    else
      ours.push_back(argv[i]);
  mlir::registerAsmPrinterCLOptions();
  mlir::registerMLIRContextCLOptions();
  mlir::registerPassManagerCLOptions();
  mlir::registerDefaultTimingManagerCLOptions();
  for (llvm::StringRef flag : llvm::drop_begin(theirs)) {
    llvm::StringRef name = flag.split('=').first;
    if (llvm::cl::getRegisteredOptions().contains(name.drop_front(2)))
      continue;
    std::cerr << "error: " << escapeName(std::string_view(name))
              << ": MLIR has no such flag here; see octet compile --help\n";
    exit(int(ErrorKind::Usage));
  }
  // "octet: for the --mlir-x option: 'y' value invalid for uint argument!"
  if (std::string text = parseMlirFlags(theirs); !text.empty()) {
    std::string_view what = text, name = "--mlir";
    constexpr std::string_view kBegin = ": for the ", kEnd = " option: ";
    size_t begin = what.find(kBegin), end = what.find(kEnd);
    if (begin != what.npos && end != what.npos && begin < end) {
      begin += kBegin.size();
      name = what.substr(begin, end - begin);
      what.remove_prefix(end + kEnd.size());
    }
    what = what.substr(0, what.find('!'));
    std::cerr << "error: " << escapePath(name) << ": " << escapePath(what)
              << "; see octet compile --help\n";
    exit(int(ErrorKind::Usage));
  }
  return ours;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  installBusErrorHandler(OnTruncation::Remember);
  // After LLVM's handlers, which would dump the stack.
  ignoreFileSizeSignal();
  std::vector<std::string> arguments = takeMlirFlags(argc, argv);

  CLI::App app{"Octet compiles a Hugging Face checkpoint to one native "
               "executable.",
               "octet"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "octet " OCTET_VERSION);
  app.get_formatter()->column_width(34);
  Action action;
  addCacheCommand(app, action);
  addCheckCommand(app, action);
  addCompileCommand(app, action);
  addExplainCommand(app, action);
  addInfoCommand(app, action);
  addKernelCommand(app, action);
  addLedgerCommand(app, action);
  addQuantizeCommand(app, action);
  addTuneCommand(app, action);
  Result<Parsed> parsed = parseCommandLine(app, arguments);
  Status status = parsed.ok() ? Status::success() : parsed.takeStatus();
  if (status.ok() && *parsed == Parsed::Done)
    return 0;
  if (status.ok())
    status = action();
  if (status.ok())
    status = takeTruncation(); // of a file that nobody asked about
  if (status.ok())
    return 0;
  // Passes print their errors themselves and leave the message empty.
  if (!status.info().message.empty())
    std::cerr << status.info().format();
  return status.info().exitCode();
}
