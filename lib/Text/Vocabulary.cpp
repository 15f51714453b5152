//===- Vocabulary.cpp - Tokens and their ids ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Vocabulary.h"
#include <algorithm>
#include <array>
#include <sys/auxv.h>

using namespace octet;
using namespace octet::text;

//===----------------------------------------------------------------------===//
// Hashing
//===----------------------------------------------------------------------===//

/// Sixteen random bytes that the kernel gives each process.
static std::array<uint64_t, 2> randomSeed() {
  std::array<uint64_t, 2> seed{0x9e3779b97f4a7c15ull, 0xbf58476d1ce4e5b9ull};
  if (auto *random = reinterpret_cast<const void *>(getauxval(AT_RANDOM)))
    std::memcpy(seed.data(), random, sizeof seed);
  seed[1] |= 1;
  return seed;
}
static const std::array<uint64_t, 2> kSeed = randomSeed();

static uint64_t mix(uint64_t a, uint64_t b) {
  __uint128_t product = __uint128_t(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}

uint64_t text::hashNumber(uint64_t number) {
  return mix(number ^ kSeed[0], 0x9e3779b97f4a7c15ull ^ kSeed[1]);
}

uint64_t text::hashBytes(std::string_view bytes) {
  uint64_t hash = kSeed[0] ^ bytes.size();
  const char *p = bytes.data();
  size_t left = bytes.size();
  uint64_t word;
  for (; left >= 8; left -= 8, p += 8) {
    std::memcpy(&word, p, 8);
    hash = mix(hash ^ word, 0xbf58476d1ce4e5b9ull ^ kSeed[1]);
  }
  word = 0;
  std::memcpy(&word, p, left);
  return mix(hash ^ word, 0x94d049bb133111ebull ^ kSeed[1]);
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  if (bytes) {
    arena.reserve(arena.size() + bytes);
    byId.reserve(byId.size() + tokens);
  }
  size_t size = 16;
  while (size * 3 < (count + tokens) * 4)
    size *= 2;
  if (size <= slots.size())
    return;
  std::vector<Slot> old(size);
  old.swap(slots);
  for (const Slot &slot : old) {
    if (!slot.id)
      continue;
    size_t i = slot.hash & (size - 1);
    while (slots[i].id)
      i = (i + 1) & (size - 1);
    slots[i] = slot;
  }
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  return add(token, id, uint32_t(hashBytes(token)));
}

size_t Vocabulary::addAll(std::span<const Token> tokens) {
  constexpr size_t kTogether = 32;
  uint32_t hashes[kTogether];
  reserve(tokens.size());
  for (size_t begin = 0; begin < tokens.size(); begin += kTogether) {
    const size_t count = std::min(kTogether, tokens.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = uint32_t(hashBytes(tokens[begin + i].text));
      __builtin_prefetch(&slots[hashes[i] & (slots.size() - 1)]);
    }
    for (size_t i = 0; i < count; ++i)
      if (!add(tokens[begin + i].text, tokens[begin + i].id, hashes[i]))
        return begin + i;
  }
  return tokens.size();
}

bool Vocabulary::add(std::string_view token, int32_t id, uint32_t hash) {
  if (size_t(id) < byId.size() && byId[id].used)
    return false;
  reserve(1);
  const size_t mask = slots.size() - 1;
  size_t i = hash & mask;
  for (; slots[i].id; i = (i + 1) & mask)
    if (slots[i].hash == hash && *this->token(slots[i].id - 1) == token)
      return false;
  slots[i] = {hash, uint32_t(id) + 1};
  if (size_t(id) >= byId.size())
    byId.resize(size_t(id) + 1);
  byId[id].begin = uint32_t(arena.size());
  byId[id].bytes = uint32_t(token.size());
  byId[id].used = 1;
  arena += token;
  ++count;
  return true;
}

int32_t Vocabulary::find(std::string_view token) const {
  return find(token, uint32_t(hashBytes(token)));
}

int32_t Vocabulary::find(std::string_view token, uint32_t hash) const {
  const size_t mask = slots.size() - 1;
  for (size_t i = hash & mask; slots[i].id; i = (i + 1) & mask)
    if (slots[i].hash == hash && *this->token(slots[i].id - 1) == token)
      return int32_t(slots[i].id - 1);
  return -1;
}

void Vocabulary::findAll(std::span<const std::string_view> tokens,
                         std::span<int32_t> ids) const {
  constexpr size_t kTogether = 32;
  uint32_t hashes[kTogether];
  const size_t mask = slots.size() - 1;
  for (size_t begin = 0; begin < tokens.size(); begin += kTogether) {
    const size_t count = std::min(kTogether, tokens.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = uint32_t(hashBytes(tokens[begin + i]));
      __builtin_prefetch(&slots[hashes[i] & mask]);
    }
    for (size_t i = 0; i < count; ++i)
      if (uint32_t id = slots[hashes[i] & mask].id)
        __builtin_prefetch(&byId[id - 1]);
    for (size_t i = 0; i < count; ++i)
      if (uint32_t id = slots[hashes[i] & mask].id)
        __builtin_prefetch(arena.data() + byId[id - 1].begin);
    for (size_t i = 0; i < count; ++i)
      ids[begin + i] = find(tokens[begin + i], hashes[i]);
  }
}

int32_t Vocabulary::find(std::string_view left, std::string_view right) const {
  char buffer[256];
  if (left.size() + right.size() > sizeof buffer)
    return find(std::string(left) + std::string(right));
  std::memcpy(buffer, left.data(), left.size());
  std::memcpy(buffer + left.size(), right.data(), right.size());
  return find(std::string_view(buffer, left.size() + right.size()));
}
