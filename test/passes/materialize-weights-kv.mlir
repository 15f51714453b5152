// RUN: octet-opt %s -octet-materialize-weights -split-input-file | FileCheck %s

// An FP8 cache has two scales a layer; the checkpoint's both (P8).
// CHECK-LABEL: module attributes
//       CHECK:   q.slot @layers.self_attn.k_scale[2] : tensor<f32>
//       CHECK:   q.slot @layers.self_attn.v_scale[2] : tensor<f32>
//       CHECK:   scf.for %[[L:.+]] = %c0 to %c2
//       CHECK:     %[[K:.+]] = q.load "model.layers.{l}.self_attn"[%[[L]]] weight "k_scale" : tensor<f32>
//       CHECK:     %[[V:.+]] = q.load "model.layers.{l}.self_attn"[%[[L]]] weight "v_scale" : tensor<f32>
//       CHECK:     %[[KS:.+]], %[[VS:.+]] = q.kv_scales "model.layers.{l}.self_attn"[%[[L]]] k(%[[K]] : tensor<f32>) v(%[[V]] : tensor<f32>)
//       CHECK:     q.store %[[KS]], @layers.self_attn.k_scale[%[[L]]]
//       CHECK:     q.store %[[VS]], @layers.self_attn.v_scale[%[[L]]]
// CHECK-LABEL: func.func private @p8_both
//       CHECK:   %[[A:.+]] = q.weight @layers.self_attn.k_scale[%[[I:.+]]] : tensor<f32>
//       CHECK:   %[[B:.+]] = q.weight @layers.self_attn.v_scale[%[[I]]] : tensor<f32>
//       CHECK:   model.attention {{.*}} scales(%[[A]], %[[B]] : tensor<f32>, tensor<f32>)
module attributes {q.config = #q.config<{kv_cache_scheme = "static"}, "config.json: quantization_config">} {
  func.func private @p8_both(%l: index, %q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%l] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn", kv = #q.stored<{k_scale = tensor<f32>, v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
  func.func @step(%q: tensor<?x8xbf16>, %b: !model.batch) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %l = %c0 to %c2 step %c1 {
      %0 = func.call @p8_both(%l, %q, %b) : (index, tensor<?x8xbf16>, !model.batch) -> tensor<?x8xbf16>
    }
    return
  }
}

// -----

// Other spellings stand in a module below the attention (W2).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[K:.+]] = q.load "a.k_proj" weight "k_scale" : tensor<1xbf16>
//       CHECK:   %[[V:.+]] = q.load "a.v_proj" weight "output_scale" : tensor<1xbf16>
//       CHECK:   q.kv_scales "a" k(%[[K]] : tensor<1xbf16>) v(%[[V]] : tensor<1xbf16>) : tensor<f32>, tensor<f32>
func.func @w2_spellings(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_proj.k_scale = tensor<1xbf16>, v_proj.output_scale = tensor<1xbf16>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

// One `kv_scale` is the key's, which q.kv_scales copies (P8).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[K:.+]] = q.load "a" weight "kv_scale" : tensor<f32>
//   CHECK-NOT:   q.load
//       CHECK:   q.kv_scales "a" k(%[[K]] : tensor<f32>) :
func.func @p8_one_for_both(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{kv_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

// None stored: loading warns and takes 1.0 (P8).
// CHECK-LABEL: func.func @load
//   CHECK-NOT:   q.load
//       CHECK:   q.kv_scales "a" : tensor<f32>, tensor<f32>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p8_none(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

// The flag keeps the cache in BF16, so the stored scales are not read (P7b).
// CHECK-LABEL: func.func @p7b_flag_wins
//   CHECK-NOT:   scales(
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "bf16", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p7b_flag_wins(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_scale = tensor<f32>, v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

// Scales of layers 0, 1 and 4 say that the cache is FP8 (P7b); layers 2 and 3
// take 1.0 (P8).
// CHECK-LABEL: func.func @load
//       CHECK:   scf.for %[[L:.+]] = %c0 to %c2
//       CHECK:     q.kv_scales "model.layers.{l}.self_attn"[%[[L]]] k({{.+}}) v({{.+}}) : tensor<f32>, tensor<f32>
//       CHECK:   scf.for %[[M:.+]] = %c2 to %c4
//   CHECK-NOT:     q.load
//       CHECK:     q.kv_scales "model.layers.{l}.self_attn"[%[[M]]] : tensor<f32>, tensor<f32>
//       CHECK:   q.kv_scales "model.layers.{l}.self_attn"[%c4] k({{.+}}) v({{.+}}) : tensor<f32>, tensor<f32>
// CHECK-LABEL: func.func private @p8_without
//       CHECK:   model.attention {{.*}} scales(
func.func private @p8_with(%l: index, %q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%l] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn", kv = #q.stored<{k_scale = tensor<f32>, v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}
func.func private @p8_without(%l: index, %q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%l] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}
func.func @step(%q: tensor<?x8xbf16>, %b: !model.batch) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  scf.for %l = %c0 to %c2 step %c1 {
    %0 = func.call @p8_with(%l, %q, %b) : (index, tensor<?x8xbf16>, !model.batch) -> tensor<?x8xbf16>
  }
  scf.for %l = %c2 to %c4 step %c1 {
    %0 = func.call @p8_without(%l, %q, %b) : (index, tensor<?x8xbf16>, !model.batch) -> tensor<?x8xbf16>
  }
  %1 = func.call @p8_with(%c4, %q, %b) : (index, tensor<?x8xbf16>, !model.batch) -> tensor<?x8xbf16>
  return
}
