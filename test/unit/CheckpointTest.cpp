//===- CheckpointTest.cpp - Hostile and good checkpoints ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/MappedFiles.h"
#include "tools/octet/Info.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace octet;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A folder of its own for each test, and writers of what goes wrong in it.
class CheckpointTest : public testing::Test {
protected:
  CheckpointTest() {
    std::string pattern = testing::TempDir() + "octet-checkpoint-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

  void writeText(const std::string &name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  /// A safetensors file of `header` and `dataBytes` of a hole.
  void writeTensors(const std::string &name, const std::string &header,
                    int64_t dataBytes) const {
    std::string prefix;
    for (int i = 0; i < 8; ++i)
      prefix += char(header.size() >> (8 * i) & 0xFF);
    writeText(name, prefix + header);
    fs::resize_file(path(name), 8 + header.size() + dataBytes);
  }

  /// The text after "error: FILE: " of reading a header, "ok" without error.
  std::string read(const std::string &header, int64_t dataBytes) const {
    writeTensors("x.safetensors", header, dataBytes);
    return readFile("x.safetensors");
  }

  std::string readFile(const std::string &name) const {
    Result<TensorTable> table = readSafetensors(path(name));
    return table.ok() ? "ok" : stripped(table.status().info().format());
  }

  std::string openFolder(bool needConfig = false) const {
    Result<Checkpoint> checkpoint =
        openCheckpoint(folder, {.needConfig = needConfig});
    return checkpoint.ok() ? "ok"
                           : stripped(checkpoint.status().info().format());
  }

  /// Without "error: ", the test's folder and the last newline.
  std::string stripped(std::string text) const {
    EXPECT_EQ(text.substr(0, 7), "error: ");
    text = text.substr(7, text.size() - 8);
    for (size_t at; (at = text.find(folder)) != text.npos;)
      text.replace(at, folder.size() + (text[at + folder.size()] == '/'), "");
    return text;
  }

  std::string folder;
};

/// One entry of a header.
std::string entry(const std::string &name, const std::string &dtype,
                  const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

TEST(StoredType, NamesAndWidths) {
  for (int i = 0; i <= int(StoredType::F64); ++i) {
    StoredType type = StoredType(i);
    EXPECT_EQ(parseStoredType(storedTypeName(type)), type);
    int64_t width = byteWidth(type);
    EXPECT_TRUE(width == 1 || width == 2 || width == 4 || width == 8);
  }
  EXPECT_EQ(storedTypeName(StoredType::F8_E4M3), "F8_E4M3");
  EXPECT_EQ(storedTypeName(StoredType::F64), "F64");
  EXPECT_EQ(byteWidth(StoredType::BOOL), 1);
  EXPECT_EQ(byteWidth(StoredType::F8_E5M2FNUZ), 1);
  EXPECT_EQ(byteWidth(StoredType::BF16), 2);
  EXPECT_EQ(byteWidth(StoredType::F32), 4);
  EXPECT_EQ(byteWidth(StoredType::I64), 8);
  EXPECT_EQ(parseStoredType("f32"), std::nullopt);
  EXPECT_EQ(parseStoredType(""), std::nullopt);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

std::string parseError(std::string_view text) {
  Result<json> value = parseJson(text, "c.json");
  return value.ok() ? "ok" : value.status().info().format();
}

TEST(Json, ParsesEveryKindOfValue) {
  Result<json> value = parseJson(
      R"({"a":[1,-2,3.5,true,false,null,"\u00fc",{}],"b":18446744073709551615})",
      "c.json");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(
      value->dump(),
      R"({"a":[1,-2,3.5,true,false,null,"ü",{}],"b":18446744073709551615})");
  EXPECT_EQ(*parseJson(" [ [ ] , [ [ 7 ] ] ] ", "c").take().begin(),
            json::array());
}

TEST(Json, SaysWhereItIsNotJson) {
  EXPECT_EQ(
      parseError("{\n \"a\": }"),
      "error: c.json: is not JSON: line 2, column 7: syntax error while "
      "parsing value - unexpected '}'; expected '[', '{', or a literal\n");
  EXPECT_EQ(parseError(""),
            "error: c.json: is not JSON: line 1, column 1: syntax error while "
            "parsing value - unexpected end of input; expected '[', '{', or a "
            "literal\n");
  EXPECT_EQ(parseError("{} x"),
            "error: c.json: is not JSON: line 1, column 4: syntax error while "
            "parsing value - invalid literal\n");
  EXPECT_EQ(parseError("{\"a\":1e999}"),
            "error: c.json: a number at byte 10 is too large for a double\n");
  // nlohmann would stop at the zero byte and call it good.
  EXPECT_EQ(parseError(std::string_view("{}\0x", 4)),
            "error: c.json: is not JSON: a zero byte at offset 2\n");
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_EQ(parseError(R"({"a":1,"b":{"a":1},"a":2})"),
            "error: c.json: has the key 'a' twice in one object\n");
  EXPECT_EQ(parseError(R"([{"a":1},{"a":2}])"), "ok");
  EXPECT_EQ(parseError("{\"\\u001b\":1,\"\\u001b\":2}"),
            "error: c.json: has the key '\\x1b' twice in one object\n");
}

TEST(Json, RefusesTextThatIsNotUtf8) {
  EXPECT_EQ(parseError("{\"a\":\"\xff\"}"),
            "error: c.json: is not JSON: line 1, column 7: syntax error while "
            "parsing value - invalid string: ill-formed UTF-8 byte\n");
  EXPECT_EQ(parseError("{\"\xc0\xaf\":1}"),
            "error: c.json: is not JSON: line 1, column 3: syntax error while "
            "parsing object key - invalid string: ill-formed UTF-8 byte\n");
  EXPECT_EQ(parseError(R"(["\ud800"])"),
            "error: c.json: is not JSON: line 1, column 9: syntax error while "
            "parsing value - invalid string: surrogate U+D800..U+DBFF must be "
            "followed by U+DC00..U+DFFF\n");
}

TEST(Json, BoundsNesting) {
  auto nest = [](int levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(parseError(nest(kMaxJsonDepth)), "ok");
  std::string tooDeep = "error: c.json: nests deeper than 64 levels\n";
  EXPECT_EQ(parseError(nest(kMaxJsonDepth + 1)), tooDeep);
  std::string objects;
  for (int i = 0; i < 100; ++i)
    objects += "{\"a\":";
  EXPECT_EQ(parseError(objects), tooDeep);
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parseError(std::string(kMaxJsonBytes, '[')), tooDeep);
  // 0.02 s; minutes if it were parsed, a crash if it recursed.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Json, BoundsSizeAndValues) {
  EXPECT_EQ(parseError(std::string(100'000'000, '[')),
            "error: c.json: is 100000000 bytes; JSON over 67108864 bytes is "
            "not read\n");
  std::string zeros = "[";
  for (int64_t i = 0; i < kMaxJsonValues; ++i)
    zeros += "0,";
  EXPECT_EQ(parseError(zeros + "0]"),
            "error: c.json: holds more than 8388608 values\n");
}

TEST(Json, DumpNeverThrows) {
  EXPECT_EQ(dumpJson(json("a\xff")), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(dumpJson(json{{"a", {1, 2}}}), R"({"a":[1,2]})");
}

TEST_F(CheckpointTest, JsonFileErrorsNameTheFile) {
  writeText("c.json", "[1,");
  auto message = [&](const std::string &name) {
    return stripped(readJsonFile(path(name)).status().info().format());
  };
  EXPECT_EQ(message("c.json"),
            "c.json: is not JSON: line 1, column 4: syntax error while parsing "
            "value - unexpected end of input; expected '[', '{', or a literal");
  EXPECT_EQ(message("none.json"),
            "none.json: cannot be opened: No such file or directory");
  writeText("big.json", "");
  fs::resize_file(path("big.json"), 100'000'000);
  EXPECT_EQ(message("big.json"), "big.json: is 100000000 bytes; JSON over "
                                 "67108864 bytes is not read");
}

//===----------------------------------------------------------------------===//
// Good headers
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, ReadsTensorsInAnyOrder) {
  std::string header = "{" + entry("b", "F32", "[2,3]", "[16,40]") + "," +
                       entry("scalar", "F8_E4M3", "[]", "[40,41]") +
                       R"(,"__metadata__":{"format":"pt"},)" +
                       entry("a", "BF16", "[8]", "[0,16]") + "," +
                       entry("empty", "F32", "[0,7]", "[16,16]") + "}   ";
  writeTensors("x.safetensors", header, 41);
  Result<TensorTable> table = readSafetensors(path("x.safetensors"));
  ASSERT_TRUE(table.ok()) << table.status().info().format();
  ASSERT_EQ(table->all().size(), 4u);
  EXPECT_EQ(table->all()[0].name, "a");
  const TensorInfo *b = table->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->describe(), "F32 [2, 3]");
  EXPECT_EQ(b->offset, int64_t(8 + header.size() + 16));
  EXPECT_EQ(b->bytes, 24);
  EXPECT_EQ(b->file, 0);
  EXPECT_EQ(table->find("scalar")->describe(), "F8_E4M3 []");
  EXPECT_EQ(table->find("scalar")->bytes, 1);
  EXPECT_EQ(table->find("empty")->bytes, 0);
  EXPECT_EQ(table->find("c"), nullptr);
  EXPECT_EQ(table->find("__metadata__"), nullptr);
  EXPECT_EQ(table->files, std::vector<std::string>{path("x.safetensors")});
  EXPECT_EQ(table->fileBytes[0], int64_t(8 + header.size() + 41));
}

TEST_F(CheckpointTest, AFileWithoutTensorsIsGood) {
  EXPECT_EQ(read("{}", 0), "ok");
  EXPECT_EQ(read(R"({"__metadata__":{}})", 0), "ok");
  EXPECT_EQ(read(R"({"__metadata__":null})", 0), "ok");
}

//===----------------------------------------------------------------------===//
// Headers that lie
//===----------------------------------------------------------------------===//

TEST_F(CheckpointTest, TruncatedFile) {
  writeText("x.safetensors", "12345");
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: is 5 bytes; a safetensors file has at least 8");
  writeText("x.safetensors", "");
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: is 0 bytes; a safetensors file has at least 8");
  std::string header = "{" + entry("a", "F32", "[4]", "[0,16]") + "}";
  writeTensors("x.safetensors", header, 16);
  fs::resize_file(path("x.safetensors"), 8 + header.size() - 1);
  std::string length = std::to_string(header.size());
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: header length " + length +
                " goes beyond the file, which has " +
                std::to_string(header.size() - 1) +
                " bytes after it; the file is truncated or no safetensors "
                "file");
  writeTensors("x.safetensors", header, 15);
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: tensor 'a': data_offsets [0, 16] end beyond the 15 "
            "bytes of data");
}

TEST_F(CheckpointTest, HeaderLength) {
  writeText("x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}");
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: header length 18446744073709551615 goes beyond the "
            "file, which has 2 bytes after it; the file is truncated or no "
            "safetensors file");
  // A real file of 200 MB (a hole) that says its header is 150 MB of it.
  std::string prefix("\x80\xd1\xf0\x08\0\0\0\0{", 9);
  writeText("x.safetensors", prefix);
  fs::resize_file(path("x.safetensors"), 200'000'000);
  EXPECT_EQ(readFile("x.safetensors"),
            "x.safetensors: header length 150000000 is over the limit of "
            "104857600 bytes");
}

