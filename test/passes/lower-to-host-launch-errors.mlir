// RUN: octet-opt %s -octet-lower-to-host -split-input-file -verify-diagnostics

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 1 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  func.func @load(%rank: index) { return }
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    // expected-error @+1 {{'kernel.gemm' has no launch; octet-emit-kernels gives it one}}
    kernel.gemm "mma.dense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 1 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  func.func @load(%rank: index) { return }
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    // expected-error @+1 {{its launch names 'gone', and no kernel.binary is called so}}
    kernel.gemm "mma.dense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"],
      launch = {variants = [{kernels = [{entry = "gone"}]}]}} : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 1 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  func.func @load(%rank: index) { return }
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    // expected-error @+1 {{'kernel.gemm': launch.variants[0].kernels[0].threads is not what a launch has there}}
    kernel.gemm "mma.dense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"],
      launch = {variants = [{kernels = [{entry = "e", threads = 4294967296 : i64}]}]}} : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 1 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  kernel.binary @e for "sm_80" {cubin = dense_resource<e> : tensor<4xi8>, source = ""}
  func.func @load(%rank: index) { return }
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    // expected-error @+1 {{a parameter of 'e' is argument 6; the operator has 6}}
    kernel.gemm "mma.dense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"],
      launch = {variants = [{kernels = [{entry = "e", params = [{arg = 6 : i64}]}]}]}} : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 1 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  // expected-error @+1 {{the bytes of @e are not in this text; a print without --mlir-elide-resource-strings-if-larger has them}}
  kernel.binary @e for "sm_80" {cubin = dense_resource<e> : tensor<4xi8>, source = ""}
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) { return }
}
