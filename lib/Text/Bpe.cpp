//===- Bpe.cpp - Byte pair encoding of one word ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bpe.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Utf8.h"
#include <algorithm>
#include <cstdio>

using namespace octet;
using namespace octet::text;

static constexpr uint32_t kLowEnd = 0x200;

Result<Bpe> Bpe::create(
    Vocabulary vocabulary, BpeOptions options,
    std::span<const std::pair<std::string_view, std::string_view>> pairs,
    const std::string &subject) {
  Bpe bpe;
  bpe.vocab = std::move(vocabulary);
  bpe.options = std::move(options);
  const Vocabulary &vocab = bpe.vocab;

  OCTET_TRY(bpe.addMerges(pairs, subject));
  if (bpe.options.hasUnk)
    bpe.unk = vocab.find(bpe.options.unkToken);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", unsigned(byte));
    bpe.byteIds[byte] = vocab.find(name);
  }
  bpe.lowIds.resize(kLowEnd);
  for (uint32_t code = 0; code < kLowEnd; ++code) {
    std::string text;
    appendUtf8(text, code);
    bpe.lowIds[code] = vocab.find(text);
  }
  return bpe;
}

Status Bpe::addMerges(
    std::span<const std::pair<std::string_view, std::string_view>> pairs,
    const std::string &subject) {
  constexpr size_t kTogether = 64;
  std::string_view texts[2 * kTogether];
  int32_t ids[2 * kTogether];
  merges = FlatMap<Merge>(pairs.size());
  const size_t prefix = options.continuingPrefix.size();
  int32_t last = -1; // what the merge before gave
  for (size_t begin = 0; begin < pairs.size(); begin += kTogether) {
    const size_t count = std::min(kTogether, pairs.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      texts[2 * i] = pairs[begin + i].first;
      texts[2 * i + 1] = pairs[begin + i].second;
    }
    vocab.findAll({texts, 2 * count}, {ids, 2 * count});
    for (size_t i = 0; i < count; ++i) {
      std::string_view left = texts[2 * i], right = texts[2 * i + 1];
      std::string_view tail =
          right.size() >= prefix ? right.substr(prefix) : "";
      // Trainers number tokens in the order of merges.
      if (!isJoined(last + 1, left, tail))
        last = vocab.find(left, tail);
      else
        ++last;
      if (ids[2 * i] < 0 || ids[2 * i + 1] < 0 || last < 0) {
        std::string missing = ids[2 * i] < 0 ? std::string(left)
                              : ids[2 * i + 1] < 0
                                  ? std::string(right)
                                  : std::string(left) + std::string(tail);
        return inputError(subject, "model.merges[" + std::to_string(begin + i) +
                                       "]: " + quoteName(missing) +
                                       " is not in model.vocab");
      }
      merges[pairKey(ids[2 * i], ids[2 * i + 1])] = {uint32_t(begin + i), last};
    }
  }
  return Status::success();
}

bool Bpe::isJoined(int32_t id, std::string_view left,
                   std::string_view right) const {
  std::optional<std::string_view> token = vocab.token(id);
  return token && token->size() == left.size() + right.size() &&
         token->starts_with(left) && token->ends_with(right);
}

/// A symbol for each character of the vocabulary, for each byte of the others,
/// or for a run of unknown ones.
void Bpe::addSymbols(std::string_view word, Scratch &scratch) const {
  auto &symbols = scratch.symbols;
  symbols.clear();
  const auto add = [&](int32_t id) {
    int32_t at = int32_t(symbols.size());
    symbols.push_back({id, at - 1, at + 1, true});
  };
  bool unkPending = false;
  const bool decorated =
      !options.continuingPrefix.empty() || !options.endSuffix.empty();
  for (std::string_view rest = word; !rest.empty();) {
    const size_t begin = word.size() - rest.size();
    uint32_t code = takeChar(rest);
    std::string_view text =
        word.substr(begin, word.size() - rest.size() - begin);
    int32_t id;
    if (decorated) {
      scratch.text = begin ? options.continuingPrefix : "";
      scratch.text += text;
      if (rest.empty())
        scratch.text += options.endSuffix;
      text = scratch.text;
      id = vocab.find(text);
    } else {
      id = code < kLowEnd ? lowIds[code] : vocab.find(text);
    }
    if (id >= 0) {
      if (unkPending)
        add(unk);
      unkPending = false;
      add(id);
      continue;
    }
    if (options.byteFallback &&
        std::all_of(text.begin(), text.end(),
                    [&](char c) { return byteIds[uint8_t(c)] >= 0; })) {
      for (char c : text)
        add(byteIds[uint8_t(c)]);
      continue;
    }
    if (unk < 0)
      continue; // Without an unknown token nothing stands for it.
    if (unkPending && !options.fuseUnk)
      add(unk);
    unkPending = true;
  }
  if (unkPending)
    add(unk);
  if (!symbols.empty())
    symbols.back().next = -1;
}

void Bpe::mergeAll(Scratch &scratch) const {
  using Candidate = Scratch::Candidate;
  auto &symbols = scratch.symbols;
  auto &heap = scratch.heap;
  heap.clear();
  // The heap's top is the largest: lower ranks, then positions, are larger.
  const auto lower = [](const Candidate &a, const Candidate &b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto consider = [&](int32_t left, int32_t right) {
    const Merge *merge =
        merges.find(pairKey(symbols[left].id, symbols[right].id));
    if (!merge)
      return false;
    heap.push_back({merge->rank, left, merge->id});
    return true;
  };
  for (size_t i = 0; i + 1 < symbols.size(); ++i)
    consider(int32_t(i), int32_t(i) + 1);
  std::make_heap(heap.begin(), heap.end(), lower);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), lower);
    const Candidate top = heap.back();
    heap.pop_back();
    auto &left = symbols[top.position];
    if (!left.alive || left.next < 0)
      continue;
    auto &right = symbols[left.next];
    // The pair may have changed since; what counts is what it gives.
    const Merge *merge = merges.find(pairKey(left.id, right.id));
    if (!merge || merge->id != top.id)
      continue;
    left.id = top.id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0)
      symbols[left.next].previous = top.position;
    if (left.previous >= 0 && consider(left.previous, top.position))
      std::push_heap(heap.begin(), heap.end(), lower);
    if (left.next >= 0 && consider(top.position, left.next))
      std::push_heap(heap.begin(), heap.end(), lower);
  }
}

void Bpe::encode(std::string_view word, Scratch &scratch,
                 std::vector<int32_t> &ids) const {
  if (options.ignoreMerges) {
    if (int32_t id = vocab.find(word); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  addSymbols(word, scratch);
  mergeAll(scratch);
  for (const Scratch::Symbol &symbol : scratch.symbols)
    if (symbol.alive)
      ids.push_back(symbol.id);
}
