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
#include "runtime/cli/BenchRun.h"
#include "runtime/cpu/Level.h"
#include <algorithm>
#include <fmt/format.h>
#include <fstream>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

/// Passes of the probe before and after, and between repetitions.
static constexpr int kProbePasses = 5;
static constexpr int kProbePassesBetween = 2;
//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

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

Status rt::benchVerb(const CommonOptions &common, const BenchOptions &options) {
  BenchReport report;
  if (common.limits.module_in == 0) {
    OCTET_TRY_ASSIGN(report.shape, chooseShape(options, common));
  }
  OCTET_TRY_ASSIGN(Session session,
                   openSession(common, "bench", /*wantsModule=*/false));
  LoadedModel &loaded = *session.model->loaded;
  Model &model = *loaded.model;
  if (model.cuda())
    return benchDevice(session, common, options, report.shape);
  ThreadPool &pool = model.threadPool();
  const ProgramInfo &info = model.info();
  const BenchShape &shape = report.shape;

  Progress progress;
  progress.show("starting processes");
  OCTET_TRY_ASSIGN(report.firstToken, measureFirstToken(session, common));
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
  report.date = todayText();
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

std::string BenchReport::text() const {
  std::string out;
  auto line = [&](const char *key, const std::string &value) {
    out += fmt::format("{:<13}{}\n", key, value);
  };
  line("machine",
       fmt::format("{}, {} thread{}, SIMD level {}, {}", escapeName(processor),
                   threads, threads == 1 ? "" : "s", simd, date));
  line("model", modelText(program, weights));
  line("run", runText(shape));
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
  line("first token", firstTokenText(firstToken));
  return out + operatorTable("a step of decode", decode) +
         operatorTable("prefill", prefill);
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
  object["first_token"] = {{"seconds", firstToken.seconds},
                           {"own_process", firstToken.isOwn},
                           {"draw_seconds", firstToken.drawSeconds}};
  return object;
}
