//===- Bench.cpp - `bench`: how fast, and how near the machine's limits ---===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decode is bound by memory and prefill by arithmetic, so each is given as a
// share of what this machine could do: the read bandwidth and the multiply-adds
// of the same threads, measured before, between and after. The timed runs have
// no profile; one more run of each phase has, for the table of operators and
// the bytes and operations of a step.
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Bench.h"
#include "octet/Support/Escape.h"
#include "runtime/api/Handles.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include "runtime/core/Sampler.h"
#include "runtime/cpu/Level.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

using Clock = std::chrono::steady_clock;

/// As near to the start of the process as its own code comes.
static const Clock::time_point kProcessStart = Clock::now();

static constexpr int64_t kDefaultPrompt = 512;
static constexpr int64_t kDefaultGenerate = 64;
/// Of the prompt whose first token is waited for.
static constexpr int64_t kFirstPrompt = 5;
/// Passes of the probe before and after, and between repetitions.
static constexpr int kProbePasses = 5;
static constexpr int kProbePassesBetween = 2;
/// Processes started for the first token.
static constexpr int kFirstTokenRuns = 5;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

BenchTimes BenchTimes::of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const size_t n = seconds.size();
  return {(seconds[(n - 1) / 2] + seconds[n / 2]) / 2, seconds.front(),
          seconds.back()};
}

//===----------------------------------------------------------------------===//
// What is run
//===----------------------------------------------------------------------===//

