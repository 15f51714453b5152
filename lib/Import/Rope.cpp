//===- Rope.cpp - Rotary position embedding from a config -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rope.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include <cmath>
#include <numbers>

using namespace octet;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// As JSON has it: enough digits to tell any two apart.
static std::string printNumber(double value) {
  if (!std::isfinite(value))
    return std::isnan(value) ? "NaN" : value < 0 ? "-infinity" : "infinity";
  return nlohmann::json(value).dump();
}

static Result<RopeParameters::Type> readType(ConfigReader &rope) {
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   rope.findString("rope_type"));
  OCTET_TRY_ASSIGN(std::optional<std::string> older, rope.findString("type"));
  if (word && older && *word != *older)
    return inputError(rope.getSubject(),
                      "rope_type is " + quoteName(*word) + " and type is " +
                          quoteName(*older) + "; they mean the same thing",
                      "C15");
  std::string name = word.value_or(older.value_or("default"));
  if (name == "default")
    return RopeParameters::Type::Default;
  if (name == "linear")
    return RopeParameters::Type::Linear;
  if (name == "llama3")
    return RopeParameters::Type::Llama3;
  if (name == "yarn")
    return RopeParameters::Type::Yarn;
  return inputError(rope.getSubject(),
                    "rope_type is " + quoteName(name) +
                        "; 'default', 'linear', 'llama3' and 'yarn' run",
                    "C15");
}

/// A field that the type needs.
static Result<double> requirePositive(ConfigReader &rope,
                                      std::string_view key) {
  OCTET_TRY_ASSIGN(std::optional<double> value, rope.findPositive(key));
  if (!value)
    return inputError(rope.getSubject(),
                      "has no " + std::string(key) +
                          "; expected a finite number greater than 0",
                      "C15");
  return *value;
}

static Status readFactor(ConfigReader &rope, RopeParameters &result) {
  OCTET_TRY_ASSIGN(result.factor, requirePositive(rope, "factor"));
  if (result.factor < 1)
    return inputError(rope.getSubject(),
                      rope.describe("factor") + "; expected at least 1", "C15");
  return Status::success();
}

static Status readLlama3(ConfigReader &rope, RopeParameters &result) {
  OCTET_TRY(readFactor(rope, result));
  OCTET_TRY_ASSIGN(result.lowFreqFactor,
                   requirePositive(rope, "low_freq_factor"));
  OCTET_TRY_ASSIGN(result.highFreqFactor,
                   requirePositive(rope, "high_freq_factor"));
  OCTET_TRY_ASSIGN(result.originalMaxPositions,
                   requirePositive(rope, "original_max_position_embeddings"));
  if (result.highFreqFactor <= result.lowFreqFactor)
    return inputError(rope.getSubject(),
                      rope.describe("high_freq_factor") + " and " +
                          rope.describe("low_freq_factor") +
                          "; the first has to be greater",
                      "C15");
  return Status::success();
}

static Status readYarn(ConfigReader &rope, int64_t maxPositions,
                       RopeParameters &result) {
  OCTET_TRY_ASSIGN(std::optional<double> original,
                   rope.findPositive("original_max_position_embeddings"));
  result.originalMaxPositions = original.value_or(double(maxPositions));
  OCTET_TRY_ASSIGN(std::optional<double> factor, rope.findPositive("factor"));
  result.factor =
      factor.value_or(double(maxPositions) / result.originalMaxPositions);
  if (result.factor < 1)
    return inputError(rope.getSubject(),
                      rope.describe("factor") + "; expected at least 1", "C15");
  OCTET_TRY_ASSIGN(result.attentionFactor,
                   rope.findPositive("attention_factor"));
  // An mscale of 0 counts as absent, as in transformers.
  for (auto [key, target] :
       {std::pair("mscale", &result.mscale),
        std::pair("mscale_all_dim", &result.mscaleAllDim)}) {
    const nlohmann::json *value = rope.find(key);
    if (value && value->is_number() && value->get<double>() == 0)
      continue;
    OCTET_TRY_ASSIGN(*target, rope.findPositive(key));
  }
  OCTET_TRY_ASSIGN(std::optional<double> fast, rope.findPositive("beta_fast"));
  OCTET_TRY_ASSIGN(std::optional<double> slow, rope.findPositive("beta_slow"));
  result.betaFast = fast.value_or(32);
  result.betaSlow = slow.value_or(1);
  if (result.betaFast < result.betaSlow)
    return inputError(rope.getSubject(),
                      "beta_fast is " + printNumber(result.betaFast) +
                          " and beta_slow is " + printNumber(result.betaSlow) +
                          "; the first has to be at least the second",
                      "C15");
  OCTET_TRY_ASSIGN(result.truncate, rope.getFlag("truncate", true));
  return Status::success();
}

