//===- Fields.cpp - Typed access to a quantisation config -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "KvDeclaration.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

using namespace octet;

std::string octet::describeJson(const nlohmann::json &value) {
  if (value.is_string())
    return quoteName(value.get<std::string>());
  // JSON has its own quotes; what escapeName cuts and escapes beyond them.
  constexpr size_t kLongest = 200;
  std::string text = dumpJson(value);
  if (text.size() > kLongest) {
    size_t end = kLongest;
    while (end > 0 && (text[end] & 0xC0) == 0x80) // inside a character
      --end;
    text = text.substr(0, end) + "…";
  }
  return escapePath(text);
}

const nlohmann::json *Fields::find(std::string_view name) {
  known.emplace(name);
  auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Status Fields::error(std::string_view name, std::string message,
                     std::string rule) const {
  return inputError(source + "." + std::string(name), std::move(message),
                    std::move(rule));
}

Result<std::optional<std::string>> Fields::getString(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<std::string>();
  if (!value->is_string())
    return error(name, "is " + describeJson(*value) + ", expected a string");
  return std::optional(value->get<std::string>());
}

Result<std::optional<bool>> Fields::getBool(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<bool>();
  if (!value->is_boolean())
    return error(name,
                 "is " + describeJson(*value) + ", expected true or false");
  return std::optional(value->get<bool>());
}

std::optional<int64_t> octet::toInteger(const nlohmann::json &value) {
  if (value.is_number_unsigned()) {
    uint64_t number = value.get<uint64_t>();
    if (number > uint64_t(INT64_MAX))
      return std::nullopt;
    return int64_t(number);
  }
  if (value.is_number_integer())
    return value.get<int64_t>();
  return std::nullopt;
}

Result<std::optional<int64_t>> Fields::getInteger(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<int64_t>();
  std::optional<int64_t> number = toInteger(*value);
  if (!number)
    return error(name, "is " + describeJson(*value) + ", expected an integer");
  return std::optional(*number);
}

Result<std::optional<Fields>> Fields::getObject(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<Fields>();
  if (!value->is_object())
    return error(name, "is " + describeJson(*value) + ", expected an object");
  return std::optional<Fields>(Fields(*value, source + "." + escapeName(name)));
}

Result<std::optional<Granularity>> Fields::getBlock(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<Granularity>();
  std::optional<int64_t> n, k;
  if (value->is_array() && value->size() == 2) {
    n = toInteger((*value)[0]);
    k = toInteger((*value)[1]);
  } else if (value->is_string()) {
    const std::string text = value->get<std::string>();
    size_t x = text.find('x');
    auto parse = [](std::string_view part) -> std::optional<int64_t> {
      int64_t number = 0;
      const char *end = part.data() + part.size();
      auto [stop, error] = std::from_chars(part.data(), end, number);
      if (error != std::errc() || stop != end)
        return std::nullopt;
      return number;
    };
    if (x != std::string::npos) {
      n = parse(std::string_view(text).substr(0, x));
      k = parse(std::string_view(text).substr(x + 1));
    }
  }
  constexpr int64_t kMaxBlock = int64_t(1) << 30;
  if (!n || !k || *n < 1 || *k < 1 || *n > kMaxBlock || *k > kMaxBlock)
    return error(name, "is " + describeJson(*value) +
                           ", expected two positive integers [bn, bk]");
  return std::optional(Granularity::block(*n, *k));
}

Result<std::optional<double>> Fields::getPositive(std::string_view name) {
  const nlohmann::json *value = find(name);
  if (!value)
    return std::optional<double>();
  double number = value->is_number() ? value->get<double>() : 0;
  if (!std::isfinite(number) || number <= 0)
    return error(name, "is " + describeJson(*value) +
                           ", expected a finite number greater than 0");
  return std::optional(number);
}

Result<std::optional<int64_t>>
Fields::getInteger(std::initializer_list<std::string_view> names) {
  std::optional<int64_t> first;
  for (std::string_view name : names) {
    OCTET_TRY_ASSIGN(std::optional<int64_t> value, getInteger(name));
    if (value && !first)
      first = value;
  }
  return first;
}

Result<NameList> Fields::getNames(std::string_view name, NameSyntax syntax) {
  known.emplace(name);
  return NameList::read(object, name, source, syntax);
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    known.emplace(name);
}

void Fields::reportUnknown(std::vector<ErrorInfo> &warnings) const {
  for (const auto &[key, value] : object.items()) {
    // Nothing is switched on by `null`, `false` or an empty list.
    if (known.count(key) || value.is_null() || value == false ||
        ((value.is_array() || value.is_object()) && value.empty()))
      continue;
    ErrorInfo warning;
    warning.subject = source + "." + escapeName(key);
    warning.message = "unknown field with value " + describeJson(value) +
                      " is not used; it could change results";
    warning.rule = "C15";
    warnings.push_back(std::move(warning));
  }
}

std::string octet::toLower(std::string_view text) {
  std::string lower(text);
  for (char &c : lower)
    if (c >= 'A' && c <= 'Z')
      c = char(c - 'A' + 'a');
  return lower;
}

constexpr std::array<std::string_view, 2> kKvFields = {"kv_cache_scheme",
                                                       "kv_cache_quant_algo"};

/// What the value of one of the two fields declares: an FP8 cache, nothing, or
/// a cache that is none of ours.
enum class DeclaredCache { Nothing, Fp8, Unknown };

static DeclaredCache readKvValue(const nlohmann::json &value) {
  bool isFp8 = false;
  if (value.is_string()) {
    std::string word = toLower(value.get<std::string>());
    if (word.empty() || word == "none" || word == "auto")
      return DeclaredCache::Nothing;
    isFp8 = word == "fp8" || word == "static" || word == "fp8_e4m3";
  } else if (value.is_object()) {
    auto bits = value.find("num_bits"), type = value.find("type");
    isFp8 = bits != value.end() && *bits == 8 && type != value.end() &&
            type->is_string() && toLower(type->get<std::string>()) == "float";
  }
  return isFp8 ? DeclaredCache::Fp8 : DeclaredCache::Unknown;
}

void octet::readKvCache(Fields &fields, std::string &declared) {
  for (std::string_view name : kKvFields)
    if (const nlohmann::json *value = fields.find(name);
        value && readKvValue(*value) == DeclaredCache::Fp8)
      declared = std::string(name) + " is " + describeJson(*value);
}

CacheDeclaration octet::readCacheDeclaration(const FoundConfig &found) {
  auto find = [](const nlohmann::json &object, std::string_view name) {
    auto value = object.find(name);
    bool isGiven = value != object.end() && !value->is_null();
    return isGiven ? &*value : nullptr;
  };
  CacheDeclaration declaration;
  auto declare = [&](std::string_view name) {
    declaration.source = found.source + "." + std::string(name);
    declaration.isFp8 = true;
  };
  for (std::string_view name : kKvFields) {
    const nlohmann::json *value = find(found.fields, name);
    DeclaredCache cache = value ? readKvValue(*value) : DeclaredCache::Nothing;
    if (cache != DeclaredCache::Nothing)
      declare(name);
    if (cache != DeclaredCache::Unknown)
      continue;
    declaration.isFp8 = false;
    declaration.problem = "is " + describeJson(*value) +
                          ", expected FP8 or 8 bits of type 'float'";
    return declaration;
  }
  if (declaration.isFp8)
    return declaration;
  // Quark: a config for each projection of the cache, or the names of those
  // that were exported with scales.
  const nlohmann::json *own = find(found.fields, "kv_cache_quant_config");
  const nlohmann::json *exported = find(found.fields, "export");
  const nlohmann::json *names = exported && exported->is_object()
                                    ? find(*exported, "kv_cache_group")
                                    : nullptr;
  if (own && !own->empty())
    declare("kv_cache_quant_config");
  else if (names && !names->empty())
    declare("export.kv_cache_group");
  return declaration;
}

Status octet::checkKvDeclaration(const FoundConfig &found) {
  CacheDeclaration declaration = readCacheDeclaration(found);
  if (declaration.problem.empty())
    return Status::success();
  return inputError(
      declaration.source,
      declaration.problem + "; --kv-cache says which layout instead", "C4");
}

//===----------------------------------------------------------------------===//
// What readers share
//===----------------------------------------------------------------------===//

ErrorInfo octet::makeFieldNote(const Fields &fields, std::string_view name,
                               std::string message, std::string rule) {
  ErrorInfo note;
  note.subject = fields.getSource();
  if (!name.empty())
    note.subject += "." + std::string(name);
  note.message = std::move(message);
  note.rule = std::move(rule);
  return note;
}

QuantConfig octet::startConfig(const ReadRequest &request) {
  QuantConfig config;
  config.method = request.name;
  if (request.found)
    config.source = request.found->source;
  return config;
}

Status octet::readIgnored(Fields &fields, QuantConfig &config) {
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("modules_to_not_convert"));
  OCTET_TRY_ASSIGN(NameList other, fields.getNames("ignored_layers"));
  if (other.presence == NameList::Presence::Given && !config.ignore.isEmpty()) {
    auto texts = [](const NameList &list) {
      std::vector<std::string> result;
      for (const NameEntry &entry : list.entries)
        result.push_back(entry.getText());
      std::sort(result.begin(), result.end());
      return result;
    };
    if (texts(config.ignore) == texts(other))
      return Status::success();
    config.warnings.push_back(
        makeFieldNote(fields, "",
                      "modules_to_not_convert and ignored_layers differ; a "
                      "module on either list is ignored",
                      "C4"));
  }
  config.ignore.append(std::move(other));
  return Status::success();
}

