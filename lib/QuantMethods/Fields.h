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
  /// A finite number greater than 0.
  Result<std::optional<double>> getPositive(std::string_view name);
  /// The first of several spellings of one field.
  Result<std::optional<int64_t>>
  getInteger(std::initializer_list<std::string_view> names);
  Result<std::optional<Fields>> getObject(std::string_view name);
  /// Two positive integers [bn, bk] or "BNxBK".
  Result<std::optional<Granularity>> getBlock(std::string_view name);
  Result<NameList> getNames(std::string_view name,
                            NameSyntax syntax = NameSyntax::Runs);
  const nlohmann::json &getJson() const { return object; }

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

/// The cache that a config declares is one of ours (C4). Only where the user
/// chose no layout, who is asked first (P7b).
Status checkKvDeclaration(const FoundConfig &found);

/// What a reader is asked.
struct ReadRequest {
  std::string_view name;        ///< the registry name that is asked
  const FoundConfig *found;     ///< null: an unquantised checkpoint
  std::string_view foundMethod; ///< the registry name that the config has
  bool namedByUser = false;     ///< `--quantization` named it (C3)
  const Target &target;

  /// The same config, read by the method that it names.
  ReadRequest asFound() const {
    return {foundMethod, found, foundMethod, false, target};
  }
};

/// The readers of the method families; each in its own file.
using MethodReader = Result<QuantConfig> (*)(const ReadRequest &request);
Result<QuantConfig> readAutoRound(const ReadRequest &request);
Result<QuantConfig> readAwq(const ReadRequest &request);
Result<QuantConfig> readCompressedTensors(const ReadRequest &request);
Result<QuantConfig> readFbgemmFp8(const ReadRequest &request);
Result<QuantConfig> readFp8(const ReadRequest &request);
Result<QuantConfig> readGguf(const ReadRequest &request);
Result<QuantConfig> readGptq(const ReadRequest &request);
Result<QuantConfig> readModelOpt(const ReadRequest &request);
Result<QuantConfig> readMxfp4(const ReadRequest &request);
Result<QuantConfig> readMxfp8(const ReadRequest &request);
Result<QuantConfig> readQuark(const ReadRequest &request);
Result<QuantConfig> readW8A8Fp8(const ReadRequest &request);
Result<QuantConfig> readW8A8Int8(const ReadRequest &request);

/// A config with method and source filled in, and the fields of its object.
QuantConfig startConfig(const ReadRequest &request);

/// `modules_to_not_convert` and `ignored_layers` are two names of one field.
Status readIgnored(Fields &fields, QuantConfig &config);

/// A warning or remark about a field.
ErrorInfo makeFieldNote(const Fields &fields, std::string_view name,
                        std::string message, std::string rule);

/// ASCII letters in lower case.
std::string toLower(std::string_view text);

/// MXFP8 (N7): [1, 32] with exponents, activations alike.
Scheme makeMxfp8Scheme(std::string source);
/// MXFP4 weight-only (N7, B4).
Scheme makeMxfp4Scheme(WeightLayout layout, std::string source);
/// NVFP4 (N7); `global` is where the second scale goes.
Scheme makeNvfp4Scheme(GlobalScale global, bool quantizesInput,
                       std::string source);
/// E4M3 with float scales.
Scheme makeFloat8Scheme(Granularity weight, Activation activation,
                        std::string source);

/// The choice between a method and its repacked form (C10), from the name that
/// was asked for: "gptq" or "gptq_marlin".
/// \param why  what cannot be repacked, or empty.
Status chooseRepacked(const ReadRequest &request, std::string_view plain,
                      std::string_view repacked, const std::string &why,
                      std::string_view takes, QuantConfig &config);

/// The error of C3: `method` cannot read what is stored.
Status cannotReadLayout(const ReadRequest &request, std::string why);

} // namespace octet

#endif // OCTET_LIB_QUANTMETHODS_FIELDS_H