TEST_F(CheckpointTest, HeaderIsNoObject) {
  EXPECT_EQ(read("", 0),
            "x.safetensors: the header is no JSON object: it is empty");
  EXPECT_EQ(read("[]", 0),
            "x.safetensors: the header is no JSON object: it begins with '['");
  EXPECT_EQ(read("\xef\xbb\xbf{}", 0),
            "x.safetensors: the header is no JSON object: it begins with "
            "'\\xef'");
  EXPECT_EQ(read("{\"a\":", 0),
            "x.safetensors: is not JSON: line 1, column 6: syntax error while "
            "parsing value - unexpected end of input; expected '[', '{', or a "
            "literal");
  EXPECT_EQ(read("{}x", 0),
            "x.safetensors: is not JSON: line 1, column 3: syntax error while "
            "parsing value - invalid literal");
  EXPECT_EQ(read(std::string("{}\0\0", 4), 0),
            "x.safetensors: is not JSON: a zero byte at offset 2");
}

TEST_F(CheckpointTest, HundredMegabytesOfNesting) {
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(read(std::string(100'000'000, '['), 0),
            "x.safetensors: the header is no JSON object: it begins with '['");
  EXPECT_EQ(read("{\"a\":" + std::string(100'000'000, '['), 0),
            "x.safetensors: tensor 'a': its entry is a list; it must be an "
            "object");
  EXPECT_EQ(read("{\"a\":{\"shape\":" + std::string(100'000'000, '['), 0),
            "x.safetensors: tensor 'a': shape[0] is a list; a side is an "
            "integer from 0 to 2^63 - 1");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(CheckpointTest, EntryFields) {
  auto one = [&](const std::string &fields) {
    std::string text = read("{\"a\":" + fields + "}", 4);
    std::string start = "x.safetensors: tensor 'a': ";
    EXPECT_EQ(text.substr(0, start.size()), start) << text;
    return text.substr(start.size());
  };
  EXPECT_EQ(one("7"), "its entry is the number 7; it must be an object");
  EXPECT_EQ(one("null"), "its entry is null; it must be an object");
  EXPECT_EQ(one("\"x\""), "its entry is the string 'x'; it must be an object");
  EXPECT_EQ(one("{}"), "has no 'dtype'");
  EXPECT_EQ(one(R"({"dtype":"F32","data_offsets":[0,4]})"), "has no 'shape'");
  EXPECT_EQ(one(R"({"dtype":"F32","shape":[1]})"), "has no 'data_offsets'");
  EXPECT_EQ(one(R"({"dtype":"F32","dtype":"F32"})"), "has 'dtype' twice");
  EXPECT_EQ(one(R"({"strides":[1]})"),
            "has the unknown field 'strides'; known are dtype, shape, "
            "data_offsets");
  EXPECT_EQ(one(R"({"dtype":4})"),
            "'dtype' is the number 4; it must be a string");
  EXPECT_EQ(one(R"({"dtype":["F32"]})"),
            "'dtype' is a list; it must be a string");
  EXPECT_EQ(one(R"({"dtype":"F4"})"),
            "dtype 'F4' is unknown; known are BOOL, U8, I8, F8_E4M3, F8_E5M2, "
            "F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, U16, I16, F16, BF16, U32, I32, "
            "F32, U64, I64, F64");
  EXPECT_EQ(one(R"({"shape":4})"),
            "'shape' is the number 4; it must be a list of integers");
  EXPECT_EQ(one(R"({"shape":{"0":4}})"),
            "'shape' is an object; it must be a list of integers");
  EXPECT_EQ(one(R"({"data_offsets":"0-4"})"),
            "'data_offsets' is the string '0-4'; it must be a list of "
            "integers");
  EXPECT_EQ(one(R"({"data_offsets":[0]})"),
            "data_offsets has 1 numbers; it needs 2");
  EXPECT_EQ(one(R"({"data_offsets":[0,4,8]})"),
            "data_offsets has more than 2 numbers");
}

TEST_F(CheckpointTest, NumbersThatAreNoSizes) {
  auto shape = [&](const std::string &text) {
    return read("{" + entry("a", "F32", text, "[0,4]") + "}", 4);
  };
  auto offsets = [&](const std::string &text) {
    return read("{" + entry("a", "F32", "[1]", text) + "}", 4);
  };
  std::string side = "; a side is an integer from 0 to 2^63 - 1";
  std::string start = "x.safetensors: tensor 'a': ";
  EXPECT_EQ(shape("[2,-3]"), start + "shape[1] is the number -3" + side);
  EXPECT_EQ(shape("[1.0]"), start + "shape[0] is the number 1.0" + side);
  EXPECT_EQ(shape("[1e3]"), start + "shape[0] is the number 1e3" + side);
  EXPECT_EQ(shape("[\"1\"]"), start + "shape[0] is the string '1'" + side);
  EXPECT_EQ(shape("[true]"), start + "shape[0] is a boolean" + side);
  EXPECT_EQ(shape("[9223372036854775808]"),
            start + "shape[0] is the number 9223372036854775808" + side);
  EXPECT_EQ(shape("[99999999999999999999999]"),
            start + "shape[0] is the number 99999999999999999999999" + side);
  EXPECT_EQ(shape("[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"),
            start + "its shape has more than 16 sides");
  std::string offset = "; an offset is an integer from 0 to 2^63 - 1";
  EXPECT_EQ(offsets("[-4,0]"),
            start + "data_offsets[0] is the number -4" + offset);
  EXPECT_EQ(offsets("[0,4.0]"),
            start + "data_offsets[1] is the number 4.0" + offset);
  EXPECT_EQ(offsets("[0,18446744073709551615]"),
            start + "data_offsets[1] is the number 18446744073709551615" +
                offset);
}

TEST_F(CheckpointTest, SizesThatOverflow) {
  // 2^32 x 2^32 elements are 0 modulo 2^64, 2^61 x 8 bytes too.
  EXPECT_EQ(
      read("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0),
      "x.safetensors: tensor 'a': U8 [4294967296, 4294967296] is more than "
      "2^63 - 1 bytes");
  EXPECT_EQ(
      read("{" + entry("a", "F64", "[2305843009213693952]", "[0,0]") + "}", 0),
      "x.safetensors: tensor 'a': F64 [2305843009213693952] is more than "
      "2^63 - 1 bytes");
}

TEST_F(CheckpointTest, OffsetsThatDisagree) {
  EXPECT_EQ(read("{" + entry("a", "F32", "[4]", "[16,0]") + "}", 16),
            "x.safetensors: tensor 'a': data_offsets [16, 0] end before they "
            "begin");
  EXPECT_EQ(read("{" + entry("a", "F32", "[4]", "[0,20]") + "}", 16),
            "x.safetensors: tensor 'a': data_offsets [0, 20] end beyond the 16 "
            "bytes of data");
  EXPECT_EQ(read("{" +
                     entry("a", "F32", "[4]",
                           "[9223372036854775000,9223372036854775016]") +
                     "}",
                 16),
            "x.safetensors: tensor 'a': data_offsets [9223372036854775000, "
            "9223372036854775016] end beyond the 16 bytes of data");
  EXPECT_EQ(read("{" + entry("a", "F32", "[2,2]", "[0,10]") + "}", 16),
            "x.safetensors: tensor 'a': data_offsets [0, 10] hold 10 bytes, "
            "F32 [2, 2] needs 16");
}

TEST_F(CheckpointTest, OverlapGapAndRest) {
  EXPECT_EQ(read("{" + entry("b", "U8", "[8]", "[4,12]") + "," +
                     entry("a", "U8", "[8]", "[0,8]") + "}",
                 12),
            "x.safetensors: tensor 'b': data_offsets [4, 12] overlap those of "
            "'a', [0, 8]");
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                     entry("b", "U8", "[8]", "[0,8]") + "}",
                 8),
            "x.safetensors: tensor 'b': data_offsets [0, 8] overlap those of "
            "'a', [0, 8]");
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                     entry("b", "U8", "[0]", "[4,4]") + "}",
                 8),
            "x.safetensors: tensor 'b': data_offsets [4, 4] overlap those of "
            "'a', [0, 8]");
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                     entry("b", "U8", "[8]", "[10,18]") + "}",
                 18),
            "x.safetensors: tensor 'b': data_offsets [10, 18] leave a gap; the "
            "tensor must begin at 8, where 'a' ends");
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[2,10]") + "}", 10),
            "x.safetensors: tensor 'a': data_offsets [2, 10] leave a gap; the "
            "tensor must begin at 0, where the data begins");
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[0,8]") + "}", 9),
            "x.safetensors: its tensors end at byte 8 of 9 bytes of data; no "
            "byte may be left over");
  EXPECT_EQ(read("{}", 9),
            "x.safetensors: its tensors end at byte 0 of 9 bytes "
            "of data; no byte may be left over");
}

