//===- KernelClock.cpp - Times of launches, and what bounds them ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelClock.h"
#include "octet/Support/Checked.h"
#include "runtime/abi.h"
#include "runtime/cuda/Device.h"
#include <algorithm>
#include <cmath>
#include <vector>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

namespace {

/// A graph of launches, replayed between two events.
class TimedGraph {
public:
  TimedGraph(const Driver &driver, CUstream stream, const std::string &subject)
      : driver(driver), stream(stream), subject(subject) {}
  ~TimedGraph() { drop(); }

  Status capture(int64_t launches, int64_t numSets,
                 const std::function<Status(int64_t)> &enqueue);
  /// Microseconds of one launch over `replays` of the graph.
  Result<double> time(int64_t replays);
  Status launch(int64_t replays);

private:
  void drop() {
    if (exec)
      (void)driver.api.cuGraphExecDestroy(exec);
    exec = nullptr;
  }
  const Driver &driver;
  CUstream stream;
  const std::string &subject;
  CUgraphExec exec = nullptr;
  Event begin, end;
  int64_t count = 0;
};

} // namespace

Status TimedGraph::capture(int64_t launches, int64_t numSets,
                           const std::function<Status(int64_t)> &enqueue) {
  drop();
  count = launches;
  if (!begin.handle()) {
    OCTET_TRY(begin.create(driver, /*timing=*/true, subject));
    OCTET_TRY(end.create(driver, /*timing=*/true, subject));
  }
  OCTET_TRY(OCTET_CUDA(driver, subject, cuStreamBeginCapture, stream,
                       kCaptureRelaxed));
  Status status;
  for (int64_t i = 0; i < launches && status.ok(); ++i)
    status = enqueue(i % numSets);
  CUgraph graph = nullptr;
  Status ended =
      OCTET_CUDA(driver, subject, cuStreamEndCapture, stream, &graph);
  OCTET_TRY(std::move(status));
  OCTET_TRY(std::move(ended));
  Status made =
      OCTET_CUDA(driver, subject, cuGraphInstantiate, &exec, graph, 0);
  (void)driver.api.cuGraphDestroy(graph);
  return made;
}

Status TimedGraph::launch(int64_t replays) {
  for (int64_t i = 0; i < replays; ++i)
    OCTET_TRY(OCTET_CUDA(driver, subject, cuGraphLaunch, exec, stream));
  return Status::success();
}

Result<double> TimedGraph::time(int64_t replays) {
  OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, begin.handle(), stream));
  OCTET_TRY(launch(replays));
  OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, end.handle(), stream));
  OCTET_TRY(OCTET_CUDA(driver, subject, cuEventSynchronize, end.handle()));
  float milliseconds = 0;
  OCTET_TRY(OCTET_CUDA(driver, subject, cuEventElapsedTime, &milliseconds,
                       begin.handle(), end.handle()));
  return 1e3 * double(milliseconds) / double(replays * count);
}

Result<KernelTimes>
octet::rt::timeLaunches(const Driver &driver, CUstream stream, int64_t numSets,
                        const std::string &subject,
                        const std::function<Status(int64_t)> &enqueue,
                        Effort effort) {
  constexpr double kLongUs = 20;
  const bool isQuick = effort == Effort::Quick;
  const double graphUs = isQuick ? 1000 : 2000;
  const double share = effort == Effort::Final ? 0.4 : 1;
  const double loadUs = share * 0.3e6, sustainedUs = share * 0.2e6;
  const int replays = isQuick ? 5 : 15;
  TimedGraph graph(driver, stream, subject);
  OCTET_TRY(graph.capture(numSets, numSets, enqueue));
  OCTET_TRY(graph.launch(1));
  OCTET_TRY_ASSIGN(double guess, graph.time(1));
  const double oneRound = std::max(guess, 0.5) * double(numSets);
  const int64_t rounds =
      std::clamp<int64_t>(int64_t(std::ceil(graphUs / oneRound)), 1, 1000);
  if (rounds > 1)
    OCTET_TRY(graph.capture(numSets * rounds, numSets, enqueue));
  OCTET_TRY(graph.launch(1));
  std::vector<double> us;
  for (int i = 0; i < replays; ++i) {
    OCTET_TRY_ASSIGN(double one, graph.time(1));
    us.push_back(one);
  }
  std::sort(us.begin(), us.end());
  KernelTimes times;
  times.median = us[us.size() / 2];
  times.least = us.front();
  times.most = us.back();
  if (isQuick || times.median < kLongUs)
    return times;
  const double replayUs = times.median * double(numSets * rounds);
  OCTET_TRY(graph.launch(int64_t(std::ceil(loadUs / replayUs))));
  OCTET_TRY_ASSIGN(times.sustained,
                   graph.time(int64_t(std::ceil(sustainedUs / replayUs))));
  return times;
}

Result<double> octet::rt::measureCopy(const Driver &driver, CUstream stream,
                                      const std::string &subject) {
  const int64_t bytes =
      std::min<int64_t>(int64_t(4) << 30, driver.device().freeBytes / 4) / 256 *
      256;
  DeviceBuffer from, to;
  OCTET_TRY(from.allocate(driver, bytes, subject));
  OCTET_TRY(to.allocate(driver, bytes, subject));
  Event begin, end;
  OCTET_TRY(begin.create(driver, /*timing=*/true, subject));
  OCTET_TRY(end.create(driver, /*timing=*/true, subject));
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    OCTET_TRY(
        OCTET_CUDA(driver, subject, cuEventRecord, begin.handle(), stream));
    OCTET_TRY(OCTET_CUDA(driver, subject, cuMemcpyDtoDAsync, to.address(),
                         from.address(), size_t(bytes), stream));
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, end.handle(), stream));
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventSynchronize, end.handle()));
    float milliseconds = 0;
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventElapsedTime, &milliseconds,
                         begin.handle(), end.handle()));
    best = std::max(best, 2e3 * double(bytes) / double(milliseconds));
  }
  return best;
}

/// Multiply-adds of a multiprocessor and clock, in BF16; twice that in FP8
/// from 8.9 on. Source: NVIDIA's architecture white papers.
double octet::rt::peakOperations(const DeviceInfo &device, int32_t type) {
  struct Row {
    int capability;
    double perClock, megahertz;
  };
  static constexpr Row kRows[] = {
      {80, 1024, 1410}, {86, 512, 1695},   {89, 512, 2520},
      {90, 2048, 1830}, {100, 4096, 1850}, {120, 512, 2407},
  };
  Row row{0, 128, 1400};
  for (const Row &candidate : kRows)
    if (device.capability >= candidate.capability)
      row = candidate;
  const bool isFp8 = type == OCTET_E4M3 && device.capability >= 89;
  return 2 * row.perClock * row.megahertz * 1e6 * device.multiprocessors *
         (isFp8 ? 2 : 1);
}
