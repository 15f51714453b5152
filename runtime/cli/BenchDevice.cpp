//===- BenchDevice.cpp - `bench` of a CUDA program ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decode is held against its floor, the time that weights, keys and values take
// at the bandwidth of a copy within the device's memory. The timed runs are as
// any user's, with the logits on the processor; the table is of more runs with
// events between the launches, where neighbours do not overlap.
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/cli/BenchRun.h"
#include "runtime/cuda/CudaBackend.h"
#include "runtime/cuda/DeviceLimits.h"
#include <algorithm>
#include <fmt/format.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

/// Of each of the two buffers of the copy, far beyond any cache.
static constexpr int64_t kProbeBytes = int64_t(1) << 30;
static constexpr int kProbePasses = 10;
/// Steps of decode with a profile: each is captured anew.
static constexpr int64_t kProfiledSteps = 8;

namespace {
struct DeviceReport {
  cu::DeviceInfo device;
  std::string weights;
  json program;
  BenchShape shape;
  int64_t probeBytes = 0; ///< of each of the copy's buffers
  double copy = 0;        ///< bytes per second, read and written
  cu::TensorPeaks peaks;
  cu::UploadTimes upload;
  BenchPhase prefill, decode;
  FirstToken firstToken;

  /// The time that bytes and operations of an operator need at least.
  double floorOf(const OperatorProfile &entry) const {
    double seconds = copy > 0 ? double(entry.bytes) / copy : 0;
    // Labels of kernels say what they multiply.
    const bool isFp8 = entry.detail.find("fp8") != std::string::npos ||
                       entry.detail.find("e4m3") != std::string::npos;
    const double peak = isFp8 && peaks.fp8 > 0 ? peaks.fp8 : peaks.bf16;
    if (peak > 0)
      seconds = std::max(seconds, double(entry.flops) / peak);
    return seconds;
  }
  double shareOf(const OperatorProfile &entry) const {
    return entry.nanoseconds > 0
               ? floorOf(entry) / (double(entry.nanoseconds) * 1e-9)
               : 0;
  }
  /// Of a step: weights, keys and values.
  double floorSeconds(const BenchPhase &phase) const {
    return (phase.weightBytes + phase.cacheBytes) / copy;
  }
  std::string text() const;
  json toJson() const;
};
} // namespace

static Status measureDecode(BenchRun &run, Model &model,
                            const BenchShape &shape, BenchPhase &phase,
                            Progress &progress) {
  std::vector<double> seconds;
  for (int64_t i = -1; i < shape.repeat; ++i) { // The first is not counted.
    progress.show(fmt::format("decode {} of {}", std::max<int64_t>(i, 0) + 1,
                              shape.repeat));
    OCTET_TRY(run.startDecode());
    for (int64_t token = 0; token < shape.genLength; ++token) {
      const auto start = Clock::now();
      OCTET_TRY(run.decode());
      if (i >= 0)
        seconds.push_back(secondsSince(start));
      else if (token == 1) // Its graph is there, and warm.
        break;
    }
  }
  phase.runs = int64_t(seconds.size());
  phase.tokens = shape.batch;
  phase.seconds = BenchTimes::of(std::move(seconds));

  // From the middle on: what is in the cache is then that of all steps.
  const int64_t steps = std::min(shape.genLength, kProfiledSteps);
  OCTET_TRY(run.startDecode());
  for (int64_t token = 0; token < (shape.genLength - steps) / 2; ++token)
    OCTET_TRY(run.decode());
  Profile profile;
  model.setProfile(&profile);
  Status status;
  for (int64_t token = 0; token < steps && status.ok(); ++token)
    status = run.decode();
  model.setProfile(nullptr);
  OCTET_TRY(status);
  double inside = 0;
  for (const OperatorProfile &entry : profile.entries())
    inside += double(entry.nanoseconds) * 1e-9;
  addProfile(phase, profile, double(steps), inside);
  return Status::success();
}