Scheme octet::makeFloat8Scheme(Granularity weight, Activation activation,
                               std::string source) {
  Scheme scheme;
  scheme.weight = weight;
  scheme.activation = activation;
  scheme.source = std::move(source);
  return scheme;
}

Scheme octet::makeMxfp8Scheme(std::string source) {
  constexpr int64_t kGroup = 32;
  Scheme scheme = makeFloat8Scheme(Granularity::group(kGroup),
                                   Activation::Dynamic, std::move(source));
  scheme.format.scale = ScaleFormat::Exponents;
  scheme.input.scale = ScaleFormat::Exponents;
  return scheme;
}

Scheme octet::makeMxfp4Scheme(WeightLayout layout, std::string source) {
  constexpr int64_t kGroup = 32;
  Scheme scheme = makeFloat8Scheme(Granularity::group(kGroup), Activation::None,
                                   std::move(source));
  scheme.format.code = CodeType::E2M1;
  scheme.format.layout = layout;
  scheme.format.scale = ScaleFormat::Exponents;
  return scheme;
}

Scheme octet::makeNvfp4Scheme(GlobalScale global, bool quantizesInput,
                              std::string source) {
  constexpr int64_t kGroup = 16;
  Scheme scheme =
      makeFloat8Scheme(Granularity::group(kGroup),
                       quantizesInput ? Activation::Dynamic : Activation::None,
                       std::move(source));
  scheme.format.code = CodeType::E2M1;
  scheme.format.layout = WeightLayout::NibbleRows;
  scheme.format.scale = ScaleFormat::E4M3;
  scheme.format.global = global;
  if (quantizesInput) {
    scheme.input.code = CodeType::E2M1;
    scheme.input.scale = ScaleFormat::E4M3;
    scheme.input.belowStored = true;
  }
  return scheme;
}

Status octet::chooseRepacked(const ReadRequest &request, std::string_view plain,
                             std::string_view repacked, const std::string &why,
                             std::string_view takes, QuantConfig &config) {
  std::string asked(request.name);
  if (asked == repacked) {
    if (!why.empty() && request.namedByUser)
      return inputError("--quantization " + asked,
                        "cannot repack this checkpoint: " + why +
                            "; it takes " + std::string(takes),
                        "C10");
    if (why.empty())
      return Status::success();
    config.method = plain; // the checkpoint's own word, which it cannot keep
    return Status::success();
  }
  // The repacked kernels are those of GPUs.
  if (!why.empty() || request.target.isCpu())
    return Status::success();
  ErrorInfo remark;
  remark.rule = "C10";
  if (request.namedByUser) {
    remark.subject = "--quantization " + asked;
    remark.message = "is kept; '" + std::string(repacked) +
                     "' would run this checkpoint from a layout of its own";
  } else {
    config.method = repacked;
    remark.subject = config.source;
    remark.message = "'" + std::string(plain) + "' is run as '" +
                     std::string(repacked) + "'; --quantization " +
                     std::string(plain) + " keeps it";
  }
  config.remarks.push_back(std::move(remark));
  return Status::success();
}
