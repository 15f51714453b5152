//===- Eval.cpp - `eval`: one module on given rows ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <cstring>

using namespace octet;
using namespace octet::rt;

/// The tensor `x` F32 [S, in] of a safetensors file.
static Result<std::vector<float>> readInput(const std::string &path,
                                            const octet_limits &limits) {
  OCTET_TRY_ASSIGN(TensorTable table, readSafetensors(path));
  const std::string expected =
      "expected F32 [S, " + std::to_string(limits.module_in) + "]";
  const TensorInfo *x = table.find("x");
  if (!x)
    return inputError(path, "no tensor 'x'; " + expected);
  if (x->type != StoredType::F32 || x->shape.size() != 2 ||
      x->shape[1] != limits.module_in || x->shape[0] < 1)
    return inputError(path, "tensor 'x' is " + x->describe() + "; " + expected);
  if (x->shape[0] > limits.max_context)
    return inputError(path, "tensor 'x' has " + std::to_string(x->shape[0]) +
                                " rows, more than the context of " +
                                std::to_string(limits.max_context) +
                                " that was compiled");
  OCTET_TRY_ASSIGN(MappedCheckpoint mapped, MappedCheckpoint::map(table));
  std::span<const std::byte> bytes = mapped.bytes(*x);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Status rt::evalVerb(const CommonOptions &common, const EvalOptions &options) {
  OCTET_TRY(checkOutput(common, options.output, {options.input}));
  OCTET_TRY_ASSIGN(Session session, openSession(common, "eval",
                                                /*wantsModule=*/true));
  const octet_limits &limits = session.limits;
  OCTET_TRY_ASSIGN(std::vector<float> x, readInput(options.input, limits));
  const int64_t rows = int64_t(x.size()) / limits.module_in;
  std::vector<float> y(size_t(rows * limits.module_out));
  OCTET_TRY(call(octet_evaluate, session.model.get(), x.data(), rows, y.data(),
                 int64_t(y.size()), session.chunk));
  const TensorToWrite out{"y",
                          StoredType::F32,
                          {rows, limits.module_out},
                          std::as_bytes(std::span(y))};
  return writeSafetensors(options.output, {&out, 1});
}
