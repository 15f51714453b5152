// RUN: octet-opt %s -octet-shard -split-input-file | FileCheck %s --check-prefix=ONE
// RUN: octet-opt %s -octet-shard="tp=1 ep=1 dp=1" -split-input-file | FileCheck %s --check-prefix=ONE
// RUN: octet-opt %s -octet-shard=tp=2 -split-input-file | FileCheck %s

// One rank holds everything (W3c): nothing is split, nothing is checked, ragged
// blocks included (W3: a module that is not split may be ragged).
// ONE-NOT: slices
// ONE-NOT: model.all_reduce

// Columns, then rows: heads are halved, the one KV head stands on both ranks
// (W3b), each shard starts its own scale rows (W5b), and the partial sums are
// added in BF16 (P15).
// CHECK-DAG: #[[HALF:.+]] = affine_map<(d0) -> (d0 * 256)>
// CHECK-DAG: #[[BOTH:.+]] = affine_map<(d0) -> (0)>
// CHECK-LABEL: func.func @attention
//       CHECK:   model.weight ["m.{l}.q_proj", "m.{l}.k_proj", "m.{l}.v_proj"]
//  CHECK-SAME:     {slices = [#q.slice<rows 256 at #[[HALF]]>, #q.slice<rows 128 at #[[BOTH]]>, #q.slice<rows 128 at #[[BOTH]]>]}
//  CHECK-SAME:     : !q.tensor<512x512xf8E4M3FN, block<128x128>, f32, shards = [256, 128, 128]>
//       CHECK:   model.split %{{.+}} : tensor<?x512xbf16> -> tensor<?x256xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
//       CHECK:   model.rms_norm {{.*}}heads = 2 : i64{{.*}} -> tensor<?x256xbf16>
//       CHECK:   model.attention {{.*}}kv_heads = 1 : i64{{.*}}q_heads = 2 : i64{{.*}} : tensor<?x256xbf16> -> tensor<?x256xbf16>
//       CHECK:   model.weight ["m.{l}.o_proj"]
//  CHECK-SAME:     {slices = [#q.slice<cols 256 at #[[HALF]]>]} : !q.tensor<512x256xf8E4M3FN, block<128x128>, f32>
//       CHECK:   %[[P:.+]] = model.linear {{.*}}module = "m.{l}.o_proj"
//       CHECK:   %[[Y:.+]] = model.all_reduce %[[P]] {module = "m.{l}.o_proj", ranks = 2 : i64} : tensor<?x512xbf16>
//       CHECK:   return %[[Y]]
func.func @attention(%l: index, %x: tensor<?x512xbf16>, %g: tensor<128xbf16>, %b: !model.batch) -> tensor<?x512xbf16> {
  %w = model.weight ["m.{l}.q_proj", "m.{l}.k_proj", "m.{l}.v_proj"][%l] "weight" stored [#q.stored<{weight = tensor<512x512xf8E4M3FN>}, "">, #q.stored<{weight = tensor<128x512xf8E4M3FN>}, "">, #q.stored<{weight = tensor<128x512xf8E4M3FN>}, "">]
    : !q.tensor<768x512xf8E4M3FN, block<128x128>, f32, shards = [512, 128, 128]>
  %y = model.linear %x, %w {module = "m.{l}.qkv_proj"} : tensor<?x512xbf16>, !q.tensor<768x512xf8E4M3FN, block<128x128>, f32, shards = [512, 128, 128]> -> tensor<?x768xbf16>
  %q, %k, %v = model.split %y : tensor<?x768xbf16> -> tensor<?x512xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
  %n = model.rms_norm %q, %g {eps = 1.0e-06 : f32, heads = 4 : i64, module = "m.{l}.q_norm"} : tensor<?x512xbf16>, tensor<128xbf16> -> tensor<?x512xbf16>
  %a = model.attention %n, %k : tensor<?x128xbf16>, v %v : tensor<?x128xbf16> of %b[%l] {q_heads = 4 : i64, kv_heads = 1 : i64, head_dim = 128 : i64, scale = 0.5 : f32, module = "m.{l}"} : tensor<?x512xbf16> -> tensor<?x512xbf16>
  %o = model.weight ["m.{l}.o_proj"][%l] "weight" stored [#q.stored<{weight = tensor<512x512xf8E4M3FN>}, "">] : !q.tensor<512x512xf8E4M3FN, block<128x128>, f32>
  %z = model.linear %a, %o {module = "m.{l}.o_proj"} : tensor<?x512xbf16>, !q.tensor<512x512xf8E4M3FN, block<128x128>, f32> -> tensor<?x512xbf16>
  return %z : tensor<?x512xbf16>
}

// -----

// Gate, up and down of a plain MLP; the bias of down is added once, by the first
// rank: on the others its rows lie behind the end (N6).
// CHECK-DAG: #[[ROWS:.+]] = affine_map<(d0) -> (d0 * 96)>
// CHECK-DAG: #[[ONCE:.+]] = affine_map<(d0) -> (d0 * 64)>
// CHECK-LABEL: func.func @mlp
//       CHECK:   model.weight ["a.gate_proj", "a.up_proj"] "weight"{{.*}}{slices = [#q.slice<rows 96 at #[[ROWS]]>, #q.slice<rows 96 at #[[ROWS]]>]} : tensor<192x64xbf16>
//       CHECK:   model.swiglu %{{.+}} : tensor<?x96xbf16>
//       CHECK:   model.weight ["a.down_proj"] "weight"{{.*}}{slices = [#q.slice<cols 96 at #[[ROWS]]>]} : tensor<64x96xbf16>
//       CHECK:   model.weight ["a.down_proj"] "bias"{{.*}}{slices = [#q.slice<rows 64 at #[[ONCE]], short>]} : tensor<64xbf16>
//       CHECK:   model.all_reduce
func.func @mlp(%x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<192x64xbf16>}, "">, #q.stored<{weight = tensor<192x64xbf16>}, "">] : tensor<384x64xbf16>
  %y = model.linear %x, %w {module = "a.gate_up_proj"} : tensor<?x64xbf16>, tensor<384x64xbf16> -> tensor<?x384xbf16>
  %g, %u = model.split %y : tensor<?x384xbf16> -> tensor<?x192xbf16>, tensor<?x192xbf16>
  %s = model.swiglu %g, %u : tensor<?x192xbf16>
  %d = model.weight ["a.down_proj"] "weight" stored [#q.stored<{weight = tensor<64x192xbf16>}, "">] : tensor<64x192xbf16>
  %c = model.weight ["a.down_proj"] "bias" stored [#q.stored<{bias = tensor<64xbf16>}, "">] : tensor<64xbf16>
  %z = model.linear %s, %d bias(%c : tensor<64xbf16>) {module = "a.down_proj"} : tensor<?x192xbf16>, tensor<64x192xbf16> -> tensor<?x64xbf16>
  return %z : tensor<?x64xbf16>
}

// -----

// The vocabulary: 257 rows are 129 and 128, so the last rank is short (W3b). Ids
// of another rank's give zeros, and logits are gathered in rank order (P16).
// CHECK-DAG: #[[V:.+]] = affine_map<(d0) -> (d0 * 129)>
// CHECK-LABEL: func.func @vocabulary
//       CHECK:   model.weight ["e"] "weight"{{.*}}{slices = [#q.slice<rows 129 at #[[V]], short>]} : tensor<129x64xbf16>
//       CHECK:   %[[H:.+]] = model.embedding {{.*}}{parts = 2 : i64}
//       CHECK:   %[[S:.+]] = model.all_reduce %[[H]] {module = "e", ranks = 2 : i64}
//       CHECK:   %[[L:.+]] = model.lm_head %[[S]], {{.*}} -> tensor<?x129xf32>
//       CHECK:   model.all_gather %[[L]] {module = "lm_head", ranks = 2 : i64} : tensor<?x129xf32> -> tensor<?x257xf32>
func.func @vocabulary(%i: tensor<?xi32>) -> tensor<?x257xf32> {
  %e = model.weight ["e"] "weight" stored [#q.stored<{weight = tensor<257x64xbf16>}, "">] : tensor<257x64xbf16>
  %h = model.embedding %i, %e : tensor<?xi32>, tensor<257x64xbf16> -> tensor<?x64xbf16>
  %y = model.lm_head %h, %e {module = "lm_head"} : tensor<?x64xbf16>, tensor<257x64xbf16> -> tensor<?x257xf32>
  return %y : tensor<?x257xf32>
}

// -----

// Latent attention: heads are split, with the rows of kv_b; the A projections
// and the indexer are replicated, ragged as they are (W3). All ranks read the
// rows that rank 0 chose (P10).
// CHECK-LABEL: func.func @latent
//       CHECK:   model.weight ["m.q_a_proj", "m.kv_a_proj_with_mqa"] "weight"
//   CHECK-NOT:     slices
//       CHECK:   model.linear {{.*}}shards = [128, 96]> -> tensor<?x224xbf16>
//       CHECK:   %[[R:.+]] = model.indexer
//  CHECK-SAME:     heads = 2 : i64
//       CHECK:   %[[S:.+]] = model.broadcast %[[R]] {module = "m.indexer", ranks = 2 : i64} : tensor<?x8xi32>
//       CHECK:   model.weight ["m.kv_b_proj"] "weight"{{.*}}slices = [#q.slice<rows 256 at
//       CHECK:   model.mla_attention {{.*}}selected(%[[S]] : tensor<?x8xi32>){{.*}}heads = 2 : i64{{.*}} : tensor<?x192xbf16> -> tensor<?x128xbf16>
func.func @latent(%x: tensor<?x256xbf16>, %i: tensor<?x128xbf16>, %ik: tensor<?x64xbf16>, %iw: tensor<?x2xf32>, %b: !model.batch) -> tensor<?x256xbf16> {
  %c0 = arith.constant 0 : index
  %w = model.weight ["m.q_a_proj", "m.kv_a_proj_with_mqa"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>}, "">, #q.stored<{weight = tensor<96x256xf8E4M3FN>}, "">] : !q.tensor<224x256xf8E4M3FN, block<128x128>, f32, shards = [128, 96]>
  %y = model.linear %x, %w {module = "m.fused_qkv_a_proj_with_mqa"} : tensor<?x256xbf16>, !q.tensor<224x256xf8E4M3FN, block<128x128>, f32, shards = [128, 96]> -> tensor<?x224xbf16>
  %low, %c, %r = model.split %y : tensor<?x224xbf16> -> tensor<?x128xbf16>, tensor<?x64xbf16>, tensor<?x32xbf16>
  %qb = model.weight ["m.q_b_proj"] "weight" stored [#q.stored<{weight = tensor<384x128xbf16>}, "">] : tensor<384x128xbf16>
  %heads = model.linear %low, %qb {module = "m.q_b_proj"} : tensor<?x128xbf16>, tensor<384x128xbf16> -> tensor<?x384xbf16>
  %rows = model.indexer %i, %ik : tensor<?x64xbf16> weights(%iw : tensor<?x2xf32>) of %b[%c0] {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.0625 : f32, module = "m.indexer"} : tensor<?x128xbf16> -> tensor<?x8xi32>
  %kv = model.weight ["m.kv_b_proj"] "weight" stored [#q.stored<{weight = tensor<512x64xf8E4M3FN>}, "">] : !q.tensor<512x64xf8E4M3FN, block<128x128>, f32>
  %a = model.mla_attention %heads, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%kv : !q.tensor<512x64xf8E4M3FN, block<128x128>, f32>) selected(%rows : tensor<?x8xi32>) of %b[%c0]
    {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "m"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  %o = model.weight ["m.o_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xbf16>}, "">] : tensor<256x256xbf16>
  %z = model.linear %a, %o {module = "m.o_proj"} : tensor<?x256xbf16>, tensor<256x256xbf16> -> tensor<?x256xbf16>
  return %z : tensor<?x256xbf16>
}

// -----

// Shards that --unfuse-mixed keeps apart are cut each on its own: k and v by their
// KV heads (C8, W3b). Without index_broadcast each rank keeps its choice (P10).
// CHECK-LABEL: module attributes {{.*}}index_broadcast = false
//       CHECK:   model.weight ["m.q_proj"] "weight"{{.*}}slices = [#q.slice<rows 256 at #{{.+}}>]} : !q.tensor<256x512xf8E4M3FN, block<128x128>, f32>
//       CHECK:   model.weight ["m.k_proj"] "weight"{{.*}}slices = [#q.slice<rows 128 at #{{.+}}>]} : !q.tensor<128x512xf8E4M3FN, block<128x128>, f32>
//       CHECK:   model.weight ["m.v_proj"] "weight"{{.*}}slices = [#q.slice<rows 128 at #{{.+}}>]} : tensor<128x512xbf16>
//       CHECK:   model.attention {{.*}}kv_heads = 1 : i64{{.*}}q_heads = 2 : i64
//       CHECK:   model.indexer
//   CHECK-NOT:   model.broadcast
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = true, requant_max = false, batch_invariant = true, index_broadcast = false>} {
  func.func @step(%x: tensor<?x512xbf16>, %i: tensor<?x128xbf16>, %ik: tensor<?x64xbf16>, %iw: tensor<?x2xf32>, %b: !model.batch) -> (tensor<?x512xbf16>, tensor<?x8xi32>) {
    %c0 = arith.constant 0 : index
    %wq = model.weight ["m.q_proj"] "weight" stored [#q.stored<{weight = tensor<512x512xf8E4M3FN>}, "">] : !q.tensor<512x512xf8E4M3FN, block<128x128>, f32>
    %q = model.linear %x, %wq {module = "m.q_proj"} : tensor<?x512xbf16>, !q.tensor<512x512xf8E4M3FN, block<128x128>, f32> -> tensor<?x512xbf16>
    %wk = model.weight ["m.k_proj"] "weight" stored [#q.stored<{weight = tensor<256x512xf8E4M3FN>}, "">] : !q.tensor<256x512xf8E4M3FN, block<128x128>, f32>
    %k = model.linear %x, %wk {module = "m.k_proj"} : tensor<?x512xbf16>, !q.tensor<256x512xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    %wv = model.weight ["m.v_proj"] "weight" stored [#q.stored<{weight = tensor<256x512xbf16>}, "">] : tensor<256x512xbf16>
    %v = model.linear %x, %wv {module = "m.v_proj"} : tensor<?x512xbf16>, tensor<256x512xbf16> -> tensor<?x256xbf16>
    %a = model.attention %q, %k : tensor<?x256xbf16>, v %v : tensor<?x256xbf16> of %b[%c0] {q_heads = 4 : i64, kv_heads = 2 : i64, head_dim = 128 : i64, scale = 0.5 : f32, module = "m"} : tensor<?x512xbf16> -> tensor<?x512xbf16>
    %wo = model.weight ["m.o_proj"] "weight" stored [#q.stored<{weight = tensor<512x512xbf16>}, "">] : tensor<512x512xbf16>
    %o = model.linear %a, %wo {module = "m.o_proj"} : tensor<?x512xbf16>, tensor<512x512xbf16> -> tensor<?x512xbf16>
    %r = model.indexer %i, %ik : tensor<?x64xbf16> weights(%iw : tensor<?x2xf32>) of %b[%c0] {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.0625 : f32, module = "m.indexer"} : tensor<?x128xbf16> -> tensor<?x8xi32>
    return %o, %r : tensor<?x512xbf16>, tensor<?x8xi32>
  }
}