/// The shape that options and the program's limits allow. A default gives way
/// to the limit, a number of the user's does not.
static Result<BenchShape> chooseShape(const BenchOptions &options,
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

namespace {
/// Sequences of drawn ids on an engine, cut back and run again.
class BenchRun {
public:
  BenchRun(Engine &engine, const BenchShape &shape)
      : engine(engine), shape(shape), sequences(size_t(shape.batch)) {}
  ~BenchRun() {
    for (Sequence &s : sequences)
      engine.release(s);
  }

  /// Puts `depth` tokens of each sequence into the cache.
  Status fill() { return runPrompts(shape.depth, /*outputs=*/0); }
  /// Runs the prompts.
  Status prefill() {
    cut();
    return runPrompts(shape.promptLength, /*outputs=*/1);
  }
  /// Back to the depth, with a token in the cache to follow.
  Status startDecode() {
    cut();
    return Status::success();
  }
  /// One token of each sequence.
  Status decode() {
    feeds.clear();
    for (Sequence &s : sequences) {
      s.tokens.push_back(nextId());
      feeds.push_back({&s, 1, 1});
    }
    logits.resize(feeds.size() * size_t(engine.model().info().vocab));
    return engine.step(feeds, logits);
  }

private:
  void cut() {
    for (Sequence &s : sequences)
      engine.truncate(s, shape.depth);
  }
  Status runPrompts(int64_t length, int64_t outputs) {
    for (Sequence &s : sequences) {
      for (int64_t i = 0; i < length; ++i)
        s.tokens.push_back(nextId());
      logits.clear();
      OCTET_TRY(engine.prefill(s, outputs, logits));
    }
    return Status::success();
  }
  int32_t nextId() {
    return int32_t(uniform(/*seed=*/1, /*stream=*/0, drawn++) *
                   float(engine.model().info().vocab));
  }

  Engine &engine;
  const BenchShape &shape;
  std::vector<Sequence> sequences;
  std::vector<Feed> feeds;
  std::vector<float> logits;
  uint64_t drawn = 0;
};
} // namespace

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

/// Takes `profile`, of `runs` runs that took `seconds`, into a phase.
static void addProfile(BenchPhase &phase, const Profile &profile, double runs,
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

static Status measurePrefill(BenchRun &run, Model &model,
                             const BenchShape &shape, BenchPhase &phase,
                             Progress &progress) {
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

/// \param read  [in, out] the best read bandwidth so far.
static Status measureDecode(BenchRun &run, Model &model, ReadProbe &probe,
                            const BenchShape &shape, BenchPhase &phase,
                            double &read, Progress &progress) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < shape.repeat; ++i) {
    progress.show(fmt::format("decode {} of {}", i + 1, shape.repeat));
    OCTET_TRY(run.startDecode());
    for (int64_t token = 0; token < shape.genLength; ++token) {
      const auto start = Clock::now();
      OCTET_TRY(run.decode());
      seconds.push_back(secondsSince(start));
    }
    read =
        std::max(read, probe.measure(model.threadPool(), kProbePassesBetween));
  }
  phase.runs = int64_t(seconds.size());
  phase.tokens = shape.batch;
  phase.seconds = BenchTimes::of(std::move(seconds));

  Profile profile;
  OCTET_TRY(run.startDecode());
  model.setProfile(&profile);
  const auto start = Clock::now();
  Status status;
  for (int64_t token = 0; token < shape.genLength && status.ok(); ++token)
    status = run.decode();
  addProfile(phase, profile, double(shape.genLength), secondsSince(start));
  model.setProfile(nullptr);
  OCTET_TRY(status);

  // Pairs: what slows the machine for a while slows both sides of one.
  OCTET_TRY(run.startDecode());
  std::vector<double> shares;
  const double bytes = phase.weightBytes + phase.cacheBytes;
  for (int64_t token = 0; token < shape.genLength; ++token) {
    progress.show(fmt::format("pair {} of {}", token + 1, shape.genLength));
    const auto begin = Clock::now();
    OCTET_TRY(run.decode());
    const double taken = secondsSince(begin);
    shares.push_back(bytes / taken /
                     probe.measureNext(model.threadPool(), int64_t(bytes)));
  }
  phase.pairedShare = BenchTimes::of(std::move(shares)).median;
  return Status::success();
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

/// Runs a short prompt, for the time since this process started; where there
/// are weights to start with, other processes are started, now that the
/// weights are in memory.
static Status measureFirstToken(Session &session, const CommonOptions &common,
                                BenchReport &report) {
  BenchShape shape;
  LoadedModel &loaded = *session.model->loaded;
  shape.promptLength = std::min(kFirstPrompt, session.limits.max_context);
  {
    BenchRun run(loaded.engine, shape);
    OCTET_TRY(run.prefill());
  }
  if (const RandomWeights *random = loaded.model->randomWeights()) {
    report.firstTokenOwn = true;
    report.drawSeconds = random->seconds();
    report.firstToken = secondsSince(kProcessStart) - random->seconds();
    return Status::success();
  }
  std::vector<double> seconds;
  for (int i = 0; i < kFirstTokenRuns; ++i) {
    OCTET_TRY_ASSIGN(double taken, startProcess(*loaded.model, common));
    seconds.push_back(taken);
  }
  report.firstToken = BenchTimes::of(std::move(seconds)).median;
  return Status::success();
}

/// Whether most products run on operands that are exact in BF16: all of a BF16
/// program do, and those of E4M3 activations.
static bool multipliesBFloat16(const ProgramInfo &info) {
  if (info.dtype != "f16")
    return info.dtype == "bf16";
  auto decisions = info.json.find("decisions");
  if (decisions == info.json.end() || !decisions->is_array())
    return false;
  return std::ranges::any_of(*decisions, [](const nlohmann::json &decision) {
    auto it =
        decision.is_object() ? decision.find("activation") : decision.end();
    return it != decision.end() && it->is_string() &&
           it->get<std::string>().starts_with("f8E4M3");
  });
}

static std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != line.npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

static std::string today() {
  char text[32];
  const time_t now = time(nullptr);
  tm parts;
  strftime(text, sizeof(text), "%Y-%m-%d", gmtime_r(&now, &parts));
  return text;
}

Status rt::benchVerb(const CommonOptions &common, const BenchOptions &options) {
  BenchReport report;
  if (common.limits.module_in == 0) {
    OCTET_TRY_ASSIGN(report.shape, chooseShape(options, common));
  }
  OCTET_TRY_ASSIGN(Session session,
                   openSession(common, "bench", /*wantsModule=*/false));
  LoadedModel &loaded = *session.model->loaded;
  Model &model = *loaded.model;
  ThreadPool &pool = model.threadPool();
  const ProgramInfo &info = model.info();
  const BenchShape &shape = report.shape;

  Progress progress;
  progress.show("starting processes");
  OCTET_TRY(measureFirstToken(session, common, report));
  progress.show("probing the machine");
  OCTET_TRY_ASSIGN(ReadProbe probe,
                   ReadProbe::create(pool, options.probeMebibytes << 20));
  report.probeBytes = probe.bytes();
  report.dotKind = dotKindOf(model.level(), multipliesBFloat16(info));
  report.dotPeak = measureDotPeak(pool, model.level(), report.dotKind);
  report.readBefore = report.readBest = probe.measure(pool, kProbePasses);
  {
    progress.show("filling the cache");
    BenchRun run(loaded.engine, shape);
    OCTET_TRY(run.fill());
    OCTET_TRY(measurePrefill(run, model, shape, report.prefill, progress));
    OCTET_TRY(measureDecode(run, model, probe, shape, report.decode,
                            report.readBest, progress));
  }
  progress.show("probing the machine");
  report.readAfter = probe.measure(pool, kProbePasses);
  report.readBest = std::max(report.readBest, report.readAfter);
  // What one core can do varies with its clock; the ceiling is the best seen.
  report.dotPeak = std::max(
      report.dotPeak, measureDotPeak(pool, model.level(), report.dotKind));
  progress.clear();

  report.processor = processorName();
  report.date = today();
  report.weights = common.weights.empty() ? info.checkpoint : common.weights;
  report.threads = model.threads();
  report.simd = levelName(model.level());
  for (const char *key : {"octet", "architecture", "dtype", "numerics",
                          "layers", "hidden", "vocab"})
    if (auto it = info.json.find(key); it != info.json.end())
      report.program[key] = *it;
  return print(options.json ? dumpJson(report.json()) + "\n" : report.text());
}

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// "2.07 GB".
static std::string bytesText(double bytes) {
  const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 999.5 && unit < 4; ++unit)
    bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes)
                   : fmt::format("{:#.3g} {}", bytes, units[unit]);
}

