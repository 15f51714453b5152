//===- Fields.h - Typed access to a quantisation config ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_QUANTMETHODS_FIELDS_H
#define OCTET_LIB_QUANTMETHODS_FIELDS_H

#include "octet/QuantMethods/QuantMethods.h"
#include <set>

namespace octet {

/// Reads the fields of one JSON object and remembers which were asked for, so
/// that the rest can be reported (C15). `null` counts as absent.
class Fields {
public:
  Fields(const nlohmann::json &object, std::string source)
      : object(object), source(std::move(source)) {}

  const std::string &getSource() const { return source; }
  const nlohmann::json *find(std::string_view name);
  /// \returns nothing where the field is absent; an input error (C4) where it
  /// has another type.
  Result<std::optional<std::string>> getString(std::string_view name);
  Result<std::optional<bool>> getBool(std::string_view name);
  Result<std::optional<int64_t>> getInteger(std::string_view name);
  Result<std::optional<Fields>> getObject(std::string_view name);
  /// Two positive integers [bn, bk] or "BNxBK".
  Result<std::optional<Granularity>> getBlock(std::string_view name);
  Result<NameList> getNames(std::string_view name);

  /// Fields that are decoration.
  void ignore(std::initializer_list<std::string_view> names);
  /// A warning for each field that nobody asked for (C15).
  void reportUnknown(std::vector<ErrorInfo> &warnings) const;
  Status error(std::string_view name, std::string message,
               std::string rule = "C4") const;

private:
  const nlohmann::json &object;
  std::string source;
  std::set<std::string, std::less<>> known;
};

/// A word that declares an FP8 cache, or an object with `num_bits` 8 and `type`
/// float (C4).
/// \param [out] declared  "kv_cache_scheme is 'static'", or untouched.
void readKvCache(Fields &fields, std::string &declared);

/// The readers of the method families; each in its own file.
using MethodReader = Result<QuantConfig> (*)(const FoundConfig *found,
                                             std::string_view foundMethod,
                                             bool namedByUser);
Result<QuantConfig> readFp8(const FoundConfig *found,
                            std::string_view foundMethod, bool namedByUser);
Result<QuantConfig> readCompressedTensors(const FoundConfig *found,
                                          std::string_view foundMethod,
                                          bool namedByUser);
Result<QuantConfig> readW8A8Fp8(const FoundConfig *found,
                                std::string_view foundMethod, bool namedByUser);

/// The error of C3: `method` cannot read what is stored.
Status cannotReadLayout(std::string_view method, const FoundConfig *found,
                        std::string_view foundMethod, std::string why);

} // namespace octet

#endif // OCTET_LIB_QUANTMETHODS_FIELDS_H
