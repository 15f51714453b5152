//===- Vocabulary.h - Tokens and their ids ----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. A vocabulary of 150,000 tokens is built whenever an
// executable starts, so there is no allocation for each token: all texts lie in
// one arena, found by open addressing.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_VOCABULARY_H
#define OCTET_LIB_TEXT_VOCABULARY_H

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet::text {

/// Ids are below this: far above every vocabulary, and what keeps a file from
/// asking for tables of gigabytes.
inline constexpr int64_t kMaxId = int64_t(1) << 23;

/// Of bytes, seeded anew in each process: a file cannot be made to collide.
uint64_t hashBytes(std::string_view bytes);
/// Of a number, the same.
uint64_t hashNumber(uint64_t number);

/// 64-bit keys to small values. The largest key is not one.
template <typename Value>
class FlatMap {
public:
  /// \param entries  how many there will be; more are welcome.
  explicit FlatMap(size_t entries = 0) {
    size_t size = 16;
    while (size * 3 < entries * 4)
      size *= 2;
    slots.resize(size);
  }

  const Value *find(uint64_t key) const {
    for (size_t i = hashNumber(key) & mask();; i = (i + 1) & mask()) {
      if (slots[i].key == key)
        return &slots[i].value;
      if (slots[i].key == kFree)
        return nullptr;
    }
  }

  /// The value of `key`, made if it is new.
  Value &operator[](uint64_t key) {
    if (used * 4 >= slots.size() * 3)
      grow();
    return place(key);
  }

private:
  static constexpr uint64_t kFree = ~uint64_t(0);
  struct Slot {
    uint64_t key = kFree;
    Value value{};
  };
  size_t mask() const { return slots.size() - 1; }

  Value &place(uint64_t key) {
    size_t i = hashNumber(key) & mask();
    while (slots[i].key != kFree && slots[i].key != key)
      i = (i + 1) & mask();
    if (slots[i].key == kFree) {
      slots[i].key = key;
      ++used;
    }
    return slots[i].value;
  }

  void grow() {
    std::vector<Slot> old(slots.size() * 2);
    old.swap(slots);
    used = 0;
    for (const Slot &slot : old)
      if (slot.key != kFree)
        place(slot.key) = slot.value;
  }

  std::vector<Slot> slots;
  size_t used = 0;
};

class Vocabulary {
public:
  Vocabulary() { reserve(0); }

  /// Makes room for `tokens` more tokens of `bytes` together.
  void reserve(size_t tokens, size_t bytes = 0);

  /// \param id  0 .. kMaxId - 1.
  /// \returns false if the text or the id is there already.
  bool add(std::string_view token, int32_t id);

  struct Token {
    std::string_view text;
    int32_t id;
  };
  /// Adds many, faster than one by one.
  /// \returns how many were added before one that is there already.
  size_t addAll(std::span<const Token> tokens);

  /// -1 if there is none.
  int32_t find(std::string_view token) const;
  int32_t find(std::string_view left, std::string_view right) const;
  /// The ids of many tokens, -1 where there is none: faster than one by one,
  /// since the memory that each needs is asked for ahead.
  void findAll(std::span<const std::string_view> tokens,
               std::span<int32_t> ids) const;

  /// Nothing if no token has that id.
  std::optional<std::string_view> token(int64_t id) const {
    if (id < 0 || size_t(id) >= byId.size() || !byId[id].used)
      return std::nullopt;
    return std::string_view(arena).substr(byId[id].begin, byId[id].bytes);
  }

  size_t size() const { return count; }                ///< number of tokens
  int64_t end() const { return int64_t(byId.size()); } ///< largest id + 1

private:
  int32_t find(std::string_view token, uint32_t hash) const;
  bool add(std::string_view token, int32_t id, uint32_t hash);

  struct Entry {
    uint32_t begin = 0;
    uint32_t bytes : 31 = 0;
    uint32_t used : 1 = 0;
  };
  struct Slot {
    uint32_t hash;
    uint32_t id; ///< + 1; 0 is free
  };
  std::string arena;
  std::vector<Entry> byId;
  std::vector<Slot> slots; ///< a power of two, at most three quarters full
  size_t count = 0;
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_VOCABULARY_H
