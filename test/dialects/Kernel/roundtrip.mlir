// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%b: !model.batch, %x: tensor<?x256xbf16>, %g: tensor<256xbf16>) -> tensor<?x256xbf16> {
  // CHECK:      kernel.rowwise "rms_norm" tokens of %{{.+}} ins(%{{.+}}, %{{.+}} : tensor<?x256xbf16>, tensor<256xbf16>) access [row, uniform] modules ["model.norm"] {
  // CHECK-NEXT: ^bb0(%[[R:.+]]: tensor<256xf32>, %[[W:.+]]: tensor<256xf32>):
  %y = kernel.rowwise "rms_norm" tokens of %b ins(%x, %g : tensor<?x256xbf16>, tensor<256xbf16>) access [row, uniform] modules ["model.norm"] {
  ^bb0(%r: tensor<256xf32>, %w: tensor<256xf32>):
    %n = arith.constant dense<2.56e+02> : tensor<1xf32>
    %eps = arith.constant dense<1.0e-06> : tensor<1xf32>
    %sq = arith.mulf %r, %r : tensor<256xf32>
    // CHECK: kernel.reduce add %{{.+}} : tensor<256xf32> -> tensor<1xf32>
    %sum = kernel.reduce add %sq : tensor<256xf32> -> tensor<1xf32>
    %mean = arith.divf %sum, %n : tensor<1xf32>
    %e = arith.addf %mean, %eps : tensor<1xf32>
    %s = math.sqrt %e : tensor<1xf32>
    // CHECK: kernel.broadcast %{{.+}} : tensor<1xf32> -> tensor<256xf32>
    %a = kernel.broadcast %s : tensor<1xf32> -> tensor<256xf32>
    %d = arith.divf %r, %a : tensor<256xf32>
    %m = arith.mulf %d, %w : tensor<256xf32>
    // CHECK: kernel.round %{{.+}} to bf16 : tensor<256xf32>
    %o = kernel.round %m to bf16 : tensor<256xf32>
    // CHECK: kernel.yield %{{.+}} : tensor<256xf32>
    kernel.yield %o : tensor<256xf32>
  // CHECK: } {grain = 4 : i64} -> tensor<?x256xbf16>
  } {grain = 4 : i64} -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Two destinations, one of them quantised (P2); no modules.
// CHECK-LABEL: func.func @two_results
func.func @two_results(%b: !model.batch, %x: tensor<?x256xbf16>) -> (tensor<?x256xbf16>, !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) {
  // CHECK: kernel.rowwise "q" outputs of %{{.+}} ins(%{{.+}} : tensor<?x256xbf16>) access [row] {
  %y:2 = kernel.rowwise "q" outputs of %b ins(%x : tensor<?x256xbf16>) access [row] {
  ^bb0(%r: tensor<256xf32>):
    // CHECK: q.quantize %{{.+}} : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
    %q = q.quantize %r : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
    // A row that is passed on is exact in the type it was read from.
    kernel.yield %r, %q : tensor<256xf32>, !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
  // CHECK: } -> (tensor<?x256xbf16>, !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>)
  } -> (tensor<?x256xbf16>, !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>)
  return %y#0, %y#1 : tensor<?x256xbf16>, !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
}

