//===- CheckpointFolderTest.cpp - Folders of files, written and mapped ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"
#include "octet/Support/MappedFiles.h"
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace octet;
using namespace octet::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

//===----------------------------------------------------------------------===//
// Folders
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, NoSuchFolder) {
  EXPECT_EQ(stripped(openCheckpoint(path("none")).status().info().format()),
            "none: no such file or folder");
  writeText("file.bin", "x");
  EXPECT_EQ(stripped(openCheckpoint(path("file.bin")).status().info().format()),
            "file.bin: is not a folder; a checkpoint is a folder with "
            "config.json and *.safetensors, or a *.gguf file");
}

TEST_F(CheckpointTest, FolderWithoutTensors) {
  EXPECT_EQ(openFolder(),
            ": has no tensors; there must be model.safetensors, "
            "model.safetensors.index.json or another *.safetensors file");
}

TEST_F(CheckpointTest, Config) {
  writeTensors("model.safetensors", "{}", 0);
  EXPECT_EQ(openFolder(), "ok");
  EXPECT_EQ(openFolder(/*needConfig=*/true), ": has no config.json");
  writeText("config.json", "{}");
  EXPECT_EQ(openFolder(/*needConfig=*/true), "ok");
  writeText("config.json", "not JSON");
  EXPECT_EQ(openFolder(),
            "config.json: is not JSON: line 1, column 2: syntax error while "
            "parsing value - invalid literal");
  writeText("config.json", "[]");
  EXPECT_EQ(openFolder(), "config.json: is a JSON array; it must be an object");
  writeText("config.json", "{\"a\":" + std::string(50'000'000, '['));
  EXPECT_EQ(openFolder(), "config.json: nests deeper than 64 levels");
  fs::remove(path("config.json"));
  fs::create_directory(path("config.json"));
  EXPECT_EQ(openFolder(), "config.json: is a directory, not a regular file");
  fs::remove(path("config.json"));
  fs::create_symlink("nowhere", path("config.json"));
  EXPECT_EQ(openFolder(),
            "config.json: cannot be opened: No such file or directory");
}

TEST_F(CheckpointTest, Sidecars) {
  writeTensors("model.safetensors", "{}", 0);
  writeText("config.json", R"({"model_type":"llama"})");
  writeText("generation_config.json", R"({"eos_token_id":2})");
  writeText("hf_quant_config.json", R"({"quantization":{}})");
  writeText("tokenizer.json", "");
  Result<Checkpoint> checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->config["model_type"], "llama");
  EXPECT_EQ(checkpoint->generationConfig["eos_token_id"], 2);
  EXPECT_TRUE(checkpoint->hfQuantConfig.is_object());
  EXPECT_TRUE(checkpoint->hasTokenizer);
  writeText("generation_config.json", "3");
  EXPECT_EQ(openFolder(), "generation_config.json: is a JSON number; it must "
                          "be an object");
}