static std::string operatorTable(const char *title, const BenchPhase &phase,
                                 const DeviceReport &report) {
  std::string out =
      fmt::format("\n{:<64}{:>7}{:>12}{:>8}{:>9}{:>10}{:>8}\n",
                  fmt::format("{}, {} between events", title,
                              secondsText(phase.profiledSeconds)),
                  "calls", "time", "share", "GB/s", "TFLOP/s", "limit");
  for (const OperatorProfile &entry : phase.operators) {
    const double seconds =
        double(entry.nanoseconds) * 1e-9 / phase.profiledRuns;
    auto rate = [&](int64_t amount, double unit) {
      return amount ? fmt::format("{:.1f}", double(amount) / unit /
                                                double(entry.nanoseconds))
                    : std::string("-");
    };
    out += fmt::format(
        "{:<64}{:>7.0f}{:>12}{:>8}{:>9}{:>10}{:>8}\n",
        fmt::format("  {:<10}{} {}", operatorKindName(entry.kind),
                    escapeName(entry.name), escapeName(entry.detail)),
        double(entry.calls) / phase.profiledRuns, secondsText(seconds),
        fmt::format("{:.1f} %", 100 * seconds / phase.profiledSeconds),
        rate(entry.bytes, 1), rate(entry.flops, 1e3),
        fmt::format("{:.0f} %", 100 * report.shareOf(entry)));
  }
  return out;
}

std::string DeviceReport::text() const {
  std::string out;
  auto line = [&](const char *key, const std::string &value) {
    out += fmt::format("{:<13}{}\n", key, value);
  };
  line("device",
       fmt::format(
           "{}, capability {}, {} multiprocessors, {}; driver of "
           "CUDA {}, {}",
           escapeName(device.name), cu::capabilityText(device.capability),
           device.multiprocessors, bytesText(double(device.memoryBytes)),
           cu::versionText(device.driverVersion), todayText()));
  line("model", modelText(program, weights));
  line("load",
       fmt::format("{} to the device in {}: {}/s; {} of it reading and "
                   "copying, {} waiting for the link",
                   bytesText(double(upload.bytes)), secondsText(upload.seconds),
                   bytesText(upload.bytesPerSecond()),
                   secondsText(upload.filling), secondsText(upload.waiting)));
  line("run", runText(shape));
  line("memory", fmt::format("copies {}/s, read and written (two buffers of "
                             "{})",
                             bytesText(copy), bytesText(double(probeBytes))));
  line("arithmetic",
       fmt::format("{:.0f} TFLOP/s FP8 and {:.0f} BF16 at the highest clock",
                   peaks.fp8 * 1e-12, peaks.bf16 * 1e-12));
  line("prefill",
       fmt::format("{:.1f} tokens/s: {} for {} ({} to {}); {:.1f} TFLOP/s",
                   prefill.tokensPerSecond(),
                   secondsText(prefill.seconds.median), prefill.tokens,
                   secondsText(prefill.seconds.least),
                   secondsText(prefill.seconds.most),
                   prefill.flopsPerSecond() * 1e-12));
  line("decode",
       fmt::format("{:.1f} tokens/s: {} a step ({} to {}); {} of weights and "
                   "{} of cache a step take {} at the copy's bandwidth, "
                   "{:.1f} % of the step",
                   decode.tokensPerSecond(), secondsText(decode.seconds.median),
                   secondsText(decode.seconds.least),
                   secondsText(decode.seconds.most),
                   bytesText(decode.weightBytes), bytesText(decode.cacheBytes),
                   secondsText(floorSeconds(decode)),
                   100 * floorSeconds(decode) / decode.seconds.median));
  line("first token", firstTokenText(firstToken));
  return out + operatorTable("a step of decode", decode, *this) +
         operatorTable("prefill", prefill, *this);
}

