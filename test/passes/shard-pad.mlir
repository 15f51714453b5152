// RUN: octet-opt %s -octet-shard="tp=2 pad" -split-input-file 2>&1 | FileCheck %s
// RUN: not octet-opt %s -octet-shard=tp=2 -split-input-file 2>&1 | FileCheck %s --check-prefix=ERROR

// A split inside a block (W3): each rank loads the whole blocks that it touches,
// 640 for 576 of its own, and says so. SwiGLU keeps zeros, so gate and up hand
// the padded rows to down as they are.
// ERROR: error: m.gate_up_proj: output dimension 1152 over tp=2 is 576 per rank, not a multiple of the block (bn=128); tp=1, 3 or 9 would work [W3]
// ERROR: error: m.down_proj: input dimension 1152 over tp=2 is 576 per rank, not a multiple of the block (bk=128); tp=1, 3 or 9 would work [W3]
// ERROR: note: for the whole model tp=1, 3 or 9 would work
// CHECK: warning: m.gate_up_proj: output dimension 1152 is 576 per rank, which cuts a block (bn=128); each rank holds 640, whole blocks, with zeros in place of what is another rank's [W3]
// CHECK: warning: m.down_proj: input dimension 1152 is 576 per rank, which cuts a block (bk=128); each rank holds 640, whole blocks, with zeros in place of what is another rank's [W3]
// CHECK: #[[OWN:.+]] = affine_map<(d0) -> (d0 * 576)>
// CHECK-LABEL: func.func @w3_pad_mlp
//       CHECK:   slices = [#q.slice<rows 640 at #[[OWN]], padded, own = 576 of 128>, #q.slice<rows 640 at #[[OWN]], padded, own = 576 of 128>]}
//  CHECK-SAME:     : !q.tensor<1280x128xf8E4M3FN, block<128x128>, f32, shards = [640, 640]>
//       CHECK:   model.swiglu %{{.+}} : tensor<?x640xbf16>
//   CHECK-NOT:   model.own_columns
//   CHECK-NOT:   model.place_columns
//       CHECK:   slices = [#q.slice<cols 640 at #[[OWN]], padded, own = 576 of 128>]} : !q.tensor<128x640xf8E4M3FN, block<128x128>, f32>
//       CHECK:   model.all_reduce
func.func @w3_pad_mlp(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["m.gate_proj", "m.up_proj"] "weight" stored [#q.stored<{weight = tensor<1152x128xf8E4M3FN>}, "">, #q.stored<{weight = tensor<1152x128xf8E4M3FN>}, "">] : !q.tensor<2304x128xf8E4M3FN, block<128x128>, f32, shards = [1152, 1152]>
  %y = model.linear %x, %w {module = "m.gate_up_proj"} : tensor<?x128xbf16>, !q.tensor<2304x128xf8E4M3FN, block<128x128>, f32, shards = [1152, 1152]> -> tensor<?x2304xbf16>
  %g, %u = model.split %y : tensor<?x2304xbf16> -> tensor<?x1152xbf16>, tensor<?x1152xbf16>
  %s = model.swiglu %g, %u : tensor<?x1152xbf16>
  %d = model.weight ["m.down_proj"] "weight" stored [#q.stored<{weight = tensor<128x1152xf8E4M3FN>}, "">] : !q.tensor<128x1152xf8E4M3FN, block<128x128>, f32>
  %z = model.linear %s, %d {module = "m.down_proj"} : tensor<?x1152xbf16>, !q.tensor<128x1152xf8E4M3FN, block<128x128>, f32> -> tensor<?x128xbf16>
  return %z : tensor<?x128xbf16>
}

// -----

// Heads read their own columns alone, and o_proj reads them between zeros.
// CHECK-LABEL: func.func @w3_pad_heads
//       CHECK:   %[[Y:.+]] = model.linear {{.*}} -> tensor<?x256xbf16>
//       CHECK:   %[[Q:.+]] = model.own_columns %[[Y]] {block = 128 : i64, first = #{{.+}}, module = "m"} : tensor<?x256xbf16> -> tensor<?x192xbf16>
//       CHECK:   %[[A:.+]] = model.attention %[[Q]]
//       CHECK:   %[[P:.+]] = model.place_columns %[[A]] {block = 128 : i64, first = #{{.+}}, module = "m.o_proj"} : tensor<?x192xbf16> -> tensor<?x256xbf16>
//       CHECK:   model.linear %[[P]]
func.func @w3_pad_heads(%x: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %b: !model.batch) -> tensor<?x128xbf16> {
  %c0 = arith.constant 0 : index
  %w = model.weight ["m.q_proj"] "weight" stored [#q.stored<{weight = tensor<384x128xf8E4M3FN>}, "">] : !q.tensor<384x128xf8E4M3FN, block<128x128>, f32>
  %q = model.linear %x, %w {module = "m.q_proj"} : tensor<?x128xbf16>, !q.tensor<384x128xf8E4M3FN, block<128x128>, f32> -> tensor<?x384xbf16>
  %a = model.attention %q, %k : tensor<?x64xbf16>, v %k : tensor<?x64xbf16> of %b[%c0] {q_heads = 6 : i64, kv_heads = 1 : i64, head_dim = 64 : i64, scale = 0.5 : f32, module = "m"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  %o = model.weight ["m.o_proj"] "weight" stored [#q.stored<{weight = tensor<128x384xf8E4M3FN>}, "">] : !q.tensor<128x384xf8E4M3FN, block<128x128>, f32>
  %z = model.linear %a, %o {module = "m.o_proj"} : tensor<?x384xbf16>, !q.tensor<128x384xf8E4M3FN, block<128x128>, f32> -> tensor<?x128xbf16>
  return %z : tensor<?x128xbf16>
}

// -----

// Gate and up alternate by rows, down has groups of 32: 48 of a rank's own touch
// two groups, and are padded to as many pairs of rows (W3, W5).
// CHECK-LABEL: func.func @w3_pad_experts
//       CHECK:   model.weight ["m.gate_up_proj"]{{.*}}slices = [#q.slice<rows 128 at #{{.+}}, padded, own = 96 of 64>]} : !q.tensor<4x128x64x
//       CHECK:   model.weight ["m.down_proj"]{{.*}}slices = [#q.slice<cols 64 at #{{.+}}, padded, own = 48 of 32>]} : !q.tensor<4x64x64x
func.func @w3_pad_experts(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>) -> tensor<?x64xbf16> {
  %w = model.weight ["m.gate_up_proj"] "_blocks" stored [#q.stored<{_blocks = tensor<4x192x2x16xui8>, _scales = tensor<4x192x2xui8>}, "">] : !q.tensor<4x192x64xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  %d = model.weight ["m.down_proj"] "_blocks" stored [#q.stored<{_blocks = tensor<4x64x3x16xui8>, _scales = tensor<4x64x3xui8>}, "">] : !q.tensor<4x64x96xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  %y = model.experts %x, %i, %s gate_up(%w : !q.tensor<4x192x64xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>) down(%d : !q.tensor<4x64x96xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>)
    {experts = 4 : i64, gating = #model<gating clamped_swiglu>, limit = 7.0 : f32, interleaved, module = "m"} : tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
