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
#include <algorithm>
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

bool octet::matchesGlob(std::string_view pattern, std::string_view path) {
  // The usual walk with one point to return to: a `*` takes one character more
  // each time the rest does not fit. At most pattern x path steps.
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0, at = 0, star = kNone, starAt = 0;
  while (true) {
    bool patternDone = p == pattern.size();
    if (patternDone && (at == path.size() || path[at] == '.'))
      return true; // the path, or a prefix of whole components
    if (!patternDone && pattern[p] == '*') {
      star = p++;
      starAt = at;
    } else if (!patternDone && at < path.size() &&
               (pattern[p] == '?' || pattern[p] == path[at])) {
      ++p;
      ++at;
    } else {
      if (star == kNone || starAt >= path.size())
        return false;
      p = star + 1;
      at = ++starAt;
    }
  }
}

//===----------------------------------------------------------------------===//
// NameEntry
//===----------------------------------------------------------------------===//

std::string NameEntry::describe() const {
  return field + "[" + std::to_string(index) + "] " + quoteName(text);
}

Result<NameEntry> NameEntry::parse(std::string text, std::string_view source,
                                   std::string_view field, int64_t index,
                                   NameSyntax syntax) {
  NameEntry entry;
  entry.text = std::move(text);
  entry.source = source;
  entry.field = field;
  entry.index = index;
  if (!entry.text.starts_with("re:")) {
    entry.glob = syntax == NameSyntax::Globs &&
                 entry.text.find_first_of("*?") != std::string::npos;
    return entry;
  }

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

void NameEntry::addAlias(std::string_view name, std::string_view alias) {
  if (regex || !isComponentRun(name, text))
    return;
  std::string other = text;
  other.replace(other.find(name), name.size(), alias);
  glob |= alias.find('*') != alias.npos;
  aliases.push_back(std::move(other));
}

std::vector<std::string_view> NameEntry::getSpellings() const {
  std::vector<std::string_view> spellings = {text};
  spellings.insert(spellings.end(), aliases.begin(), aliases.end());
  return spellings;
}

bool NameEntry::matchesSpelling(std::string_view spelling,
                                std::string_view path) const {
  std::string_view plain = normalizeName(spelling);
  std::string_view plainPath = normalizeName(path);
  if (glob)
    return matchesGlob(spelling, path) || matchesGlob(plain, plainPath);
  return isComponentRun(spelling, path) || isComponentRun(plain, plainPath);
}

Result<bool> NameEntry::matches(std::string_view path) const {
  if (!regex) {
    for (std::string_view spelling : getSpellings())
      if (matchesSpelling(spelling, path))
        return true;
    return false;
  }
  std::string_view plainPath = normalizeName(path);

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
                                std::string_view field, std::string_view source,
                                NameSyntax syntax) {
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
    OCTET_TRY_ASSIGN(NameEntry entry,
                     NameEntry::parse(element.get<std::string>(), source, field,
                                      index, syntax));
    list.entries.push_back(std::move(entry));
    ++index;
  }
  list.used.resize(list.entries.size());
  return list;
}

void NameList::buildIndex() {
  used.resize(entries.size());
  if (numIndexed == entries.size())
    return;
  byRun.clear();
  firstComponents.clear();
  others.clear();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].isRun()) {
      others.push_back(i);
      continue;
    }
    for (std::string_view spelling : entries[i].getSpellings())
      for (std::string_view run : {spelling, normalizeName(spelling)}) {
        std::vector<size_t> &same = byRun[std::string(run)];
        if (same.empty() || same.back() != i)
          same.push_back(i);
        firstComponents.emplace(run.substr(0, run.find('.')));
      }
  }
  numIndexed = entries.size();
}

Result<std::vector<size_t>> NameList::find(std::string_view path,
                                           bool unusedOnly) {
  buildIndex();
  std::vector<size_t> found;
  auto consider = [&](size_t i) -> Status {
    if (unusedOnly && used[i])
      return Status::success();
    OCTET_TRY_ASSIGN(bool hit, entries[i].matches(path));
    if (hit)
      found.push_back(i);
    return Status::success();
  };
  // Each run of components that starts like an entry does.
  for (size_t start = 0; start < path.size();) {
    size_t end = std::min(path.find('.', start), path.size());
    if (firstComponents.contains(path.substr(start, end - start)))
      for (size_t last = end;;
           last = std::min(path.find('.', last + 1), path.size())) {
        auto hits = byRun.find(path.substr(start, last - start));
        if (hits != byRun.end())
          for (size_t i : hits->second)
            OCTET_TRY(consider(i));
        if (last == path.size())
          break;
      }
    start = end + 1;
  }
  for (size_t i : others)
    OCTET_TRY(consider(i));
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Result<const NameEntry *> NameList::match(std::string_view path,
                                          std::string_view fused) {
  const NameEntry *first = nullptr;
  for (std::string_view name : {fused, path}) {
    if (name.empty())
      continue;
    OCTET_TRY_ASSIGN(std::vector<size_t> found,
                     find(name, /*unusedOnly=*/false));
    for (size_t i : found)
      used[i] = true;
    if (!first && !found.empty())
      first = &entries[found.front()];
  }
  return first;
}

Status NameList::markTensor(std::string_view tensorName) {
  // An expression that ends in `$` names the module, not its tensors.
  std::string_view module =
      tensorName.substr(0, std::min(tensorName.rfind('.'), tensorName.size()));
  OCTET_TRY_ASSIGN(std::vector<size_t> found,
                   find(tensorName, /*unusedOnly=*/true));
  for (size_t i : found)
    used[i] = true;
  for (size_t i : others) {
    if (used[i] || !entries[i].isRegex())
      continue;
    OCTET_TRY_ASSIGN(bool hit, entries[i].matches(module));
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

Status NameList::add(std::string text, std::string_view source,
                     std::string_view field, NameSyntax syntax) {
  OCTET_TRY_ASSIGN(NameEntry entry,
                   NameEntry::parse(std::move(text), source, field,
                                    int64_t(entries.size()), syntax));
  entries.push_back(std::move(entry));
  used.resize(entries.size());
  presence = Presence::Given;
  return Status::success();
}

void NameList::addAliases(std::span<const NameAlias> aliases) {
  for (NameEntry &entry : entries)
    for (const NameAlias &alias : aliases)
      entry.addAlias(alias.name, alias.alias);
  numIndexed = SIZE_MAX; // rebuilt by the next look-up
}
