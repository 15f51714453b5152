//===- JsonMutator.cpp - Changes a value of a JSON document ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A changed byte of a JSON document mostly makes it no JSON, and the readers
// behind the parser see nothing of it. Here the tree is changed instead: a
// value becomes another of the document or one that is often forgotten, a
// member goes, comes twice or gets another name.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include <algorithm>
#include <cstring>
#include <limits>
#include <random>

using namespace octet;
using Json = nlohmann::ordered_json;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

class Mutator {
public:
  Mutator(Json &root, unsigned seed) : root(root), before(root), random(seed) {
    collectKeys(before);
  }

  void run() {
    for (unsigned left = 1 + pick(3); left; --left)
      change(const_cast<Json &>(walk(root)));
  }

private:
  size_t pick(size_t n) { return size_t(random() % n); }

  void collectKeys(const Json &value) {
    for (const auto &[key, child] : value.items()) {
      if (value.is_object() && keys.size() < 1000)
        keys.push_back(key);
      if (value.is_structured())
        collectKeys(child);
    }
  }

  /// Down from `value`, some steps: what is near the root is met as often as
  /// what there is a thousand of.
  const Json &walk(const Json &value) {
    const Json *at = &value;
    while (at->is_structured() && !at->empty() && pick(5))
      at = &*std::next(at->begin(), ptrdiff_t(pick(at->size())));
    return *at;
  }

  Json edgeValue() {
    switch (pick(16)) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return 1;
    case 3:
      return std::numeric_limits<int64_t>::max();
    case 4:
      return std::numeric_limits<int64_t>::min();
    case 5:
      return std::numeric_limits<uint64_t>::max();
    case 6:
      return int64_t(1) << pick(63);
    case 7:
      return 0.5;
    case 8:
      return 1e308;
    case 9:
      return "";
    case 10:
      return nullptr;
    case 11:
      return pick(2) == 0;
    case 12:
      return Json::array();
    case 13:
      return Json::object();
    case 14:
      return std::string(1 + pick(300), char('!' + pick(90)));
    default:
      return 1e-300;
    }
  }

  /// A value of the document, as it was before any change, or an edge.
  Json anyValue() {
    if (pick(2))
      return edgeValue();
    // A large one would soon be in itself many times.
    const Json &value = walk(before);
    return value.is_structured() && value.size() > 64 ? edgeValue() : value;
  }

  std::string anyKey() {
    return keys.empty() ? "key" : keys[pick(keys.size())];
  }

  void changeText(std::string &text) {
    const size_t most = text.size() + 16;
    std::string bytes = text;
    bytes.resize(most);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(bytes.data()),
                                  text.size(), most));
    text = bytes;
  }

  void changeObject(Json &value) {
    auto &members = static_cast<Json::object_t::Container &>(
        *value.get_ptr<Json::object_t *>());
    if (members.empty() || pick(4) == 0) {
      value[anyKey()] = anyValue();
      return;
    }
    size_t at = pick(members.size());
    switch (pick(3)) {
    case 0:
      value.erase(std::string(members[at].first));
      return;
    case 1:
      if (!value.contains(anyKey()))
        value[anyKey()] = Json(members[at].second);
      return;
    default:
      std::swap(members[at].second, members[pick(members.size())].second);
    }
  }

  void changeArray(Json &value) {
    auto &items = *value.get_ptr<Json::array_t *>();
    const size_t at = items.empty() ? 0 : pick(items.size());
    switch (items.empty() ? 0 : pick(4)) {
    case 0:
      items.insert(items.begin() + ptrdiff_t(at), anyValue());
      return;
    case 1:
      items.erase(items.begin() + ptrdiff_t(at));
      return;
    case 2:
      items.push_back(Json(items[at]));
      return;
    default:
      std::swap(items[at], items[pick(items.size())]);
    }
  }

  void change(Json &value) {
    if (value.is_structured() && pick(4)) {
      value.is_object() ? changeObject(value) : changeArray(value);
      return;
    }
    if (auto *text = value.get_ptr<std::string *>(); text && pick(3))
      return changeText(*text);
    if (value.is_number_integer() && pick(2)) {
      const uint64_t steps[] = {1, uint64_t(-1), 2, 32, uint64_t(random())};
      value = int64_t(value.get<uint64_t>() + steps[pick(5)]);
      return;
    }
    value = anyValue();
  }

  Json &root;
  const Json before;
  std::minstd_rand random;
  std::vector<std::string> keys;
};

} // namespace

/// nlohmann's printer recurses.
static bool isDeep(std::string_view text) {
  int depth = 0, deepest = 0;
  for (char c : text) {
    depth += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    deepest = std::max(deepest, depth);
  }
  return deepest > 200;
}

size_t fuzz::mutateJson(uint8_t *data, size_t size, size_t maxSize,
                        unsigned seed) {
  std::string_view rest = toText(data, size);
  const std::string_view text = takePart(rest);
  const size_t tail = size - text.size();
  if (seed % 4 == 0 || isDeep(text))
    return LLVMFuzzerMutate(data, size, maxSize);
  Json root = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return LLVMFuzzerMutate(data, size, maxSize);
  // Sometimes what follows the JSON.
  if (tail > 1 && seed % 4 == 1) {
    uint8_t *begin = data + text.size() + 1;
    return text.size() + 1 +
           LLVMFuzzerMutate(begin, tail - 1, maxSize - text.size() - 1);
  }
  Mutator(root, seed).run();
  const std::string changed =
      root.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (changed.size() + tail > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memmove(data + changed.size(), data + size - tail, tail);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size() + tail;
}
