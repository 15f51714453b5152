//===- CommandLine.h - Options of all our command lines ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `octet VERB …` and the verbs of an executable read options by the same
// functions: what is accepted, what an error says and how --help shows a value
// and its default ("Sequences at once [8]") is the same in both.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_COMMANDLINE_COMMANDLINE_H
#define OCTET_COMMANDLINE_COMMANDLINE_H

#include "octet/Support/Status.h"
#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace octet {

/// No bound of a whole number.
inline constexpr uint64_t kNoBound = UINT64_MAX;

/// What is given has to be something: '' is no name of anything.
CLI::Validator notEmpty();
/// A whole number, in decimal digits alone, of `least` to `most`.
CLI::Validator isWhole(uint64_t least, uint64_t most = kNoBound);
/// A finite number of `least` to `most`.
CLI::Validator isReal(double least, double most);
/// A finite number above 0.
CLI::Validator isPositive();
/// One of `words`, spelt so.
CLI::Validator isOneOf(std::vector<std::string> words);

/// An option of a whole number, of a field of any integer type or an optional
/// one that holds `most`.
template <typename T>
CLI::Option *addWhole(CLI::App *verb, std::string name, T &field,
                      std::string help, uint64_t least,
                      uint64_t most = kNoBound) {
  return verb
      ->add_option_function<std::string>(
          std::move(name),
          [&field](const std::string &text) {
            uint64_t value = 0;
            std::from_chars(text.data(), text.data() + text.size(), value);
            field = static_cast<decltype(T(value))>(value);
          },
          std::move(help))
      ->check(isWhole(least, most))
      ->type_name("N");
}

/// An option whose value is one of some words.
CLI::Option *addWord(CLI::App *verb, std::string name, std::string &field,
                     std::vector<std::string> words, std::string help);

/// As addWord, of an enum: its numbers are no values.
template <typename Enum>
CLI::Option *addEnum(CLI::App *verb, std::string name, Enum &field,
                     std::vector<std::pair<std::string, Enum>> values,
                     std::string help) {
  std::vector<std::string> words;
  for (const auto &[word, value] : values)
    words.push_back(word);
  std::string type;
  for (const std::string &word : words)
    type += (type.empty() ? "" : "|") + word;
  return verb
      ->add_option_function<std::string>(
          std::move(name),
          [&field, values](const std::string &text) {
            for (const auto &[word, value] : values)
              if (word == text)
                field = value;
          },
          std::move(help))
      ->check(isOneOf(std::move(words)))
      ->type_name(type);
}

/// Whether the command line was all that was asked for: --help, --version.
enum class Parsed { Run, Done };

/// Reads a command line whose first argument is a verb of `app`. What --help
/// and --version ask for goes to stdout.
/// \param arguments  without the name of the program, which is app's name.
/// \returns a usage error that says what is wrong with which option, and
/// which --help says more.
Result<Parsed> parseCommandLine(CLI::App &app,
                                const std::vector<std::string> &arguments);

} // namespace octet

#endif // OCTET_COMMANDLINE_COMMANDLINE_H
