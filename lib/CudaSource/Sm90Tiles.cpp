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

/// Of an H200, as tables/sm_90a.json was measured: bytes and products a
/// microsecond.
constexpr double kMemory = 4.2e6, kL2 = 9e6, kL2OfSm = 1.05e5;
constexpr double kProducts = 3.7e6; ///< multiply-adds of E4M3 a multiprocessor
constexpr double kLaunch = 2.5;

/// Clusters of a size that run at once on 132 multiprocessors, whose groups
/// are not all multiples of it.
int64_t countClusters(int64_t size, int64_t multiprocessors) {
  static const int64_t kOf132[] = {0, 132, 66, 42, 30, 0, 19, 0, 14};
  return std::max<int64_t>(1, kOf132[size] * multiprocessors / 132);
}

struct Model {
  const GemmProblem &p;
  int64_t bytes = elementBytes(p.xType), stepK = 128 / bytes;
  int64_t steps = divideUp(p.k, stepK);

  double weights() const { return double(p.n) * p.k * bytes / kMemory; }

  double swapped(const Sm90Tiles &t, int64_t m) const {
    int64_t size = t.splits * t.share;
    int64_t clusters = divideUp(p.n, int64_t(t.n) * t.share) * divideUp(m, t.m);
    double cta =
        double(divideUp(steps, t.splits)) * (t.n * 128 + t.m * 128.0 / t.share);
    double active = double(countClusters(size, p.multiprocessors));
    double waves = double(clusters) / active;
    waves = t.perSm > 1 ? std::max(1.0, waves) : std::ceil(waves);
    double time = std::max({weights(), double(clusters * size) * cta / kL2,
                            waves * cta / kL2OfSm});
    if (t.splits > 1)
      time += 0.3 + double(t.m) * t.n * 4 / 7e4;
    return time + kLaunch;
  }

  double tiled(const Sm90Tiles &t, int64_t m) const {
    int64_t clusters = divideUp(m, int64_t(t.m) * t.clusterM) *
                       divideUp(p.n, int64_t(t.n) * t.clusterN);
    int64_t size = t.clusterM * t.clusterN;
    int64_t active = countClusters(size, p.multiprocessors);
    int64_t waves = divideUp(clusters, active);
    double step = 128.0 * (double(t.m) / t.clusterN + double(t.n) / t.clusterM);
    // Narrow tiles read shared memory more often for each product, and leave
    // less time to hide promotion in.
    double products = double(t.m) * t.n * 128 / bytes / 1.0;
    double rate = kProducts / bytes * (t.n >= 128 ? 0.78 : 0.70) *
                  (t.m >= 256   ? 1.0
                   : t.m >= 128 ? 0.95
                                : 0.7);
    double tile = double(steps) * std::max(products / rate, step / kL2OfSm) +
                  double(t.m) * t.n / 4e4 + 0.3;
    return std::max(weights(), double(waves) * tile) + kLaunch;
  }

  double time(const Sm90Tiles &t, int64_t m) const {
    return t.isSwapped ? swapped(t, m) : tiled(t, m);
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
  constexpr int64_t kShared = 227 * 1024, kHalf = 113 * 1024;
  int64_t steps = divideUp(p.k, 128 / elementBytes(p.xType));
  std::vector<Sm90Tiles> list;
  auto add = [&](const Sm90Tiles &tiles) {
    if (rejectSm90Tiles(p, tiles).empty())
      list.push_back(tiles);
  };
  for (int m : {8, 16, 32, 64, 128})
    for (int n : {64, 128, 192, 256})
      for (int splits : {1, 2, 3, 4}) {
        // Sums of a warpgroup's 64 rows, twice where they are promoted.
        if (m * (n / 64) > 256 ||
            (splits > 1 && (!splitsK || steps < 3 * splits)))
          continue;
        Sm90Tiles t;
        t.isSwapped = true;
        t.m = m;
        t.n = n;
        t.splits = splits;
        int64_t part = divideUp(steps, splits);
        t.perSm = m * (n / 64) <= 64 ? 2 : 1;
        if (t.perSm == 2 && fitStages(p, t, kHalf, part))
          add(t);
        t.perSm = 1;
        t.buffers = m == 64 && n == 64 && p.xType == OCTET_E4M3 ? 2 : 1;
        if (fitStages(p, t, kShared, part))
          add(t);
      }
  auto tile = [&](int m, int n, int warpgroups, int clusterM, int clusterN,
                  int buffers) {
    Sm90Tiles t;
    t.m = m;
    t.n = n;
    t.warpgroups = warpgroups;
    t.clusterM = clusterM;
    t.clusterN = clusterN;
    t.buffers = p.xType == OCTET_E4M3 ? buffers : 1;
    t.group = 8;
    if (fitStages(p, t, kShared, std::max<int64_t>(4, steps)))
      add(t);
  };
  for (int n : {32, 48, 64, 96, 112, 128})
    tile(64, n, 1, 1, 1, 2);
  for (int n : {64, 96, 112, 128})
    tile(128, n, 2, 1, 1, 2);
  tile(128, 160, 2, 1, 1, 1);
  tile(128, 192, 2, 1, 1, 1);
  for (int n : {96, 112, 128}) {
    tile(256, n, 2, 1, 1, 1);
    tile(256, n, 2, 1, 2, 1);
  }
  return list;
}

std::vector<Sm90Variant> octet::cuda::chooseSm90Tiles(const GemmProblem &p,
                                                      bool splitsK) {
  const std::vector<Sm90Tiles> list = listTiles(p, splitsK);
  const Model model{p};
  auto best = [&](int64_t m, const Sm90Tiles *before) {
    const Sm90Tiles *found = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Sm90Tiles &tiles : list)
      if (double time = model.time(tiles, m); time < least) {
        least = time;
        found = &tiles;
      }
    // One kernel fewer is worth a little time.
    if (before && model.time(*before, m) <= 1.03 * least)
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
  const Sm90Tiles *before = nullptr;
  if (measured.empty())
    for (int64_t maxM : {8, 16, 32, 64, 128, 256, 512, 2048, -1}) {
      before = best(maxM < 0 ? kMany : maxM, before);
      add(maxM, *before);
    }
  for (const Sm90Variant &variant : measured) {
    bool isLegal = rejectSm90Tiles(p, variant.tiles).empty() &&
                   (splitsK || variant.tiles.splits == 1);
    int64_t m = variant.maxM < 0 ? kMany : variant.maxM;
    add(variant.maxM, isLegal ? variant.tiles : *best(m, nullptr));
  }
  return variants;
}
