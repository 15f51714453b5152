//===- AddedTokens.cpp - Tokens found before all else ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AddedTokens.h"
#include "Unicode.h"
#include "octet/Text/Utf8.h"
#include <algorithm>

using namespace octet;
using namespace octet::text;

void AddedTokenMatcher::add(std::string_view pattern, const AddedToken &token) {
  starts[uint8_t(pattern[0])] = true;
  uint32_t node = 0;
  for (char c : pattern) {
    Node &child = children[uint64_t(node) << 8 | uint8_t(c)];
    if (!child.index) {
      child.index = uint32_t(ends.size());
      ends.push_back(-1);
    }
    node = child.index;
  }
  if (ends[node] >= 0)
    return;
  ends[node] = int32_t(tokens.size());
  tokens.push_back({token.id, token.singleWord, token.lstrip, token.rstrip});
}

const AddedTokenMatcher::Token *AddedTokenMatcher::match(std::string_view text,
                                                         size_t &bytes) const {
  const Token *found = nullptr;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const Node *child = children.find(uint64_t(node) << 8 | uint8_t(text[i]));
    if (!child)
      break;
    node = child->index;
    if (ends[node] >= 0) {
      found = &tokens[ends[node]];
      bytes = i + 1;
    }
  }
  return found;
}

/// Where the last character of non-empty `text` begins.
static size_t lastChar(std::string_view text) {
  size_t at = text.size() - 1;
  while (at && (uint8_t(text[at]) & 0xC0) == 0x80)
    --at;
  return at;
}

static bool endsInWord(std::string_view text) {
  if (text.empty())
    return false;
  std::string_view last = text.substr(lastChar(text));
  return isWordChar(takeChar(last));
}

static bool startsWithWord(std::string_view text) {
  return !text.empty() && isWordChar(takeChar(text));
}

static size_t spacesAtEnd(std::string_view text) {
  size_t begin = text.size();
  while (begin) {
    size_t at = lastChar(text.substr(0, begin));
    std::string_view last = text.substr(at);
    if (!isWhiteSpace(takeChar(last)))
      break;
    begin = at;
  }
  return begin;
}

static size_t spacesAtStart(std::string_view text) {
  std::string_view rest = text;
  size_t end = 0;
  while (!rest.empty() && isWhiteSpace(takeChar(rest)))
    end = text.size() - rest.size();
  return end;
}

void AddedTokenMatcher::split(std::string_view text,
                              std::vector<AddedSpan> &out) const {
  out.clear();
  size_t previous = 0;
  for (size_t at = 0; at < text.size() && !tokens.empty();) {
    if (!starts[uint8_t(text[at])]) {
      ++at;
      continue;
    }
    size_t bytes = 0;
    const Token *token = match(text.substr(at), bytes);
    if (!token) {
      ++at;
      continue;
    }
    // The search goes on after the match, whatever it takes around itself.
    size_t begin = at, end = at + bytes;
    at = end;
    if (token->singleWord &&
        (endsInWord(text.substr(0, begin)) || startsWithWord(text.substr(end))))
      continue;
    if (token->lstrip)
      begin = std::max(spacesAtEnd(text.substr(0, begin)), previous);
    if (token->rstrip)
      end += spacesAtStart(text.substr(end));
    if (previous < begin)
      out.push_back({previous, begin, -1});
    out.push_back({begin, end, token->id});
    previous = end;
  }
  if (previous != text.size())
    out.push_back({previous, text.size(), -1});
}
