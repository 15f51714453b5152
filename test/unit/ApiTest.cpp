//===- ApiTest.cpp - octet.h: files, models, text, sampling ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ApiFixture.h"
#include "octet/Support/Sanitizers.h"
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

using namespace octet::test;

/// ApiHeader.c: the header as C, and what C makes of it.
extern "C" int apiHeaderVersion(void);
extern "C" size_t apiHeaderSizes(int which);

static void writeText(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}

static std::string readText(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(ApiTest, SameInCAndCxx) {
  EXPECT_EQ(apiHeaderVersion(), octet_api_version());
  EXPECT_EQ(apiHeaderSizes(0), sizeof(octet_limits));
  EXPECT_EQ(apiHeaderSizes(1), sizeof(octet_model_options));
  EXPECT_EQ(apiHeaderSizes(2), sizeof(octet_sampler_options));
  EXPECT_EQ(apiHeaderSizes(3), sizeof(octet_entry));
  EXPECT_EQ(apiHeaderSizes(4), sizeof(octet_trace));
  EXPECT_NE(std::string(octet_version()), "");
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(ApiTest, ErrorsInParts) {
  octet_error *error = nullptr;
  octet_file *file = nullptr;
  const std::string path = folder + "/none";
  EXPECT_EQ(octet_file_open(path.c_str(), &file, &error), OCTET_ERROR_INPUT);
  EXPECT_EQ(file, nullptr);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(octet_error_subject(error), path);
  EXPECT_STREQ(octet_error_message(error),
               "cannot open: No such file or directory");
  EXPECT_STREQ(octet_error_rule(error), "");
  EXPECT_EQ(octet_error_notes(error), 0u);
  EXPECT_STREQ(octet_error_note(error, 0), "");
  EXPECT_EQ(octet_error_text(error),
            "error: " + path + ": cannot open: No such file or directory\n");
  octet_error_free(error);
  // Without a place for it.
  EXPECT_EQ(octet_file_open(path.c_str(), &file, nullptr), OCTET_ERROR_INPUT);
}

// W6: an error of a load service, with its rule and its notes.
TEST_F(ApiTest, W6RuleAndNotes) {
  auto tensors = fakeTensors();
  std::memset(tensors[2].data.data(), 0, 4);
  ASSERT_TRUE(writeFakeCheckpoint(folder, tensors).ok());
  auto file = openFile();
  octet_model_options options;
  octet_model_options_init(&options, sizeof(options));
  options.weights = folder.c_str();
  octet_model *model = nullptr;
  octet_error *error = nullptr;
  EXPECT_EQ(octet_model_load(file.get(), &options, &model, &error),
            OCTET_ERROR_INPUT);
  EXPECT_STREQ(octet_error_rule(error), "W6");
  octet_error_free(error);

  tensors.erase(tensors.begin());
  ASSERT_TRUE(writeFakeCheckpoint(folder, tensors).ok());
  EXPECT_EQ(octet_model_load(file.get(), &options, &model, &error),
            OCTET_ERROR_INPUT);
  ASSERT_EQ(octet_error_notes(error), 1u);
  EXPECT_NE(std::string(octet_error_text(error)).find("\nnote:"),
            std::string::npos);
  EXPECT_NE(std::string(octet_error_note(error, 0)).find("was compiled for"),
            std::string::npos);
  octet_error_free(error);
  EXPECT_EQ(model, nullptr);
}

TEST_F(ApiTest, NullArguments) {
  auto file = openFile();
  octet_file *otherFile;
  octet_model *model;
  octet_seq *seq;
  octet_tokenizer *tokenizer;
  octet_decoder *decoder;
  char *text;
  size_t bytes;
  int32_t id;
  float value = 0;
  auto expect = [](const char *function, const char *argument,
                   const std::string &got) {
    EXPECT_EQ(got,
              std::string("2 ") + function + ": '" + argument + "' is NULL");
  };
  const char *noText = nullptr;
  const octet_file *noFile = nullptr;
  expect("octet_file_open", "path",
         errorOf(octet_file_open, noText, &otherFile));
  expect("octet_file_open", "file",
         errorOf(octet_file_open, "x", static_cast<octet_file **>(nullptr)));
  expect("octet_file_info", "file",
         errorOf(octet_file_info, noFile, &text, &bytes));
  expect("octet_file_info", "bytes",
         errorOf(octet_file_info, file.get(), &text,
                 static_cast<size_t *>(nullptr)));
  expect("octet_file_limits", "limits",
         errorOf(octet_file_limits, file.get(),
                 static_cast<octet_limits *>(nullptr)));
  expect("octet_file_render_chat", "conversation",
         errorOf(octet_file_render_chat, file.get(), noText, size_t(3), noText,
                 &text, &bytes));
  expect("octet_tokenizer_create", "file",
         errorOf(octet_tokenizer_create, noFile, &tokenizer));
  expect("octet_decoder_create", "tokenizer",
         errorOf(octet_decoder_create,
                 static_cast<const octet_tokenizer *>(nullptr), 0, &decoder));
  expect("octet_model_load", "file",
         errorOf(octet_model_load, noFile,
                 static_cast<const octet_model_options *>(nullptr), &model));
  expect("octet_seq_create", "model",
         errorOf(octet_seq_create, static_cast<octet_model *>(nullptr), &seq));
  expect(
      "octet_seq_fork", "seq",
      errorOf(octet_seq_fork, static_cast<const octet_seq *>(nullptr), &seq));
  expect("octet_seq_append", "seq",
         errorOf(octet_seq_append, static_cast<octet_seq *>(nullptr), &id,
                 size_t(1)));
  expect("octet_step", "model",
         errorOf(octet_step, static_cast<octet_model *>(nullptr),
                 static_cast<const octet_entry *>(nullptr), size_t(0), &value,
                 int64_t(1)));
  expect("octet_evaluate", "model",
         errorOf(octet_evaluate, static_cast<octet_model *>(nullptr), &value,
                 int64_t(1), &value, int64_t(1), int64_t(0)));
  expect("octet_sample", "logits",
         errorOf(octet_sample, static_cast<const float *>(nullptr), int64_t(1),
                 static_cast<const octet_sampler_options *>(nullptr),
                 uint64_t(0), uint64_t(0),
                 static_cast<const int32_t *>(nullptr), size_t(0), &id));
  expect("octet_sample", "forbidden",
         errorOf(octet_sample, &value, int64_t(1),
                 static_cast<const octet_sampler_options *>(nullptr),
                 uint64_t(0), uint64_t(0),
                 static_cast<const int32_t *>(nullptr), size_t(1), &id));

  // Everything that cannot fail says nothing.
  octet_error_free(nullptr);
  octet_file_close(nullptr);
  octet_model_free(nullptr);
  octet_seq_free(nullptr);
  octet_tokenizer_free(nullptr);
  octet_decoder_free(nullptr);
  octet_free(nullptr);
  octet_limits_init(nullptr, 64);
  octet_model_set_trace(nullptr, nullptr, nullptr);
  EXPECT_STREQ(octet_error_text(nullptr), "");
  EXPECT_EQ(octet_error_status(nullptr), OCTET_OK);
  EXPECT_STREQ(octet_file_path(nullptr), "");
  EXPECT_EQ(octet_file_has_tokenizer(nullptr), 0);
  EXPECT_EQ(octet_file_has_chat_template(nullptr), 0);
  EXPECT_EQ(octet_tokenizer_end(nullptr), 0);
  EXPECT_EQ(octet_tokenizer_token(nullptr, 0, nullptr), nullptr);
  EXPECT_EQ(octet_tokenizer_find(nullptr, "a", 1), -1);
  EXPECT_EQ(octet_model_pages(nullptr), 0);
  EXPECT_EQ(octet_model_free_pages(nullptr), 0);
  EXPECT_EQ(octet_model_threads(nullptr), 0);
  EXPECT_EQ(octet_model_eos(nullptr, nullptr), 0u);
  EXPECT_STREQ(octet_model_warning(nullptr, 0), "");
  EXPECT_EQ(octet_seq_length(nullptr), 0);
  EXPECT_EQ(octet_seq_tokens(nullptr), nullptr);
  EXPECT_EQ(octet_step_size(nullptr, nullptr, 0), -1);
  EXPECT_EQ(octet_step_pages(nullptr, nullptr, 0), -1);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TEST_F(ApiTest, FilesThatAreNoPrograms) {
  octet_file *file = nullptr;
  writeText(folder + "/text", "not a program");
  EXPECT_EQ(errorOf(octet_file_open, (folder + "/text").c_str(), &file),
            "1 " + folder +
                "/text: not a compiled program, or cut short: it does not end "
                "in an OCTETPLD trailer");
  EXPECT_EQ(errorOf(octet_file_open, folder.c_str(), &file),
            "1 " + folder + ": not a regular file");
  // A program by another version opens; nothing can be done with it.
  auto other = openFile("fake-abi");
  char *text = nullptr;
  size_t bytes = 0;
  EXPECT_NE(
      errorOf(octet_file_info, other.get(), &text, &bytes).find("ABI version"),
      std::string::npos);
  EXPECT_EQ(text, nullptr);
  // The test itself carries none, which is no error.
  file = reinterpret_cast<octet_file *>(8);
  EXPECT_EQ(errorOf(octet_file_open_own, &file), "");
  EXPECT_EQ(file, nullptr);
}

TEST_F(ApiTest, Limits) {
  auto file = openFile();
  EXPECT_EQ(octet_file_path(file.get()), folder + "/fake-program");
  octet_limits limits;
  octet_limits_init(&limits, sizeof(limits));
  ASSERT_EQ(errorOf(octet_file_limits, file.get(), &limits), "");
  EXPECT_EQ(limits.size, sizeof(limits));
  EXPECT_EQ(limits.vocab, kFakeVocab);
  EXPECT_EQ(limits.max_context, kFakeContext);
  EXPECT_EQ(limits.max_sequences, 7);
  EXPECT_EQ(limits.max_step_tokens, 32);
  EXPECT_EQ(limits.page_tokens, 64);
  EXPECT_EQ(limits.module_in, 0);

  limits.size = 8;
  EXPECT_EQ(errorOf(octet_file_limits, file.get(), &limits),
            "2 octet_file_limits: options of 8 bytes; octet.h has 64, and the "
            "_init function says so in 'size'");
  // A newer caller has more fields than this library fills.
  struct {
    octet_limits known;
    int64_t later[3];
  } longer;
  std::memset(&longer, 7, sizeof(longer));
  octet_limits_init(&longer.known, sizeof(longer));
  ASSERT_EQ(errorOf(octet_file_limits, file.get(), &longer.known), "");
  EXPECT_EQ(longer.known.vocab, kFakeVocab);
  EXPECT_EQ(longer.later[0] | longer.later[1] | longer.later[2], 0);

  char *text = nullptr;
  size_t bytes = 0;
  ASSERT_EQ(errorOf(octet_file_info, file.get(), &text, &bytes), "");
  EXPECT_EQ(std::strlen(text), bytes);
  auto info = nlohmann::json::parse(text, nullptr, false);
  octet_free(text);
  EXPECT_EQ(info["architecture"], "FakeForCausalLM");
  EXPECT_EQ(info["tensor_count"], 11);
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

TEST_F(ApiTest, ModelOptions) {
  auto file = openFile();
  octet_model *model = nullptr;
  octet_model_options options;
  octet_model_options_init(&options, sizeof(options));
  auto error = [&] {
    return errorOf(octet_model_load, file.get(), &options, &model);
  };
  options.weights = folder.c_str();
  options.simd = "sse";
  EXPECT_EQ(error().find("2 --simd: no level 'sse'; this machine runs v3"), 0u);
  options.simd = nullptr;
  options.threads = -1;
  EXPECT_EQ(error(), "2 --threads: -1 threads; 1 to 4096 are possible");
  options.threads = 1;
  options.reserved = 1;
  EXPECT_EQ(error(), "2 octet_model_load: 'reserved' is 1; it must be 0");
  options.reserved = 0;
  options.weights = "/no/such/folder";
  EXPECT_EQ(error(), "1 /no/such/folder: no such file or folder");
  options.weights = nullptr;
  EXPECT_EQ(error().find("2 --weights: the program names no default folder"),
            0u);
  options.weights = folder.c_str();
  options.size = 31;
  EXPECT_EQ(error(), "2 octet_model_load: options of 31 bytes; octet.h has 32, "
                     "and the _init function says so in 'size'");
  options.size = 0;
  EXPECT_NE(error(), "");

  // A newer caller that asks for nothing new, then for something.
  struct {
    octet_model_options known;
    int64_t later;
  } longer;
  octet_model_options_init(&longer.known, sizeof(longer));
  longer.known.weights = folder.c_str();
  longer.later = 1;
  EXPECT_EQ(errorOf(octet_model_load, file.get(), &longer.known, &model),
            "2 octet_model_load: options of 40 bytes that ask for something "
            "this library of 32 bytes does not know");
  EXPECT_EQ(model, nullptr);
  longer.later = 0;
  ASSERT_EQ(errorOf(octet_model_load, file.get(), &longer.known, &model), "");
  octet_model_free(model);

  options.size = sizeof(options);
  options.weights = OCTET_RANDOM_WEIGHTS;
  options.simd = "v3";
  options.threads = 3;
  ASSERT_EQ(error(), "");
  EXPECT_EQ(octet_model_threads(model), 3);
  EXPECT_STREQ(octet_model_simd(model), "v3");
  EXPECT_EQ(octet_model_pages(model), 7 * 4);
  const int32_t *ids = nullptr;
  ASSERT_EQ(octet_model_eos(model, &ids), 1u);
  EXPECT_EQ(ids[0], 5);
  ASSERT_EQ(octet_model_bos(model, &ids), 1u);
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(octet_model_warnings(model), 0u);
  const int64_t good[] = {0, 60}, bad[] = {60, int64_t(1) << 40};
  EXPECT_EQ(errorOf(octet_model_check_ids, model, good, size_t(2)), "");
  EXPECT_EQ(errorOf(octet_model_check_ids, model, bad, size_t(2)),
            "1 octet_model_check_ids: token 1 is id 1099511627776, the "
            "vocabulary has ids 0 to 60");
  EXPECT_EQ(errorOf(octet_model_check_ids, model, good, size_t(0)),
            "1 octet_model_check_ids: no token ids; at least one is needed");
  EXPECT_EQ(errorOf(octet_model_check_length, model, int64_t(200)), "");
  EXPECT_NE(errorOf(octet_model_check_length, model, int64_t(201)), "");
  octet_model_free(model);
}

/// Programs that this process has mapped.
static int mappedPrograms() {
  std::istringstream maps(readText("/proc/self/maps"));
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("octet-program") != line.npos &&
             line.find("r-xp") != line.npos;
  return count;
}

// Programs are unloaded, files and threads closed with them.
TEST_F(ApiTest, MemoryIsGivenBack) {
  auto count = [](const char *folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  const int programs = mappedPrograms();
  const auto files = count("/proc/self/fd");
  const auto threads = count("/proc/self/task");
  {
    auto file = openFile();
    auto model = loadModel(file.get(), /*threads=*/3);
    auto same = loadModel(file.get());
    auto module = loadModel(openFile("fake-module").get());
    EXPECT_EQ(mappedPrograms(), programs + 2);
    EXPECT_GT(count("/proc/self/task"), threads);
    octet_seq *seq = nullptr;
    ASSERT_EQ(errorOf(octet_seq_create, model.get(), &seq), "");
    file.reset();
    model.reset();
    same.reset();
    // The sequence keeps its model.
    EXPECT_EQ(mappedPrograms(), programs + 2);
    octet_seq_free(seq);
    EXPECT_EQ(mappedPrograms(), programs + 1);
  }
  EXPECT_EQ(mappedPrograms(), programs);
  EXPECT_EQ(count("/proc/self/fd"), files);
  EXPECT_EQ(count("/proc/self/task"), threads);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Bytes as tokens: a, b, the two of ä; ab; and two special ones.
static constexpr char kTokenizer[] = R"({
  "added_tokens": [
    {"id": 0, "content": "<s>", "special": true, "single_word": false,
     "lstrip": false, "rstrip": false, "normalized": false},
    {"id": 1, "content": "</s>", "special": true, "single_word": false,
     "lstrip": false, "rstrip": false, "normalized": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
                    "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}},
             {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel", "add_prefix_space": false,
              "trim_offsets": true, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3,
                                     "ab": 4, "Ã": 5, "¤": 6},
            "merges": [["a", "b"]]}})";

static constexpr char kChat[] = R"({"templates": {"default":
  "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{% if add_generation_prompt %}>{% endif %}{{ extra }}"},
  "tokens": {}})";

TEST_F(ApiTest, Tokenizers) {
  octet_tokenizer *raw = nullptr;
  EXPECT_EQ(errorOf(octet_tokenizer_create, openFile().get(), &raw),
            "1 this program: carries no tokenizer: what was compiled had none, "
            "or one that is not supported; prompts can be given as ids");
  writeText(folder + "/tokenizer.json", kTokenizer);
  auto file = openFile("fake-program", folder + "/tokenizer.json");
  EXPECT_EQ(octet_file_has_tokenizer(file.get()), 1);
  EXPECT_EQ(octet_file_has_chat_template(file.get()), 0);
  ASSERT_EQ(errorOf(octet_tokenizer_create, file.get(), &raw), "");
  Owned<octet_tokenizer> tokenizer(raw);
  file.reset(); // It keeps what it needs.

  EXPECT_EQ(octet_tokenizer_end(raw), 7);
  size_t bytes = 0;
  const char *token = octet_tokenizer_token(raw, 4, &bytes);
  ASSERT_NE(token, nullptr);
  EXPECT_EQ(std::string(token, bytes), "ab");
  EXPECT_EQ(octet_tokenizer_token(raw, 7, &bytes), nullptr);
  EXPECT_EQ(octet_tokenizer_find(raw, "ab", 2), 4);
  EXPECT_EQ(octet_tokenizer_find(raw, "abc", 3), -1);
  EXPECT_EQ(octet_tokenizer_is_special(raw, 1), 1);
  EXPECT_EQ(octet_tokenizer_is_special(raw, 2), 0);

  auto encode = [&](const std::string &text, int32_t special) {
    int32_t *ids = nullptr;
    size_t count = 0;
    EXPECT_EQ(errorOf(octet_tokenizer_encode, tokenizer.get(), text.data(),
                      text.size(), special, &ids, &count),
              "");
    EXPECT_NE(ids, nullptr);
    std::vector<int32_t> result(ids, ids + count);
    octet_free(ids);
    return result;
  };
  EXPECT_EQ(encode("aab</s>ä", 1), (std::vector<int32_t>{0, 2, 4, 1, 5, 6}));
  EXPECT_EQ(encode("b", 0), (std::vector<int32_t>{3}));
  EXPECT_TRUE(encode("", 0).empty());

  auto decode = [&](std::vector<int32_t> ids, int32_t skip) {
    char *text = nullptr;
    size_t length = 0;
    EXPECT_EQ(errorOf(octet_tokenizer_decode, tokenizer.get(), ids.data(),
                      ids.size(), skip, &text, &length),
              "");
    std::string result(text, length);
    EXPECT_EQ(std::strlen(text), length);
    octet_free(text);
    return result;
  };
  EXPECT_EQ(decode({0, 4, 5, 6}, 1), "abä");
  EXPECT_EQ(decode({0, 2}, 0), "<s>a");
  EXPECT_EQ(decode({}, 0), "");

  // A stream never gives half a character, and outlives its tokenizer.
  octet_decoder *made = nullptr;
  ASSERT_EQ(errorOf(octet_decoder_create, raw, 1, &made), "");
  Owned<octet_decoder> decoder(made);
  tokenizer.reset();
  std::vector<std::string> pieces;
  for (int32_t id : {2, 5, 6, 5}) {
    const char *text = nullptr;
    ASSERT_EQ(errorOf(octet_decoder_push, made, id, &text, &bytes), "");
    pieces.emplace_back(text, bytes);
  }
  const char *rest = nullptr;
  ASSERT_EQ(errorOf(octet_decoder_finish, made, &rest, &bytes), "");
  pieces.emplace_back(rest, bytes);
  EXPECT_EQ(pieces,
            (std::vector<std::string>{"a", "", "ä", "", "\xEF\xBF\xBD"}));
}

TEST_F(ApiTest, ChatTemplates) {
  auto without = openFile();
  char *text = nullptr;
  size_t bytes = 0;
  auto render = [&](const octet_file *file, const std::string &conversation,
                    const char *subject = nullptr) {
    std::string error =
        errorOf(octet_file_render_chat, file, conversation.data(),
                conversation.size(), subject, &text, &bytes);
    if (!error.empty())
      return error;
    std::string result(text, bytes);
    octet_free(text);
    return result;
  };
  EXPECT_EQ(render(without.get(), "[]"),
            "1 this program: carries no chat template: what was compiled had "
            "none; text can be given as it is");
  writeText(folder + "/tokenizer.json", kTokenizer);
  writeText(folder + "/chat.json", kChat);
  auto file = openFile("fake-program", folder + "/tokenizer.json",
                       folder + "/chat.json");
  EXPECT_EQ(octet_file_has_chat_template(file.get()), 1);
  EXPECT_EQ(render(file.get(), R"([{"role": "user", "content": "ä"}])"),
            "user:ä;>");
  EXPECT_EQ(render(file.get(), R"({"messages": [], "extra": 3,
                                   "add_generation_prompt": false})"),
            "3");
  EXPECT_EQ(render(file.get(), "{}", "x.json"),
            "1 x.json: neither a list of messages nor an object "
            "{\"messages\": [messages…], …}");
  EXPECT_EQ(render(file.get(), "[1]"),
            "1 conversation: a message is not {\"role\": …, \"content\": …}");
  EXPECT_EQ(render(file.get(), "[").find("1 conversation: "), 0u);
}

/// What becomes of a conversation of 64 MB in a process that may have 40 more:
/// 0 if it is an error in words.
static int renderWithoutMemory(const octet_file *file) {
  std::string text(64 << 20, 'a');
  text.replace(0, 33, "[{\"role\": \"user\", \"content\": \"aa");
  text.replace(text.size() - 3, 3, "\"}]");
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t bytes = pages * rlim_t(sysconf(_SC_PAGESIZE)) + (40 << 20);
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_AS, &limit) != 0)
    return 1;
  char *out = nullptr;
  size_t size = 0;
  octet_error *error = nullptr;
  if (octet_file_render_chat(file, text.data(), text.size(), nullptr, &out,
                             &size, &error) != OCTET_ERROR_MACHINE)
    return 2;
  return std::strcmp(octet_error_text(error),
                     "error: memory: not enough to go on\n") == 0
             ? 0
             : 3;
}

