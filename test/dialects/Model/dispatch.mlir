// RUN: octet-opt %s | octet-opt | FileCheck %s

// Rows by expert, as the grouped product reads them; codes travel with their scales (B7, P13).
// CHECK-LABEL: func.func @codes
//       CHECK:   %[[D:.+]] = model.dispatch %{{.+}}, %{{.+}} {experts = 8 : i64, module = "a.experts"}
//  CHECK-SAME:     -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 3, by expert>
//       CHECK:   model.experts %[[D]]
func.func @codes(%x: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>,
                 %g: !q.tensor<8x128x256xf8E4M3FN, block<128x128>, f32>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) -> tensor<?x256xbf16> {
  %r = model.dispatch %x, %i {experts = 8 : i64, module = "a.experts"}
      : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, tensor<?x3xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 3, by expert>
  %y = model.experts %r, %i, %s gate_up(%g, %g : !q.tensor<8x128x256xf8E4M3FN, block<128x128>, f32>, !q.tensor<8x128x256xf8E4M3FN, block<128x128>, f32>)
      down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "a.experts",
       contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 3, by expert>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// Two groups of ranks hold half of the experts each (W3c).
// CHECK-LABEL: func.func @plain
//       CHECK:   model.dispatch %{{.+}}, %{{.+}} {ep = 2 : i64, experts = 8 : i64, module = "a.experts"}
//  CHECK-SAME:     -> !model.dispatched<tensor<?x256xbf16>, choices = 1, by token>
func.func @plain(%x: tensor<?x256xbf16>, %i: tensor<?x1xi32>) -> !model.dispatched<tensor<?x256xbf16>, choices = 1, by token> {
  %r = model.dispatch %x, %i {experts = 8 : i64, ep = 2 : i64, module = "a.experts"}
      : tensor<?x256xbf16>, tensor<?x1xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 1, by token>
  return %r : !model.dispatched<tensor<?x256xbf16>, choices = 1, by token>
}

// Rank 0 chooses the keys for all (P10).
// CHECK-LABEL: func.func @broadcast
//       CHECK:   model.broadcast %{{.+}} {module = "a.indexer", ranks = 8 : i64} : tensor<?x8xi32>
func.func @broadcast(%r: tensor<?x8xi32>) -> tensor<?x8xi32> {
  %y = model.broadcast %r {ranks = 8 : i64, module = "a.indexer"} : tensor<?x8xi32>
  return %y : tensor<?x8xi32>
}

// What a draft layer reads (W14).
// CHECK-LABEL: func.func @join
//       CHECK:   model.field draft_ids of
//       CHECK:   model.field draft_hidden of
//       CHECK:   model.join %{{.+}}, %{{.+}} {module = "model.layers.2"} : tensor<?x64xbf16>, tensor<?x64xbf16> -> tensor<?x128xbf16>
func.func @join(%b: !model.batch, %e: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %i = model.field draft_ids of %b : tensor<?xi32>
  %h = model.field draft_hidden of %b : tensor<?x64xbf16>
  %y = model.join %e, %h {module = "model.layers.2"} : tensor<?x64xbf16>, tensor<?x64xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}

// Both forms of latent attention: kv_b is one matrix, or w_kc and w_vc, or all three (W12). A cache of 576 bytes has one scale (P7).
// CHECK-LABEL: func.func @latent
//       CHECK:   model.mla_attention %{{.+}} kv_b(%{{.+}}, %{{.+}} : tensor<4x64x512xbf16>, tensor<4x32x512xbf16>)
//       CHECK:   model.mla_attention %{{.+}} cache(%{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>) scale(%{{.+}} : tensor<f32>) kv_b(%{{.+}}, %{{.+}}, %{{.+}} :
func.func @latent(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: tensor<384x512xbf16>, %kc: tensor<4x64x512xbf16>, %vc: tensor<4x32x512xbf16>,
                  %s: tensor<f32>, %b: !model.batch, %l: index) {
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%kc, %vc : tensor<4x64x512xbf16>, tensor<4x32x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  %k = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>
  %1 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> cache(%k : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>) scale(%s : tensor<f32>)
      kv_b(%w, %kc, %vc : tensor<384x512xbf16>, tensor<4x64x512xbf16>, tensor<4x32x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// A rank's heads cut a block, so that kv_b has rows of others, which are zero (W3).
// CHECK-LABEL: func.func @w3_padded_latents
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}} : !q.tensor<512x512xf8E4M3FN, block<256x128>, f32>) {{.*}}kv_b_rows = #q.slice<rows 512 at #{{.+}}, padded, own = 384 of 256>
func.func @w3_padded_latents(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: !q.tensor<512x512xf8E4M3FN, block<256x128>, f32>, %b: !model.batch, %l: index) {
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%w : !q.tensor<512x512xf8E4M3FN, block<256x128>, f32>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a", kv_b_rows = #q.slice<rows 512 at affine_map<(d0) -> (d0 * 384)>, padded, own = 384 of 256>}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}
