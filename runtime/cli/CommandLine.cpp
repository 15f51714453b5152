//===- CommandLine.cpp - The command line of every executable -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/CommandLine.h"
#include "octet/Support/Escape.h"
#include "octet/Support/MappedFiles.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
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

/// CLI::Range lets NaN through, which is neither below nor above anything.
static CLI::Validator realRange(float low, float high) {
  CLI::Validator inRange = CLI::Range(low, high);
  return CLI::Validator(
      [inRange](std::string &text) {
        float value;
        if (CLI::detail::lexical_cast(text, value) && std::isnan(value))
          return "Value " + text + " is not a number";
        return inRange(text);
      },
      inRange.get_description());
}

static void addCommon(CLI::App *verb, Options &o) {
  verb->add_option("--weights", o.common.weights,
                   "Folder of the checkpoint, or 'random' for values of the "
                   "right shapes; default: the one compiled")
      ->type_name("DIR|random")
      ->check([](const std::string &text) {
        return text.empty() ? "an empty name; it is the folder of a checkpoint"
                            : "";
      });
  verb->add_option("--threads", o.common.threads,
                   "Threads; default: one for each processor this process may "
                   "use. Results do not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--simd", o.common.simd,
                   "SIMD level: v3 (AVX2), avx512, bf16 (AVX512-BF16) or amx; "
                   "default: the highest of this machine")
      ->type_name("LEVEL");
  verb->add_option("--chunk", o.common.chunk,
                   "Most prompt tokens of a sequence in one step; default: "
                   "max_step_tokens of the program. Results do not depend on "
                   "it")
      ->type_name("TOKENS")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
}

static void addBatch(CLI::App *verb, Options &o, const char *otherwise) {
  verb->add_option("--batch", o.common.batch,
                   std::string("Most sequences in one step; default: ") +
                       otherwise + ". Results do not depend on it")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
}

static void addRun(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand("run", "Continue prompts");
  addCommon(verb, o);
  addBatch(verb, o, "max_seqs of the program");
  RunOptions &run = o.run;
  addList(verb, "--prompt", run.prompts, "A prompt; may be repeated")
      ->type_name("TEXT");
  addList(verb, "--prompt-ids", run.promptIds,
          "A prompt as token ids, 1,2,3; may be repeated")
      ->type_name("IDS");
  verb->add_option("--prompts", run.promptsFile,
                   "Prompts, a line each: {\"prompt\": \"text\"} or "
                   "{\"prompt_ids\": [1, 2, 3]}")
      ->type_name("FILE.jsonl");
  addList(verb, "--chat", run.chats,
          "What a user says, put into the checkpoint's chat template; may be "
          "repeated")
      ->type_name("TEXT");
  verb->add_option("--messages", run.messagesFile,
                   "A conversation: [{\"role\": \"user\", \"content\": "
                   "\"text\"}, …], or {\"messages\": […], \"tools\": […], …} "
                   "with other variables of the template")
      ->type_name("FILE.json");
  verb->add_option("--max-tokens", run.generate.maxTokens,
                   "Most tokens to add to a prompt")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  verb->add_flag("--ignore-eos", run.generate.ignoreEos,
                 "Go on after an end-of-sequence id");
  octet_sampler_options &s = run.generate.sampler;
  verb->add_option("--temperature", s.temperature,
                   "Divides the logits; 0 takes the largest (greedy)")
      ->type_name("T")
      ->capture_default_str()
      ->check(realRange(0.0f, 1e6f));
  verb->add_option("--top-k", s.top_k, "Draw from the K largest logits; 0: all")
      ->type_name("K")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  verb->add_option("--top-p", s.top_p,
                   "Draw from the fewest tokens of this much probability")
      ->type_name("P")
      ->capture_default_str()
      ->check(realRange(0.0f, 1.0f));
  verb->add_option("--min-p", s.min_p,
                   "Draw from tokens of at least this fraction of the largest "
                   "probability")
      ->type_name("P")
      ->capture_default_str()
      ->check(realRange(0.0f, 1.0f));
  verb->add_option("--seed", s.seed,
                   "Of the draws; the same seed gives the same tokens")
      ->type_name("S")
      ->capture_default_str();
  addList(verb, "--stop", run.stops,
          "Text that ends a completion and is not part of it; may be repeated")
      ->type_name("TEXT");
  verb->add_option("--stop-ids", run.stopIds,
                   "Token ids that end a prompt and are not part of it")
      ->type_name("IDS");
  verb->add_option("--forbid-ids", run.forbidIds,
                   "Token ids that are never drawn")
      ->type_name("IDS");
  verb->add_option("--logprobs", run.generate.logProbs,
                   "Give each token's log-probability and the N likeliest "
                   "tokens'; default: neither")
      ->type_name("N")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  verb->add_flag("--json", run.json, "One JSON object a prompt");
}

static void addLogits(CLI::App &app, Options &o) {
  CLI::App *verb =
      app.add_subcommand("logits", "Write the logits of every position");
  addCommon(verb, o);
  addBatch(verb, o, "1");
  verb->add_option("--ids-file", o.logits.idsFile,
                   "{\"NAME\": [ids...], \"NAME.force\": [ids...], ...}")
      ->type_name("FILE.json")
      ->required();
  verb->add_option("-o,--output", o.logits.output, "The file to write")
      ->type_name("FILE.safetensors")
      ->required();
  verb->add_option("--trace", o.logits.traces,
                   "Intermediate values to write too: hidden,router,dsa")
      ->type_name("WORDS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb->add_option("--decode", o.logits.decode,
                   "Tokens to add after each prompt, through the cache")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
}

