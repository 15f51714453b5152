//===- Templates.cpp - The text of runtime/kernels/cuda -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/Nvrtc.h"
#include <algorithm>
#include <set>

using namespace octet;
using namespace octet::cuda;

static const Template kTemplates[] = {
#include "Templates.inc"
};

std::span<const Template> octet::cuda::getTemplates() { return kTemplates; }

/// Adds what the lines `#include "NAME"` of `text` name.
static void collect(std::string_view text, std::set<std::string_view> &names,
                    std::vector<Template> &found) {
  constexpr std::string_view kInclude = "#include \"";
  for (size_t at = text.find(kInclude); at != text.npos;
       at = text.find(kInclude, at)) {
    at += kInclude.size();
    size_t end = text.find_first_of("\"\n", at);
    if (end == text.npos || text[end] != '"')
      continue;
    std::string_view name = text.substr(at, end - at);
    for (const Template &each : kTemplates)
      if (each.name == name && names.insert(each.name).second) {
        found.push_back(each);
        collect(each.text, names, found);
      }
  }
}

std::vector<Template> octet::cuda::findIncluded(std::string_view source) {
  std::set<std::string_view> names;
  std::vector<Template> found;
  collect(source, names, found);
  std::sort(
      found.begin(), found.end(),
      [](const Template &a, const Template &b) { return a.name < b.name; });
  return found;
}
