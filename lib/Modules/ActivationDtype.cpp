//===- ActivationDtype.cpp - Which dtype activations have ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Modules/ActivationDtype.h"
#include "octet/Support/Escape.h"

using namespace octet;

/// The word of `dtype` or `torch_dtype`, or nothing.
static Result<std::optional<std::string>> findWord(ConfigReader &config) {
  std::optional<std::string> word;
  for (std::string_view key : {"dtype", "torch_dtype"}) {
    if (word)
      break;
    OCTET_TRY_ASSIGN(word, config.findString(key));
  }
  return word;
}

Result<std::string> octet::chooseActivationDtype(ConfigReader &config,
                                                 const std::string &option,
                                                 const Target &target,
                                                 bool normIsF16,
                                                 std::string &note) {
  if (!option.empty()) {
    OCTET_TRY(checkActivationDtype(target, option));
    return option;
  }
  OCTET_TRY_ASSIGN(std::optional<std::string> word, findWord(config));
  if (!word) {
    OCTET_TRY_ASSIGN(std::optional<ConfigReader> text,
                     config.findObject("text_config"));
    if (text) {
      OCTET_TRY_ASSIGN(word, findWord(*text));
    }
  }
  if (!word)
    return std::string(normIsF16 ? "f16" : "bf16");
  std::string name = *word;
  if (name.starts_with("torch."))
    name = name.substr(6);
  if (name == "bfloat16")
    return std::string("bf16");
  if (name == "float16" || name == "half")
    return std::string("f16");
  if (name == "float32" || name == "float") {
    note = "--dtype: bf16, because config.json says float32, which is for "
           "tests";
    return std::string("bf16");
  }
  return inputError("config.json",
                    "dtype is " + quoteName(*word) +
                        "; expected bfloat16, float16 or float32, or --dtype",
                    "C9");
}
