//===- Sm90Tiles.cpp - Tiles of products by wgmma -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/GemmText.h"
#include "lib/CudaSource/Sm90.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace octet;
using namespace octet::cuda;

static const std::pair<const char *, const char *> kTables[] = {
#include "Sm90Table.inc"
};

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

std::string Sm90Tiles::name(int stepK) const {
  std::string text = isSwapped ? "swap_" : "";
  auto add = [&](const char *key, int value) {
    text += key + std::to_string(value);
  };
  add("m", m);
  add("n", n);
  add("k", stepK);
  add("s", stages);
  if (isSwapped) {
    if (splits > 1)
      add("_split", splits);
    if (share > 1)
      add("_share", share);
    if (perSm > 1)
      add("_sm", perSm);
  } else {
    if (warpgroups != 2)
      add("_w", warpgroups);
    if (clusterM * clusterN > 1)
      text += "_c" + std::to_string(clusterM) + "x" + std::to_string(clusterN);
    if (group != 8)
      add("_g", group);
  }
  if (buffers > 1)
    add("_b", buffers);
  return text;
}

std::optional<Sm90Tiles> octet::cuda::parseSm90Tiles(std::string_view name) {
  Sm90Tiles tiles;
  auto take = [&](std::string_view key, int &value) {
    if (!name.starts_with(key))
      return false;
    const char *begin = name.data() + key.size(),
               *end = name.data() + name.size();
    auto [at, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || value <= 0)
      return false;
    name.remove_prefix(size_t(at - name.data()));
    return true;
  };
  tiles.isSwapped = name.starts_with("swap_");
  if (tiles.isSwapped)
    name.remove_prefix(5);
  int stepK = 0;
  if (!take("m", tiles.m) || !take("n", tiles.n) || !take("k", stepK) ||
      !take("s", tiles.stages))
    return std::nullopt;
  while (!name.empty()) {
    bool known = take("_b", tiles.buffers);
    if (tiles.isSwapped)
      known = known || take("_split", tiles.splits) ||
              take("_share", tiles.share) || take("_sm", tiles.perSm);
    else
      known = known || take("_w", tiles.warpgroups) ||
              take("_g", tiles.group) ||
              (take("_c", tiles.clusterM) && take("x", tiles.clusterN));
    if (!known)
      return std::nullopt;
  }
  return tiles;
}

//===----------------------------------------------------------------------===//
// Measured
//===----------------------------------------------------------------------===//

/// The table's tiles of a shape; empty if it is not in it, or for operands of
/// other bytes than it was measured with.
static std::vector<Sm90Variant> findMeasured(const GemmProblem &p) {
  using Shapes =
      std::map<std::pair<int64_t, int64_t>, std::vector<Sm90Variant>>;
  static const Shapes shapes = [] {
    Shapes result;
    nlohmann::json table = nlohmann::json::parse(kTables[0].second);
    for (const nlohmann::json &shape : table["shapes"]) {
      std::vector<Sm90Variant> &variants =
          result[{shape["n"].get<int64_t>(), shape["k"].get<int64_t>()}];
      for (const nlohmann::json &variant : shape["variants"])
        if (std::optional<Sm90Tiles> tiles =
                parseSm90Tiles(variant["tiles"].get<std::string>()))
          variants.push_back({variant["max_m"].get<int64_t>(), *tiles});
    }
    return result;
  }();
  if (p.xType != OCTET_E4M3 || (hasBlocks(p) && p.blockK != 128))
    return {};
  auto found = shapes.find({p.n, p.k});
  return found == shapes.end() ? std::vector<Sm90Variant>() : found->second;
}

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

namespace {

/// Clusters of a size that run at once on 132 multiprocessors, whose groups
/// are not all multiples of it.
int64_t countClusters(int64_t size, int64_t multiprocessors) {
  static const int64_t kOf132[] = {0, 132, 66, 42, 30, 0, 19, 0, 14};
  return std::max<int64_t>(1, kOf132[size] * multiprocessors / 132);
}

/// Microseconds of a product. The constants are fitted to 1260 products of an
/// H200 (9 % off on average; what it takes for the best is 3.5 % slower than
/// the best).
struct Model {
  const GemmProblem &p;
  int64_t bytes = elementBytes(p.xType), steps = divideUp(p.k, 128 / bytes);

