//===- CheckpointTest.cpp - Hostile and good headers ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointFixture.h"
#include <chrono>
#include <random>

using namespace octet;
using namespace octet::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

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

} // namespace
