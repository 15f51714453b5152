//===- CommandLine.cpp - The command line of every executable -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/CommandLine.h"
#include "octet/CommandLine/CommandLine.h"
#include "octet/Support/MappedFiles.h"
#include "octet/Support/Output.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <new>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;

namespace {
/// All that can be said on the command line, and who wants to hear it.
struct Options {
  CommonOptions common;
  RunOptions run;
  LogitsOptions logits;
  EvalOptions eval;
  ScoreOptions score;
  TokenizeOptions tokenize;
  BenchOptions bench;
  bool infoJson = false;
};
} // namespace

static int report(const Status &status) {
  if (status.ok())
    return 0;
  std::fputs(status.info().format().c_str(), stderr);
  return status.info().exitCode();
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// A flag that takes one argument each time it is given.
static CLI::Option *addList(CLI::App *verb, const char *name,
                            std::vector<std::string> &values,
                            const char *help) {
  return verb->add_option(name, values, help)->allow_extra_args(false);
}

/// The largest number of tokens that is asked for anywhere.
static constexpr uint64_t kMostTokens = uint64_t(1) << 31;

static void addCommon(CLI::App *verb, Options &o) {
  verb->add_option("--weights", o.common.weights,
                   "Folder of the checkpoint, or 'random' for values of the "
                   "right shapes [the one compiled]")
      ->type_name("DIR|random")
      ->check(notEmpty());
  addWhole(verb, "--threads", o.common.threads,
           "Threads, up to 4096; results do not depend on it [one for each "
           "processor this process may use]",
           1, 4096);
  verb->add_option("--simd", o.common.simd,
                   "SIMD level: v3 (AVX2), avx512, bf16 (AVX512-BF16) or amx "
                   "[the highest of this machine]")
      ->type_name("LEVEL");
  addWhole(verb, "--chunk", o.common.chunk,
           "Most prompt tokens of a sequence in one step; results do not "
           "depend on it [max_step_tokens of the program]",
           1, kMostTokens);
}

static void addBatch(CLI::App *verb, Options &o, const char *otherwise) {
  addWhole(verb, "--batch", o.common.batch,
           std::string("Most sequences in one step; results do not depend on "
                       "it [") +
               otherwise + "]",
           1, 1 << 20);
}

static void addPrompts(CLI::App *verb, RunOptions &run) {
  const char *group = "Prompts, of one of these kinds";
  addList(verb, "--prompt", run.prompts, "A prompt; may be repeated")
      ->type_name("TEXT")
      ->group(group);
  addList(verb, "--prompt-ids", run.promptIds,
          "A prompt as token ids, 1,2,3; may be repeated")
      ->type_name("IDS")
      ->group(group);
  verb->add_option("--prompts", run.promptsFile,
                   "Prompts, a line each: {\"prompt\": \"text\"} or "
                   "{\"prompt_ids\": [1, 2, 3]}; - is standard input")
      ->type_name("FILE.jsonl")
      ->check(notEmpty())
      ->group(group);
  addList(verb, "--chat", run.chats,
          "What a user says, put into the checkpoint's chat template; may be "
          "repeated")
      ->type_name("TEXT")
      ->group(group);
  verb->add_option("--messages", run.messagesFile,
                   "A conversation: [{\"role\": \"user\", \"content\": "
                   "\"text\"}, …], or {\"messages\": […], \"tools\": […], …} "
                   "with other variables of the template; - is standard input")
      ->type_name("FILE.json")
      ->check(notEmpty())
      ->group(group);
}

static void addSampling(CLI::App *verb, RunOptions &run) {
  octet_sampler_options &s = run.generate.sampler;
  verb->add_option("--temperature", s.temperature,
                   "Divides the logits; 0 takes the largest (greedy) [0]")
      ->type_name("T")
      ->check(isReal(0, 1e6));
  addWhole(verb, "--top-k", s.top_k,
           "Draw from the K largest logits; 0: all [0]", 0, kMostTokens)
      ->type_name("K");
  verb->add_option("--top-p", s.top_p,
                   "Draw from the fewest tokens of this much probability [1]")
      ->type_name("P")
      ->check(isReal(0, 1));
  verb->add_option("--min-p", s.min_p,
                   "Draw from tokens of at least this fraction of the largest "
                   "probability [0]")
      ->type_name("P")
      ->check(isReal(0, 1));
  addWhole(verb, "--seed", s.seed,
           "Of the draws; the same seed gives the same tokens [0]", 0)
      ->type_name("S");
}

static void addRun(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand("run", "Continue prompts");
  RunOptions &run = o.run;
  addPrompts(verb, run);
  addCommon(verb, o);
  addBatch(verb, o, "max_seqs of the program");
  addWhole(verb, "--max-tokens", run.generate.maxTokens,
           "Most tokens to add to a prompt [16]", 0, kMostTokens);
  verb->add_flag("--ignore-eos", run.generate.ignoreEos,
                 "Go on after an end-of-sequence id");
  addSampling(verb, run);
  addList(verb, "--stop", run.stops,
          "Text that ends a completion and is not part of it; may be repeated")
      ->type_name("TEXT");
  verb->add_option("--stop-ids", run.stopIds,
                   "Token ids that end a prompt and are not part of it")
      ->type_name("IDS")
      ->check(notEmpty());
  verb->add_option("--forbid-ids", run.forbidIds,
                   "Token ids that are never drawn")
      ->type_name("IDS")
      ->check(notEmpty());
  addWhole(verb, "--logprobs", run.generate.logProbs,
           "Give each token's log-probability and the N likeliest tokens' "
           "[neither]",
           0, kMostTokens);
  verb->add_flag("--json", run.json, "One JSON object a prompt");
}

static void addLogits(CLI::App &app, Options &o) {
  CLI::App *verb =
      app.add_subcommand("logits", "Write the logits of every position");
  verb->add_option("--ids-file", o.logits.idsFile,
                   "{\"NAME\": [ids...], \"NAME.force\": [ids...], ...}")
      ->type_name("FILE.json")
      ->check(notEmpty())
      ->required();
  verb->add_option("-o,--output", o.logits.output, "The file to write")
      ->type_name("FILE.safetensors")
      ->check(notEmpty())
      ->required();
  addCommon(verb, o);
  addBatch(verb, o, "1");
  verb->add_option("--trace", o.logits.traces,
                   "Intermediate values to write too: hidden,router,dsa")
      ->type_name("WORDS")
      ->delimiter(',')
      ->allow_extra_args(false);
  addWhole(verb, "--decode", o.logits.decode,
           "Tokens to add after each prompt, through the cache [0]", 0,
           kMostTokens);
}

static void addEval(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand(
      "eval", "Run the module of a program compiled with --extract");
  verb->add_option("--in", o.eval.input, "Holds x F32 [S, K]")
      ->type_name("FILE.safetensors")
      ->check(notEmpty())
      ->required();
  verb->add_option("-o,--output", o.eval.output, "Gets y F32 [S, N]")
      ->type_name("FILE.safetensors")
      ->check(notEmpty())
      ->required();
  addCommon(verb, o);
}

static void addScore(CLI::App &app, Options &o) {
  CLI::App *verb =
      app.add_subcommand("score", "Log-probabilities and perplexity of a text");
  const char *group = "What to score, one of these";
  verb->add_option("--text", o.score.textFile,
                   "A text, UTF-8; - is standard input")
      ->type_name("FILE")
      ->check(notEmpty())
      ->group(group);
  verb->add_option("--ids-file", o.score.idsFile,
                   "[ids...] or {\"NAME\": [ids...], ...}")
      ->type_name("FILE.json")
      ->check(notEmpty())
      ->group(group);
  addCommon(verb, o);
  addWhole(verb, "--stride", o.score.stride,
           "Tokens from one window of the context to the next [half the "
           "context]",
           1, kMostTokens);
  verb->add_flag("--json", o.score.json, "One JSON object a name");
}

static void addBench(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand(
      "bench",
      "Measure tokens a second, and how near they are to the machine's "
      "limits");
  addCommon(verb, o);
  BenchOptions &bench = o.bench;
  addWhole(verb, "--batch", o.common.batch, "Sequences decoded together [1]", 1,
           1 << 20);
  addWhole(verb, "--prompt-len", bench.promptLength,
           "Tokens of each prompt [512, or fewer if the context has no room]",
           1, kMostTokens);
  addWhole(verb, "--gen-len", bench.genLength,
           "Steps of decode [64, or fewer if the context has no room]", 1,
           kMostTokens);
  addWhole(verb, "--depth", bench.depth,
           "Tokens in the cache before prefill and before decode start [0]", 0,
           kMostTokens);
  addWhole(verb, "--repeat", bench.repeat, "Times that each is measured [3]", 1,
           1 << 20);
  addWhole(verb, "--probe-mib", bench.probeMebibytes,
           "Size of the buffer whose reads are the memory's bandwidth, in MiB; "
           "fewer measure a cache [1024, or four times the last-level cache "
           "if that is larger]",
           1, 1 << 20);
  verb->add_flag("--json", bench.json,
                 "One JSON object, in bytes, seconds and "
                 "operations");
}

static void addTokenize(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand(
      "tokenize", "Text on standard input to ids, as --prompt-ids takes them");
  verb->add_flag("--json", o.tokenize.json,
                 "{\"ids\": [...], \"tokens\": [...]}");
  verb->add_flag("--null,-0", o.tokenize.null,
                 "Several texts, each ended by a zero byte; a line of output "
                 "for each");
  verb->add_flag(
      "--no-special", o.tokenize.noSpecial,
      "Without the tokens that are added around a text, such as bos");

  verb = app.add_subcommand("detokenize",
                            "Ids on standard input to text, a line each: 1,2,3 "
                            "or {\"ids\": [1, 2, 3]}");
  verb->add_flag("--json", o.tokenize.json, "{\"text\": \"...\"} a line");
  verb->add_flag("--skip-special", o.tokenize.noSpecial,
                 "Leave special tokens out");
}

static void addInfo(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand("info", "Say what this program is");
  addCommon(verb, o);
  verb->add_flag("--json", o.infoJson, "As a JSON object");
}

//===----------------------------------------------------------------------===//
// Main
//===----------------------------------------------------------------------===//

/// The program to run, and the arguments after it.
struct Invocation {
  Owned<octet_file> file;
  std::string name; ///< for --help
  std::vector<std::string> arguments;
};

static constexpr const char *kVerbs[] = {"run",   "logits",   "eval",
                                         "score", "tokenize", "detokenize",
                                         "bench", "info"};

static bool isVerb(std::string_view word) {
  return std::ranges::find(kVerbs, word) != std::end(kVerbs);
}

static Result<Invocation> findProgram(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string self = argc ? argv[0] : "octet-run";
  OCTET_TRY_ASSIGN(Owned<octet_file> own,
                   make<octet_file>(octet_file_open_own));
  if (own)
    return Invocation{std::move(own), self, std::move(arguments)};
  // An executable that was cut short has become a bare runner.
  const Status cutShort =
      inputError(self, "it carries no program: a bare runner, or an executable "
                       "that was cut short");
  if (arguments.empty() || arguments[0].starts_with("-")) {
    if (std::string_view(self).ends_with("octet-run"))
      return usageError(self, "no program given; it is used as 'octet-run "
                              "PROGRAM VERB ...'");
    return cutShort;
  }
  const std::string path = arguments[0];
  if (isVerb(path) && access(path.c_str(), F_OK) != 0)
    return cutShort;
  arguments.erase(arguments.begin());
  OCTET_TRY_ASSIGN(Owned<octet_file> file,
                   make<octet_file>(octet_file_open, path.c_str()));
  return Invocation{std::move(file), self + " " + path, std::move(arguments)};
}

static Status dispatch(const CLI::App &app, const Options &o) {
  if (app.got_subcommand("run"))
    return runVerb(o.common, o.run);
  if (app.got_subcommand("logits"))
    return logitsVerb(o.common, o.logits);
  if (app.got_subcommand("eval"))
    return evalVerb(o.common, o.eval);
  if (app.got_subcommand("score"))
    return scoreVerb(o.common, o.score);
  if (app.got_subcommand("bench"))
    return benchVerb(o.common, o.bench);
  return infoVerb(o.common, o.infoJson);
}

static constexpr char kRunnerHelp[] =
    "octet-run PROGRAM VERB [OPTIONS]\n"
    "Runs a program made by `octet compile --emit program`, as its executable "
    "would.\n`octet-run PROGRAM --help` lists the verbs.\n";

/// A standard stream that is closed would be the number of the next file
/// opened, and output would vanish into it: it becomes something that can
/// neither be read nor written.
static void holdStandardStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)open("/", O_PATH); // The lowest free number, which is this one.
}