TEST_F(CheckpointTest, Names) {
  EXPECT_EQ(read("{" + entry("a", "U8", "[8]", "[0,8]") + "," +
                     entry("a", "U8", "[8]", "[8,16]") + "}",
                 16),
            "x.safetensors: tensor 'a' is there twice");
  EXPECT_EQ(read("{" + entry("a\\u0000b", "U8", "[8]", "[0,8]") + "}", 8),
            "x.safetensors: tensor 'a\\x00b': its name holds a zero byte");
  EXPECT_EQ(read("{" + entry("a\xff", "U8", "[8]", "[0,8]") + "}", 8),
            "x.safetensors: is not JSON: line 1, column 4: syntax error while "
            "parsing object key - invalid string: ill-formed UTF-8 byte");
  // What would clear the terminal is escaped, what is endless is cut.
  EXPECT_EQ(read("{" + entry("\\u001b[2J'", "U9", "[8]", "[0,8]") + "}", 8)
                .substr(0, 57),
            "x.safetensors: tensor '\\x1b[2J\\'': dtype 'U9' is unknown;");
  EXPECT_EQ(read("{\"" + std::string(5000, 'n') + "\":{}}", 0),
            "x.safetensors: tensor '" + std::string(200, 'n') +
                "…': has no 'dtype'");
}