TEST_F(CheckpointTest, ModelFileThatCannotBeRead) {
  ASSERT_EQ(::mkfifo(path("model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(openFolder(), "model.safetensors: is a FIFO, not a regular file");
}

TEST_F(CheckpointTest, FolderOfFilesWithoutIndex) {
  writeTensors("b.safetensors", "{" + entry("x", "U8", "[1]", "[0,1]") + "}",
               1);
  writeTensors("a.safetensors", "{" + entry("y", "U8", "[1]", "[0,1]") + "}",
               1);
  Result<Checkpoint> checkpoint = openCheckpoint(folder, {.needConfig = false});
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(
      checkpoint->tensors.files,
      (std::vector<std::string>{path("a.safetensors"), path("b.safetensors")}));
  EXPECT_EQ(checkpoint->tensors.find("x")->file, 1);
  writeTensors("c.safetensors", "{" + entry("x", "U8", "[1]", "[0,1]") + "}",
               1);
  EXPECT_EQ(openFolder(), "c.safetensors: tensor 'x' is also in b.safetensors");
}

//===----------------------------------------------------------------------===//
// The index
//===----------------------------------------------------------------------===//

class IndexTest : public CheckpointTest {
protected:
  IndexTest() {
    writeTensors("m1.safetensors",
                 "{" + entry("a", "U8", "[4]", "[0,4]") + "," +
                     entry("b", "U8", "[4]", "[4,8]") + "}",
                 8);
    writeTensors("m2.safetensors", "{" + entry("c", "U8", "[4]", "[0,4]") + "}",
                 4);
  }
  std::string open(const std::string &index) const {
    writeText("model.safetensors.index.json", index);
    std::string text = openFolder();
    std::string subject = "model.safetensors.index.json: ";
    if (text.substr(0, subject.size()) == subject)
      return text.substr(subject.size());
    return text;
  }
  std::string openMap(const std::string &map) const {
    return open("{\"weight_map\":" + map + "}");
  }
};

TEST_F(IndexTest, Good) {
  EXPECT_EQ(
      open(R"({"metadata":{"total_size":12,"x":[[1],{"weight_map":{"q":1}}]},
              "weight_map":{"c":"m2.safetensors","a":"m1.safetensors",
                            "b":"m1.safetensors"}})"),
      "ok");
  Result<Checkpoint> checkpoint = openCheckpoint(folder, {.needConfig = false});
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(checkpoint->tensors.find("c")->file, 1);
  EXPECT_EQ(checkpoint->tensors.files[1], path("m2.safetensors"));
}

TEST_F(IndexTest, NotAnIndex) {
  EXPECT_EQ(
      open("{"),
      "is not JSON: line 1, column 2: syntax error while "
      "parsing object key - unexpected end of input; expected string literal");
  EXPECT_EQ(open("[]"), "is a list; it must be a JSON object");
  EXPECT_EQ(open("7"), "is a number; it must be a JSON object");
  EXPECT_EQ(open("{}"), "has no 'weight_map'");
  EXPECT_EQ(openMap("{}"), "weight_map is empty");
  EXPECT_EQ(openMap("[]"), "weight_map is a list; it must be an object");
  EXPECT_EQ(openMap("null"), "weight_map is null; it must be an object");
  EXPECT_EQ(openMap(R"({"a":1})"),
            "weight_map: tensor 'a' has a number for its file; it must be a "
            "string");
  EXPECT_EQ(openMap(R"({"a":{"b":"m1.safetensors"}})"),
            "weight_map: tensor 'a' has an object for its file; it must be a "
            "string");
  EXPECT_EQ(open(R"({"weight_map":{"a":"m1.safetensors"},"weight_map":{}})"),
            "has 'weight_map' twice");
  EXPECT_EQ(open("{\"metadata\":" + std::string(1000, '[')),
            "nests deeper than 64 levels");
}

TEST_F(IndexTest, FileNamesStayInTheFolder) {
  for (std::string name : {"../m1.safetensors", "/etc/passwd", "sub/m1", ".",
                           "..", "", "a\\\\b", "a\\u0000b"}) {
    std::string text = openMap("{\"a\":\"" + name + "\"}");
    EXPECT_EQ(text.substr(0, 31), "weight_map: tensor 'a' is in fi") << text;
    EXPECT_NE(text.find("; it must be a plain name in the same folder"),
              text.npos)
        << text;
  }
  EXPECT_EQ(openMap(R"({"a":"../m1.safetensors"})"),
            "weight_map: tensor 'a' is in file '../m1.safetensors'; it must be "
            "a plain name in the same folder");
}

TEST_F(IndexTest, DisagreesWithTheFolder) {
  EXPECT_EQ(openMap(R"({"a":"m1.safetensors","b":"m1.safetensors",
                        "c":"m3.safetensors"})"),
            "weight_map names file 'm3.safetensors', which is not in the "
            "folder");
  EXPECT_EQ(openMap(R"({"a":"m1.safetensors","b":"m1.safetensors",
                        "c":"m2.safetensors","d":"m2.safetensors"})"),
            "weight_map: tensor 'd' is not in the header of 'm2.safetensors'");
  EXPECT_EQ(openMap(R"({"a":"m1.safetensors","c":"m2.safetensors"})"),
            "weight_map does not list tensor 'b', which is in "
            "'m1.safetensors'");
  EXPECT_EQ(openMap(R"({"a":"m1.safetensors","b":"m2.safetensors",
                        "c":"m2.safetensors"})"),
            "weight_map: tensor 'b' is in 'm1.safetensors', not in "
            "'m2.safetensors'");
  EXPECT_EQ(openMap(R"({"a":"m1.safetensors","a":"m1.safetensors",
                        "b":"m1.safetensors"})"),
            "weight_map lists tensor 'a' twice");
}

TEST_F(IndexTest, ReportsTenAndCountsTheRest) {
  std::string map = "{";
  for (char c = 'd'; c < 'd' + 14; ++c)
    map += std::string("\"") + c + "\":\"m2.safetensors\",";
  EXPECT_EQ(
      openMap(map + R"("a":"m1.safetensors","b":"m1.safetensors",
                       "c":"m2.safetensors"})"),
      "weight_map: tensor 'd' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'e' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'f' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'g' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'h' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'i' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'j' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'k' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'l' is not in the header of 'm2.safetensors'\n"
      "note:  weight_map: tensor 'm' is not in the header of 'm2.safetensors'\n"
      "note:  and 4 more");
}

//===----------------------------------------------------------------------===//
// The hash
//===----------------------------------------------------------------------===//

