//===- SupportTest.cpp - Status, escaping, files --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Support/Output.h"
#include "octet/Support/Status.h"
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace octet;
namespace fs = std::filesystem;

namespace {

//===----------------------------------------------------------------------===//
// Status
//===----------------------------------------------------------------------===//

TEST(Status, FormatsSubjectMessageRuleAndNotes) {
  Status status = inputError("model.layers.3.mlp", "dimension 192 is odd", "W3")
                      .note("config.json: says so")
                      .note("and here");
  EXPECT_EQ(status.info().format(),
            "error: model.layers.3.mlp: dimension 192 is odd [W3]\n"
            "note:  config.json: says so\n"
            "note:  and here\n");
}

TEST(Status, LeavesOutWhatIsEmpty) {
  EXPECT_EQ(inputError("", "it is wrong").info().format(),
            "error: it is wrong\n");
  EXPECT_EQ(inputError("a", "b").info().format(), "error: a: b\n");
  EXPECT_EQ(inputError("", "b", "C1").info().format(), "error: b [C1]\n");
}

TEST(Status, ExitCodesTellWhoHasToAct) {
  EXPECT_EQ(inputError("a", "b").info().exitCode(), 1);
  EXPECT_EQ(machineError("a", "b").info().exitCode(), 1);
  EXPECT_EQ(usageError("a", "b").info().exitCode(), 2);
  EXPECT_EQ(internalError("a", "b").info().exitCode(), 3);
  EXPECT_EQ(internalError("a", "b").info().format(),
            "error: a: internal error: b\n");
}

Result<int> half(int x) {
  if (x % 2)
    return inputError("x", std::to_string(x) + " is odd");
  return x / 2;
}

Result<int> quarter(int x) {
  OCTET_TRY_ASSIGN(int y, half(x));
  OCTET_TRY(y == 100 ? inputError("y", "is 100") : Status::success());
  return half(y);
}

TEST(Status, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(7).status().info().message, "7 is odd");
  EXPECT_EQ(quarter(6).status().info().message, "3 is odd");
  EXPECT_EQ(quarter(200).status().info().message, "is 100");
}

//===----------------------------------------------------------------------===//
// Checked.h
//===----------------------------------------------------------------------===//