/// "3.82 s", "65.6 ms".
static std::string secondsText(double seconds) {
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3)
    return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} us", seconds * 1e6);
}

/// Time between the operators of a run: the program's own code, and packing.
static double betweenSeconds(const BenchPhase &phase) {
  double inside = 0;
  for (const OperatorProfile &entry : phase.operators)
    inside += double(entry.nanoseconds) * 1e-9;
  return std::max(phase.profiledSeconds - inside / phase.profiledRuns, 0.0);
}

static std::string operatorTable(const char *title, const BenchPhase &phase) {
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

std::string BenchReport::text() const {
  auto word = [&](const char *key) {
    auto it = program.find(key);
    return it == program.end() ? std::string("-")
           : it->is_string()   ? escapeName(it->get<std::string>())
                               : escapeName(dumpJson(*it));
  };
  std::string out;
  auto line = [&](const char *key, const std::string &value) {
    out += fmt::format("{:<13}{}\n", key, value);
  };
  line("machine",
       fmt::format("{}, {} thread{}, SIMD level {}, {}", escapeName(processor),
                   threads, threads == 1 ? "" : "s", simd, date));
  line("model",
       fmt::format("{} {}, {} layers, hidden {}, vocabulary {}; "
                   "weights {}",
                   word("architecture"), word("dtype"), word("layers"),
                   word("hidden"), word("vocab"), escapePath(weights)));
  line("run",
       fmt::format("batch {}, prompt {}, generation {}, depth {}; {} "
                   "repetition{}",
                   shape.batch, shape.promptLength, shape.genLength,
                   shape.depth, shape.repeat, shape.repeat == 1 ? "" : "s"));
  line("memory",
       fmt::format("reads {}/s before, {}/s after, {}/s at best ({} "
                   "buffer)",
                   bytesText(readBefore), bytesText(readAfter),
                   bytesText(readBest), bytesText(double(probeBytes))));
  line("arithmetic", fmt::format("{:.1f} GFLOP/s in registers ({})",
                                 dotPeak * 1e-9, dotKindName(dotKind)));
  line("prefill",
       fmt::format(
           "{:.1f} tokens/s: {} for {} ({} to {}); {:.1f} GFLOP/s, "
           "{:.1f} % of the arithmetic",
           prefill.tokensPerSecond(), secondsText(prefill.seconds.median),
           prefill.tokens, secondsText(prefill.seconds.least),
           secondsText(prefill.seconds.most), prefill.flopsPerSecond() * 1e-9,
           100 * prefill.flopsPerSecond() / dotPeak));
  line("decode",
       fmt::format(
           "{:.1f} tokens/s: {} a step ({} to {}); {} of weights and "
           "{} of cache a step, {}/s, {:.1f} % of the memory's best, {:.1f} % "
           "of what it had right after",
           decode.tokensPerSecond(), secondsText(decode.seconds.median),
           secondsText(decode.seconds.least), secondsText(decode.seconds.most),
           bytesText(decode.weightBytes), bytesText(decode.cacheBytes),
           bytesText(decode.bytesPerSecond()),
           100 * decode.bytesPerSecond() / readBest, 100 * decode.pairedShare));
  line("first token",
       fmt::format("{} after the start of {}", secondsText(firstToken),
                   firstTokenOwn
                       ? fmt::format("this process, {} for drawing the weights "
                                     "left out",
                                     secondsText(drawSeconds))
                       : std::string("a process")));
  return out + operatorTable("a step of decode", decode) +
         operatorTable("prefill", prefill);
}

static json phaseJson(const BenchPhase &phase) {
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

json BenchReport::json() const {
  nlohmann::json object;
  object["machine"] = {{"processor", processor},
                       {"threads", threads},
                       {"simd", simd},
                       {"date", date}};
  object["program"] = program;
  object["weights"] = weights;
  object["shape"] = {{"batch", shape.batch},
                     {"prompt_len", shape.promptLength},
                     {"gen_len", shape.genLength},
                     {"depth", shape.depth},
                     {"repeat", shape.repeat}};
  object["read_bandwidth"] = {{"buffer_bytes", probeBytes},
                              {"before", readBefore},
                              {"after", readAfter},
                              {"best", readBest}};
  object["arithmetic"] = {{"kind", dotKindName(dotKind)},
                          {"flops_per_second", dotPeak}};
  object["prefill"] = phaseJson(prefill);
  object["prefill"]["arithmetic_share"] = prefill.flopsPerSecond() / dotPeak;
  object["decode"] = phaseJson(decode);
  object["decode"]["bandwidth_share"] = decode.bytesPerSecond() / readBest;
  object["decode"]["paired_share"] = decode.pairedShare;
  object["first_token"] = {{"seconds", firstToken},
                           {"own_process", firstTokenOwn},
                           {"draw_seconds", drawSeconds}};
  return object;
}