json DeviceReport::toJson() const {
  json object;
  object["machine"] = {{"device", device.name},
                       {"capability", device.capability},
                       {"multiprocessors", device.multiprocessors},
                       {"clock_hertz", double(device.clockKilohertz) * 1e3},
                       {"memory_bytes", device.memoryBytes},
                       {"driver", cu::versionText(device.driverVersion)},
                       {"date", todayText()}};
  object["program"] = program;
  object["weights"] = weights;
  object["load"] = {{"bytes", upload.bytes},
                    {"seconds", upload.seconds},
                    {"bytes_per_second", upload.bytesPerSecond()},
                    {"reading_seconds", upload.filling},
                    {"waiting_seconds", upload.waiting}};
  object["shape"] = {{"batch", shape.batch},
                     {"prompt_len", shape.promptLength},
                     {"gen_len", shape.genLength},
                     {"depth", shape.depth},
                     {"repeat", shape.repeat}};
  object["copy_bandwidth"] = {{"buffer_bytes", probeBytes}, {"best", copy}};
  object["arithmetic"] = {{"fp8_flops_per_second", peaks.fp8},
                          {"bf16_flops_per_second", peaks.bf16}};
  auto phase = [&](const BenchPhase &of) {
    json out = phaseJson(of);
    json &operators = out["profile"]["operators"];
    for (size_t i = 0; i < of.operators.size(); ++i) {
      operators[i]["kernel"] = of.operators[i].detail;
      operators[i]["limit_share"] = shareOf(of.operators[i]);
    }
    return out;
  };
  object["prefill"] = phase(prefill);
  object["decode"] = phase(decode);
  object["decode"]["floor_seconds"] = floorSeconds(decode);
  object["decode"]["floor_share"] =
      floorSeconds(decode) / decode.seconds.median;
  object["first_token"] = {{"seconds", firstToken.seconds},
                           {"own_process", firstToken.isOwn},
                           {"draw_seconds", firstToken.drawSeconds}};
  return object;
}

Status rt::benchDevice(Session &session, const CommonOptions &common,
                       const BenchOptions &options, const BenchShape &shape) {
  LoadedModel &loaded = *session.model->loaded;
  Model &model = *loaded.model;
  const ProgramInfo &info = model.info();
  const cu::Driver &driver = model.cuda()->driver();
  DeviceReport report;
  report.device = driver.device();
  report.peaks = cu::tensorPeaks(report.device);
  report.upload = model.cuda()->uploadTimes();
  report.shape = shape;

  Progress progress;
  progress.show("starting processes");
  OCTET_TRY_ASSIGN(report.firstToken, measureFirstToken(session, common));
  progress.show("probing the device");
  // Not more than half of what the model leaves.
  report.probeBytes = options.probeMebibytes > 0
                          ? options.probeMebibytes << 20
                          : std::min(kProbeBytes, cu::freeBytes(driver) / 4);
  OCTET_TRY_ASSIGN(report.copy,
                   cu::measureCopy(driver, report.probeBytes, kProbePasses));
  {
    progress.show("filling the cache");
    BenchRun run(loaded.engine, shape);
    OCTET_TRY(run.fill());
    OCTET_TRY(measurePrefill(run, model, shape, report.prefill, progress));
    OCTET_TRY(measureDecode(run, model, shape, report.decode, progress));
  }
  progress.clear();
  // Of prefill too, the time between events: launching is not in it.
  report.prefill.profiledSeconds = 0;
  for (const OperatorProfile &entry : report.prefill.operators)
    report.prefill.profiledSeconds += double(entry.nanoseconds) * 1e-9;

  report.weights = common.weights.empty() ? info.checkpoint : common.weights;
  for (const char *key : {"octet", "architecture", "target", "dtype",
                          "numerics", "layers", "hidden", "vocab"})
    if (auto it = info.json.find(key); it != info.json.end())
      report.program[key] = *it;
  return print(options.json ? dumpJson(report.toJson()) + "\n" : report.text());
}