  /// Of any kernel, of one whose tiles share operands in clusters, and of a
  /// multiprocessor's next CTA where one is there at a time.
  static constexpr double kLaunch = 1.52, kCluster = 0.3, kWave = 0.7;
  static constexpr double kMemory = 4.14e6, kL2 = 1.038e7; ///< bytes a us
  static constexpr double kL2OfSm = 9e4, kMemoryOfSm = 6.17e4;
  /// Between asking for bytes of memory and their use.
  static constexpr double kFlight = 2.41;
  static constexpr double kClock = 1700; ///< cycles a us
  /// Of tensor cores, of what products of 64 rows by a column take; where
  /// warpgroups take turns.
  static constexpr double kShareOfPeak = 0.611, kShareInTurn = 0.675;
  /// Cycles between products of a warpgroup, with one and two buffers, and of
  /// promotion a column.
  static constexpr double kLatency = 302, kOverlapped = 194, kPromotion = 1.82;
  /// Of a scale of W more, where warpgroups take turns.
  static constexpr double kGranule = 3.3;
  static constexpr double kStore = 4.4e-5, kSend = 3.4e-4; ///< us an element

  static constexpr int64_t kFew = 128; ///< rows for which W is read once

  double time(const Sm90Tiles &t, int64_t m) const {
    int64_t size = t.isSwapped ? t.splits * t.share : t.clusterM * t.clusterN;
    int64_t warpgroups = t.isSwapped ? t.n / 64 : t.warpgroups;
    int64_t columns = t.isSwapped ? t.m : t.n;
    int64_t passes = t.isSwapped ? 1 : t.m / (64 * t.warpgroups);
    int64_t shareX = t.isSwapped ? t.share : t.clusterN;
    int64_t shareW = t.isSwapped ? 1 : t.clusterM;
    int64_t clusters =
        divideUp(p.n, int64_t(t.n) * shareX) * divideUp(m, t.m * shareW);
    double parts = double(divideUp(steps, t.splits));
    double load =
        128.0 * (double(t.m) / double(shareX) + double(t.n) / double(shareW));
    // What a multiprocessor takes in is whole, whoever asked for it.
    double taken = 128.0 * double(t.m + t.n);

    // A step of K: of one warpgroup, of all, of memory.
    bool promotes = bytes == 1, overlaps = t.buffers == 2 || !promotes;
    double product = 2.0 * double(columns);
    double other = (overlaps ? kOverlapped : kLatency) +
                   (promotes ? kPromotion * double(columns) : 0);
    double chain = double(passes) *
                   (overlaps ? std::max(product, other) : product + other) /
                   kClock;
    const bool inTurn = !t.isSwapped && promotes && !overlaps && warpgroups > 1;
    double share = inTurn ? kShareInTurn : kShareOfPeak;
    if (inTurn)
      product += kGranule * double(t.n / std::gcd(t.n, 128));
    double step =
        std::max(double(warpgroups * passes) * product / share / kClock,
                 taken / kL2OfSm);

    double waves =
        double(clusters) / double(countClusters(size, p.multiprocessors));
    double body;
    if (t.perSm > 1)
      body = parts * (waves <= t.perSm
                          ? std::max(chain, std::max(1.0, waves) * step)
                          : std::max(chain * waves / t.perSm, waves * step));
    else
      body = std::ceil(waves) *
             (parts * std::max(chain, step) + kStore * t.m * t.n);
    // Long runs are bound by power: bytes that are moved for a product cost
    // clock (sustained: 1130 TFLOP/s with 256x128 tiles that share x, 1000 with
    // 128x128, N 4096, K 7168).
    if (waves >= 3)
      body *= 1 + 4.5 * std::max(0.0, load / (128.0 * t.m * t.n) - 0.0078);
    double memory =
        std::max(double(p.n) * double(p.k) * double(bytes) / kMemory,
                 double(clusters * size) * parts * load / kL2);
    // Where W is read once, the busiest multiprocessor's part of it counts.
    if (m <= kFew) {
      const double rounds =
          t.perSm > 1 ? std::max(1.0, waves / t.perSm) : std::ceil(waves);
      const double ctas = waves <= t.perSm ? std::ceil(waves) : waves;
      const double bytesW = 128.0 * t.n * parts,
                   inFlight = 128.0 * t.n * t.stages;
      if (t.perSm == 1)
        memory += kWave * (rounds - 1);
      memory = std::max({memory, rounds * bytesW * kFlight / inFlight,
                         (t.perSm > 1 ? ctas : rounds) * bytesW / kMemoryOfSm});
    }
    const bool shares = !t.isSwapped && size > 1;
    return kLaunch + (t.splits > 1 ? kSend * t.m * t.n : 0) +
           (shares ? kCluster : 0) + std::max(memory, body);
  }
};

} // namespace

