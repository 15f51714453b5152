//===- LaunchAttr.cpp - A launch as an attribute --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchAttr.h"
#include "InstanceFields.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "octet/Support/Escape.h"

using namespace mlir;
using namespace octet;
using namespace octet::cuda;

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

template <typename T>
static Attribute write(Builder &b, const T &value) {
  if constexpr (HasFields<const T>) {
    // What a new one has goes without saying.
    const T fresh{};
    SmallVector<Attribute> defaults;
    visitFields([&](const char *,
                    const auto &field) { defaults.push_back(write(b, field)); },
                fresh);
    SmallVector<NamedAttribute> fields;
    size_t at = 0;
    visitFields(
        [&](const char *name, const auto &field) {
          Attribute attribute = write(b, field);
          if (attribute != defaults[at++])
            fields.push_back(b.getNamedAttr(name, attribute));
        },
        value);
    return b.getDictionaryAttr(fields);
  } else if constexpr (IsList<const T>) {
    SmallVector<Attribute> items;
    for (const auto &item : value)
      items.push_back(write(b, item));
    return b.getArrayAttr(items);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return b.getStringAttr(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return b.getBoolAttr(value);
  } else {
    return b.getI64IntegerAttr(value);
  }
}

DictionaryAttr octet::cuda::toAttribute(MLIRContext *context,
                                        const KernelLaunch &launch) {
  Builder b(context);
  return cast<DictionaryAttr>(write(b, launch));
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// \returns the path of the first field that is not as it should be, or "".
template <typename T>
static std::string read(Attribute from, T &value, const std::string &path) {
  if constexpr (HasFields<T>) {
    auto dictionary = dyn_cast<DictionaryAttr>(from);
    if (!dictionary)
      return path;
    // As `write` had it: a place in an array may start as something else.
    value = T{};
    std::string bad;
    size_t known = 0;
    visitFields(
        [&](const char *name, auto &field) {
          Attribute found = dictionary.get(name);
          if (!found || !bad.empty())
            return;
          ++known;
          bad = read(found, field, path + "." + name);
        },
        value);
    if (!bad.empty() || known == dictionary.size())
      return bad;
    for (NamedAttribute each : dictionary) {
      bool isField = false;
      visitFields(
          [&](const char *name, auto &) { isField |= each.getName() == name; },
          value);
      if (!isField)
        return path + "." + escapeName(each.getName().str());
    }
    return path;
  } else if constexpr (IsList<T>) {
    auto list = dyn_cast<ArrayAttr>(from);
    if (!list)
      return path;
    if constexpr (requires { value.resize(size_t()); })
      value.resize(list.size());
    else if (value.size() != list.size())
      return path;
    for (auto [i, item] : llvm::enumerate(list))
      if (std::string bad =
              read(item, value[i], path + "[" + std::to_string(i) + "]");
          !bad.empty())
        return bad;
    return "";
  } else if constexpr (std::is_same_v<T, std::string>) {
    auto text = dyn_cast<StringAttr>(from);
    if (!text)
      return path;
    value = text.str();
    return "";
  } else if constexpr (std::is_same_v<T, bool>) {
    auto flag = dyn_cast<BoolAttr>(from);
    if (!flag)
      return path;
    value = flag.getValue();
    return "";
  } else {
    auto integer = dyn_cast<IntegerAttr>(from);
    if (!integer || !integer.getType().isInteger(64))
      return path;
    value = T(integer.getInt());
    return int64_t(value) == integer.getInt() ? "" : path;
  }
}

FailureOr<KernelLaunch> octet::cuda::getLaunch(Operation *op, StringRef name) {
  Attribute attribute = op->getDiscardableAttr(name);
  if (!attribute)
    return op->emitError() << "'" << op->getName() << "' has no " << name
                           << "; octet-emit-kernels gives it one";
  KernelLaunch launch;
  std::string bad = read(attribute, launch, name.str());
  if (bad.empty() && launch.variants.empty())
    bad = "launch.variants";
  if (!bad.empty())
    return op->emitError() << "'" << op->getName() << "': " << bad
                           << " is not what a launch has there";
  return launch;
}
