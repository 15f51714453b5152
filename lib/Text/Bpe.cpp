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

  bpe.merges = FlatMap<Merge>(pairs.size());
  const size_t prefix = bpe.options.continuingPrefix.size();
  for (size_t rank = 0; rank < pairs.size(); ++rank) {
    auto [left, right] = pairs[rank];
    int32_t leftId = vocab.find(left), rightId = vocab.find(right);
    std::string_view tail = right.size() >= prefix ? right.substr(prefix) : "";
    int32_t id = vocab.find(left, tail);
    if (leftId < 0 || rightId < 0 || id < 0) {
      std::string missing = leftId < 0 ? std::string(left)
                            : rightId < 0
                                ? std::string(right)
                                : std::string(left) + std::string(tail);
      return inputError(subject, "model.merges[" + std::to_string(rank) +
                                     "]: " + quoteName(missing) +
                                     " is not in model.vocab");
    }
    bpe.merges[pairKey(leftId, rightId)] = {uint32_t(rank), id};
  }

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