/// As many stages as fit into `most` bytes, and as there is K for.
static bool fitStages(const GemmProblem &p, Sm90Tiles &tiles, int64_t most,
                      int64_t steps) {
  tiles.stages = int(std::min<int64_t>(16, std::max<int64_t>(2, steps)));
  while (tiles.stages > 2 && countSm90SharedBytes(p, tiles) > most)
    --tiles.stages;
  return countSm90SharedBytes(p, tiles) <= most;
}

static std::vector<Sm90Tiles> listTiles(const GemmProblem &p, bool splitsK) {
  constexpr int64_t kShared = 227 * 1024, kReserved = 1024; // of a CTA's own
  int64_t steps = divideUp(p.k, 128 / elementBytes(p.xType));
  const bool promotes = p.xType == OCTET_E4M3;
  std::vector<Sm90Tiles> list;
  auto add = [&](const Sm90Tiles &tiles) {
    if (rejectSm90Tiles(p, tiles).empty())
      list.push_back(tiles);
  };
  auto swap = [&](int m, int n, int splits, int buffers) {
    // Registers: sums, scales of columns, the rest; and those there are, of a
    // CTA alone and of several.
    int needed = m / 2 * (1 + (promotes ? buffers : 0)) + m / 4 + 40;
    static constexpr int kAlone[] = {250, 225, 155, 115};
    if (needed > kAlone[n / 64 - 1])
      return;
    Sm90Tiles t;
    t.isSwapped = true;
    t.m = m;
    t.n = n;
    t.splits = splits;
    t.buffers = buffers;
    int64_t part = divideUp(steps, splits);
    int stages = 0; // of two CTAs: three of as many would be the same kernel
    for (int perSm : {2, 3, 1}) {
      t.perSm = perSm;
      bool fits =
          perSm == 1 || needed <= 65536 / ((n * 2 + 128) * perSm) / 8 * 8;
      if (!fits ||
          !fitStages(p, t, (kShared + kReserved) / perSm - kReserved, part) ||
          (perSm == 3 && t.stages == stages))
        continue;
      if (perSm == 2)
        stages = t.stages;
      add(t);
    }
  };
  for (int m : {8, 16, 32, 64})
    for (int n : {64, 128, 192})
      for (int splits = 1; splits <= (splitsK ? 4 : 1); ++splits)
        if (splits == 1 || steps >= 3 * splits) {
          swap(m, n, splits, 1);
          if (m == 64 && promotes)
            swap(m, n, splits, 2);
        }
  auto tile = [&](int m, int n, int warpgroups, int clusterM, int clusterN,
                  int buffers) {
    Sm90Tiles t;
    t.m = m;
    t.n = n;
    t.warpgroups = warpgroups;
    t.clusterM = clusterM;
    t.clusterN = clusterN;
    t.buffers = promotes ? buffers : 1;
    if (fitStages(p, t, kShared, std::max<int64_t>(4, steps)))
      add(t);
  };
  for (int n : {16, 32, 48, 64, 80, 96, 112, 128})
    for (auto [clusterM, clusterN] : {std::pair(2, 1), {1, 1}, {1, 2}})
      tile(64, n, 1, clusterM, clusterN, 2);
  for (int n : {32, 48, 64, 80, 96, 112, 128})
    tile(128, n, 2, 1, 1, 2);
  for (int n : {48, 64, 80, 96, 112, 128})
    tile(128, n, 2, 1, 2, 2);
  for (int n : {144, 160, 192})
    for (int clusterM : {1, 2})
      tile(128, n, 2, clusterM, 1, 1);
  for (int n : {96, 112, 128}) {
    tile(256, n, 2, 1, 2, 1);
    tile(256, n, 2, 1, 1, 1);
    tile(256, n, 2, 2, 1, 1);
  }
  return list;
}

