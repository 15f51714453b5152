// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-shard -octet-materialize-weights 2>&1 | FileCheck %s
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -o /dev/null 2>/dev/null
// RUN: sed 's/, split_blocks = "pad"//' %s | not octet-opt - -split-input-file -octet-resolve-quant-methods -octet-shard 2>&1 | FileCheck %s --check-prefix=ERROR

// Four heads of 48 + 64 rows over two ranks: 224 rows of each, which begin at
// row 96 of their block on rank 1 and touch three blocks there (W3).
// ERROR: error: model.layers.1.self_attn.kv_b_proj: output dimension 448 over tp=2 is 224 per rank, not a multiple of the block (bn=128); tp=1 would work [W3]

// Explicit: the linear is as wide as the padded matrix, and the attention says
// which of its columns are the rank's.
// CHECK: warning: model.layers.1.self_attn.kv_b_proj: output dimension 448 is 224 per rank, which cuts a block (bn=128); each rank holds 384, whole blocks, with zeros in place of what is another rank's [W3]
// CHECK-DAG: #[[OWN:.+]] = affine_map<(d0) -> (d0 * 224)>
// CHECK-LABEL: module attributes {{.*}}mla = "explicit"
//       CHECK:   q.slot @layers.self_attn.kv_b_proj[1] : !q.tensor<384x128xf8E4M3FN, block<128x128>, f32>
//       CHECK:   q.slice %{{.+}} of %{{.+}} <rows 384 at #[[OWN]], padded, own = 224 of 128> : !q.tensor<448x128xf8E4M3FN, block<128x128>, bf16> -> !q.tensor<384x128x
//   CHECK-NOT:   q.dequantize
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}} : !q.tensor<384x128xf8E4M3FN, block<128x128>, f32>)
//  CHECK-SAME:     heads = 2 : i64, kv_b_rows = #q.slice<rows 384 at #[[OWN]], padded, own = 224 of 128>
//  CHECK-SAME:     tensor<?x160xbf16> -> tensor<?x128xbf16>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 2, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit", split_blocks = "pad">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %x = model.field input of %b : tensor<?x128xbf16>
    %p = model.weight ["model.layers.{l}.self_attn.q_proj"][%l] "weight" stored [#q.stored<{weight = tensor<320x128xbf16>}, "">] : tensor<320x128xbf16>
    %q = model.linear %x, %p {module = "model.layers.{l}.self_attn.q_proj"} : tensor<?x128xbf16>, tensor<320x128xbf16> -> tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    return
  }
}

// -----

// Absorbed: blocks are dequantised whole, then the rows of other ranks dropped
// before heads are taken apart (W12). Nothing padded is left.
// CHECK-DAG: #[[AT:.+]] = affine_map<(d0) -> ((d0 * 224) mod 128)>
// CHECK-LABEL: module attributes {{.*}}mla = "absorbed"
//       CHECK:   q.slot @layers.self_attn.kv_b_proj.w_kc[1] : tensor<2x48x128xbf16>
//       CHECK:   %[[M:.+]] = q.dequantize %{{.+}} : !q.tensor<384x128xf8E4M3FN, block<128x128>, f32> -> tensor<384x128xbf16>
//       CHECK:   %[[R:.+]] = q.slice %[[M]] of %{{.+}} <rows 224 at #[[AT]]> : tensor<384x128xbf16> -> tensor<224x128xbf16>
//       CHECK:   q.split_heads %[[R]] : tensor<224x128xbf16> -> tensor<2x48x128xbf16>, tensor<2x64x128xbf16>
//       CHECK:   model.mla_attention
//   CHECK-NOT:   kv_b_rows
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 2, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "absorbed", split_blocks = "pad">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %x = model.field input of %b : tensor<?x128xbf16>
    %p = model.weight ["model.layers.{l}.self_attn.q_proj"][%l] "weight" stored [#q.stored<{weight = tensor<320x128xbf16>}, "">] : tensor<320x128xbf16>
    %q = model.linear %x, %p {module = "model.layers.{l}.self_attn.q_proj"} : tensor<?x128xbf16>, tensor<320x128xbf16> -> tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    return
  }
}

// -----

// Both forms: only the whole matrix is padded.
// CHECK-LABEL: module attributes {{.*}}batch_invariant = false
//       CHECK:   %[[M:.+]] = q.dequantize %[[W:.+]] :
//       CHECK:   %[[R:.+]] = q.slice %[[M]] of %{{.+}} <rows 224 at
//       CHECK:   q.split_heads %[[R]]
//       CHECK:   q.store %[[W]], @layers.self_attn.kv_b_proj
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}}, %{{.+}}, %{{.+}} : !q.tensor<384x128xf8E4M3FN, block<128x128>, f32>, tensor<2x48x128xbf16>, tensor<2x64x128xbf16>)
//  CHECK-SAME:     kv_b_rows = #q.slice<rows 384
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 2, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false, mla = "auto", split_blocks = "pad">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %x = model.field input of %b : tensor<?x128xbf16>
    %p = model.weight ["model.layers.{l}.self_attn.q_proj"][%l] "weight" stored [#q.stored<{weight = tensor<320x128xbf16>}, "">] : tensor<320x128xbf16>
    %q = model.linear %x, %p {module = "model.layers.{l}.self_attn.q_proj"} : tensor<?x128xbf16>, tensor<320x128xbf16> -> tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    return
  }
}
