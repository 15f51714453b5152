//===- BenchRun.cpp - What both benches run and print ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/BenchRun.h"
#include "octet/Support/Escape.h"
#include "runtime/cpu/Level.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

/// As near to the start of the process as its own code comes.
static const Clock::time_point kProcessStart = Clock::now();

static constexpr int64_t kDefaultPrompt = 512;
static constexpr int64_t kDefaultGenerate = 64;
/// Of the prompt whose first token is waited for.
static constexpr int64_t kFirstPrompt = 5;
/// Processes started for the first token.
static constexpr int kFirstTokenRuns = 5;

BenchTimes BenchTimes::of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds.front(),
          seconds.back()};
}

//===----------------------------------------------------------------------===//
// What is run
//===----------------------------------------------------------------------===//

Result<BenchShape> rt::chooseShape(const BenchOptions &options,
                                   const CommonOptions &common) {
  const octet_limits &limits = common.limits;
  BenchShape shape;
  shape.batch = common.batch ? common.batch : 1;
  shape.depth = options.depth;
  shape.repeat = options.repeat;
  if (const int64_t most =
          std::min(limits.max_sequences, limits.max_step_tokens);
      shape.batch > most)
    return usageError("--batch",
                      fmt::format("{} sequences are more than the {} "
                                  "that a step was compiled for",
                                  shape.batch, most));
  const int64_t room = limits.max_context - shape.depth;
  if (room < 1)
    return usageError("--depth",
                      fmt::format("{} tokens leave no room in the context of "
                                  "{} that was compiled; {} would work",
                                  shape.depth, limits.max_context,
                                  limits.max_context - 1));
  auto choose = [&](const char *option, int64_t wanted,
                    int64_t otherwise) -> Result<int64_t> {
    if (wanted <= room)
      return wanted ? wanted : std::min(otherwise, room);
    return usageError(option, fmt::format("{} tokens after {} of --depth are "
                                          "more than the context of {} that "
                                          "was compiled; {} would work",
                                          wanted, shape.depth,
                                          limits.max_context, room));
  };
  OCTET_TRY_ASSIGN(
      shape.promptLength,
      choose("--prompt-len", options.promptLength, kDefaultPrompt));
  OCTET_TRY_ASSIGN(shape.genLength,
                   choose("--gen-len", options.genLength, kDefaultGenerate));
  return shape;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

void rt::addProfile(BenchPhase &phase, const Profile &profile, double runs,
                    double seconds) {
  phase.operators = profile.entries();
  phase.profiledRuns = runs;
  phase.profiledSeconds = seconds / runs;
  for (const OperatorProfile &entry : phase.operators) {
    if (entry.kind == OperatorKind::Product)
      phase.weightBytes += double(entry.bytes) / runs;
    if (entry.kind == OperatorKind::Attention)
      phase.cacheBytes += double(entry.bytes) / runs;
    phase.flops += double(entry.flops) / runs;
  }
}

Status rt::measurePrefill(BenchRun &run, Model &model, const BenchShape &shape,
                          BenchPhase &phase, Progress &progress) {
  std::vector<double> seconds;
  for (int64_t i = -1; i < shape.repeat; ++i) { // The first is not counted.
    progress.show(fmt::format("prefill {} of {}", std::max<int64_t>(i, 0) + 1,
                              shape.repeat));
    const auto start = Clock::now();
    OCTET_TRY(run.prefill());
    if (i >= 0)
      seconds.push_back(secondsSince(start));
  }
  phase.runs = shape.repeat;
  phase.tokens = shape.batch * shape.promptLength;
  phase.seconds = BenchTimes::of(std::move(seconds));

  Profile profile;
  model.setProfile(&profile);
  const auto start = Clock::now();
  Status status = run.prefill();
  addProfile(phase, profile, 1, secondsSince(start));
  model.setProfile(nullptr);
  return status;
}

/// Starts this executable for one token of a short prompt.
/// \returns seconds until its first output, or an error with what it said.
static Result<double> startProcess(const Model &model,
                                   const CommonOptions &common) {
  const char *self = "/proc/self/exe";
  std::vector<std::string> words = {self};
  struct stat own, program;
  if (stat(self, &own) != 0)
    return machineError(self, std::strerror(errno));
  if (stat(model.path().c_str(), &program) != 0 ||
      own.st_ino != program.st_ino || own.st_dev != program.st_dev)
    words.push_back(model.path()); // octet-run PROGRAM
  std::string ids = "0";
  for (int64_t i = 1; i < std::min(kFirstPrompt, model.info().maxContext - 1);
       ++i)
    ids += ",0";
  for (const std::string &word :
       {std::string("run"), std::string("--prompt-ids"), ids,
        std::string("--max-tokens"), std::string("1"), std::string("--json")})
    words.push_back(word);
  auto pass = [&](const char *option, const std::string &value) {
    words.push_back(option);
    words.push_back(value);
  };
  if (!common.weights.empty())
    pass("--weights", common.weights);
  pass("--threads", std::to_string(model.threads()));
  pass("--simd", std::string(levelName(model.level())));
  std::vector<char *> arguments;
  for (std::string &word : words)
    arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return machineError("pipe", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  // Its warnings are ours, said already.
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                   O_WRONLY, 0);
  pid_t child;
  const auto start = Clock::now();
  int error =
      posix_spawn(&child, self, &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char byte;
  ssize_t got = 0;
  if (error == 0)
    while ((got = read(ends[0], &byte, 1)) < 0 && errno == EINTR)
      ;
  const double seconds = secondsSince(start);
  char rest[4096];
  while (got > 0 && read(ends[0], rest, sizeof(rest)) > 0)
    ;
  close(ends[0]);
  if (error != 0)
    return machineError(self, std::strerror(error));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (got <= 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::string command;
    for (size_t i = 1; i < words.size(); ++i)
      command += " " + words[i];
    return machineError("bench", "a process of its own gave no token; it ran "
                                 "with" +
                                     escapePath(command));
  }
  return seconds;
}

Result<FirstToken> rt::measureFirstToken(Session &session,
                                         const CommonOptions &common) {
  BenchShape shape;
  LoadedModel &loaded = *session.model->loaded;
  shape.promptLength = std::min(kFirstPrompt, session.limits.max_context);
  {
    BenchRun run(loaded.engine, shape);
    OCTET_TRY(run.prefill());
  }
  if (const RandomWeights *random = loaded.model->randomWeights())
    return FirstToken{secondsSince(kProcessStart) - random->seconds(),
                      /*isOwn=*/true, random->seconds()};
  std::vector<double> seconds;
  for (int i = 0; i < kFirstTokenRuns; ++i) {
    OCTET_TRY_ASSIGN(double taken, startProcess(*loaded.model, common));
    seconds.push_back(taken);
  }
  return FirstToken{BenchTimes::of(std::move(seconds)).median};
}

std::string rt::firstTokenText(const FirstToken &first) {
  return fmt::format("{} after the start of {}", secondsText(first.seconds),
                     first.isOwn
                         ? fmt::format("this process, {} for drawing the "
                                       "weights left out",
                                       secondsText(first.drawSeconds))
                         : std::string("a process"));
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

std::string rt::todayText() {
  char text[32];
  const time_t now = time(nullptr);
  tm parts;
  strftime(text, sizeof(text), "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

std::string rt::programWord(const nlohmann::json &program, const char *key) {
  auto it = program.find(key);
  return it == program.end() ? std::string("-")
         : it->is_string()   ? escapeName(it->get<std::string>())
                             : escapeName(dumpJson(*it));
}

std::string rt::modelText(const nlohmann::json &program,
                          const std::string &weights) {
  auto word = [&](const char *key) { return programWord(program, key); };
  return fmt::format("{} {}, {} layers, hidden {}, vocabulary {}; "
                     "weights {}",
                     word("architecture"), word("dtype"), word("layers"),
                     word("hidden"), word("vocab"), escapePath(weights));
}

std::string rt::runText(const BenchShape &shape) {
  return fmt::format("batch {}, prompt {}, generation {}, depth {}; {} "
                     "repetition{}",
                     shape.batch, shape.promptLength, shape.genLength,
                     shape.depth, shape.repeat, shape.repeat == 1 ? "" : "s");
}

std::string rt::bytesText(double bytes) {
  const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 999.5 && unit < 4; ++unit)
    bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:#.3g} {}", bytes, units[unit]);
}

/// "3.82 s", "65.6 ms".
std::string rt::secondsText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3)
    return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

double rt::betweenSeconds(const BenchPhase &phase) {
  double inside = 0;
  for (const OperatorProfile &entry : phase.operators)
    inside += double(entry.nanoseconds) * 1e-9;
  return std::max(phase.profiledSeconds - inside / phase.profiledRuns, 0.0);
}

std::string rt::operatorTable(const char *title, const BenchPhase &phase) {
  std::string out = fmt::format("\n{:<46}{:>9}{:>12}{:>7}{:>9}{:>10}\n",
                                fmt::format("{}, {} with a profile", title,
                                            secondsText(phase.profiledSeconds)),
                                "calls", "time", "share", "GB/s", "GFLOP/s");
  auto share = [&](double seconds) {
    return fmt::format("{:.1f} %", 100 * seconds / phase.profiledSeconds);
  };
  for (const OperatorProfile &entry : phase.operators) {
    const double seconds =
        double(entry.nanoseconds) * 1e-9 / phase.profiledRuns;
    auto rate = [&](int64_t amount) {
      return amount ? fmt::format("{:.1f}",
                                  double(amount) / double(entry.nanoseconds))
                    : std::string("-");
    };
    out += fmt::format("{:<46}{:>9.0f}{:>12}{:>7}{:>9}{:>10}\n",
                       fmt::format("  {:<10}{}", operatorKindName(entry.kind),
                                   escapeName(entry.name)),
                       double(entry.calls) / phase.profiledRuns,
                       secondsText(seconds), share(seconds), rate(entry.bytes),
                       rate(entry.flops));
  }
  const double between = betweenSeconds(phase);
  out += fmt::format("{:<46}{:>9}{:>12}{:>7}\n", "  between them", "",
                     secondsText(between), share(between));
  return out;
}

json rt::phaseJson(const BenchPhase &phase) {
  json object;
  object["runs"] = phase.runs;
  object["tokens"] = phase.tokens;
  object["seconds"] = {{"median", phase.seconds.median},
                       {"min", phase.seconds.least},
                       {"max", phase.seconds.most}};
  object["tokens_per_second"] = phase.tokensPerSecond();
  object["weight_bytes"] = phase.weightBytes;
  object["cache_bytes"] = phase.cacheBytes;
  object["bytes_per_second"] = phase.bytesPerSecond();
  object["flops"] = phase.flops;
  object["flops_per_second"] = phase.flopsPerSecond();
  json operators = json::array();
  for (const OperatorProfile &entry : phase.operators) {
    const double seconds =
        double(entry.nanoseconds) * 1e-9 / phase.profiledRuns;
    operators.push_back({{"kind", operatorKindName(entry.kind)},
                         {"name", entry.name},
                         {"calls", double(entry.calls) / phase.profiledRuns},
                         {"seconds", seconds},
                         {"share", seconds / phase.profiledSeconds},
                         {"bytes", double(entry.bytes) / phase.profiledRuns},
                         {"flops", double(entry.flops) / phase.profiledRuns}});
  }
  object["profile"] = {{"seconds", phase.profiledSeconds},
                       {"between_seconds", betweenSeconds(phase)},
                       {"operators", std::move(operators)}};
  return object;
}