TEST_F(CheckpointTest, Metadata) {
  EXPECT_EQ(read(R"({"__metadata__":7})", 0),
            "x.safetensors: '__metadata__' is the number 7; it must be an "
            "object");
  EXPECT_EQ(read(R"({"__metadata__":{"a":7}})", 0),
            "x.safetensors: '__metadata__' holds the number 7; its values are "
            "strings");
  EXPECT_EQ(read(R"({"__metadata__":{},"__metadata__":{}})", 0),
            "x.safetensors: has '__metadata__' twice");
}

// Whatever bytes a header holds, reading it ends with a status.
TEST_F(CheckpointTest, DamagedHeadersNeverCrash) {
  constexpr unsigned kSeed = 20240607;
  std::mt19937 random(kSeed);
  std::string good = "{" + entry("model.a", "F32", "[2,3]", "[0,24]") + "," +
                     entry("model.b", "BF16", "[4]", "[24,32]") +
                     R"(,"__metadata__":{"format":"pt"}})";
  ASSERT_EQ(read(good, 32), "ok");
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string header = good;
    for (unsigned edits = 1 + random() % 3; edits--;) {
      size_t at = random() % header.size();
      switch (random() % 3) {
      case 0:
        header[at] = char(random());
        break;
      case 1:
        header.erase(at, 1 + random() % 4);
        break;
      case 2:
        header.insert(at, 1, "{}[],:\"0-9e"[random() % 11]);
        break;
      }
    }
    std::string result = read(header, 32);
    refused += result != "ok";
    EXPECT_EQ(result.find('\n'), result.npos) << "seed " << kSeed;
  }
  EXPECT_GT(refused, 2000);
}

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

