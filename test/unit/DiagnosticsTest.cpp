//===- DiagnosticsTest.cpp - Errors of passes as a user reads them --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Diagnostics/Diagnostics.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace octet;

namespace {

class DiagnosticsTest : public ::testing::Test {
protected:
  MLIRContext context;
  std::string text;
  llvm::raw_string_ostream os{text};
  Builder builder{&context};

  Location file() { return FileLineColLoc::get(&context, "in.json", 3, 5); }
  /// What the importer gives to an operator.
  Location imported(StringRef path) {
    return FusedLoc::get(&context,
                         {NameLoc::get(builder.getStringAttr(path)), file()});
  }
};

TEST_F(DiagnosticsTest, ModulePathOfALocation) {
  EXPECT_EQ(getModulePath(imported("model.layers.{l}.mlp")),
            "model.layers.{l}.mlp");
  EXPECT_EQ(getModulePath(file()), "");
  EXPECT_EQ(getModulePath(UnknownLoc::get(&context)), "");
  EXPECT_EQ(getModulePath(CallSiteLoc::get(imported("a.b"), file())), "a.b");
  EXPECT_EQ(getModulePath(NameLoc::get(builder.getStringAttr("a\x1b[31m"))),
            "a\\x1b[31m");
}

TEST_F(DiagnosticsTest, PrintsTheModulePath) {
  {
    DiagnosticPrinter printer(&context, os);
    emitError(imported("a.q_proj"),
              "'q.load' op result is x, expected: y [W2]");
    emitError(imported("a.q_proj"), "a.qkv_proj: shards disagree [C8]");
    emitError(imported("a.q_proj"), "--target sm_70: too old [C9]");
    emitError(file(), "no path here");
    emitError(UnknownLoc::get(&context), "nothing known");
    emitWarning(imported("a"), "odd");
    EXPECT_EQ(printer.getNumErrors(), 5u);
  }
  // Errors wait for their like.
  EXPECT_EQ(text, "warning: a: odd\n"
                  "error: a.q_proj: 'q.load' op result is x, expected: y [W2]\n"
                  "error: a.qkv_proj: shards disagree [C8]\n"
                  "error: --target sm_70: too old [C9]\n"
                  "error: in.json:3:5: no path here\n"
                  "error: nothing known\n");
}

TEST_F(DiagnosticsTest, NotesFollowTheirError) {
  {
    DiagnosticPrinter printer(&context, os);
    InFlightDiagnostic diag = emitError(imported("a"), "b [W1]");
    diag.attachNote(file()) << "config.json: c";
  }
  EXPECT_EQ(text, "error: a: b [W1]\nnote:  config.json: c\n");
}

TEST_F(DiagnosticsTest, StatusBecomesADiagnostic) {
  {
    DiagnosticPrinter printer(&context, os);
    EXPECT_TRUE(succeeded(emitStatus(file(), Status::success())));
    EXPECT_TRUE(failed(emitStatus(
        file(), inputError("a.b", "is wrong", "C8").note("config.json: why"))));
    EXPECT_TRUE(
        failed(emitStatus(imported("x.y"), inputError("", "bad text"))));
    EXPECT_EQ(printer.getNumErrors(), 2u);
  }
  EXPECT_EQ(text, "error: a.b: is wrong [C8]\n"
                  "note:  config.json: why\n"
                  "error: x.y: bad text\n");
}

TEST_F(DiagnosticsTest, OneErrorWithTenNotesThenHowManyMore) {
  {
    DiagnosticPrinter printer(&context, os);
    for (int i = 0; i < 53; ++i)
      emitError(imported("m" + std::to_string(i)), "no scale [W6]");
    emitError(imported("z"), "another rule [W1]");
    for (int i = 0; i < 12; ++i)
      emitError(imported("n"), "without a rule");
    EXPECT_EQ(printer.getNumErrors(), 66u);
  }
  std::string expected = "error: m0: no scale [W6]\n";
  for (int i = 1; i <= 10; ++i)
    expected += "note:  m" + std::to_string(i) + ": the same\n";
  expected += "note:  and 42 more\nerror: z: another rule [W1]\n";
  for (int i = 0; i < 12; ++i)
    expected += "error: n: without a rule\n";
  EXPECT_EQ(text, expected);
}

TEST_F(DiagnosticsTest, InstancesDifferInNumbersAndNames) {
  {
    DiagnosticPrinter printer(&context, os);
    InFlightDiagnostic first =
        emitError(imported("a.q"), "'s' is F32 [3, 2], expected [6, 4] [W1]");
    first.attachNote() << "the same in layer 1";
    first.report();
    emitError(imported("a.q"), "another text [W1]");
    emitError(imported("a.k"), "'t' is F32 [1, 2], expected [12, 4] [W1]");
    emitError(imported("a.v"), "'s' is F32 [3, 2], expected [6, 4] [W1]");
    emitError(imported("a.o"), "'s' is BF16 [3, 2], expected [6, 4] [W1]");
    emitError(imported("a.o"), "'s' is F32 [3, 2], expected [6, 4] [W2]");
  }
  EXPECT_EQ(text, "error: a.q: 's' is F32 [3, 2], expected [6, 4] [W1]\n"
                  "note:  the same in layer 1\n"
                  "note:  a.k: 't' is F32 [1, 2], expected [12, 4] [W1]\n"
                  "note:  a.v: the same\n"
                  "error: a.q: another text [W1]\n"
                  "error: a.o: 's' is BF16 [3, 2], expected [6, 4] [W1]\n"
                  "error: a.o: 's' is F32 [3, 2], expected [6, 4] [W2]\n");
}

TEST_F(DiagnosticsTest, TenWarningsOfOneRule) {
  {
    DiagnosticPrinter printer(&context, os);
    for (int i = 0; i < 12; ++i)
      emitWarning(imported("m" + std::to_string(i)), "no scale [P8]");
    EXPECT_EQ(printer.getNumErrors(), 0u);
  }
  EXPECT_NE(text.find("warning: m9: no scale [P8]\n"), std::string::npos);
  EXPECT_EQ(text.find("m10:"), std::string::npos);
  EXPECT_NE(text.find("warning: and 2 more [P8]\n"), std::string::npos);
}

// Many products of one program, one warning.
TEST_F(DiagnosticsTest, EqualTextsOnce) {
  {
    DiagnosticPrinter printer(&context, os);
    for (int i = 0; i < 12; ++i) {
      emitWarning(imported("m"), "no scale [P8]");
      emitRemark(imported("m"), "slow");
    }
    emitWarning(imported("n"), "no scale [P8]");
  }
  EXPECT_EQ(text, "warning: m: no scale [P8]\n"
                  "remark: m: slow\n"
                  "warning: n: no scale [P8]\n");
}

TEST_F(DiagnosticsTest, NoOperatorTextForUsers) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(imported("m"));
  {
    DiagnosticPrinter printer(&context, os);
    module->emitError("is wrong");
  }
  EXPECT_EQ(text, "error: m: is wrong\n");
  EXPECT_TRUE(context.shouldPrintOpOnDiagnostic());
}

TEST_F(DiagnosticsTest, RemarksHaveTheSameForm) {
  ASSERT_TRUE(succeeded(printRemarks(context, os)));
  remark::missed(imported("a.down_proj"),
                 remark::RemarkOpts::name("kept").category("octet-x"))
      << remark::add("{0}", "a.down_proj: uses y, not z [B2]");
  remark::passed(imported("a.up_proj"),
                 remark::RemarkOpts::name("chosen").category("octet-x"))
      << "uses " << StringRef("y") << " [B1]";
  remark::analysis(imported("a"),
                   remark::RemarkOpts::name("size").category("octet-x"))
      << "arena" << remark::metric("bytes", 12);
  EXPECT_EQ(text, "remark: a.down_proj: uses y, not z [B2]\n"
                  "remark: a.up_proj: uses y [B1]\n"
                  "remark: a: arena, bytes 12\n");
}

} // namespace