// What the C++ library throws ends at the library's edge.
TEST_F(ApiTest, NoMemoryIsAnError) {
  if (octet::kAddressSanitizer)
    GTEST_SKIP() << "the sanitizer needs more address space than any limit";
  writeText(folder + "/tokenizer.json", kTokenizer);
  writeText(folder + "/chat.json", kChat);
  auto file = openFile("fake-program", folder + "/tokenizer.json",
                       folder + "/chat.json");
  EXPECT_EXIT(std::_Exit(renderWithoutMemory(file.get())),
              ::testing::ExitedWithCode(0), "");
}

// A tokenizer is const: threads may share it.
TEST_F(ApiTest, TokenizersInThreads) {
  writeText(folder + "/tokenizer.json", kTokenizer);
  auto file = openFile("fake-program", folder + "/tokenizer.json");
  octet_tokenizer *raw = nullptr;
  ASSERT_EQ(errorOf(octet_tokenizer_create, file.get(), &raw), "");
  Owned<octet_tokenizer> tokenizer(raw);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        int32_t *ids = nullptr;
        size_t count = 0;
        if (octet_tokenizer_encode(raw, "abab a", 6, 1, &ids, &count,
                                   nullptr) == OCTET_OK)
          right += count >= 4 && ids[1] == 4;
        octet_free(ids);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(right, 4 * 200);
}