//===----------------------------------------------------------------------===//
// octet info
//===----------------------------------------------------------------------===//

class InfoTest : public CheckpointTest {
protected:
  std::string info(bool asJson = false, bool tensors = false) const {
    std::ostringstream out;
    Status status =
        printInfo({.path = folder, .json = asJson, .tensors = tensors}, out);
    if (!status.ok()) {
      EXPECT_EQ(out.str(), "");
      return stripped(status.info().format());
    }
    return out.str();
  }

  /// The lines after the one that begins with "tensors".
  std::string table(bool tensors = false) const {
    std::string text = info(/*asJson=*/false, tensors);
    return text.substr(text.find('\n', text.rfind("\ntensors") + 1) + 1);
  }

  /// A checkpoint of one-byte tensors.
  void writeNames(const std::vector<std::string> &names) const {
    std::string header = "{";
    for (size_t i = 0; i < names.size(); ++i)
      header += (i ? "," : "") + entry(names[i], "U8", "[1]",
                                       "[" + std::to_string(i) + "," +
                                           std::to_string(i + 1) + "]");
    writeTensors("model.safetensors", header + "}", int64_t(names.size()));
  }
};

TEST_F(InfoTest, FoldsFullProductsOnly) {
  std::vector<std::string> names = {"norm", "l.3.e.0.w", "l.3.e.2.w"};
  for (std::string layer : {"0", "1", "2"})
    for (std::string expert : {"0", "1", "2", "3"})
      names.push_back("l." + layer + ".e." + expert + ".w");
  writeNames(names);
  EXPECT_EQ(table(), "  l.{0-2}.e.{0-3}.w  U8  [1]  x 12\n"
                     "  l.3.e.{0,2}.w      U8  [1]  x 2\n"
                     "  norm               U8  [1]\n");
}