static void addEval(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand(
      "eval", "Run the module of a program compiled with --extract");
  addCommon(verb, o);
  verb->add_option("--in", o.eval.input, "Holds x F32 [S, K]")
      ->type_name("FILE.safetensors")
      ->required();
  verb->add_option("-o,--output", o.eval.output, "Gets y F32 [S, N]")
      ->type_name("FILE.safetensors")
      ->required();
}

static void addScore(CLI::App &app, Options &o) {
  CLI::App *verb =
      app.add_subcommand("score", "Log-probabilities and perplexity of a text");
  addCommon(verb, o);
  verb->add_option("--text", o.score.textFile, "A text, UTF-8")
      ->type_name("FILE");
  verb->add_option("--ids-file", o.score.idsFile,
                   "[ids...] or {\"NAME\": [ids...], ...}")
      ->type_name("FILE.json");
  verb->add_option("--stride", o.score.stride,
                   "Tokens from one window of the context to the next; "
                   "default: half the context")
      ->type_name("TOKENS")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  verb->add_flag("--json", o.score.json, "One JSON object a name");
}

static void addBench(CLI::App &app, Options &o) {
  CLI::App *verb = app.add_subcommand(
      "bench",
      "Measure tokens a second, and how near they are to the machine's "
      "limits");
  addCommon(verb, o);
  BenchOptions &bench = o.bench;
  verb->add_option("--batch", o.common.batch,
                   "Sequences decoded together; default: 1")
      ->type_name("N")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  verb->add_option("--prompt-len", bench.promptLength,
                   "Tokens of each prompt; default: 512, or fewer if the "
                   "context has no room")
      ->type_name("TOKENS")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  verb->add_option("--gen-len", bench.genLength,
                   "Steps of decode; default: 64, or fewer if the context has "
                   "no room")
      ->type_name("TOKENS")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 31));
  verb->add_option("--depth", bench.depth,
                   "Tokens in the cache before prefill and before decode start")
      ->type_name("TOKENS")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(0), int64_t(1) << 31));
  verb->add_option("--repeat", bench.repeat, "Times that each is measured")
      ->type_name("R")
      ->capture_default_str()
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
  verb->add_option("--probe-mib", bench.probeMebibytes,
                   "Size of the buffer whose reads are the memory's bandwidth, "
                   "in MiB; default: 1024, or four times the last-level cache "
                   "if that is larger. Fewer measure a cache")
      ->type_name("MIB")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 20));
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

/// CLI11 would only say that a subcommand is required.
static Status checkVerb(const std::vector<std::string> &arguments) {
  std::string names = "; there are ";
  for (size_t i = 0; i < std::size(kVerbs); ++i)
    names += (i == 0                       ? ""
              : i + 1 == std::size(kVerbs) ? " and "
                                           : ", ") +
             std::string(kVerbs[i]);
  if (arguments.empty())
    return usageError("command line", "no verb given" + names);
  if (!arguments[0].starts_with("-") && !isVerb(arguments[0]))
    return usageError("command line",
                      "no verb " + quoteName(arguments[0]) + names);
  return Status::success();
}

static Result<Invocation> findProgram(int argc, char **argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string self = argc ? argv[0] : "octet-run";
  OCTET_TRY_ASSIGN(Owned<octet_file> own,
                   make<octet_file>(octet_file_open_own));
  if (own)
    return Invocation{std::move(own), self, std::move(arguments)};
  if (arguments.empty() || arguments[0].starts_with("-"))
    return usageError(self, "no program given; it is used as 'octet-run "
                            "PROGRAM VERB ...'");
  const std::string path = arguments[0];
  // An executable that was cut short has become a bare runner.
  if (isVerb(path) && access(path.c_str(), F_OK) != 0)
    return inputError(self, "it carries no program: a bare runner, or an "
                            "executable that was cut short");
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

/// CLI11 takes the `=` of `--option=` away, and then the next argument for the
/// value: an empty argument says what was meant.
static std::vector<std::string>
splitEmptyValues(const CLI::App &app, const std::vector<std::string> &given) {
  std::vector<std::string> arguments;
  const CLI::App *verb = nullptr;
  for (const CLI::App *each :
       app.get_subcommands([](const CLI::App *) { return true; }))
    if (!given.empty() && each->get_name() == given[0])
      verb = each;
  for (const std::string &argument : given) {
    std::string name = argument.substr(0, argument.find('='));
    if (verb && name.size() + 1 == argument.size() && name.starts_with("--") &&
        verb->get_option_no_throw(name)) {
      arguments.push_back(name);
      arguments.emplace_back();
    } else {
      arguments.push_back(argument);
    }
  }
  return arguments;
}

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
  OCTET_TRY(checkVerb(invocation.arguments));
  std::vector<std::string> arguments =
      splitEmptyValues(app, invocation.arguments);
  // CLI11 takes the arguments from the back.
  std::ranges::reverse(arguments);
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp &) {
    return print(app.help());
  } catch (const CLI::ParseError &error) {
    return usageError("command line", std::string(error.what()) + "; see " +
                                          escapeName(invocation.name) +
                                          " --help");
  }
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
  try {
    return report(runChecked(argc, argv));
  } catch (const std::bad_alloc &) {
    return report(machineError("memory", "not enough to go on"));
  } catch (const std::exception &error) {
    return report(internalError("command line", error.what()));
  }
}