/// The published test vectors of FNV-1a are over plain strings; the table's
/// bytes are those of the header's description, hashed here once more.
TEST_F(CheckpointTest, HashIsFnv1aOfTheTable) {
  using U128 = unsigned __int128;
  auto fnv = [](std::string_view bytes) {
    U128 hash = U128(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
    U128 prime = U128(0x0000000001000000) << 64 | 0x13b;
    for (unsigned char byte : bytes) {
      hash ^= byte;
      hash *= prime;
    }
    std::string text;
    for (int i = 0; i < 32; ++i, hash <<= 4)
      text += "0123456789abcdef"[unsigned(hash >> 124)];
    return text;
  };
  // draft-eastlake-fnv: FNV-1a 128 of "" and of "a".
  EXPECT_EQ(fnv(""), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(fnv("a"), "d228cb696f1a8caf78912b704e4a8964");
  TensorTable table;
  EXPECT_EQ(table.hash(), fnv(""));
  writeTensors("x.safetensors", "{" + entry("ab", "F32", "[2]", "[0,8]") + "}",
               8);
  table = readSafetensors(path("x.safetensors")).take();
  std::string bytes("ab\0F32\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 23);
  EXPECT_EQ(table.hash(), fnv(bytes));
}

TEST_F(CheckpointTest, HashTellsNameTypeAndShapeApart) {
  auto hash = [&](const std::string &header, int64_t bytes) {
    writeTensors("x.safetensors", "{" + header + "}", bytes);
    return readSafetensors(path("x.safetensors")).take().hash();
  };
  std::string base = hash(entry("a", "F32", "[2,3]", "[0,24]"), 24);
  EXPECT_EQ(base.size(), 32u);
  EXPECT_NE(base, hash(entry("b", "F32", "[2,3]", "[0,24]"), 24));
  EXPECT_NE(base, hash(entry("a", "I32", "[2,3]", "[0,24]"), 24));
  EXPECT_NE(base, hash(entry("a", "F32", "[3,2]", "[0,24]"), 24));
  EXPECT_NE(base, hash(entry("a", "F32", "[6]", "[0,24]"), 24));
  // Where in which file the bytes are is no difference to a program.
  EXPECT_EQ(hash(entry("a", "U8", "[2]", "[0,2]") + "," +
                     entry("b", "U8", "[2]", "[2,4]"),
                 4),
            hash(entry("b", "U8", "[2]", "[0,2]") + "," +
                     entry("a", "U8", "[2]", "[2,4]"),
                 4));
}

//===----------------------------------------------------------------------===//
// Writing and mapping
//===----------------------------------------------------------------------===//

template <typename T>
std::span<const std::byte> bytesOf(const T &values) {
  return std::as_bytes(std::span(values));
}

TEST_F(CheckpointTest, WriteReadMapRoundTrip) {
  std::vector<float> f = {1, 2, 3, 4, 5, 6};
  std::vector<uint8_t> q = {1, 2, 3};
  std::vector<int64_t> ids = {-1, 7};
  std::vector<TensorToWrite> tensors = {
      {"q", StoredType::F8_E4M3, {3}, bytesOf(q)},
      {"größe \"1\"", StoredType::F32, {2, 3}, bytesOf(f)},
      {"ids", StoredType::I64, {2}, bytesOf(ids)},
      {"none", StoredType::F32, {0, 4}, {}},
      {"scalar", StoredType::F32, {}, bytesOf(f).first(4)}};
  ASSERT_TRUE(writeSafetensors(path("w.safetensors"), tensors).ok());
  Result<TensorTable> table = readSafetensors(path("w.safetensors"));
  ASSERT_TRUE(table.ok()) << table.status().info().format();
  Result<MappedCheckpoint> mapped = MappedCheckpoint::map(*table);
  ASSERT_TRUE(mapped.ok()) << mapped.status().info().format();
  MappedCheckpoint moved = mapped.take();
  ASSERT_EQ(table->all().size(), tensors.size());
  for (const TensorToWrite &tensor : tensors) {
    const TensorInfo *info = table->find(tensor.name);
    ASSERT_NE(info, nullptr) << tensor.name;
    EXPECT_EQ(info->type, tensor.type);
    EXPECT_EQ(info->shape, tensor.shape);
    EXPECT_EQ(info->offset % byteWidth(info->type), 0) << tensor.name;
    std::span<const std::byte> bytes = moved.bytes(*info);
    ASSERT_EQ(bytes.size(), tensor.data.size());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.data.begin()));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(CheckpointTest, BusErrorNamesTheFile) {
  std::vector<float> f(10000, 1);
  TensorToWrite tensor{"t", StoredType::F32, {10000}, bytesOf(f)};
  ASSERT_TRUE(writeSafetensors(path("a.safetensors"), {&tensor, 1}).ok());
  ASSERT_TRUE(writeSafetensors(path("b.safetensors"), {&tensor, 1}).ok());
  auto map = [&](const char *name) {
    return MappedCheckpoint::map(readSafetensors(path(name)).take()).take();
  };
  TensorTable table = readSafetensors(path("b.safetensors")).take();
  std::optional<MappedCheckpoint> a = map("a.safetensors");
  MappedCheckpoint b = map("b.safetensors");
  const TensorInfo &info = *table.find("t");
  std::span<const std::byte> bytes = b.bytes(info);
  fs::resize_file(path("b.safetensors"), 4096);
  auto read = [&] {
    installBusErrorHandler();
    (void)*const_cast<const volatile std::byte *>(&bytes.back());
  };
  EXPECT_EXIT(read(), testing::ExitedWithCode(1),
              "error: .*b.safetensors: was truncated or changed while the "
              "program read it");
  // What nobody watches is nobody's fault, and an entry that has become free
  // is used again.
  a.reset();
  unwatchMapping(bytes.data() - info.offset);
  EXPECT_EXIT(read(), testing::KilledBySignal(SIGBUS), "");
  watchMapping(bytes.data() - info.offset, bytes.size(), "again");
  EXPECT_EXIT(read(), testing::ExitedWithCode(1), "error: again: was");
  // Or it is zeros, and somebody asks.
  EXPECT_TRUE(takeTruncation().ok());
  installBusErrorHandler(OnTruncation::Remember);
  EXPECT_EQ(bytes.back(), std::byte(0));
  unwatchMapping(bytes.data() - info.offset);
  Status status = takeTruncation();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().format(), "error: again: was truncated or changed "
                                    "while the program read it\n");
  EXPECT_TRUE(takeTruncation().ok());
}

TEST_F(CheckpointTest, WritesNoTensors) {
  ASSERT_TRUE(writeSafetensors(path("w.safetensors"), {}).ok());
  EXPECT_EQ(readFile("w.safetensors"), "ok");
  Result<TensorTable> table = readSafetensors(path("w.safetensors"));
  EXPECT_TRUE(MappedCheckpoint::map(*table).ok());
}

TEST_F(CheckpointTest, WriteRefusesOurOwnMistakes) {
  std::vector<float> f = {1, 2};
  auto message = [&](std::vector<TensorToWrite> tensors) {
    Status status = writeSafetensors(path("w.safetensors"), tensors);
    EXPECT_EQ(status.info().exitCode(), 3);
    EXPECT_FALSE(fs::exists(path("w.safetensors")));
    return status.info().format();
  };
  EXPECT_EQ(message({{"a", StoredType::F32, {3}, bytesOf(f)}}),
            "error: tensor 'a': internal error: has 8 bytes of data, dtype and "
            "shape need 12\n");
  EXPECT_EQ(message({{"a", StoredType::F32, {2}, bytesOf(f)},
                     {"a", StoredType::F32, {2}, bytesOf(f)}}),
            "error: tensor 'a': internal error: is to be written twice\n");
  EXPECT_EQ(message({{"\xff", StoredType::F32, {2}, bytesOf(f)}}),
            "error: tensor '\\xff': internal error: a safetensors file cannot "
            "hold this name\n");
}

TEST_F(CheckpointTest, WriteToAFullDisk) {
  std::vector<float> f = {1, 2};
  std::vector<TensorToWrite> tensors = {
      {"a", StoredType::F32, {2}, bytesOf(f)}};
  std::string text = writeSafetensors("/dev/full", tensors).info().format();
  EXPECT_EQ(text.substr(0, 63), "error: /dev/full: cannot be written: No space "
                                "left on device af");
  EXPECT_EQ(
      stripped(
          writeSafetensors(path("no/w.safetensors"), tensors).info().format()),
      "no/w.safetensors: cannot be written: No such file or directory");
}

TEST_F(CheckpointTest, MapRefusesAFileThatChanged) {
  std::string header = "{" + entry("a", "U8", "[8]", "[0,8]") + "}";
  writeTensors("x.safetensors", header, 8);
  TensorTable table = readSafetensors(path("x.safetensors")).take();
  auto message = [&] {
    return stripped(MappedCheckpoint::map(table).status().info().format());
  };
  fs::resize_file(path("x.safetensors"), header.size() + 12);
  EXPECT_EQ(message(),
            "x.safetensors: is " + std::to_string(header.size() + 12) +
                " bytes, it was " + std::to_string(header.size() + 16) +
                " when its header was read");
  fs::remove(path("x.safetensors"));
  EXPECT_EQ(message(),
            "x.safetensors: cannot be opened: No such file or directory");
}

} // namespace
