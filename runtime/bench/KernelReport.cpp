//===- KernelReport.cpp - What a kernel executable found ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelReport.h"
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace octet::rt;

int64_t KernelReport::countFailed() const {
  return std::count_if(results.begin(), results.end(),
                       [](const KernelResult &r) { return !r.passed; });
}

std::vector<size_t>
octet::rt::chooseFinalists(std::span<const KernelResult> candidates,
                           size_t most) {
  std::vector<size_t> order;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (candidates[i].passed && candidates[i].us.median > 0)
      order.push_back(i);
  auto rank = [&](size_t i) {
    const KernelResult &result = candidates[i];
    return std::tuple(!result.chosen, result.us.median, i);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return rank(a) < rank(b); });
  order.resize(std::min(order.size(), most));
  std::sort(order.begin(), order.end());
  return order;
}

static std::string describeCheck(const KernelResult &r) {
  if (r.notANumber)
    return fmt::format("FAILED: {} of {} not finite, first at [{}, {}]",
                       r.notANumber, r.m * r.n, int64_t(r.firstBad) / r.n,
                       int64_t(r.firstBad) % r.n);
  return fmt::format(
      "{}error {:.2e}{}", r.passed ? "" : "FAILED: ", r.relativeError,
      r.passed ? "" : fmt::format(", at most {:.1e}", r.tolerance));
}

std::string KernelReport::text() const {
  std::string text = fmt::format(
      "{} for {} on {} ({} multiprocessors), driver {}, {}\n"
      "copy {:.0f} GB/s, peak {:.0f} TFLOP/s; us: median of launches in a "
      "graph, operands rotated\n",
      op, target, device, multiprocessors, driver, date, copyBandwidth / 1e9,
      peak / 1e12);
  text += fmt::format("{:>7} {:>7} {:>7} {:>9} {:>9} {:>9} {:>8} {:>6}  {:<36} "
                      "{}\n",
                      "M", "N", "K", "us", "sustained", "TFLOP/s", "GB/s",
                      "floor", "kernel", "check");
  for (const KernelResult &r : results) {
    text += fmt::format("{:>7} {:>7} {:>7} ", r.m, r.n, r.k);
    if (r.us.median) {
      text += fmt::format("{:>9.2f} ", r.us.median);
      text += r.us.sustained ? fmt::format("{:>9.2f} ", r.us.sustained)
                             : fmt::format("{:>9} ", "-");
      text += fmt::format("{:>9.0f} {:>8.0f} {:>5.0f}%  ", r.teraflops(),
                          r.gigabytes(), 100 * r.ofFloor());
    } else {
      text += fmt::format("{:>9} {:>9} {:>9} {:>8} {:>6}  ", "-", "-", "-", "-",
                          "-");
    }
    text += fmt::format("{:<36} {}\n", r.kernel, describeCheck(r));
  }
  const int64_t failed = countFailed();
  text += fmt::format("{} passed, {} failed{}\n",
                      int64_t(results.size()) - failed, failed,
                      casesDone < cases ? fmt::format("; stopped after {} of "
                                                      "{} shapes",
                                                      casesDone, cases)
                                        : "");
  return text;
}

nlohmann::json KernelReport::json() const {
  nlohmann::json list = nlohmann::json::array();
  for (const KernelResult &r : results)
    list.push_back({{"m", r.m},
                    {"n", r.n},
                    {"k", r.k},
                    {"kernel", r.kernel},
                    {"variant", r.variant},
                    {"chosen", r.chosen},
                    {"passed", r.passed},
                    {"relative_error", r.relativeError},
                    {"largest_error", r.largestError},
                    {"tolerance", r.tolerance},
                    {"not_finite", r.notANumber},
                    {"us", r.us.median},
                    {"us_min", r.us.least},
                    {"us_max", r.us.most},
                    {"us_sustained", r.us.sustained},
                    {"at_length", r.atLength},
                    {"flops", r.flops},
                    {"bytes", r.bytes},
                    {"floor_us", r.floorUs}});
  return {{"operator", op},
          {"target", target},
          {"octet", version},
          {"device", device},
          {"multiprocessors", multiprocessors},
          {"driver", driver},
          {"date", date},
          {"copy_bandwidth", copyBandwidth},
          {"peak", peak},
          {"failed", countFailed()},
          {"cases", cases},
          {"cases_done", casesDone},
          {"results", list}};
}