/// One object: `rope_scaling`, `rope_parameters`, or a part of the latter.
static Status readObject(ConfigReader &rope, int64_t maxPositions,
                         RopeParameters &result) {
  OCTET_TRY_ASSIGN(result.type, readType(rope));
  switch (result.type) {
  case RopeParameters::Type::Default:
    rope.ignore({"factor"});
    return Status::success();
  case RopeParameters::Type::Linear:
    return readFactor(rope, result);
  case RopeParameters::Type::Llama3:
    return readLlama3(rope, result);
  case RopeParameters::Type::Yarn:
    return readYarn(rope, maxPositions, result);
  }
  return Status::success();
}

/// `rope_theta` and `partial_rotary_factor` stand beside `rope_scaling` or
/// inside `rope_parameters`; given twice they have to agree.
static Status readShared(ConfigReader &outer, ConfigReader *inner,
                         std::string_view key, double &result) {
  OCTET_TRY_ASSIGN(std::optional<double> above, outer.findPositive(key));
  std::optional<double> within;
  if (inner) {
    OCTET_TRY_ASSIGN(within, inner->findPositive(key));
  }
  if (above && within && *above != *within)
    return inputError(outer.getSubject(),
                      outer.describe(key) + " and in " + inner->getSubject() +
                          " " + inner->describe(key) +
                          "; they mean the same thing",
                      "C15");
  if (above || within)
    result = within ? *within : *above;
  return Status::success();
}

/// `rope_parameters` as a list of objects: itself, or one an attention type.
static Result<std::vector<ConfigReader>>
readNested(ConfigReader &parameters, const nlohmann::json &json) {
  std::vector<ConfigReader> parts;
  for (const auto &[key, value] : json.items()) {
    if (!value.is_object())
      continue;
    OCTET_TRY_ASSIGN(std::optional<ConfigReader> part,
                     parameters.findObject(key));
    parts.push_back(std::move(*part));
  }
  if (parts.empty())
    parts.push_back(parameters);
  return parts;
}

Result<RopeParameters> octet::readRope(ConfigReader &config,
                                       int64_t maxPositions,
                                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(std::optional<ConfigReader> scaling,
                   config.findObject("rope_scaling"));
  OCTET_TRY_ASSIGN(std::optional<ConfigReader> parameters,
                   config.findObject("rope_parameters"));
  RopeParameters result;
  if (!parameters) {
    OCTET_TRY(readShared(config, nullptr, "rope_theta", result.theta));
    OCTET_TRY(
        readShared(config, nullptr, "partial_rotary_factor", result.partial));
  }
  std::optional<RopeParameters> older;
  if (scaling) {
    OCTET_TRY(readObject(*scaling, maxPositions, result));
    OCTET_TRY(readShared(config, &*scaling, "rope_theta", result.theta));
    scaling->reportUnknown(warnings);
    older = result;
  }
  if (parameters) {
    OCTET_TRY_ASSIGN(std::vector<ConfigReader> parts,
                     readNested(*parameters, *config.find("rope_parameters")));
    std::optional<RopeParameters> first;
    for (ConfigReader &part : parts) {
      RopeParameters read;
      OCTET_TRY(readObject(part, maxPositions, read));
      OCTET_TRY(readShared(config, &part, "rope_theta", read.theta));
      OCTET_TRY(
          readShared(config, &part, "partial_rotary_factor", read.partial));
      part.reportUnknown(warnings);
      if (first && *first != read)
        return inputError(part.getSubject(),
                          "differs from " + parts[0].getSubject() +
                              "; one rotary embedding for all layers is built",
                          "C15");
      first = read;
    }
    result = *first;
    if (older) {
      older->theta = result.theta;
      older->partial = result.partial;
      if (*older != result)
        return inputError(config.getSubject(),
                          config.describe("rope_scaling") + " and " +
                              config.describe("rope_parameters") +
                              "; they mean the same thing and contradict each "
                              "other",
                          "C15");
    }
  }
  if (result.theta <= 1)
    return inputError(config.getSubject(),
                      "rope_theta is " + printNumber(result.theta) +
                          "; expected a number greater than 1",
                      "C15");
  if (result.partial > 1)
    return inputError(config.getSubject(),
                      config.describe("partial_rotary_factor") +
                          "; expected at most 1",
                      "C15");
  return result;
}

