//===- TileTable.cpp - Measured tiles by shape ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/TileTable.h"
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace octet::rt;

namespace {
struct Range {
  int64_t maxM;
  std::string tiles;
};
using Measured = std::map<int64_t, std::map<std::string, double>>; ///< by M
} // namespace

static std::vector<Range> rangesOf(const Measured &measured) {
  constexpr double kNoise = 1.01;
  std::vector<Range> ranges;
  for (const auto &[m, times] : measured) {
    auto best = std::min_element(
        times.begin(), times.end(),
        [](const auto &a, const auto &b) { return a.second < b.second; });
    if (!ranges.empty()) {
      auto same = times.find(ranges.back().tiles);
      if (same != times.end() && same->second <= best->second * kNoise) {
        ranges.back().maxM = m;
        continue;
      }
    }
    ranges.push_back({m, best->first});
  }
  if (!ranges.empty())
    ranges.back().maxM = -1;
  return ranges;
}

nlohmann::json octet::rt::makeTileTable(const KernelReport &report) {
  // Of what was timed at length, by what it holds under load where that is
  // known of all.
  using Case = std::tuple<int64_t, int64_t, int64_t>;
  std::map<Case, bool> holds;
  auto counts = [](const KernelResult &r) {
    return r.passed && r.atLength && r.us.median > 0 && !r.variant.empty();
  };
  for (const KernelResult &r : report.results)
    if (counts(r))
      holds.try_emplace(Case(r.n, r.k, r.m), true).first->second &=
          r.us.sustained > 0;
  std::map<std::pair<int64_t, int64_t>, Measured> shapes;
  for (const KernelResult &r : report.results)
    if (counts(r))
      shapes[{r.n, r.k}][r.m][r.variant] =
          holds[Case(r.n, r.k, r.m)] ? r.us.sustained : r.us.median;
  nlohmann::json list = nlohmann::json::array();
  for (const auto &[shape, measured] : shapes) {
    nlohmann::json variants = nlohmann::json::array();
    for (const Range &range : rangesOf(measured))
      variants.push_back({{"max_m", range.maxM}, {"tiles", range.tiles}});
    list.push_back(
        {{"n", shape.first}, {"k", shape.second}, {"variants", variants}});
  }
  return {{"operator", report.op},   {"target", report.target},
          {"device", report.device}, {"driver", report.driver},
          {"octet", report.version}, {"date", report.date},
          {"shapes", list}};
}
