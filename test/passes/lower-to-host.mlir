// RUN: octet-opt %s -octet-lower-to-host | FileCheck %s
// RUN: octet-opt %s -octet-lower-to-host | FileCheck %s --check-prefix=ROWS
// RUN: octet-opt %s -octet-lower-to-host | FileCheck %s --check-prefix=LOAD

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// The module is the LLVM dialect alone, and exports one constant.
// CHECK: module {
//   CHECK-NOT: unrealized_conversion_cast
//   CHECK-NOT: kernel.
//   CHECK-NOT: q.slot
//       CHECK: llvm.func internal @octet_load(%{{.+}}: !llvm.ptr, %{{.+}}: i64) -> i32
//       CHECK: llvm.func internal @octet_step(%{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr) -> i32
// A trace is free where nobody listens: a test of ctx->tracing.
//       CHECK:   llvm.cond_br
// The product's constants: n, k, blocks, then dtypes, bias and scale modes.
//       CHECK: llvm.mlir.global internal constant @octet.gemm()
//   CHECK-DAG:   llvm.mlir.constant(64 : i64)
//   CHECK-DAG:   llvm.mlir.constant(40 : i64)
//   CHECK-DAG:   llvm.mlir.constant(32 : i64)
//       CHECK: llvm.mlir.global external constant @octet_program()
//       CHECK:   llvm.mlir.addressof @octet_load
//       CHECK:   llvm.mlir.addressof @octet_step

// One function a SIMD level, each for its own processor, without library calls.
//  ROWS-LABEL: llvm.func internal @row.scale_quantize.v3(
//  ROWS-SAME:    no-builtins
//  ROWS-SAME:    target_cpu = "x86-64-v3"
// Chunks of sixteen, the last of eight (W4).
//        ROWS:   llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr -> vector<16xi16>
//        ROWS:   llvm.fmul %{{.+}}, %{{.+}} : vector<16xf32>
//        ROWS:   llvm.intr.maxnum
//        ROWS:   llvm.fdiv %{{.+}}, %{{.+}} : f32
//        ROWS:   llvm.fdiv %{{.+}}, %{{.+}} : vector<16xf32>
//        ROWS:   llvm.store %{{.+}}, %{{.+}} {alignment = 1 : i64} : vector<16xi8>, !llvm.ptr
//        ROWS:   llvm.load %{{.+}} {alignment = 2 : i64} : !llvm.ptr -> vector<8xi16>
//        ROWS:   llvm.fdiv %{{.+}}, %{{.+}} : vector<8xf32>
//    ROWS-NOT:   fastmath
//  ROWS-LABEL: llvm.func internal @row.scale_quantize.v4(
//   ROWS-SAME:   ["prefer-vector-width", "512"]
//   ROWS-SAME:   target_cpu = "x86-64-v4"

// A loop over layers, a row of the table for each tensor and scale, and an end
// at the first call that fails.
//  LOAD-LABEL: llvm.func internal @octet_load
//        LOAD:   %[[S:.+]] = llvm.call %{{.+}}(%arg0, {{.*}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, i64, i64, !llvm.ptr) -> i32
//        LOAD:   %[[Z:.+]] = llvm.mlir.constant(0 : i32) : i32
//        LOAD:   %[[G:.+]] = llvm.icmp "eq" %[[S]], %[[Z]] : i32
//        LOAD:   llvm.cond_br %[[G]], ^{{.+}}, ^[[E:.+]](%[[S]] : i32)
//        LOAD: ^[[E]](%[[R:.+]]: i32):
//   LOAD-NEXT:   llvm.return %[[R]]
//        LOAD: tensors\22:{{\[\[}}\22layers.0.w.weight\22,\22F8_E4M3\22,[64,40]],[\22layers.0.w.weight_scale\22,\22F32\22,[2,2]],[\22layers.1.w.weight\22
module attributes {model.settings = #settings, kernel.arena_bytes = 4096 : i64,
                   model.info = {hash = "0", kind = "module", layers = 2 : i64, module = {in = 40 : i64, out = 64 : i64, path = "m"}}} {
  q.slot @w[2] : !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %l = %c0 to %c2 step %c1 {
      %w = q.load "layers.{l}.w"[%l] weight "weight" scale "weight_scale" : !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
      q.check_scales %w : !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
      q.store %w, @w[%l] : !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
    }
    return
  }
  func.func @step(%b: !model.batch) {
    %c1 = arith.constant 1 : index
    %x = kernel.place 0 : !kernel.buffer<tensor<?x40xbf16>>
    %q = kernel.place 2048 scales 3072 : !kernel.buffer<!q.tensor<?x40xf8E4M3FN, block<1x32>, f32>>
    %y = kernel.output of %b : !kernel.buffer<tensor<?x64xf32>>
    %w = q.weight @w[%c1] : !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
    kernel.rowwise "scale+quantize" tokens of %b ins(%x : !kernel.buffer<tensor<?x40xbf16>>) access [row] outs(%q : !kernel.buffer<!q.tensor<?x40xf8E4M3FN, block<1x32>, f32>>) {
    ^bb0(%r: tensor<40xf32>):
      %0 = arith.mulf %r, %r fastmath<fast> : tensor<40xf32>
      %1 = q.quantize %0 : tensor<40xf32> -> !q.tensor<1x40xf8E4M3FN, block<1x32>, f32>
      kernel.yield %1 : !q.tensor<1x40xf8E4M3FN, block<1x32>, f32>
    }
    kernel.gemm "cpu.fp8_block_gemm" %q, %w into %y : !kernel.buffer<tensor<?x64xf32>> of %b tokens {module = "m", max_m = array<i64: -1>, variants = ["any"]}
      : !kernel.buffer<!q.tensor<?x40xf8E4M3FN, block<1x32>, f32>>, !q.tensor<64x40xf8E4M3FN, block<32x32>, f32>
    kernel.trace "out"[%c1] %x of %b tokens : !kernel.buffer<tensor<?x40xbf16>>
    return
  }
}