//===----------------------------------------------------------------------===//
// Frequencies
//===----------------------------------------------------------------------===//

/// theta ^ (2 i / dim), in float32.
static std::vector<float> getPeriods(double theta, int64_t dim) {
  std::vector<float> periods;
  for (int64_t i = 0; i < dim; i += 2)
    periods.push_back(std::pow(float(theta), float(i) / float(dim)));
  return periods;
}

static void applyLlama3(const RopeParameters &rope,
                        std::vector<float> &inverse) {
  const float low = float(rope.lowFreqFactor);
  const float original = float(rope.originalMaxPositions);
  const float lowWavelength =
      float(rope.originalMaxPositions / rope.lowFreqFactor);
  const float highWavelength =
      float(rope.originalMaxPositions / rope.highFreqFactor);
  for (float &f : inverse) {
    float wavelength = float(2 * std::numbers::pi) / f;
    if (wavelength > lowWavelength) {
      f = f / float(rope.factor);
    } else if (!(wavelength < highWavelength)) {
      float smooth = (original / wavelength - low) /
                     float(rope.highFreqFactor - rope.lowFreqFactor);
      f = (1 - smooth) * f / float(rope.factor) + smooth * f;
    }
  }
}

/// The dimension that turns `rotations` times over the original length.
static double findDimension(const RopeParameters &rope, double rotations,
                            int64_t dim) {
  return double(dim) *
         std::log(rope.originalMaxPositions /
                  (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(rope.theta));
}

static void applyYarn(const RopeParameters &rope, int64_t dim,
                      RopeFrequencies &result) {
  double low = findDimension(rope, rope.betaFast, dim);
  double high = findDimension(rope, rope.betaSlow, dim);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, double(dim - 1));
  if (low == high)
    high += 0.001; // no division by zero
  std::vector<float> periods = getPeriods(rope.theta, dim);
  for (size_t i = 0; i < periods.size(); ++i) {
    float ramp = (float(i) - float(low)) / float(high - low);
    ramp = std::min(std::max(ramp, 0.0f), 1.0f);
    float kept = 1 - ramp;
    result.inverse[i] = 1.0f / (float(rope.factor) * periods[i]) * (1 - kept) +
                        1.0f / periods[i] * kept;
  }
  auto magnitude = [&](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  if (rope.attentionFactor)
    result.scale = float(*rope.attentionFactor);
  else if (rope.mscale && rope.mscaleAllDim)
    result.scale =
        float(magnitude(*rope.mscale) / magnitude(*rope.mscaleAllDim));
  else
    result.scale = float(magnitude(1));
}

Result<RopeFrequencies> octet::computeRope(const RopeParameters &rope,
                                           int64_t headDim) {
  int64_t dim = int64_t(double(headDim) * rope.partial);
  if (dim < 2 || dim % 2 != 0)
    return inputError("config.json",
                      "rotary embedding of " + std::to_string(dim) +
                          " values of a head of " + std::to_string(headDim) +
                          "; expected an even number of at least 2",
                      "C15");
  RopeFrequencies result;
  for (float period : getPeriods(rope.theta, dim))
    result.inverse.push_back(1.0f / period);
  switch (rope.type) {
  case RopeParameters::Type::Default:
    break;
  case RopeParameters::Type::Linear:
    for (float &f : result.inverse)
      f /= float(rope.factor);
    break;
  case RopeParameters::Type::Llama3:
    applyLlama3(rope, result.inverse);
    break;
  case RopeParameters::Type::Yarn:
    applyYarn(rope, dim, result);
    break;
  }
  std::vector<float> values = result.inverse;
  values.push_back(result.scale);
  for (float value : values)
    if (!std::isfinite(value) || value <= 0)
      return inputError("config.json",
                        "the rotary embedding's parameters give a frequency "
                        "or scale of " +
                            printNumber(value) +
                            "; expected finite numbers greater than 0",
                        "C15");
  return result;
}
