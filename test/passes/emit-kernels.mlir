// REQUIRES: nvrtc
// RUN: rm -rf %t.cache %t.cu
// RUN: env XDG_CACHE_HOME=%t.cache octet-opt %s "-octet-emit-kernels=dump-cuda=%t.cu progress=true" -split-input-file 2>%t.cold >%t.mlir
// RUN: FileCheck %s <%t.mlir
// RUN: FileCheck %s --check-prefix=COLD <%t.cold
// RUN: cat %t.cu/*.cu | FileCheck %s --check-prefix=SOURCE
// The second time nothing is compiled and the same comes out.
// RUN: env XDG_CACHE_HOME=%t.cache octet-opt %s -octet-emit-kernels=progress=true -split-input-file 2>%t.warm >%t.again
// RUN: diff %t.mlir %t.again
// RUN: count 0 <%t.warm
// The file is as good as the module: lowered, it is a program with images.
// RUN: octet-opt %t.mlir --verify-roundtrip -split-input-file >/dev/null
// RUN: octet-opt %t.mlir -octet-lower-to-host -split-input-file | FileCheck %s --check-prefix=HOST

// COLD: compiling {{[1-9]}} kernel{{s?}} for sm_80

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

// A launch on each product, a binary for each entry, in PTX too for newer
// devices; two products of one shape have the same ones.
// CHECK: module attributes {{.*}}kernel.nvrtc = "{{[0-9.]+}}"
//      CHECK:   kernel.binary @[[E:octet_kernel_mma_bf16_bf16_bf16_n128_k64_[a-z0-9_]+]] for "sm_80" {cubin = dense_resource<[[E]]> : tensor<{{[0-9]+}}xi8>, ptx = "{{.*}}.target sm_80{{.*}}", source = "// {{.*}}"}
//  CHECK-NOT:   @[[E]]
//      CHECK:   kernel.gemm "mma.dense_gemm" {{.*}}launch = {bytes = 16384 : i64, label = "mma.dense_gemm", module = "m.a"{{.*}}entry = "[[E]]"
//      CHECK:   kernel.gemm "mma.dense_gemm" {{.*}}module = "m.b"{{.*}}entry = "[[E]]"

// SOURCE: #include "gemm/mma_gemm.cuh"
// SOURCE: extern "C" __global__ void

// The weight goes to the device; a product is one call with six addresses.
//       HOST: llvm.func internal @octet_load
//       HOST:   %[[U:.+]] = llvm.call %{{.+}}(%arg0, %{{.+}}, %{{.+}}, %{{.+}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
//       HOST:   llvm.icmp "eq" %[[U]]
//       HOST: llvm.func internal @octet_step
//       HOST:   %[[SIX:.+]] = llvm.mlir.constant(6 : i64)
//  HOST-NEXT:   %[[ARGS:.+]] = llvm.alloca %[[SIX]] x !llvm.ptr
//       HOST:   %[[L:.+]] = llvm.mlir.addressof @octet.launch
//       HOST:   llvm.call %{{.+}}(%arg0, %[[L]], %arg1, %{{.+}}, %{{.+}}) : !llvm.ptr, (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64, !llvm.ptr) -> ()
//       HOST: @octet.cubin("\7FELF
//       HOST: nvrtc\22:\22{{[0-9.]+}}\22,\22driver\22:{{[0-9]+}}000
//       HOST: @octet_program()
//       HOST:   llvm.mlir.addressof @octet.images
module attributes {model.settings = #settings, kernel.arena_bytes = 8192 : i64,
                   model.info = {hash = "0", kind = "module", layers = 2 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}} {
  q.slot @w[2] : tensor<128x64xbf16>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %l = %c0 to %c2 step %c1 {
      %w = q.load "layers.{l}.w"[%l] weight "weight" : tensor<128x64xbf16>
      q.store %w, @w[%l] : tensor<128x64xbf16>
    }
    return
  }
  func.func @step(%b: !model.batch) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %v = q.weight @w[%c0] : tensor<128x64xbf16>
    %w = q.weight @w[%c1] : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    %z = kernel.place 4096 : !kernel.buffer<tensor<?x128xbf16>>
    kernel.gemm "mma.dense_gemm" %x, %v into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m.a", variants = ["m128n128k128"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    kernel.gemm "mma.dense_gemm" %x, %w into %z : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m.b", variants = ["m128n128k128"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// Programs of the CPU are left as they are.
// CHECK-LABEL: module attributes {{.*}}target = "cpu"
//   CHECK-NOT:   kernel.binary
//       CHECK:   kernel.gemm "cpu.gemm" {{.*}} {max_m = array<i64: -1>, module = "m", variants = ["any"]}
module attributes {model.settings = #settings, kernel.arena_bytes = 8192 : i64,
                   model.info = {hash = "0", kind = "module", layers = 2 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}} {
  q.slot @w[1] : tensor<128x64xbf16>
  func.func @load(%rank: index) {
    %w = q.load "w" weight "weight" : tensor<128x64xbf16>
    q.store %w, @w : tensor<128x64xbf16>
    return
  }
  func.func @step(%b: !model.batch) {
    %w = q.weight @w : tensor<128x64xbf16>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
    %y = kernel.place 2048 : !kernel.buffer<tensor<?x128xbf16>>
    kernel.gemm "cpu.gemm" %x, %w into %y : !kernel.buffer<tensor<?x128xbf16>> of %b tokens {max_m = array<i64: -1>, module = "m", variants = ["any"]}
      : !kernel.buffer<tensor<?x64xbf16>>, tensor<128x64xbf16>
    return
  }
}
