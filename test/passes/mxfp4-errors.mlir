// RUN: octet-opt %s -split-input-file -verify-diagnostics -octet-resolve-quant-methods

// mxfp4 quantises routed experts only: a dense linear keeps the checkpoint's dtype (C12).
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "mxfp4"}, "config.json: quantization_config">} {
  func.func @c12_plain_linear(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
    %w = model.weight ["a.o_proj"] "weight" stored [#q.stored<{weight = tensor<128x64xbf16>}, "">] : tensor<128x64xbf16>
    %y = model.linear %x, %w {module = "a.o_proj"} : tensor<?x64xbf16>, tensor<128x64xbf16> -> tensor<?x128xbf16>
    return %y : tensor<?x128xbf16>
  }
}

// -----

module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "mxfp4"}, "config.json: quantization_config">} {
  func.func @c12_packed_linear(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
    %w = model.weight ["a.o_proj"] "weight" stored [#q.stored<{weight = tensor<128x32xui8>, weight_scale = tensor<128x2xui8>}, "">] : tensor<128x32xui8>
    // expected-error @+1 {{a.o_proj: weight is U8; method 'mxfp4' quantises routed experts only, expected BF16, F16 or F32 [C12]}}
    %y = model.linear %x, %w {module = "a.o_proj"} : tensor<?x64xbf16>, tensor<128x32xui8> -> tensor<?x128xbf16>
    return %y : tensor<?x128xbf16>
  }
}
