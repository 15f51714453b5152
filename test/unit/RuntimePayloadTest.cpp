//===- RuntimePayloadTest.cpp - What may follow a runner ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include "TempFolder.h"
#include "runtime/core/Payload.h"
#include "runtime/core/Program.h"
#include "runtime/core/WriterPayload.h"
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

using namespace octet;
using namespace octet::rt;
namespace fs = std::filesystem;

namespace {
class PayloadTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const char *name) const { return folder + "/" + name; }

  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  /// Two sections after a runner of 5 bytes.
  std::string write(std::string_view program = "the program") {
    SectionToWrite sections[] = {{"program", bytes(program)},
                                 {"tokenizer.json", bytes("{}")}};
    Status status = writePayload(path("a"), bytes("hello"), sections);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.info().format());
    std::ifstream in(path("a"), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// What `open` says about a file of these bytes.
  std::string errorOf(const std::string &content) {
    std::ofstream(path("b"), std::ios::binary) << content;
    Result<Payload> payload = Payload::open(path("b"));
    if (payload.ok())
      return "no error";
    EXPECT_EQ(payload.status().info().exitCode(), 1);
    EXPECT_EQ(payload.status().info().subject, path("b"));
    return payload.status().info().message;
  }

  /// Changes the trailer, or entry i of the table, of a good file, and fixes
  /// the checksum, so that only the change can be what is refused.
  std::string
  changed(std::function<void(PayloadTrailer &, PayloadEntry *)> change) {
    std::string file = write();
    PayloadTrailer trailer;
    std::memcpy(&trailer, file.data() + file.size() - 32, 32);
    char *at = file.data() + trailer.tableOffset;
    PayloadEntry table[2];
    std::memcpy(table, at, sizeof(table));
    change(trailer, table);
    std::memcpy(at, table, sizeof(table));
    Checksum checksum;
    checksum.add(
        bytes(file).subspan(kPayloadAlign, file.size() - 32 - kPayloadAlign));
    trailer.checksum = checksum.get();
    std::memcpy(file.data() + file.size() - 32, &trailer, 32);
    return file;
  }

  std::string folder;
};
} // namespace

TEST_F(PayloadTest, RoundTrip) {
  write();
  Result<Payload> payload = Payload::open(path("a"));
  ASSERT_TRUE(payload.ok()) << payload.status().info().format();
  auto text = [&](const char *name) {
    auto section = payload->section(name);
    return section
               ? std::string(reinterpret_cast<const char *>(section->data()),
                             section->size())
               : "none";
  };
  EXPECT_EQ(text("program"), "the program");
  EXPECT_EQ(text("tokenizer.json"), "{}");
  EXPECT_EQ(text("generation"), "none");
  EXPECT_EQ(payload->begin(), kPayloadAlign);
  struct stat st;
  ASSERT_EQ(stat(path("a").c_str(), &st), 0);
  EXPECT_TRUE(st.st_mode & S_IXUSR);
}

TEST_F(PayloadTest, WithoutTrailer) {
  std::ofstream(path("b")) << "just a file that is longer than a trailer";
  auto found = Payload::find(path("b"));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
  EXPECT_EQ(errorOf("short"), "not a compiled program, or cut short: it does "
                              "not end in an OCTETPLD trailer");
}

TEST_F(PayloadTest, EveryTruncationIsAnError) {
  std::string file = write();
  for (size_t n = 0; n < file.size(); n += n < file.size() - 200 ? 97 : 1)
    EXPECT_NE(errorOf(file.substr(0, n)), "no error") << n;
  // The front cut off: the trailer is there and its offsets are not.
  for (size_t n = 1; n < file.size(); n += 97)
    EXPECT_NE(errorOf(file.substr(n)), "no error") << n;
}