//===----------------------------------------------------------------------===//
// Sampling
//===----------------------------------------------------------------------===//

static std::string sample(std::vector<float> logits,
                          const octet_sampler_options *options,
                          std::vector<int32_t> forbidden = {},
                          uint64_t index = 0) {
  int32_t id = -7;
  std::string error =
      errorOf(octet_sample, logits.data(), int64_t(logits.size()), options,
              uint64_t(3), index, forbidden.data(), forbidden.size(), &id);
  return error.empty() ? std::to_string(id) : error;
}

TEST_F(ApiTest, P17Sampling) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sample({1, 5, 3}, nullptr), "1");
  EXPECT_EQ(sample({1, 5, 3}, nullptr, {1, 99, -4}), "2");
  EXPECT_EQ(sample({nan, -INFINITY}, nullptr),
            "1 octet_sample: no token can be chosen, every logit is NaN or "
            "-inf");
  EXPECT_EQ(sample({}, nullptr), "2 octet_sample: 'logits' is NULL");
  octet_sampler_options o;
  octet_sampler_options_init(&o, sizeof(o));
  EXPECT_EQ(o.top_p, 1.0f);
  auto wrong = [&](auto member, auto value, const std::string &text) {
    octet_sampler_options bad = o;
    bad.*member = value;
    EXPECT_EQ(sample({1, 2}, &bad), "2 octet_sample: " + text);
  };
  using Options = octet_sampler_options;
  wrong(&Options::temperature, -1.0f,
        "'temperature' is -1; 0 or more would work");
  wrong(&Options::temperature, nan,
        "'temperature' is nan; 0 or more would work");
  wrong(&Options::top_p, 1.5f, "'top_p' is 1.5; 0 to 1 would work");
  wrong(&Options::min_p, -0.5f, "'min_p' is -0.5; 0 to 1 would work");
  wrong(&Options::top_k, int64_t(-1), "'top_k' is -1; 0 or more would work");
  wrong(&Options::size, size_t(4),
        "options of 4 bytes; octet.h has 40, and the _init function says so in "
        "'size'");

  // The draw is a function of seed, stream and index alone.
  o.temperature = 1;
  o.seed = 9;
  std::string drawn, again;
  for (uint64_t index = 0; index < 64; ++index) {
    drawn += sample({0, 0, 0, 0}, &o, {}, index);
    again += sample({0, 0, 0, 0}, &o, {}, index);
  }
  EXPECT_EQ(drawn, again);
  for (char digit : {'0', '1', '2', '3'}) // 64 draws of four.
    EXPECT_GT(std::ranges::count(drawn, digit), 5);
  o.top_k = 1;
  EXPECT_EQ(sample({0, 1, 0}, &o), "1");
}

