//===- Dense.cpp - Llama, Mistral, Qwen2, Qwen3 -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Decoders of the Llama shape. They differ in biases and in the norms of q and
// k.
//
//===----------------------------------------------------------------------===//

#include "DecoderShape.h"

using namespace octet;

static Result<DecoderShape> readDense(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  shape.drafts = 0;
  OCTET_TRY_ASSIGN(shape.attention, readHeadAttention(config, shape.hidden));
  return shape;
}

Result<DecoderShape> octet::readLlamaShape(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDense(config));
  OCTET_TRY_ASSIGN(Bias bias, readBiasFlag(config, "attention_bias"));
  shape.attention->qkvBias = shape.attention->outputBias = bias;
  OCTET_TRY_ASSIGN(shape.mlpBias, readBiasFlag(config, "mlp_bias"));
  return shape;
}

Result<DecoderShape> octet::readMistralShape(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDense(config));
  // No key speaks of biases.
  shape.attention->qkvBias = shape.attention->outputBias = shape.mlpBias =
      Bias::AsStored;
  return shape;
}

Result<DecoderShape> octet::readQwen2Shape(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDense(config));
  shape.attention->qkvBias = Bias::Yes;
  shape.attention->outputBias = shape.mlpBias = Bias::AsStored;
  return shape;
}

Result<DecoderShape> octet::readQwen3Shape(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDense(config));
  OCTET_TRY_ASSIGN(Bias bias, readBiasFlag(config, "attention_bias"));
  shape.attention->qkvBias = shape.attention->outputBias = bias;
  shape.attention->qkNorm = true;
  shape.mlpBias = Bias::AsStored;
  return shape;
}
