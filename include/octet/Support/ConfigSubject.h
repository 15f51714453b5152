//===- ConfigSubject.h - Whose config.json an error is of -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_CONFIGSUBJECT_H
#define OCTET_SUPPORT_CONFIGSUBJECT_H

#include "octet/Support/Escape.h"
#include <string>
#include <string_view>

namespace octet {

/// A subject, or a message that begins with one, with the place of the config
/// that it names: `FOLDER/config.json: rope_theta …`. What reads a config knows
/// its fields and not where it was found. Any other text stays.
/// \param checkpoint  the folder, or a GGUF file, whose metadata stand for the
///                    config and which is named instead.
inline std::string placeConfig(std::string_view text,
                               std::string_view checkpoint) {
  for (std::string_view name : {"config.json", "hf_quant_config.json"}) {
    if (!text.starts_with(name) || checkpoint.empty())
      continue;
    std::string_view rest = text.substr(name.size());
    if (!rest.empty() && !rest.starts_with(':'))
      continue;
    std::string place = escapePath(checkpoint);
    if (checkpoint.ends_with(".gguf"))
      return place + std::string(rest);
    while (place.size() > 1 && place.ends_with('/'))
      place.pop_back();
    return place + "/" + std::string(text);
  }
  return std::string(text);
}

} // namespace octet

#endif // OCTET_SUPPORT_CONFIGSUBJECT_H
