//===- InstanceJson.cpp - Launches as JSON and as the ABI's structs -------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/InstanceJson.h"
#include <nlohmann/json.hpp>

using namespace octet;
using namespace octet::cuda;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// The fields of each struct, named once
//===----------------------------------------------------------------------===//

template <typename Visitor, typename T>
static void visitFields(Visitor &&visit, T &value)
  requires std::is_same_v<std::remove_const_t<T>, Param>
{
  visit("kind", value.kind);
  visit("arg", value.arg);
  visit("type", value.type);
  visit("swizzle", value.swizzle);
  visit("rows", value.rows);
  visit("cols", value.cols);
  visit("pitch_bytes", value.pitchBytes);
  visit("box_rows", value.boxRows);
  visit("box_cols", value.boxCols);
}

template <typename Visitor, typename T>
static void visitFields(Visitor &&visit, T &value)
  requires std::is_same_v<std::remove_const_t<T>, Grid>
{
  visit("times", value.times);
  visit("fixed", value.fixed);
  visit("per_rows", value.perRows);
  visit("per_sequence", value.perSequence);
}

template <typename Visitor, typename T>
static void visitFields(Visitor &&visit, T &value)
  requires std::is_same_v<std::remove_const_t<T>, KernelInstance>
{
  visit("label", value.label);
  visit("entry", value.entry);
  visit("threads", value.threads);
  visit("shared_bytes", value.sharedBytes);
  visit("cluster", value.cluster);
  visit("per_sm", value.perSm);
  visit("overlaps", value.overlaps);
  visit("grid", value.grid);
  visit("params", value.params);
  visit("workspace_bytes", value.workspaceBytes);
}

template <typename Visitor, typename T>
static void visitFields(Visitor &&visit, T &value)
  requires std::is_same_v<std::remove_const_t<T>, KernelVariant>
{
  visit("max_rows", value.maxRows);
  visit("kernels", value.kernels);
}

template <typename Visitor, typename T>
static void visitFields(Visitor &&visit, T &value)
  requires std::is_same_v<std::remove_const_t<T>, KernelLaunch>
{
  visit("module", value.module);
  visit("label", value.label);
  visit("by_longest", value.byLongest);
  visit("variants", value.variants);
  visit("bytes", value.bytes);
  visit("row_bytes", value.rowBytes);
  visit("row_flops", value.rowFlops);
}

template <typename T>
concept HasFields = requires(T &value) {
  visitFields([](const char *, const auto &) {}, value);
};
template <typename T>
concept IsList = requires(T &value) {
  value.begin();
  value.size();
} && !std::is_same_v<std::remove_const_t<T>, std::string>;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

template <typename T> static json write(const T &value) {
  if constexpr (HasFields<const T>) {
    json object = json::object();
    visitFields(
        [&](const char *name, const auto &field) {
          object[name] = write(field);
        },
        value);
    return object;
  } else if constexpr (IsList<const T>) {
    json list = json::array();
    for (const auto &item : value)
      list.push_back(write(item));
    return list;
  } else {
    return value;
  }
}

json octet::cuda::toJson(const KernelLaunch &launch) { return write(launch); }

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// \returns the path of the first field that is not as it should be, or "".
template <typename T>
static std::string read(const json &from, T &value, const std::string &path) {
  if constexpr (HasFields<T>) {
    if (!from.is_object())
      return path;
    std::string bad;
    visitFields(
        [&](const char *name, auto &field) {
          if (!bad.empty())
            return;
          std::string inner = path.empty() ? name : path + "." + name;
          auto found = from.find(name);
          bad = found == from.end() ? inner : read(*found, field, inner);
        },
        value);
    return bad;
  } else if constexpr (IsList<T>) {
    if (!from.is_array())
      return path;
    if constexpr (requires { value.resize(size_t()); })
      value.resize(from.size());
    else if (value.size() != from.size())
      return path;
    for (size_t i = 0; i < from.size(); ++i)
      if (std::string bad =
              read(from[i], value[i], path + "[" + std::to_string(i) + "]");
          !bad.empty())
        return bad;
    return "";
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string())
      return path;
    value = from.get<std::string>();
    return "";
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean())
      return path;
    value = from.get<bool>();
    return "";
  } else {
    if (!from.is_number_integer())
      return path;
    const int64_t wide = from.get<int64_t>();
    value = T(wide);
    return int64_t(value) == wide ? "" : path;
  }
}

Result<KernelLaunch>
octet::cuda::launchFromJson(const json &from, const std::string &subject) {
  KernelLaunch launch;
  std::string bad = read(from, launch, "");
  if (!bad.empty() || launch.variants.empty())
    return inputError(subject, "the description of a launch has no usable '" +
                                   (bad.empty() ? "variants" : bad) + "'");
  return launch;
}

//===----------------------------------------------------------------------===//
// The ABI's structs
//===----------------------------------------------------------------------===//

static octet_grid abiGrid(const Grid &grid) {
  return {grid.times, grid.fixed, grid.perRows, grid.perSequence};
}

AbiLaunch::AbiLaunch(const KernelLaunch &made,
                     const std::map<std::string, int32_t> &images)
    : source(made) {
  for (const KernelVariant &variant : source.variants) {
    std::vector<octet_kernel> &list = kernels.emplace_back();
    for (const KernelInstance &instance : variant.kernels) {
      std::vector<octet_param> &own = params.emplace_back();
      for (const Param &p : instance.params)
        own.push_back({p.kind, p.arg, p.type, p.swizzle, p.rows, p.cols,
                       p.pitchBytes, p.boxRows, p.boxCols});
      octet_kernel kernel{};
      kernel.entry = instance.entry.c_str();
      kernel.label = instance.label.c_str();
      kernel.image = images.at(instance.entry);
      kernel.threads = instance.threads;
      kernel.shared_bytes = instance.sharedBytes;
      kernel.cluster = instance.cluster;
      kernel.per_sm = instance.perSm;
      kernel.flags = instance.overlaps ? OCTET_KERNEL_OVERLAPS : 0;
      for (int i = 0; i < 3; ++i)
        kernel.grid[i] = abiGrid(instance.grid[i]);
      kernel.num_params = int64_t(own.size());
      kernel.params = own.data();
      kernel.workspace_bytes = instance.workspaceBytes;
      list.push_back(kernel);
    }
    variants.push_back({variant.maxRows, int64_t(list.size()), list.data()});
  }
  launch.module = source.module.c_str();
  launch.label = source.label.c_str();
  launch.by_longest = source.byLongest;
  launch.num_variants = int64_t(variants.size());
  launch.variants = variants.data();
  launch.bytes = source.bytes;
  launch.row_bytes = source.rowBytes;
  launch.row_flops = source.rowFlops;
}