/// Swapped tiles are for rows that one of them has, as W would be read again
/// for each (slower at 128 rows for every shape of the table), and from 33 rows
/// on for long K and few columns (14.4 us against 11.1 for 64 rows of N 24576,
/// K 1536); others are for half their rows at least; where there is one tile of
/// rows, none shares W.
static bool suits(const Sm90Tiles &tiles, int64_t m) {
  if (tiles.isSwapped)
    return m <= tiles.m &&
           (m <= 32 || tiles.splits > 1 || (tiles.n == 64 && tiles.perSm == 1));
  return m > (tiles.m > 64 ? 64 : 32) && (m > tiles.m || tiles.clusterM == 1);
}

std::vector<Sm90Tiles> octet::cuda::listSm90Candidates(const GemmProblem &p,
                                                       int64_t m, size_t most) {
  const Model model{p};
  const std::vector<Sm90Tiles> all = listTiles(p, /*splitsK=*/true);
  std::vector<std::pair<double, size_t>> order; // equal times as listed
  for (size_t i = 0; i < all.size(); ++i)
    if (suits(all[i], m))
      order.push_back({model.time(all[i], m), i});
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), most));
  std::vector<Sm90Tiles> list;
  for (const auto &[time, i] : order)
    list.push_back(all[i]);
  return list;
}

std::vector<Sm90Variant> octet::cuda::chooseSm90Tiles(const GemmProblem &p,
                                                      bool splitsK) {
  const std::vector<Sm90Tiles> list = listTiles(p, splitsK);
  const Model model{p};
  auto best = [&](int64_t m, const Sm90Tiles *before) {
    const Sm90Tiles *found = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Sm90Tiles &tiles : list) {
      if (!suits(tiles, m))
        continue;
      if (double time = model.time(tiles, m); time < least) {
        least = time;
        found = &tiles;
      }
    }
    // One kernel fewer is worth a little time.
    if (before && suits(*before, m) && model.time(*before, m) <= 1.03 * least)
      return before;
    return found;
  };

  constexpr int64_t kMany = 8192;
  std::vector<Sm90Variant> measured = findMeasured(p), variants;
  auto add = [&](int64_t maxM, const Sm90Tiles &tiles) {
    if (!variants.empty() && variants.back().tiles.name(0) == tiles.name(0))
      variants.back().maxM = maxM;
    else
      variants.push_back({maxM, tiles});
  };
  for (const Sm90Variant &variant : measured) {
    bool isLegal = rejectSm90Tiles(p, variant.tiles).empty() &&
                   (splitsK || variant.tiles.splits == 1);
    int64_t m = variant.maxM < 0 ? kMany : variant.maxM;
    add(variant.maxM, isLegal ? variant.tiles : *best(m, nullptr));
  }
  const Sm90Tiles *before = nullptr;
  for (int64_t maxM : {8, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048, -1})
    if (measured.empty() || (measured.back().maxM >= 0 &&
                             (maxM < 0 || maxM > measured.back().maxM))) {
      before = best(maxM < 0 ? kMany : maxM, before);
      add(maxM, *before);
    }
  return variants;
}
