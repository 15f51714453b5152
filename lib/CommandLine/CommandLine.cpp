//===- CommandLine.cpp - Options of all our command lines -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CommandLine/CommandLine.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <algorithm>
#include <cmath>

using namespace octet;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

template <typename T>
static bool parseNumber(const std::string &text, T &value) {
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

static std::string printNumber(double value) {
  char text[32];
  auto [end, error] = std::to_chars(text, std::end(text), value);
  return std::string(text, end);
}

/// "a, b or c".
static std::string listWords(const std::vector<std::string> &words,
                             const char *last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? last : ", ") + words[i];
  return text;
}

CLI::Validator octet::notEmpty() {
  return CLI::Validator(
      [](std::string &text) {
        return text.empty() ? std::string("is empty, a value is needed") : "";
      },
      "");
}

CLI::Validator octet::isWhole(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [least, most](std::string &text) {
        uint64_t value = 0;
        if (parseNumber(text, value) && value >= least && value <= most)
          return std::string();
        return "is " + quoteName(text) + ", expected a whole number from " +
               std::to_string(least) +
               (most >= uint64_t(INT64_MAX) && least > 0
                    ? std::string(" on")
                    : " to " + std::to_string(most));
      },
      "");
}

CLI::Validator octet::isReal(double least, double most) {
  return CLI::Validator(
      [least, most](std::string &text) {
        double value = 0;
        // NaN is neither below nor above anything.
        if (parseNumber(text, value) && value >= least && value <= most)
          return std::string();
        return "is " + quoteName(text) + ", expected a number from " +
               printNumber(least) + " to " + printNumber(most);
      },
      "");
}

CLI::Validator octet::isPositive() {
  return CLI::Validator(
      [](std::string &text) {
        double value = 0;
        if (parseNumber(text, value) && std::isfinite(value) && value > 0)
          return std::string();
        return "is " + quoteName(text) + ", expected a number above 0";
      },
      "");
}

CLI::Validator octet::isOneOf(std::vector<std::string> words) {
  return CLI::Validator(
      [words = std::move(words)](std::string &text) {
        if (std::ranges::count(words, text))
          return std::string();
        return "is " + quoteName(text) + ", expected " +
               listWords(words, " or ");
      },
      "");
}

CLI::Option *octet::addWord(CLI::App *verb, std::string name,
                            std::string &field, std::vector<std::string> words,
                            std::string help) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const std::string &word : words)
    values.emplace_back(word, word);
  return addEnum(verb, std::move(name), field, std::move(values),
                 std::move(help));
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

/// The verb that the first argument names, or null.
static CLI::App *findVerb(CLI::App &app,
                          const std::vector<std::string> &arguments) {
  for (CLI::App *verb : app.get_subcommands([](CLI::App *) { return true; }))
    if (!arguments.empty() && verb->get_name() == arguments[0])
      return verb;
  return nullptr;
}

/// CLI11 would only say that a subcommand is required.
static Status checkVerb(CLI::App &app,
                        const std::vector<std::string> &arguments) {
  std::vector<std::string> names;
  for (const CLI::App *verb :
       app.get_subcommands([](CLI::App *) { return true; }))
    names.push_back(verb->get_name());
  if (names.empty())
    return Status::success(); // options alone
  const std::string known = "; there are " + listWords(names, " and ");
  if (arguments.empty())
    return usageError("command line", "no verb given" + known);
  if (!arguments[0].starts_with("-") && !findVerb(app, arguments))
    return usageError("command line",
                      "no verb " + quoteName(arguments[0]) + known);
  return Status::success();
}

/// What CLI11 takes otherwise than it is meant. The `=` of `--option=` goes
/// away, and then the next argument for the value: an empty argument says what
/// was meant. A flag takes any value after `=`.
static Status splitValues(const CLI::App *verb,
                          const std::vector<std::string> &given,
                          std::vector<std::string> &arguments) {
  for (const std::string &argument : given) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const CLI::Option *option = verb && name.starts_with("--")
                                    ? verb->get_option_no_throw(name)
                                    : nullptr;
    if (!option || equals == argument.npos) {
      arguments.push_back(argument);
      continue;
    }
    if (option->get_items_expected_max() == 0)
      return usageError(name, "takes no value, it has " +
                                  quoteName(argument.substr(equals + 1)));
    if (equals + 1 < argument.size()) {
      arguments.push_back(argument);
      continue;
    }
    arguments.push_back(name);
    arguments.emplace_back();
  }
  return Status::success();
}

/// Arguments that are no option and no value of one.
static std::string describeExtras(const std::vector<std::string> &extras) {
  for (const std::string &extra : extras)
    if (extra.starts_with("-") && extra.size() > 1)
      return "no option " + quoteName(extra.substr(0, extra.find('=')));
  return quoteName(extras.empty() ? "" : extras.front()) +
         " belongs to no option";
}

Result<Parsed> octet::parseCommandLine(CLI::App &app,
                                       const std::vector<std::string> &given) {
  OCTET_TRY(checkVerb(app, given));
  CLI::App *verb = findVerb(app, given);
  std::string help = app.get_name() + " ";
  if (verb)
    help += verb->get_name() + " ";
  if (verb && verb->get_require_subcommand_min() > 0) {
    const std::vector<std::string> rest(given.begin() + 1, given.end());
    OCTET_TRY(checkVerb(*verb, rest));
    if (const CLI::App *inner = findVerb(*verb, rest))
      help += inner->get_name() + " ";
  }
  std::vector<std::string> arguments;
  OCTET_TRY(splitValues(verb, given, arguments));
  // CLI11 takes the arguments from the back.
  std::ranges::reverse(arguments);
  std::string wrong;
  try {
    app.parse(std::move(arguments));
    return Parsed::Run;
  } catch (const CLI::CallForHelp &) {
    OCTET_TRY(print(app.help()));
    return Parsed::Done;
  } catch (const CLI::CallForVersion &version) {
    OCTET_TRY(print(std::string(version.what()) + "\n"));
    return Parsed::Done;
  } catch (const CLI::ExtrasError &) {
    wrong = describeExtras(app.remaining(/*recurse=*/true));
  } catch (const CLI::ParseError &error) {
    wrong = error.what();
  }
  return usageError("command line",
                    wrong + "; see " + escapeName(help + "--help"));
}