TEST_F(PayloadTest, LyingTrailer) {
  using T = PayloadTrailer;
  using E = PayloadEntry;
  EXPECT_EQ(errorOf(changed([](T &, E *) {})), "no error");
  EXPECT_EQ(errorOf(changed([](T &t, E *) { t.version = 1; })),
            "payload version 1, this runner reads version 2");
  EXPECT_EQ(errorOf(changed([](T &t, E *) { t.sections = 0; })),
            "0 payload sections; 1 to 256 are possible");
  EXPECT_EQ(errorOf(changed([](T &t, E *) { t.sections = 0xffffffff; })),
            "4294967295 payload sections; 1 to 256 are possible");
  // Offset and table are read before the change is written back.
  std::string file = write();
  uint64_t far = uint64_t(1) << 63;
  std::memcpy(file.data() + file.size() - 16, &far, 8);
  EXPECT_EQ(errorOf(file),
            "payload table at byte 9223372036854775808 with 2 sections does "
            "not end at the trailer of a file of " +
                std::to_string(file.size()) + " bytes");
}

TEST_F(PayloadTest, LyingTable) {
  using T = PayloadTrailer;
  using E = PayloadEntry;
  EXPECT_EQ(errorOf(changed([](T &, E *e) { e[1].offset += 1; })),
            "payload section 'tokenizer.json' starts at byte 8193, not a "
            "multiple of 4096");
  EXPECT_EQ(errorOf(changed([](T &, E *e) { e[1].bytes = ~uint64_t(0); })),
            "payload section 'tokenizer.json' (18446744073709551615 bytes at "
            "8192) ends beyond the table at byte 8200");
  EXPECT_EQ(
      errorOf(changed([](T &, E *e) { e[1].offset = uint64_t(1) << 60; })),
      "payload section 'tokenizer.json' (2 bytes at 1152921504606846976) "
      "ends beyond the table at byte 8200");
  EXPECT_EQ(errorOf(changed([](T &, E *e) { e[1].offset = 4096; })),
            "payload sections 'tokenizer.json' and 'program' overlap");
  EXPECT_EQ(errorOf(changed([](T &, E *e) {
              std::memset(e[1].name, 0, 16);
              std::strcpy(e[1].name, "program");
            })),
            "payload section 'program' is there twice");
  EXPECT_EQ(errorOf(changed([](T &, E *e) { e[0].name[0] = 'q'; })),
            "the payload has no section 'program'");
  EXPECT_EQ(errorOf(changed([](T &, E *e) { e[0].name[2] = '\x1b'; })),
            "payload section 0 has no printable name");
  EXPECT_EQ(
      errorOf(changed([](T &, E *e) { std::memset(e[0].name, 'x', 16); })),
      "payload section 0 has no printable name");
}

TEST_F(PayloadTest, DamageIsToldWhereverItIs) {
  const std::string file = write();
  // Program, gap, tokenizer, table; the runner is another's.
  for (size_t at : {4096, 4096 + 3, 8000, 8192, 8193, 8200 + 15}) {
    std::string damaged = file;
    damaged[at] ^= 0x80;
    EXPECT_NE(errorOf(damaged), "no error") << at;
    if (at < 8200)
      EXPECT_EQ(errorOf(damaged),
                "the payload is damaged: its checksum differs from the one it "
                "was written with; compile again");
  }
  std::string other = file;
  other[0] = 'H';
  EXPECT_EQ(errorOf(other), "no error");
}

// Values of other implementations of XXH64, however the bytes are cut.
TEST(Checksum, IsXXH64) {
  auto of = [](std::string_view text, size_t piece) {
    Checksum checksum;
    for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
      checksum.add(std::as_bytes(std::span(text.substr(0, piece))));
    return checksum.get();
  };
  for (size_t piece : {1, 3, 8, 31, 32, 33, 1000}) {
    EXPECT_EQ(of("", piece), 0xef46db3751d8e999u);
    EXPECT_EQ(of("a", piece), 0xd24ec4f1a98c6e5bu);
    EXPECT_EQ(of("abc", piece), 0x44bc2cf5ad770999u);
    EXPECT_EQ(of("Nobody inspects the spammish repetition", piece),
              0xfbcea83c8a378bf1u);
  }
}

TEST_F(PayloadTest, UnwritableOutput) {
  SectionToWrite section{"program", bytes("x")};
  Status status = writePayload(path("no/such/folder"), {}, {&section, 1});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().kind, ErrorKind::Machine);
  EXPECT_EQ(status.info().exitCode(), 1);
}