static Status runChecked(int argc, char **argv) {
  Result<Invocation> found = findProgram(argc, argv);
  if (!found) {
    // A bare runner has no verbs to list.
    if (argc > 1 && (std::string_view(argv[1]) == "--help" ||
                     std::string_view(argv[1]) == "-h"))
      return print(kRunnerHelp);
    return found.takeStatus();
  }
  Invocation &invocation = *found;

  Options options;
  options.common.file = invocation.file.get();
  CLI::App app("A model compiled by Octet. Results go to stdout or -o, errors "
               "and progress to stderr.\nExit status: 0 good, 1 wrong input, 2 "
               "wrong usage, 3 a fault of Octet's.",
               invocation.name);
  app.require_subcommand(1);
  addRun(app, options);
  addLogits(app, options);
  addEval(app, options);
  addScore(app, options);
  addBench(app, options);
  addTokenize(app, options);
  addInfo(app, options);
  OCTET_TRY_ASSIGN(Parsed parsed, parseCommandLine(app, invocation.arguments));
  if (parsed == Parsed::Done)
    return Status::success();
  // These need the tokenizer alone.
  if (app.got_subcommand("tokenize"))
    return tokenizeVerb(options.common, options.tokenize);
  if (app.got_subcommand("detokenize"))
    return detokenizeVerb(options.common, options.tokenize);
  octet_limits &limits = options.common.limits;
  octet_limits_init(&limits, sizeof(limits));
  OCTET_TRY(call(octet_file_limits, options.common.file, &limits));
  return dispatch(app, options);
}

int rt::runCommandLine(int argc, char **argv) {
  holdStandardStreams();
  installBusErrorHandler();
  ignoreFileSizeSignal();
  try {
    return report(runChecked(argc, argv));
  } catch (const std::bad_alloc &) {
    return report(machineError("memory", "not enough to go on"));
  } catch (const std::exception &error) {
    return report(internalError("command line", error.what()));
  }
}