TEST(Checked, ProductRefusesOverflowAndNegativeSides) {
  EXPECT_EQ(checkedProduct(std::vector<int64_t>{}), 1);
  EXPECT_EQ(checkedProduct(std::vector<int64_t>{3, 4}), 12);
  EXPECT_EQ(checkedProduct(std::vector<int64_t>{int64_t(1) << 32, 1u << 31}),
            std::nullopt);
  EXPECT_EQ(checkedProduct(std::vector<int64_t>{-1, -1}), std::nullopt);
  EXPECT_EQ(checkedAdd(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(checkedMul(INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(cdiv(INT64_MAX, 2), int64_t(1) << 62);
}

//===----------------------------------------------------------------------===//
// Escape
//===----------------------------------------------------------------------===//

TEST(Escape, ControlCharactersQuotesAndBackslashes) {
  EXPECT_EQ(escapeName("model.norm.weight"), "model.norm.weight");
  EXPECT_EQ(escapeName("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(escapeName(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escapeName("'\"\\"), "\\'\\\"\\\\");
  EXPECT_EQ(quoteName("x"), "'x'");
  EXPECT_EQ(quoteName(""), "''");
}

TEST(Escape, KeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(escapeName("größe 权重 🙂"), "größe 权重 🙂");
  EXPECT_EQ(escapeName("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(escapeName("\xc0\xaf"), "\\xc0\\xaf");          // overlong '/'
  EXPECT_EQ(escapeName("\xed\xa0\x80"), "\\xed\\xa0\\x80"); // a surrogate
  EXPECT_EQ(escapeName("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(escapeName("\xc2\x9b"), "\\x9b"); // C1 control
  EXPECT_EQ(escapeName("a\xe2\x80\xae"
                       "b"),
            "a\\u202eb"); // right to left
}

TEST(Escape, CutsAt200Characters) {
  EXPECT_EQ(escapeName(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(escapeName(std::string(201, 'a')), std::string(200, 'a') + "…");
  // Never inside an escape: 50 of them fill 200 characters.
  std::string escapes;
  for (int i = 0; i < 50; ++i)
    escapes += "\\x01";
  EXPECT_EQ(escapeName(std::string(80, '\x01')), escapes + "…");
  EXPECT_EQ(escapeName("a" + std::string(80, '\x01')).size(),
            1 + 49 * 4 + std::string("…").size());
  // Characters, not bytes.
  std::string umlauts;
  for (int i = 0; i < 200; ++i)
    umlauts += "ü";
  EXPECT_EQ(escapeName(umlauts), umlauts);
}

TEST(Escape, PathsKeepQuotesAndAreNotCut) {
  std::string longPath = "/it's/" + std::string(300, 'a') + "\\";
  EXPECT_EQ(escapePath(longPath), longPath);
  EXPECT_EQ(escapePath("a\nb\xff"), "a\\x0ab\\xff");
}

TEST(Escape, Utf8Lengths) {
  EXPECT_EQ(utf8Length("a"), 1);
  EXPECT_EQ(utf8Length("ü"), 2);
  EXPECT_EQ(utf8Length("权"), 3);
  EXPECT_EQ(utf8Length("🙂"), 4);
  EXPECT_EQ(utf8Length(""), 0);
  EXPECT_EQ(utf8Length("\x80"), 0);
  EXPECT_EQ(utf8Length("\xf0\x9f\x99"), 0); // cut short
  EXPECT_TRUE(isUtf8("größe"));
  EXPECT_FALSE(isUtf8("gr\xf6\xdf"
                      "e"));
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

class File : public testing::Test {
protected:
  File() {
    std::string pattern = testing::TempDir() + "octet-support-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~File() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

  Status write(const std::string &name, std::string_view text,
               bool executable = false) {
    std::span<const std::byte> piece = std::as_bytes(std::span(text));
    return writeFile(path(name), {&piece, 1}, executable);
  }

  static std::string contents(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// Names in the folder.
  std::vector<std::string> list() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string folder;
};

using Names = std::vector<std::string>;

TEST_F(File, ReadsARange) {
  ASSERT_TRUE(write("a", "0123456789").ok());
  Result<InputFile> file = InputFile::open(path("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 10);
  std::string text(4, ' ');
  EXPECT_TRUE(file->read(3, text).ok());
  EXPECT_EQ(text, "3456");
  EXPECT_EQ(file->read(8, text).info().format(),
            "error: " + path("a") +
                ": became shorter while it was read: it ends at byte 10\n");
}

TEST_F(File, RefusesWhatIsNoRegularFile) {
  auto message = [](const std::string &path) {
    return InputFile::open(path).status().info().message;
  };
  EXPECT_EQ(message(path("none")),
            "cannot be opened: No such file or directory");
  EXPECT_EQ(message(folder), "is a directory, not a regular file");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(message(path("fifo")), "is a FIFO, not a regular file");
  EXPECT_EQ(message("/dev/zero"), "is a device or socket, not a regular file");
  EXPECT_EQ(message(std::string("a\0b", 3)),
            "a file name cannot hold a zero byte");
}

TEST_F(File, WritesAllPiecesAndLeavesNoTemporary) {
  std::string a = "abc", b, c = "defg";
  std::vector<std::span<const std::byte>> pieces = {
      std::as_bytes(std::span(a)), std::as_bytes(std::span(b)),
      std::as_bytes(std::span(c))};
  ASSERT_TRUE(writeFile(path("x"), pieces).ok());
  EXPECT_EQ(contents(path("x")), "abcdefg");
  ASSERT_TRUE(write("x", "new").ok());
  EXPECT_EQ(contents(path("x")), "new");
  EXPECT_EQ(list(), Names{"x"});
}

TEST_F(File, ExecutableBitsFollowTheUmask) {
  mode_t old = ::umask(027);
  ASSERT_TRUE(write("plain", "x").ok());
  ASSERT_TRUE(write("program", "x", /*executable=*/true).ok());
  ::umask(old);
  EXPECT_EQ(unsigned(fs::status(path("plain")).permissions()), 0640u);
  EXPECT_EQ(unsigned(fs::status(path("program")).permissions()), 0750u);
}

TEST_F(File, FollowsALinkInsteadOfReplacingIt) {
  ASSERT_TRUE(write("target", "old").ok());
  fs::create_symlink("target", path("link"));
  ASSERT_TRUE(write("link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents(path("target")), "new");
}

TEST_F(File, DevicesAreWrittenToNotReplaced) {
  std::string text = "text";
  std::span<const std::byte> piece = std::as_bytes(std::span(text));
  EXPECT_TRUE(writeFile("/dev/null", {&piece, 1}).ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  Status status = writeFile("/dev/full", {&piece, 1});
  EXPECT_EQ(status.info().format(),
            "error: /dev/full: cannot be written: No space left on device "
            "after 0 of 4 bytes\n");
  EXPECT_EQ(status.info().exitCode(), 1);
  EXPECT_EQ(status.info().kind, ErrorKind::Machine);
}

TEST_F(File, NoPlaceToWrite) {
  EXPECT_EQ(write("no/such/folder", "x").info().message,
            "cannot be written: No such file or directory");
  fs::create_directory(path("folder"));
  EXPECT_EQ(write("folder", "x").info().message,
            "cannot be written: Is a directory");
  EXPECT_EQ(list(), Names{"folder"});
}

// The longest name there is, for a new file and for one that is replaced.
TEST_F(File, LongNames) {
  const std::string name(255, 'n');
  ASSERT_TRUE(write(name, "old").ok());
  ASSERT_TRUE(write(name, "new").ok());
  EXPECT_EQ(contents(path(name)), "new");
  EXPECT_EQ(write(name + "n", "x").info().message,
            "cannot be written: File name too long");
  EXPECT_EQ(list(), Names{name});
}

// A file that is being written has no name, whatever ends the process.
TEST_F(File, AKilledWriteLeavesNothing) {
  int fd = ::open(path("").c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (fd < 0)
    GTEST_SKIP() << "this file system has no files without names";
  ::close(fd);
  auto killed = [&] {
    ::signal(SIGXFSZ, SIG_DFL);
    const rlimit limit{4, 4};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    (void)write("x", "more than that");
    std::_Exit(0);
  };
  EXPECT_EXIT(killed(), ::testing::KilledBySignal(SIGXFSZ), "");
  EXPECT_EQ(list(), Names{});
}

// A limit on the size of files stands for a full disk: write stops half-way.
TEST_F(File, AFailedWriteKeepsTheOldFileAndRemovesTheTemporary) {
  ASSERT_TRUE(write("x", "old").ok());
  auto oldHandler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit before, limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  Status status = write("x", std::string(10000, 'n'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, oldHandler);
  EXPECT_EQ(status.info().message,
            "cannot be written: File too large after 4096 of 10000 bytes");
  EXPECT_EQ(contents(path("x")), "old");
  EXPECT_EQ(list(), Names{"x"});
}

/// What `checkNotInput` says of `output`; "" if it is good.
static std::string replaces(const std::string &output,
                            const std::vector<std::string> &inputs) {
  Status status = checkNotInput("-o", output, inputs);
  if (status.ok())
    return "";
  EXPECT_EQ(status.info().exitCode(), 2);
  EXPECT_EQ(status.info().subject, "-o " + output);
  return status.info().message;
}

TEST_F(File, AnOutputIsNoInputUnderAnyName) {
  fs::create_directory(path("folder"));
  fs::create_directory(path("shards"));
  for (const char *name : {"a", "folder/model.safetensors",
                           "folder/config.json", "folder/other.safetensors",
                           "folder/program", "shards/model-1.safetensors"})
    ASSERT_TRUE(write(name, "x").ok());
  fs::create_symlink("a", path("soft"));
  fs::create_hard_link(path("a"), path("hard"));
  fs::create_symlink("folder", path("link"));
  const std::vector<std::string> inputs = {"", path("none"), path("a"),
                                           path("folder"), path("shards")};
  for (const char *name : {"a", "soft", "hard"})
    EXPECT_EQ(replaces(path(name), inputs),
              "is the input " + path("a") +
                  ", which it would replace; another name is needed");
  EXPECT_EQ(replaces(path("link/model.safetensors"), inputs),
            "is part of the input, " + path("folder/model.safetensors") +
                ", which it would replace; another name is needed");
  EXPECT_NE(replaces(path("folder/config.json"), inputs), "");
  EXPECT_NE(replaces(path("shards/model-1.safetensors"), inputs), "");
  // Not there, not read, or written by a compiler before.
  for (const char *name : {"new", "folder/new.safetensors",
                           "folder/other.safetensors", "folder/program"})
    EXPECT_EQ(replaces(path(name), inputs), "") << name;
  EXPECT_EQ(replaces("/dev/null", {"/dev/null"}), "");
}

} // namespace
