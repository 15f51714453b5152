// REQUIRES: nvrtc
// RUN: octet-opt %s -octet-emit-kernels | FileCheck %s
// Rewrites of the load function that touch each element of a weight are kernels
// (W8, W10); scales, and what has one shard, stay with the host.

#settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

//   CHECK-DAG: kernel.binary @octet_kernel_load_quantize_rows_bf16_k64 for "sm_90a"
//   CHECK-DAG: kernel.binary @octet_kernel_load_amax_f32_k64
//   CHECK-DAG: kernel.binary @octet_kernel_load_quantize_all_f32_k64
//   CHECK-DAG: kernel.binary @octet_kernel_load_requantize_96_32_k64
module attributes {model.settings = #settings} {
  // CHECK-LABEL: func.func @load
  func.func @load(%rank: index) {
    %a = q.load "a" weight "weight" : tensor<128x64xbf16>
    // CHECK: q.quantize {{.*}}launch = {label = "load.quantize", module = "a", {{.*}}"octet_kernel_load_quantize_rows_bf16_k64"
    %qa = q.quantize %a : tensor<128x64xbf16> -> !q.tensor<128x64xf8E4M3FN, per_channel, f32>
    %b = q.load "b" weight "weight" : tensor<128x64xf32>
    // CHECK: q.quantize {{.*}}launch = {{.*}}"octet_kernel_load_amax_f32_k64"{{.*}}"octet_kernel_load_quantize_all_f32_k64"
    %qb = q.quantize %b : tensor<128x64xf32> -> !q.tensor<128x64xf8E4M3FN, per_tensor, f32>
    %c = q.load "c" weight "weight" scale "weight_scale" : !q.tensor<96x64xf8E4M3FN, per_tensor, f32>
    // CHECK: q.check_scales
    // CHECK-NOT: launch
    // CHECK: q.load "d"
    q.check_scales %c : !q.tensor<96x64xf8E4M3FN, per_tensor, f32>
    %d = q.load "d" weight "weight" scale "weight_scale" : !q.tensor<32x64xf8E4M3FN, per_tensor, f32>
    %cd = q.concat %c, %d : !q.tensor<96x64xf8E4M3FN, per_tensor, f32>, !q.tensor<32x64xf8E4M3FN, per_tensor, f32> -> !q.tensor<128x64xf8E4M3FN, per_tensor, f32, shards = [96, 32]>
    // CHECK: q.requantize {{.*}}launch = {{.*}}"octet_kernel_load_requantize_96_32_k64"
    %one = q.requantize %cd : !q.tensor<128x64xf8E4M3FN, per_tensor, f32, shards = [96, 32]> -> !q.tensor<128x64xf8E4M3FN, per_tensor, f32>
    return
  }
}
