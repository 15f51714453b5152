//===- PostProcessor.h - Special tokens around a text -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. The component `post_processor` of tokenizer.json, for
// one text (its templates for pairs are not read).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_POSTPROCESSOR_H
#define OCTET_LIB_TEXT_POSTPROCESSOR_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace octet::text {

class PostProcessor {
public:
  /// \param component  the JSON of `post_processor`, or null for none.
  /// \param subject    the file.
  static Result<PostProcessor> read(const nlohmann::json &component,
                                    const std::string &subject);
  /// Adds the special tokens around `ids`.
  void apply(std::vector<int32_t> &ids) const;
  /// Every id that `apply` may add.
  std::vector<int32_t> added() const;

private:
  /// Ids before and after the text.
  struct Step {
    std::vector<int32_t> before, after;
  };
  Status add(const nlohmann::json &component, const std::string &type,
             const std::string &where);
  Status addTemplate(const nlohmann::json &component, const std::string &where);
  std::vector<Step> steps;
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_POSTPROCESSOR_H
