//===- Handles.h - What is behind the handles of octet.h --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For runtime/api, and for `bench`, which measures what is inside.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_API_HANDLES_H
#define OCTET_RUNTIME_API_HANDLES_H

#include "octet/Text/Tokenizer.h"
#include "octet/octet.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Model.h"
#include "runtime/core/Payload.h"
#include "runtime/core/Program.h"
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace octet::rt {

/// What a model and its sequences share; it lives as long as any of them.
struct LoadedModel {
  explicit LoadedModel(std::unique_ptr<Model> loaded)
      : model(std::move(loaded)), engine(*model) {}

  std::unique_ptr<Model> model;
  Engine engine;
  std::vector<int32_t> bos, eos;
  octet_trace_fn trace = nullptr;
  void *traceUser = nullptr;
};

/// Options as a caller gave them, or the defaults for NULL.
/// \returns a usage error of `function` that names the option out of its range.
Result<SamplerOptions> readSampler(const char *function,
                                   const octet_sampler_options *given);

} // namespace octet::rt

struct octet_error {
  octet::ErrorInfo info;
  octet_status status;
  std::string text; ///< of the whole
};

struct octet_file {
  explicit octet_file(octet::rt::Payload payload)
      : payload(std::move(payload)) {}
  /// The program, loaded when it is first asked for: tokenizers do without.
  octet::Result<std::shared_ptr<const octet::rt::Program>> program() const;

  const octet::rt::Payload payload;

private:
  mutable std::mutex mutex; ///< of `loaded`
  mutable std::shared_ptr<const octet::rt::Program> loaded;
};

struct octet_tokenizer {
  std::shared_ptr<const octet::Tokenizer> tokenizer;
};

struct octet_decoder {
  std::shared_ptr<const octet::Tokenizer> tokenizer;
  octet::StreamDecoder decoder;
  std::string text; ///< of the last call
};

struct octet_model {
  std::shared_ptr<octet::rt::LoadedModel> loaded;
};

struct octet_seq {
  std::shared_ptr<octet::rt::LoadedModel> loaded;
  octet::rt::Sequence sequence;

  ~octet_seq() { loaded->engine.release(sequence); }
};

#endif // OCTET_RUNTIME_API_HANDLES_H