TEST_F(InfoTest, FoldsOnlyWholeNumbers) {
  writeNames({"a.01", "a.1", "a.x2", "a.99999999999", "a.2", "a.10", "0.a"});
  EXPECT_EQ(table(), "  0.a            U8  [1]\n"
                     "  a.{1,2,10}     U8  [1]  x 3\n"
                     "  a.01           U8  [1]\n"
                     "  a.99999999999  U8  [1]\n"
                     "  a.x2           U8  [1]\n");
}

TEST_F(InfoTest, FoldsOnlyEqualTypesAndShapes) {
  writeTensors("model.safetensors",
               "{" + entry("a.0", "U8", "[4]", "[0,4]") + "," +
                   entry("a.1", "U8", "[4]", "[4,8]") + "," +
                   entry("a.2", "I8", "[4]", "[8,12]") + "," +
                   entry("a.3", "U8", "[2,2]", "[12,16]") + "}",
               16);
  EXPECT_EQ(table(), "  a.{0,1}  U8  [4]     x 2\n"
                     "  a.2      I8  [4]\n"
                     "  a.3      U8  [2, 2]\n");
}

TEST_F(InfoTest, ManyNumbersInOneName) {
  std::string name = "0";
  for (int i = 0; i < 300000; ++i)
    name += ".0";
  writeNames({name, "a"});
  EXPECT_EQ(table(true).substr(0, 8), "  0.0.0.");
  EXPECT_NE(info().find("tensors:       2 tensors, 2 bytes\n"),
            std::string::npos);
}