TEST_F(PayloadTest, FullDiskLeavesNothing) {
  // A file size limit fails a write half-way, as a full disk does.
  signal(SIGXFSZ, SIG_IGN);
  struct rlimit old, small;
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 5000;
  setrlimit(RLIMIT_FSIZE, &small);
  std::string program(100000, 'x');
  SectionToWrite section{"program", bytes(program)};
  Status status = writePayload(path("big"), {}, {&section, 1});
  setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().kind, ErrorKind::Machine);
  EXPECT_EQ(status.info().subject, path("big"));
  EXPECT_TRUE(fs::is_empty(folder));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

TEST_F(PayloadTest, ProgramThatIsNoSharedObject) {
  write();
  Result<Payload> payload = Payload::open(path("a"));
  ASSERT_TRUE(payload.ok());
  auto program = Program::load(*payload);
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.status().info().message.find("cannot be loaded"),
            std::string::npos);
}

TEST_F(PayloadTest, ProgramOfAnotherAbi) {
  Status packed =
      test::packProgram(OCTET_FAKE_DIR "/fake-abi.so", "", path("p"));
  ASSERT_TRUE(packed.ok());
  Result<Payload> payload = Payload::open(path("p"));
  ASSERT_TRUE(payload.ok());
  auto program = Program::load(*payload);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().info().message,
            "the program has ABI version " +
                std::to_string(OCTET_ABI_VERSION + 1) + ", this runner has " +
                std::to_string(OCTET_ABI_VERSION) +
                "; compile again with the same Octet");
}

static std::string infoError(nlohmann::json info) {
  auto parsed = parseProgramInfo(info.dump(), "p");
  return parsed.ok() ? "no error" : parsed.status().info().message;
}

TEST(ProgramInfo, ChecksItsKeys) {
  nlohmann::json info = nlohmann::json::parse(R"({
    "target": "cpu", "dtype": "f32", "hash": "0", "kind": "model",
    "tensors": [["a", "F32", [2, 3]]], "vocab": 10, "eos": [1],
    "kv": {"layers": 2, "kv_heads": 1, "head_dim": 8, "type": "fp8_e4m3"},
    "limits": {"max_context": 8, "max_seqs": 1, "max_step_tokens": 4}})");
  EXPECT_EQ(infoError(info), "no error");
  auto with = [&](const char *pointer, nlohmann::json value) {
    nlohmann::json copy = info;
    copy[nlohmann::json::json_pointer(pointer)] = value;
    return infoError(copy);
  };
  EXPECT_EQ(with("/kind", "thing"),
            "program info: 'kind' is 'thing', not 'model' or 'module'");
  EXPECT_EQ(with("/vocab", -1),
            "program info: 'vocab' is not an integer from 1 to 2147483648");
  EXPECT_EQ(with("/vocab", 18446744073709551615ull),
            "program info: 'vocab' is not an integer from 1 to 2147483648");
  EXPECT_EQ(with("/limits/max_seqs", 0), "program info: 'limits.max_seqs' is "
                                         "not an integer from 1 to 1048576");
  EXPECT_EQ(with("/kv/type", "fp4"), "program info: 'kv.type' is 'fp4', not "
                                     "f32, bf16, f16 or fp8_e4m3 [P7a]");
  EXPECT_EQ(with("/tensors/0/2", {-1}),
            "program info: 'tensors[0]' has a side that is no size");
  EXPECT_EQ(with("/tensors/0/2", {int64_t(1) << 40, int64_t(1) << 40}),
            "program info: 'tensors[0]' has a shape that overflows");
  EXPECT_EQ(with("/tensors/0/1", "F31"),
            "program info: 'tensors[0]' has an unknown dtype");
  EXPECT_EQ(with("/eos", {1, "x"}),
            "program info: 'eos' is not an integer from 0 to 2147483647");
  EXPECT_EQ(with("/bos", 4), "no error");
  info.erase("hash");
  EXPECT_EQ(infoError(info), "program info: 'hash' is missing");
}