// Indexed reads: an embedding by token, a rope table by position.
// CHECK-LABEL: func.func @embedding
func.func @embedding(%b: !model.batch, %e: tensor<1000x64xbf16>, %ids: tensor<?xi32>) -> tensor<?x64xbf16> {
  // CHECK: access [indexed] indices(%{{.+}} : tensor<?xi32>) {
  %y = kernel.rowwise "embedding" tokens of %b ins(%e : tensor<1000x64xbf16>) access [indexed] indices(%ids : tensor<?xi32>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// Keys and values go to the cache; nothing else is written.
// CHECK-LABEL: func.func @p7a_kv_write
func.func @p7a_kv_write(%b: !model.batch, %x: tensor<?x256xbf16>, %t: tensor<4096x64xf32>, %p: tensor<?xi32>, %g: tensor<64xbf16>, %ks: tensor<f32>, %vs: tensor<f32>,
    %c: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %slots: tensor<?xi32>) {
  // CHECK: access [row, indexed, uniform, uniform, uniform] indices(%{{.+}} : tensor<?xi32>) cache(%{{.+}}, %{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, tensor<?xi32>) modules ["a.k_proj", "a.v_proj"] {
  kernel.rowwise "kv_write" tokens of %b ins(%x, %t, %g, %ks, %vs : tensor<?x256xbf16>, tensor<4096x64xf32>, tensor<64xbf16>, tensor<f32>, tensor<f32>)
      access [row, indexed, uniform, uniform, uniform] indices(%p : tensor<?xi32>)
      cache(%c, %slots : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, tensor<?xi32>) modules ["a.k_proj", "a.v_proj"] {
  ^bb0(%r: tensor<256xf32>, %cs: tensor<64xf32>, %w: tensor<64xf32>, %s0: tensor<1xf32>, %s1: tensor<1xf32>):
    // CHECK: kernel.slice %{{.+}} at 0 : tensor<256xf32> -> tensor<128xf32>
    %k = kernel.slice %r at 0 : tensor<256xf32> -> tensor<128xf32>
    %v = kernel.slice %r at 128 : tensor<256xf32> -> tensor<128xf32>
    // CHECK: kernel.reduce max %{{.+}} group 64 : tensor<128xf32> -> tensor<2xf32>
    %m = kernel.reduce max %k group 64 : tensor<128xf32> -> tensor<2xf32>
    // CHECK: kernel.broadcast %{{.+}} group 64 : tensor<2xf32> -> tensor<128xf32>
    %d = kernel.broadcast %m group 64 : tensor<2xf32> -> tensor<128xf32>
    // CHECK: kernel.tile %{{.+}} : tensor<64xf32> -> tensor<128xf32>
    %h = kernel.tile %w : tensor<64xf32> -> tensor<128xf32>
    %n = arith.divf %k, %d : tensor<128xf32>
    %o = arith.mulf %n, %h : tensor<128xf32>
    // CHECK: kernel.rope %{{.+}}, %{{.+}} head_dim 64 : tensor<128xf32>, tensor<64xf32> -> tensor<128xf32>
    %a = kernel.rope %o, %cs head_dim 64 : tensor<128xf32>, tensor<64xf32> -> tensor<128xf32>
    // CHECK: kernel.rope %{{.+}}, %{{.+}} head_dim 64 interleaved : tensor<128xf32>, tensor<64xf32> -> tensor<128xf32>
    %i = kernel.rope %a, %cs head_dim 64 interleaved : tensor<128xf32>, tensor<64xf32> -> tensor<128xf32>
    %qk = q.quantize %i, %s0 : tensor<128xf32>, tensor<1xf32> -> !q.tensor<1x128xf8E4M3FN, per_tensor, f32>
    %qv = q.quantize %v, %s1 : tensor<128xf32>, tensor<1xf32> -> !q.tensor<1x128xf8E4M3FN, per_tensor, f32>
    // CHECK: kernel.yield %{{.+}}, %{{.+}} : !q.tensor<1x128xf8E4M3FN, per_tensor, f32>, !q.tensor<1x128xf8E4M3FN, per_tensor, f32>
    kernel.yield %qk, %qv : !q.tensor<1x128xf8E4M3FN, per_tensor, f32>, !q.tensor<1x128xf8E4M3FN, per_tensor, f32>
  // CHECK: }{{$}}
  }
  return
}

// After plan-buffers every operator writes the places that it was given.
// CHECK-LABEL: func.func @buffers
func.func @buffers(%b: !model.batch, %w: !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>, %bias: tensor<640xbf16>, %i: index) {
  // CHECK: kernel.place 4096 : !kernel.buffer<tensor<?x256xbf16>>
  %x = kernel.place 4096 : !kernel.buffer<tensor<?x256xbf16>>
  // CHECK: kernel.place 8192 scales 16384 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
  %q = kernel.place 8192 scales 16384 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
  %y = kernel.place 0 : !kernel.buffer<tensor<?x640xbf16>>
  // CHECK: kernel.output of %{{.+}} : !kernel.buffer<tensor<?x256xf32>>
  %o = kernel.output of %b : !kernel.buffer<tensor<?x256xf32>>
  // CHECK: kernel.rowwise "quantize" tokens of %{{.+}} ins(%{{.+}} : !kernel.buffer<tensor<?x256xbf16>>) access [row] outs(%{{.+}}, %{{.+}} : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>, !kernel.buffer<tensor<?x256xf32>>) {
  kernel.rowwise "quantize" tokens of %b ins(%x : !kernel.buffer<tensor<?x256xbf16>>) access [row]
      outs(%q, %o : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>, !kernel.buffer<tensor<?x256xf32>>) {
  ^bb0(%r: tensor<256xf32>):
    %c = q.quantize %r : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
    %d = arith.addf %r, %r : tensor<256xf32>
    kernel.yield %c, %d : !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>, tensor<256xf32>
  }
  // CHECK: kernel.gemm "cpu.fp8_block_gemm" %{{.+}}, %{{.+}} bias(%{{.+}} : tensor<640xbf16>) into %{{.+}} : !kernel.buffer<tensor<?x640xbf16>> of %{{.+}} tokens {{.+}} : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>{{$}}
  kernel.gemm "cpu.fp8_block_gemm" %q, %w bias(%bias : tensor<640xbf16>) into %y : !kernel.buffer<tensor<?x640xbf16>> of %b tokens
      {module = "a.b", max_m = array<i64: 16, -1>, variants = ["stream", "tile"]} : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>
  // CHECK: kernel.trace "hidden"[%{{.+}}] %{{.+}} of %{{.+}} tokens : !kernel.buffer<tensor<?x640xbf16>>
  kernel.trace "hidden"[%i] %y of %b tokens : !kernel.buffer<tensor<?x640xbf16>>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%b: !model.batch, %x: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %w: !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>,
    %p: tensor<?x256xbf16>, %v: !q.tensor<640x256xf8E4M3FN, per_channel, f32>, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>,
    %f: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %s: tensor<f32>, %l: index) {
  // CHECK: kernel.gemm "cpu.fp8_block_gemm" %{{.+}}, %{{.+}} of %{{.+}} tokens {{.+}} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x640xbf16>
  %0 = kernel.gemm "cpu.fp8_block_gemm" %x, %w of %b tokens {module = "a.b", max_m = array<i64: -1>, variants = ["stream"]}
      : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x640xbf16>
  // Weight-only: the activation stays as it is (B4).
  // CHECK: kernel.gemm "cpu.weight_only" %{{.+}}, %{{.+}} of %{{.+}} outputs {{.+}} : tensor<?x256xbf16>, !q.tensor<640x256xf8E4M3FN, per_channel, f32> -> tensor<?x640xf32>
  %1 = kernel.gemm "cpu.weight_only" %p, %v of %b outputs {module = "a.b", max_m = array<i64: -1>, variants = ["stream"]}
      : tensor<?x256xbf16>, !q.tensor<640x256xf8E4M3FN, per_channel, f32> -> tensor<?x640xf32>
  // CHECK: kernel.attention "cpu.paged_attention" %{{.+}}, %{{.+}} of %{{.+}}[%{{.+}}] {{.+}} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  %2 = kernel.attention "cpu.paged_attention" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"}
      : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  %o = kernel.place 0 : !kernel.buffer<tensor<?x384xbf16>>
  // CHECK: kernel.attention "cpu.paged_attention" %{{.+}}, %{{.+}} scales(%{{.+}}, %{{.+}} : tensor<f32>, tensor<f32>) into %{{.+}} : !kernel.buffer<tensor<?x384xbf16>> of
  kernel.attention "cpu.paged_attention" %q, %f scales(%s, %s : tensor<f32>, tensor<f32>) into %o : !kernel.buffer<tensor<?x384xbf16>> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, window = 128 : i64, module = "a"} : tensor<?x384xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>
  return
}
