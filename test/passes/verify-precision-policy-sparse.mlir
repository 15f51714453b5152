// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file | FileCheck %s

// Rows move to experts as codes, because their product reads codes; the router read them before (P12, P13, P14, B7).
// CHECK-LABEL: func.func @p13_codes_to_experts
//       CHECK:   model.moe_router
//       CHECK:   q.quantize
//       CHECK:   model.dispatch
//       CHECK:   model.experts
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p13_codes_to_experts(%x: tensor<?x256xbf16>, %gate: tensor<8x256xbf16>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) -> tensor<?x256xbf16> {
    %i, %s = model.moe_router %x, %gate {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
    %r = model.dispatch %q, %i {experts = 8 : i64, module = "m.experts"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, tensor<?x2xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>
    %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    return %y : tensor<?x256xbf16>
  }
}

// -----

// Weight-only experts take rows as they are (B4).
// CHECK-LABEL: func.func @p13_rows_to_experts
//       CHECK:   model.dispatch
func.func @p13_rows_to_experts(%x: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) -> tensor<?x256xbf16> {
  %r = model.dispatch %x, %i {experts = 8 : i64, module = "m.experts"} : tensor<?x256xbf16>, tensor<?x2xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>
  %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

// An indexer whose head weights and norm are plain (P9), and whose choice is rank 0's on all ranks (P10).
// CHECK-LABEL: func.func @p10_one_choice
//       CHECK:   model.indexer
//       CHECK:   model.broadcast
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 8, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p10_one_choice(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %n: tensor<64xbf16>, %x: tensor<?x256xbf16>, %w: tensor<2x256xbf16>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %c = q.kv_cache[%l] : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>
    %h = model.linear %x, %w {precise, module = "i.weights_proj"} : tensor<?x256xbf16>, tensor<2x256xbf16> -> tensor<?x2xf32>
    %kn = model.layer_norm %k, %n, %n {eps = 1.0e-06 : f32, module = "i.k_norm"} : tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
    %r = model.indexer %q, %kn : tensor<?x64xbf16> cache(%c : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
    %y = model.broadcast %r {ranks = 8 : i64, module = "i"} : tensor<?x8xi32>
    return %y : tensor<?x8xi32>
  }
}

// -----

// Switched off (P10).
// CHECK-LABEL: func.func @p10_each_its_own
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 8, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, index_broadcast = false>} {
  func.func @p10_each_its_own(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 0>
    %r = model.indexer %q, %k : tensor<?x64xbf16> cache(%c : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
    return %r : tensor<?x8xi32>
  }
}

// -----

// A sum over ranks of BF16 rows (P15), and logits gathered in the order of ranks (P16).
// CHECK-LABEL: func.func @p15_sum_in_bf16
//       CHECK:   model.all_reduce
//       CHECK:   model.all_gather
func.func @p15_sum_in_bf16(%x: tensor<?x256xbf16>, %y: tensor<?x32xf32>) -> (tensor<?x256xbf16>, tensor<?x256xf32>) {
  %s = model.all_reduce %x {ranks = 8 : i64, module = "o_proj"} : tensor<?x256xbf16>
  %g = model.all_gather %y {ranks = 8 : i64, module = "lm_head"} : tensor<?x32xf32> -> tensor<?x256xf32>
  return %s, %g : tensor<?x256xbf16>, tensor<?x256xf32>
}
