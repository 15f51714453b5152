// RUN: octet-opt %s -split-input-file -octet-insert-quantization -octet-select-kernels | FileCheck %s

// Keys in E4M3 with an F32 scale per 128, 132 bytes a token, by default (P9); the kernel says which layout it reads.
// CHECK: kernel.launch "cpu.indexer" {{.*}}reads = "fp8_indexer"{{.*}}!q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @indexer(%q: tensor<?x256xbf16>, %k: tensor<?x128xbf16>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %r = model.indexer %q, %k : tensor<?x128xbf16> weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x256xbf16> -> tensor<?x8xi32>
    return %r : tensor<?x8xi32>
  }
}

// -----

// --index-cache bf16 (P9).
// CHECK: kernel.launch "cpu.indexer" {{.*}}reads = "bf16"{{.*}}!q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, index_cache = "bf16">} {
  func.func @indexer(%q: tensor<?x256xbf16>, %k: tensor<?x128xbf16>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %r = model.indexer %q, %k : tensor<?x128xbf16> weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x256xbf16> -> tensor<?x8xi32>
    return %r : tensor<?x8xi32>
  }
}

// -----

// --dtype f32 rounds nothing (P9).
// CHECK: kernel.launch "cpu.indexer" {{.*}}reads = "f32"{{.*}}!q.kv<f32, page = 64, heads = 1, dim = 128, rope = 0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @indexer(%q: tensor<?x256xf32>, %k: tensor<?x128xf32>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %r = model.indexer %q, %k : tensor<?x128xf32> weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x256xf32> -> tensor<?x8xi32>
    return %r : tensor<?x8xi32>
  }
}
