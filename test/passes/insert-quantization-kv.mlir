// RUN: octet-opt %s -octet-insert-quantization -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-insert-quantization=kv-cache=fp8_e4m3 -split-input-file -remarks-filter=octet-insert-quantization 2> %t.fp8 | FileCheck %s --check-prefix=FP8
// RUN: FileCheck %s --check-prefix=REMARK-FP8 < %t.fp8
// RUN: octet-opt %s -octet-insert-quantization=kv-cache=f32 -split-input-file -remarks-filter=octet-insert-quantization 2> %t.f32 | FileCheck %s --check-prefix=F32
// RUN: FileCheck %s --check-prefix=REMARK-F32 < %t.f32

// Nothing declared: the activation dtype (P7b). The write stands before the
// read, at the slots of the step's tokens (P7a).
// CHECK-LABEL: func.func @p7b_auto_is_the_activation_dtype
//       CHECK:   %[[C:.+]] = q.kv_cache[%[[L:.+]]] : !q.kv<bf16, page = 64, heads = 1, dim = 8>
//       CHECK:   %[[S:.+]] = model.field slots of %[[B:.+]] : tensor<?xi32>
//       CHECK:   q.kv_write %{{.+}}, %{{.+}}, %[[C]] at %[[S]] : tensor<?x8xbf16>, tensor<?x8xbf16>
//       CHECK:   model.attention %{{.+}} cache(%[[C]] : !q.kv<bf16, page = 64, heads = 1, dim = 8>) of %[[B]][%[[L]]]
// FP8-LABEL: func.func @p7b_auto_is_the_activation_dtype
//       FP8:   q.kv_write {{.*}} at %{{.+}} scales(%[[K:.+]], %[[V:.+]] : tensor<f32>, tensor<f32>) {{.*}}!q.kv<fp8_e4m3, page = 64, heads = 1, dim = 8>
//       FP8:   model.attention {{.*}} scales(%[[K]], %[[V]] : tensor<f32>, tensor<f32>)
// REMARK-FP8: remark: [Missed] kv-layout {{.*}}"model.layers.4.self_attn: the KV cache is fp8_e4m3 as --kv-cache says; the checkpoint declares none, so that auto would be bf16 [P7b]"
// F32-LABEL: func.func @p7b_auto_is_the_activation_dtype
//       F32:   !q.kv<f32, page = 64, heads = 1, dim = 8>
// REMARK-F32: remark: [Missed] kv-layout {{.*}}"model.layers.4.self_attn: the KV cache is f32 as --kv-cache says; the checkpoint declares none, so that auto would be bf16 [P7b]"
func.func @p7b_auto_is_the_activation_dtype(%q: tensor<?x16xbf16>, %k: tensor<?x8xbf16>, %b: !model.batch, %ks: tensor<f32>) -> tensor<?x16xbf16> {
  %c4 = arith.constant 4 : index
  %a = model.attention %q, %k : tensor<?x8xbf16>, v %k : tensor<?x8xbf16> scales(%ks, %ks : tensor<f32>, tensor<f32>) of %b[%c4] {q_heads = 2 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x16xbf16> -> tensor<?x16xbf16>
  return %a : tensor<?x16xbf16>
}

// -----

// Each way to declare an FP8 cache (C4, C14): a word of any case, an object, the
// stored scales alone. The flag wins over it, with a remark (P7b).
// CHECK-LABEL: func.func @p7b_declared_word
//       CHECK:   q.kv_write {{.*}}!q.kv<fp8_e4m3, page = 64, heads = 2, dim = 8>
// FP8-LABEL: func.func @p7b_declared_word
//       FP8:   !q.kv<fp8_e4m3,
// REMARK-FP8-NOT: remark
// F32-LABEL: func.func @p7b_declared_word
//       F32:   q.kv_write {{.*}} at %{{[a-z0-9]+}} : {{.*}}!q.kv<f32,
//       F32:   model.attention {{.*}} cache(%{{.+}} : !q.kv<f32, page = 64, heads = 2, dim = 8>) of
// REMARK-F32: "a: the KV cache is f32 as --kv-cache says; config.json: quantization_config.kv_cache_quant_algo declares fp8_e4m3 [P7b]"
module attributes {q.config = #q.config<{kv_cache_quant_algo = "fp8", kv_cache_scheme}, "config.json: quantization_config">} {
  func.func @p7b_declared_word(%q: tensor<?x16xbf16>, %b: !model.batch, %ks: tensor<f32>) -> tensor<?x16xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x16xbf16>, v %q : tensor<?x16xbf16> scales(%ks, %ks : tensor<f32>, tensor<f32>) of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x16xbf16> -> tensor<?x16xbf16>
    return %a : tensor<?x16xbf16>
  }
}

// -----

// CHECK-LABEL: func.func @p7b_declared_object
//       CHECK:   q.kv_write {{.*}}!q.kv<fp8_e4m3,
// REMARK-F32: "a: the KV cache is f32 as --kv-cache says; config.json: quantization_config.kv_cache_scheme declares fp8_e4m3 [P7b]"
module attributes {q.config = #q.config<{kv_cache_scheme = {num_bits = 8, type = "float", strategy = "tensor"}}, "config.json: quantization_config">} {
  func.func @p7b_declared_object(%q: tensor<?x8xbf16>, %b: !model.batch, %ks: tensor<f32>) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> scales(%ks, %ks : tensor<f32>, tensor<f32>) of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

// CHECK-LABEL: func.func @p7b_stored_scales
//       CHECK:   q.kv_write {{.*}}!q.kv<fp8_e4m3,
// REMARK-F32: "a: the KV cache is f32 as --kv-cache says; the stored v_scale declares fp8_e4m3 [P7b]"
func.func @p7b_stored_scales(%q: tensor<?x8xbf16>, %b: !model.batch, %ks: tensor<f32>) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> scales(%ks, %ks : tensor<f32>, tensor<f32>) of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}