TEST_F(InfoTest, ListsEachTensor) {
  writeNames({"a.0", "a.1"});
  EXPECT_EQ(table(true), "  a.0  U8  [1]  1 byte  model.safetensors\n"
                         "  a.1  U8  [1]  1 byte  model.safetensors\n");
}

TEST_F(InfoTest, EscapesWhatTheFileSays) {
  writeNames({"\\u001b[2J"});
  writeText("config.json",
            R"({"architectures":["\u001b[31mX"],
                "quantization_config":{"quant_method":"\u0007"}})");
  std::string text = info();
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("architecture:  \\x1b[31mX\n"), text.npos) << text;
  EXPECT_NE(text.find("quantisation:  \\x07\n"), text.npos) << text;
}

TEST_F(InfoTest, MethodInTheOrderOfC1) {
  writeNames({"a"});
  EXPECT_NE(info().find("architecture:  unknown, there is no config.json\n"
                        "quantisation:  none declared\n"),
            std::string::npos);
  auto method = [&](const std::string &config) {
    writeText("config.json", config);
    return json::parse(info(/*asJson=*/true))["quant_method"];
  };
  writeText("hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})");
  EXPECT_EQ(method("{}"), "FP8");
  EXPECT_EQ(method(R"({"compression_config":{"quant_method":"c"}})"), "c");
  EXPECT_EQ(method(R"({"compression_config":{"quant_method":"c"},
              "text_config":{"quantization_config":{"quant_method":"b"}}})"),
            "b");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":"a"},
              "text_config":{"quantization_config":{"quant_method":"b"}}})"),
            "a");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_algo":"NVFP4"}})"),
            "NVFP4");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":7}})"), json());
}

TEST_F(InfoTest, Json) {
  writeNames({"a.0", "a.1", "größe"});
  writeText("config.json", R"({"architectures":["LlamaForCausalLM"]})");
  json value = json::parse(info(/*asJson=*/true, /*tensors=*/true));
  EXPECT_EQ(value["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(value["quant_method"], json());
  EXPECT_EQ(value["tensor_count"], 3);
  EXPECT_EQ(value["tensor_bytes"], 3);
  EXPECT_EQ(value["files"][0]["name"], "model.safetensors");
  EXPECT_EQ(value["dtypes"]["U8"],
            json({{"tensor_count", 3}, {"tensor_bytes", 3}}));
  EXPECT_EQ(value["patterns"][0], json({{"name", "a.{0,1}"},
                                        {"dtype", "U8"},
                                        {"shape", {1}},
                                        {"count", 2}}));
  EXPECT_EQ(value["tensors"].size(), 3u);
  EXPECT_EQ(value["tensors"][2]["name"], "größe");
  EXPECT_FALSE(json::parse(info(true, false)).contains("tensors"));
}

TEST_F(InfoTest, OneFileWithoutAFolder) {
  writeNames({"a"});
  std::ostringstream out;
  ASSERT_TRUE(printInfo({.path = path("model.safetensors")}, out).ok());
  EXPECT_NE(out.str().find("tensors:       1 tensor, 1 byte\n"),
            std::string::npos);
}

TEST_F(InfoTest, ErrorsPrintNothing) {
  EXPECT_EQ(info(), ": has no tensors; there must be model.safetensors, "
                    "model.safetensors.index.json or another *.safetensors "
                    "file");
}

} // namespace
