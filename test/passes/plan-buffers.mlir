// RUN: octet-opt %s -octet-plan-buffers -split-input-file | FileCheck %s

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// Sixteen rows of 64 BF16 are 2048 bytes. The first value is dead when the third
// is made, which takes its place; input and output of one kernel never share.
// CHECK: module attributes {
// CHECK-SAME: kernel.arena_bytes = 4096 : i64
// CHECK-SAME: model.memory = {arena = 4096 : i64, kv_per_token = 0 : i64, weights = 8192 : i64}
// CHECK-LABEL: func.func @step
//       CHECK:   %[[A:.+]] = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
//       CHECK:   %[[B:.+]] = kernel.place 2048 : !kernel.buffer<tensor<?x64xbf16>>
//       CHECK:   %[[O:.+]] = kernel.output of %{{.+}} : !kernel.buffer<tensor<?x64xf32>>
//       CHECK:   kernel.gemm "cpu.gemm" %{{.+}}, %{{.+}} into %[[A]]
//       CHECK:   kernel.gemm "cpu.gemm" %[[A]], %{{.+}} into %[[B]]
//       CHECK:   kernel.gemm "cpu.gemm" %[[B]], %{{.+}} into %[[A]]
//       CHECK:   kernel.gemm "cpu.gemm" %[[A]], %{{.+}} into %[[O]]
//   CHECK-NOT:   model.output
module attributes {model.settings = #settings} {
  q.slot @w[1] : tensor<64x64xbf16>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<64x64xbf16>
    %x = model.field input of %b : tensor<?x64xf32>
    %0 = kernel.gemm "cpu.gemm" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x64xf32>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    %1 = kernel.gemm "cpu.gemm" %0, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    %2 = kernel.gemm "cpu.gemm" %1, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xbf16>
    %3 = kernel.gemm "cpu.gemm" %2, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xf32>
    model.output %3 to %b : tensor<?x64xf32>
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// The hidden state has one place, in the step and in the layer; loop, call and
// function carry nothing. Codes stand before their scales. The layer's frame is
// above what the step keeps over the call. Two layers of 2 x 2 x 8 BF16 a token.
// CHECK: kernel.arena_bytes = 5888 : i64
// CHECK-SAME: kv_per_token = 128 : i64
// CHECK-LABEL: func.func private @layer(%{{.+}}: index, %{{.+}}: !model.batch) {
//   CHECK-DAG:   %[[H:.+]] = kernel.place 0 : !kernel.buffer<tensor<?x40xbf16>>
//   CHECK-DAG:   %[[Q:.+]] = kernel.place 2560 scales 3200 : !kernel.buffer<!q.tensor<?x40xf8E4M3FN, block<1x32>, f32>>
//       CHECK:   kernel.rowwise "quantize" {{.*}} ins(%[[H]] : {{.*}} outs(%[[Q]] :
//       CHECK:   kernel.gemm {{.*}} %[[Q]], {{.*}} into %[[Y:[0-9]+]] :
//       CHECK:   kernel.rowwise "add" {{.*}} ins(%[[H]], %[[Y]] : {{.*}} outs(%[[S:[0-9]+]] :
//       CHECK:   kernel.rowwise "double" {{.*}} ins(%[[S]] : {{.*}} outs(%[[H]] :
//       CHECK:   return{{$}}
// CHECK-LABEL: func.func @step
//   CHECK-DAG:   %[[H:.+]] = kernel.place 0 :
//   CHECK-DAG:   %[[K:.+]] = kernel.place 1280 :
//       CHECK:   kernel.gemm {{.*}} into %[[K]]
//       CHECK:   kernel.gemm {{.*}} into %[[H]]
//       CHECK:   scf.for %[[L:.+]] = %{{.+}} to %{{.+}} step %{{.+}} {
//       CHECK:     func.call @layer(%[[L]], %{{.+}}) : (index, !model.batch) -> ()
//       CHECK:   }
//       CHECK:   kernel.rowwise "output" {{.*}} ins(%[[K]]
module attributes {model.settings = #settings, model.info = {layers = 2 : i64}} {
  q.slot @w[1] : tensor<40x40xbf16>
  q.slot @v[1] : !q.tensor<40x40xf8E4M3FN, block<32x32>, f32>
  func.func private @layer(%l: index, %h: tensor<?x40xbf16>, %b: !model.batch) -> tensor<?x40xbf16> {
    %v = q.weight @v : !q.tensor<40x40xf8E4M3FN, block<32x32>, f32>
    %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 8>
    %q = kernel.rowwise "quantize" tokens of %b ins(%h : tensor<?x40xbf16>) access [row] {
    ^bb0(%r: tensor<40xf32>):
      %0 = q.quantize %r : tensor<40xf32> -> !q.tensor<1x40xf8E4M3FN, block<1x32>, f32>
      kernel.yield %0 : !q.tensor<1x40xf8E4M3FN, block<1x32>, f32>
    } -> !q.tensor<?x40xf8E4M3FN, block<1x32>, f32>
    %y = kernel.gemm "cpu.fp8_block_gemm" %q, %v of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : !q.tensor<?x40xf8E4M3FN, block<1x32>, f32>, !q.tensor<40x40xf8E4M3FN, block<32x32>, f32> -> tensor<?x40xbf16>
    %s = kernel.rowwise "add" tokens of %b ins(%h, %y : tensor<?x40xbf16>, tensor<?x40xbf16>) access [row, row] {
    ^bb0(%r: tensor<40xf32>, %t: tensor<40xf32>):
      %0 = arith.addf %r, %t : tensor<40xf32>
      %1 = kernel.round %0 to bf16 : tensor<40xf32>
      kernel.yield %1 : tensor<40xf32>
    } -> tensor<?x40xbf16>
    %d = kernel.rowwise "double" tokens of %b ins(%s : tensor<?x40xbf16>) access [row] {
    ^bb0(%r: tensor<40xf32>):
      %0 = arith.addf %r, %r : tensor<40xf32>
      %1 = kernel.round %0 to bf16 : tensor<40xf32>
      kernel.yield %1 : tensor<40xf32>
    } -> tensor<?x40xbf16>
    return %d : tensor<?x40xbf16>
  }
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<40x40xbf16>
    %x = model.field input of %b : tensor<?x40xf32>
    %k = kernel.gemm "cpu.gemm" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x40xf32>, tensor<40x40xbf16> -> tensor<?x40xbf16>
    %h = kernel.gemm "cpu.gemm" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x40xf32>, tensor<40x40xbf16> -> tensor<?x40xbf16>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %z = scf.for %l = %c0 to %c2 step %c1 iter_args(%i = %h) -> (tensor<?x40xbf16>) {
      %y = func.call @layer(%l, %i, %b) : (index, tensor<?x40xbf16>, !model.batch) -> tensor<?x40xbf16>
      scf.yield %y : tensor<?x40xbf16>
    }
    model.output %k to %b : tensor<?x40xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 1,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// Where two names of the carried value would live together it is copied: the
// loop's start is read afterwards, and the body reads the old value after it has
// made the new one. The smallest step and row.
// CHECK-LABEL: func.func @step
//   CHECK-DAG:   %[[H:.+]] = kernel.place 0 :
//   CHECK-DAG:   %[[X:.+]] = kernel.place 64 :
//       CHECK:   kernel.rowwise "copy" {{.*}} ins(%[[X]] : {{.*}} outs(%[[H]] :
//       CHECK:   scf.for
//       CHECK:     kernel.gemm {{.*}} %[[H]], %{{.+}} into %[[N:[0-9]+]] :
//       CHECK:     kernel.trace "old"[%{{.+}}] %[[H]]
//       CHECK:     kernel.rowwise "copy" {{.*}} ins(%[[N]] : {{.*}} outs(%[[H]] :
//       CHECK:   kernel.trace "start"[%{{.+}}] %[[X]]
module attributes {model.settings = #settings} {
  q.slot @w[1] : tensor<1x1xf32>
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<1x1xf32>
    %i = model.field input of %b : tensor<?x1xf32>
    %x = kernel.gemm "cpu.gemm" %i, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x1xf32>, tensor<1x1xf32> -> tensor<?x1xf32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = scf.for %l = %c0 to %c1 step %c1 iter_args(%h = %x) -> (tensor<?x1xf32>) {
      %n = kernel.gemm "cpu.gemm" %h, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x1xf32>, tensor<1x1xf32> -> tensor<?x1xf32>
      kernel.trace "old"[%l] %h of %b tokens : tensor<?x1xf32>
      scf.yield %n : tensor<?x1xf32>
    }
    kernel.trace "start"[%c0] %x of %b tokens : tensor<?x1xf32>
    model.output %z to %b : tensor<?x1xf32>
    return
  }
}
