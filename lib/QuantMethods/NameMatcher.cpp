//===- NameMatcher.cpp - Names in a quantisation config -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/NameMatcher.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "octet/Support/Escape.h"
#include <array>
#include <cassert>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

using namespace octet;

/// Longest first: what is left of `model.language_model.layers` is `layers`.
static constexpr std::array<std::string_view, 4> kWrapperPrefixes = {
    "model.language_model.", "language_model.model.", "language_model.",
    "model."};

std::string_view octet::normalizeName(std::string_view name) {
  for (std::string_view prefix : kWrapperPrefixes)
    if (name.starts_with(prefix))
      return name.substr(prefix.size());
  return name;
}

bool octet::isComponentRun(std::string_view run, std::string_view path) {
  if (run.empty())
    return false;
  for (size_t at = path.find(run); at != std::string_view::npos;
       at = path.find(run, at + 1)) {
    size_t end = at + run.size();
    if ((at == 0 || path[at - 1] == '.') &&
        (end == path.size() || path[end] == '.'))
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// NameEntry
//===----------------------------------------------------------------------===//

std::string NameEntry::describe() const {
  return field + "[" + std::to_string(index) + "] " + quoteName(text);
}

Result<NameEntry> NameEntry::parse(std::string text, std::string_view source,
                                   std::string_view field, int64_t index) {
  NameEntry entry;
  entry.text = std::move(text);
  entry.source = source;
  entry.field = field;
  entry.index = index;
  if (!entry.text.starts_with("re:"))
    return entry;

  std::string_view pattern = std::string_view(entry.text).substr(3);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // Python's re.match tests the start of the name.
  pcre2_code *code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_ANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
      nullptr);
  if (!code) {
    std::array<PCRE2_UCHAR, 160> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    return inputError(std::string(source),
                      entry.describe() + " is no regular expression: " +
                          reinterpret_cast<const char *>(message.data()) +
                          " at character " + std::to_string(offset),
                      "C7");
  }
  entry.regex = std::shared_ptr<void>(code, [](void *pointer) {
    pcre2_code_free(static_cast<pcre2_code *>(pointer));
  });
  return entry;
}

/// 1, 0, or -1 for a pattern that needs too many steps.
static int matchRegex(const pcre2_code *code, std::string_view name) {
  pcre2_match_data *data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  // A name has at most a few hundred characters: a pattern that backtracks
  // more than this is hostile.
  pcre2_set_match_limit(context, 200'000);
  pcre2_set_heap_limit(context, 8 * 1024);
  int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(name.data()),
                          name.size(), 0, 0, data, context);
  pcre2_match_context_free(context);
  pcre2_match_data_free(data);
  // 0: it matched, and has more groups than we asked for.
  return found >= 0 ? 1 : found == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

Result<bool> NameEntry::matches(std::string_view path) const {
  std::string_view plainPath = normalizeName(path);
  if (!regex)
    return isComponentRun(text, path) ||
           isComponentRun(normalizeName(text), plainPath);

  // An expression cannot be normalised, so the name is tried with each prefix.
  std::vector<std::string> names = {std::string(path), std::string(plainPath)};
  for (std::string_view prefix : kWrapperPrefixes)
    names.push_back(std::string(prefix) + std::string(plainPath));
  for (const std::string &name : names) {
    int found = matchRegex(static_cast<const pcre2_code *>(regex.get()), name);
    if (found < 0)
      return inputError(source,
                        describe() + " takes too many steps to match " +
                            quoteName(name) + "; a simpler expression",
                        "C7");
    if (found)
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// NameList
//===----------------------------------------------------------------------===//

Result<NameList> NameList::read(const nlohmann::json &fields,
                                std::string_view field,
                                std::string_view source) {
  NameList list;
  auto found = fields.find(field);
  if (found == fields.end())
    return list;
  if (found->is_null()) {
    list.presence = Presence::Null;
    return list;
  }
  std::string subject = std::string(source) + "." + std::string(field);
  if (!found->is_array())
    return inputError(
        subject, "is " + describeJson(*found) + ", expected a list of names",
        "C4");
  list.presence = Presence::Given;
  int64_t index = 0;
  for (const nlohmann::json &element : *found) {
    if (!element.is_string())
      return inputError(subject + "[" + std::to_string(index) + "]",
                        "is " + describeJson(element) + ", expected a name",
                        "C4");
    OCTET_TRY_ASSIGN(
        NameEntry entry,
        NameEntry::parse(element.get<std::string>(), source, field, index));
    list.entries.push_back(std::move(entry));
    ++index;
  }
  list.used.resize(list.entries.size());
  return list;
}

Result<const NameEntry *> NameList::match(std::string_view path,
                                          std::string_view fused) {
  used.resize(entries.size());
  const NameEntry *byFused = nullptr, *byPath = nullptr;
  for (size_t i = 0; i < entries.size(); ++i) {
    bool hit = false;
    if (!fused.empty()) {
      OCTET_TRY_ASSIGN(bool hitsFused, entries[i].matches(fused));
      if (hitsFused && !byFused)
        byFused = &entries[i];
      hit |= hitsFused;
    }
    OCTET_TRY_ASSIGN(bool hitsPath, entries[i].matches(path));
    if (hitsPath && !byPath)
      byPath = &entries[i];
    if (hit || hitsPath)
      used[i] = true;
  }
  return byFused ? byFused : byPath;
}

Status NameList::markTensor(std::string_view tensorName) {
  used.resize(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (used[i])
      continue;
    OCTET_TRY_ASSIGN(bool hit, entries[i].matches(tensorName));
    if (!hit && entries[i].isRegex()) {
      // An expression that ends in `$` names the module, not its tensors.
      size_t dot = tensorName.rfind('.');
      if (dot != std::string_view::npos) {
        OCTET_TRY_ASSIGN(hit, entries[i].matches(tensorName.substr(0, dot)));
      }
    }
    used[i] = hit;
  }
  return Status::success();
}

bool NameList::allUsed() const {
  for (size_t i = 0; i < entries.size(); ++i)
    if (i >= used.size() || !used[i])
      return false;
  return true;
}

std::vector<std::string> NameList::getUnused() const {
  std::vector<std::string> unused;
  for (size_t i = 0; i < entries.size(); ++i)
    if (i >= used.size() || !used[i])
      unused.push_back(entries[i].describe());
  return unused;
}

void NameList::append(NameList other) {
  used.resize(entries.size());
  other.used.resize(other.entries.size());
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  used.insert(used.end(), other.used.begin(), other.used.end());
  presence = std::max(presence, other.presence);
}
