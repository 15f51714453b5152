// RUN: octet-opt %s -octet-emit-kernels=nvrtc=/nowhere/libnvrtc.so.13 -split-input-file -verify-diagnostics

// Tensor memory belongs to a family, which the name has to say (C9).
// expected-error @+1 {{--target sm_110: kernels are written for sm_80, sm_86, sm_89, sm_90a, sm_100f and sm_120f; a device of 10.3 runs programs of sm_100f, one of 12.1 those of sm_120f [C9]}}
module attributes {model.settings = #model.settings<target = "sm_110", numerics = "sm_110", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
}

// -----

#settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

// One error for all kernels that are named and not written.
// expected-error @+1 {{kernels that are not written yet: cuda.gguf_gemm (m.a), sm90.indexer (i); --compile-to plan-buffers goes as far as it can [C9]}}
module attributes {model.settings = #settings} {
  func.func @step(%b: !model.batch, %q: tensor<?x64xbf16>, %l: index) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    kernel.gemm "cuda.gguf_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m.a", unwritten, variants = ["any"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    %r = kernel.launch "sm90.indexer" "model.indexer"(%q) of %b[%l] {module = "i", params = {}, unwritten} : (tensor<?x64xbf16>) -> tensor<?x8xi32>
    return
  }
  q.slot @w[1] : tensor<128x64xbf16>
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

// expected-error @+1 {{/nowhere/libnvrtc.so.13: cannot be opened as NVRTC: cannot open shared object file: No such file or directory}}
module attributes {model.settings = #settings} {
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    kernel.gemm "mma.dense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

// A file written by hand: every one of its operators is looked at.
module attributes {model.settings = #settings} {
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @step(%b: !model.batch, %v: tensor<?x64xbf16>) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    // expected-error @+1 {{m: no family makes mma.tense_gemm; select-kernels marks it so}}
    kernel.gemm "mma.tense_gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    // expected-error @+1 {{'kernel.gemm' has no place for what it computes; octet-plan-buffers gives it one}}
    %z = kernel.gemm "mma.dense_gemm" %v, %w of %b tokens {max_m = array<i64: -1>, module = "n", variants = ["any"]}
      : tensor<?x64xbf16>, tensor<128x64xbf16> -> tensor<?x128xbf16>
    return
  }
}
