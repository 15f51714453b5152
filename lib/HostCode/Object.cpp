//===- Object.cpp - The llvm dialect to an object -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Translation to LLVM IR, LLVM's own pipeline at O2 and code generation. The
// program may import nothing, so no pass may make a call of a library function
// out of a loop or an intrinsic; the object is checked for it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "octet/HostCode/HostCode.h"
#include "octet/Support/Escape.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace octet;

static const char *const kTriple = "x86_64-unknown-linux-gnu";

namespace {
struct Compiler {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;

  Status translate(mlir::ModuleOp source);
  void optimize();
  Status generate(llvm::SmallVectorImpl<char> &object);
};
} // namespace

static std::unique_ptr<llvm::TargetMachine> makeMachine(std::string &why) {
  static const bool initialized = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple(kTriple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
  if (!target)
    return nullptr;
  // Only row functions use vectors, and they name their processor.
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "x86-64", "", options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
}

Status Compiler::translate(mlir::ModuleOp source) {
  mlir::DialectRegistry registry;
  mlir::registerBuiltinDialectTranslation(registry);
  mlir::registerLLVMDialectTranslation(registry);
  source->getContext()->appendDialectRegistry(registry);

  std::string why;
  machine = makeMachine(why);
  if (!machine)
    return internalError("llvm", why);
  module = mlir::translateModuleToLLVMIR(source, context, "octet");
  if (!module)
    return internalError("llvm", "the module has no LLVM IR; it must have been "
                                 "lowered by octet-lower-to-host");
  module->setTargetTriple(llvm::Triple(kTriple));
  module->setDataLayout(machine->createDataLayout());
  module->setPICLevel(llvm::PICLevel::BigPIC);
  return Status::success();
}

void Compiler::optimize() {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  // Row code is vectors already; widening the rest helps nobody.
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(machine.get(), tuning);
  // No library function may be assumed, or a loop becomes a memset.
  functions.registerPass([&] {
    llvm::TargetLibraryInfoImpl library(machine->getTargetTriple());
    library.disableAllFunctions();
    return llvm::TargetLibraryAnalysis(library);
  });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(*module, modules);
}

Status Compiler::generate(llvm::SmallVectorImpl<char> &object) {
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile))
    return internalError("llvm", "the x86 target writes no object");
  passes.run(*module);
  return Status::success();
}

/// An undefined symbol would have to come from a libc that the program must not
/// need.
static Status checkSelfContained(llvm::ArrayRef<char> bytes) {
  llvm::MemoryBufferRef buffer({bytes.data(), bytes.size()}, "program");
  auto file = llvm::object::ObjectFile::createELFObjectFile(buffer);
  if (!file)
    return internalError("program", llvm::toString(file.takeError()));
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!flags)
      return internalError("program", llvm::toString(flags.takeError()));
    if (!name)
      return internalError("program", llvm::toString(name.takeError()));
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() &&
        *name != "_GLOBAL_OFFSET_TABLE_")
      return internalError("program",
                           "the object needs symbol " + quoteName(name->str()) +
                               ", a program defines all that it uses");
  }
  return Status::success();
}

Result<std::string> octet::emitLLVM(mlir::ModuleOp source) {
  Compiler compiler;
  OCTET_TRY(compiler.translate(source));
  compiler.optimize();
  std::string text;
  llvm::raw_string_ostream stream(text);
  compiler.module->print(stream, nullptr);
  return text;
}

Result<std::vector<char>> octet::emitObject(mlir::ModuleOp source) {
  Compiler compiler;
  OCTET_TRY(compiler.translate(source));
  compiler.optimize();
  llvm::SmallVector<char, 0> object;
  OCTET_TRY(compiler.generate(object));
  OCTET_TRY(checkSelfContained(object));
  return std::vector<char>(object.begin(), object.end());
}
