//===- Regex.cpp - Matching with PCRE2 ------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#define PCRE2_CODE_UNIT_WIDTH 8
#include "Regex.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Utf8.h"
#include <pcre2.h>

using namespace octet;
using namespace octet::text;

/// Far above what a tokenizer's pattern takes for one match, and soon reached
/// by one that never ends.
static constexpr uint32_t kMatchLimit = 50'000'000;
static constexpr uint32_t kHeapLimitKiB = 256 * 1024;
static constexpr size_t kMaxJitStack = size_t(8) << 20;

namespace {
template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T *p) const {
    Free(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using MatchData =
    std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using JitStack =
    std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;
using CompileContext =
    std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
} // namespace

struct Regex::Compiled {
  Code code;
};

Regex::Regex() = default;
Regex::Regex(Regex &&) noexcept = default;
Regex &Regex::operator=(Regex &&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern,
                             const std::string &subject) {
  OCTET_TRY_ASSIGN(std::string translated, translatePattern(pattern, subject));
  CompileContext context(pcre2_compile_context_create(nullptr));
  // What "." and "$" take for the end of a line.
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error;
  PCRE2_SIZE offset;
  Code code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
      &offset, context.get()));
  if (!code) {
    unsigned char text[256];
    pcre2_get_error_message(error, text, sizeof text);
    return inputError(subject, "pattern " + quoteName(pattern) + ": " +
                                   reinterpret_cast<const char *>(text));
  }
  // Where memory may not be made executable the interpreter gives the same.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  Regex regex;
  regex.compiled = std::make_unique<Compiled>(Compiled{std::move(code)});
  regex.text = pattern;
  regex.subject = subject;
  return regex;
}

Regex Regex::literal(std::string_view literal) {
  Regex regex;
  regex.text = literal;
  return regex;
}

/// All occurrences of a literal; it starts and ends at a character.
static void splitLiteral(std::string_view text, std::string_view literal,
                         std::vector<Span> &out) {
  size_t previous = 0;
  for (size_t at; (at = text.find(literal, previous)) != text.npos;
       previous = at + literal.size()) {
    if (at != previous)
      out.push_back({previous, at, false});
    out.push_back({at, at + literal.size(), true});
  }
  if (previous != text.size())
    out.push_back({previous, text.size(), false});
}

Status Regex::split(std::string_view text, std::vector<Span> &out) const {
  out.clear();
  if (!compiled) {
    splitLiteral(text, this->text, out);
    return Status::success();
  }
  const pcre2_code *code = compiled->code.get();
  MatchData data(pcre2_match_data_create(1, nullptr));
  MatchContext context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
  JitStack stack;

  const auto *bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t previous = 0; // end of the last part given out
  size_t from = 0;     // where the search goes on
  bool any = false;    // a match was given out
  uint32_t options = PCRE2_NO_UTF_CHECK;
  while (from <= text.size()) {
    int rc = pcre2_match(code, bytes, text.size(), from, options, data.get(),
                         context.get());
    if (rc == PCRE2_ERROR_NOMATCH)
      break;
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
      stack.reset(pcre2_jit_stack_create(32 << 10, kMaxJitStack, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      continue;
    }
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && !(options & PCRE2_NO_JIT)) {
      options |=
          PCRE2_NO_JIT; // The interpreter takes its memory from the heap.
      continue;
    }
    if (rc < 0) {
      unsigned char message[256];
      pcre2_get_error_message(rc, message, sizeof message);
      return inputError(subject, "pattern " + quoteName(this->text) +
                                     " does not come to an end on this text: " +
                                     reinterpret_cast<const char *>(message));
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
    const size_t begin = range[0], end = range[1];
    if (begin == end && any && begin == previous) {
      // An empty match right after the last one: go on one character later.
      if (from == text.size())
        break;
      from += utf8Step(text.substr(from)).bytes;
      continue;
    }
    if (begin != previous)
      out.push_back({previous, begin, false});
    out.push_back({begin, end, true});
    previous = from = end;
    any = true;
  }
  if (previous != text.size())
    out.push_back({previous, text.size(), false});
  return Status::success();
}
