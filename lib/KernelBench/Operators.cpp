//===- Operators.cpp - Operators of octet kernel as programs --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One line an operator: the quantisation_config that a checkpoint would have,
// and what it would store beside the weight. Method, contract and layouts
// follow from those as in every compile (C2, B1-B4).
//
//===----------------------------------------------------------------------===//

#include "Operators.h"
#include "llvm/Support/FormatVariadic.h"

using namespace octet;

namespace {
struct OperatorRow {
  KernelOperator op;
  const char *config;  ///< of #q.config; empty: not quantised
  const char *element; ///< of the stored weight
  const char *beside;  ///< stored tensors; {0}: N, {1}: K, {2}, {3}: blocks
  const char *note;    ///< of the stored tensors, which some readers want
};
} // namespace

static const OperatorRow kOperators[] = {
    {{"block-gemm", "FP8 with scales of 128x128 blocks and 1x128 groups"},
     R"(activation_scheme = "dynamic", fmt = "e4m3", quant_method = "fp8", weight_block_size = [128, 128])",
     "f8E4M3FN",
     "weight_scale_inv = tensor<{2}x{3}xf32>, ",
     ""},
    {{"channel-gemm", "FP8 with a scale for each output and for each token"},
     R"(config_groups = {group_0 = {input_activations = {dynamic = true, num_bits = 8 : i64, strategy = "token", symmetric = true, type = "float"}, )"
     R"(targets = ["Linear"], weights = {dynamic = false, num_bits = 8 : i64, strategy = "channel", symmetric = true, type = "float"}}}, )"
     R"(format = "float-quantized", quant_method = "compressed-tensors")",
     "f8E4M3FN",
     "weight_scale = tensor<{0}x1xf32>, ",
     "group: group_0"},
    {{"tensor-gemm", "FP8 with one scale for each operand"},
     R"(activation_scheme = "static", quant_method = "fp8")",
     "f8E4M3FN",
     "input_scale = tensor<f32>, weight_scale = tensor<f32>, ",
     ""},
    {{"dense-gemm", "BF16 or F16, not quantised"}, "", "", "", ""},
};

const std::vector<KernelOperator> &octet::kernelOperators() {
  static const std::vector<KernelOperator> operators = [] {
    std::vector<KernelOperator> list;
    for (const OperatorRow &row : kOperators)
      list.push_back(row.op);
    return list;
  }();
  return operators;
}

std::string octet::printOperator(const KernelBenchOptions &options,
                                 const GemmShape &shape) {
  const OperatorRow *row = nullptr;
  for (const OperatorRow &candidate : kOperators)
    if (options.op == candidate.op.name)
      row = &candidate;
  if (!row)
    return "";
  auto [m, n, k] = shape;
  std::string dtype = options.resultType;
  std::string element = *row->element ? row->element : dtype;
  std::string weight = llvm::formatv("tensor<{0}x{1}x{2}>", n, k, element);
  std::string stored =
      llvm::formatv(row->beside, n, k, (n + 127) / 128, (k + 127) / 128).str() +
      "weight = " + weight;
  std::string config =
      *row->config ? llvm::formatv(
                         ", q.config = #q.config<{{{0}}, \"octet kernel {1}\">",
                         row->config, options.op)
                         .str()
                   : "";
  return llvm::formatv(
      R"(module attributes {{model.info = {{architecture = "LlamaForCausalLM", checkpoint = "", hash = "", hidden = {2} : i64, kind = "module", layers = 1 : i64, module = {{in = {2} : i64, out = {1} : i64, path = "linear"}, vocab = 1 : i64},
  model.settings = #model.settings<target = "{3}", numerics = "{3}", dtype = {4}, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = {0}, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = {5}>{6}} {{
  func.func @step(%b: !model.batch) {{
    %x = model.field input of %b : tensor<?x{2}x{4}>
    %w = model.weight ["linear"] "weight" stored [#q.stored<{{{7}}, "{9}">] : {8}
    %y = model.linear %x, %w {{module = "linear"} : tensor<?x{2}x{4}>, {8} -> tensor<?x{1}x{4}>
    model.output %y to %b : tensor<?x{1}x{4}>
    return
  }
}
)",
      m, n, k, options.target, dtype, options.batchInvariant ? "true" : "false",
      config, stored, weight, row->note);
}
