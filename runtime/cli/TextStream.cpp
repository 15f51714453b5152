//===- TextStream.cpp - The text of a completion as it comes --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/TextStream.h"
#include <algorithm>

using namespace octet;
using namespace octet::rt;

/// Length of the longest end of `text` that a stop string begins with.
static size_t possibleStop(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length && text.substr(text.size() - length) != stop.substr(0, length))
    --length;
  return length;
}

bool StopFilter::push(std::string_view text, std::string &out) {
  if (stopped)
    return true;
  held += text;
  size_t end = held.npos, keep = 0;
  for (const std::string &stop : stops) {
    end = std::min(end, held.find(stop));
    keep = std::max(keep, possibleStop(held, stop));
  }
  stopped = end != held.npos;
  if (!stopped)
    end = held.size() - keep;
  out.append(held, 0, end);
  held.erase(0, end);
  return stopped;
}

void StopFilter::finish(std::string &out) {
  if (!stopped)
    out += held;
  held.clear();
}

TextStream::TextStream(const octet_tokenizer *tokenizer,
                       std::span<const int32_t> prompt,
                       std::vector<std::string> stops)
    : filter(std::move(stops)) {
  auto made = make<octet_decoder>(octet_decoder_create, tokenizer,
                                  /*skip_special=*/int32_t(1));
  if (made.ok())
    decoder = made.take();
  else
    status = made.takeStatus();
  for (int32_t id : prompt)
    decode(id);
}

std::string_view TextStream::decode(int32_t id) {
  const char *text = "";
  size_t bytes = 0;
  if (status.ok())
    status = call(octet_decoder_push, decoder.get(), id, &text, &bytes);
  return {text, bytes};
}

bool TextStream::push(int32_t id) { return filter.push(decode(id), all); }

void TextStream::finish() {
  const char *text = "";
  size_t bytes = 0;
  if (status.ok())
    status = call(octet_decoder_finish, decoder.get(), &text, &bytes);
  filter.push({text, bytes}, all);
  filter.finish(all);
}

std::string_view TextStream::takeFresh() {
  std::string_view fresh = std::string_view(all).substr(taken);
  taken = all.size();
  return fresh;
}