TEST_F(ApiTest, LogProbabilities) {
  const std::vector<float> logits{0, std::log(2.0f), -INFINITY, std::log(5.0f)};
  const int64_t vocab = 4;
  int32_t ids[4] = {0, 1, 2, 3};
  float values[4];
  ASSERT_EQ(
      errorOf(octet_log_probs, logits.data(), vocab, ids, size_t(4), values),
      "");
  EXPECT_NEAR(values[0], std::log(1 / 8.0), 1e-6);
  EXPECT_NEAR(values[1], std::log(2 / 8.0), 1e-6);
  EXPECT_EQ(values[2], -INFINITY);
  EXPECT_NEAR(values[3], std::log(5 / 8.0), 1e-6);
  size_t found = 99;
  ASSERT_EQ(errorOf(octet_top_log_probs, logits.data(), vocab, size_t(4), ids,
                    values, &found),
            "");
  ASSERT_EQ(found, 3u);
  EXPECT_EQ(std::vector<int32_t>(ids, ids + 3),
            (std::vector<int32_t>{3, 1, 0}));
  EXPECT_NEAR(values[2], std::log(1 / 8.0), 1e-6);
  ASSERT_EQ(errorOf(octet_top_log_probs, logits.data(), vocab, size_t(0),
                    static_cast<int32_t *>(nullptr),
                    static_cast<float *>(nullptr), &found),
            "");
  EXPECT_EQ(found, 0u);
  ids[0] = 4;
  EXPECT_EQ(
      errorOf(octet_log_probs, logits.data(), vocab, ids, size_t(1), values),
      "2 octet_log_probs: token 0 is id 4; a row has ids 0 to 3");
  EXPECT_EQ(errorOf(octet_log_probs, logits.data(), int64_t(0), ids, size_t(1),
                    values),
            "2 octet_log_probs: 'vocab' is 0; 1 to 2147483647 would work");
}
