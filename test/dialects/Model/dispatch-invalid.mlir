// RUN: octet-opt %s -split-input-file -verify-diagnostics

func.func @b7_token_order(%x: !model.dispatched<tensor<?x256xbf16>, choices = 3, by token>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op input is '!model.dispatched<tensor<?x256xbf16>, choices = 3, by token>', rows by token; the grouped product reads rows by expert [B7]}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "a"}
      : !model.dispatched<tensor<?x256xbf16>, choices = 3, by token>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b7_other_choices(%x: !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{input is '!model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>', the ids choose 3 experts a token [B7]}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "a"}
      : !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

// expected-error @+1 {{rows are 'tensor<8x256xbf16>', expected rows [rows, width] of a step, plain or quantised [B7]}}
func.func @b7_static_rows(%x: !model.dispatched<tensor<8x256xbf16>, choices = 2, by expert>) {
  return
}

// -----

// expected-error @+1 {{choices is 0, expected 1 to 2147483647 [B7]}}
func.func @b7_no_choices(%x: !model.dispatched<tensor<?x256xbf16>, choices = 0, by expert>) {
  return
}

// -----

func.func @p13_rounded_on_the_way(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>) {
  // expected-error @+1 {{moves 'tensor<?x256xbf16>', the result's rows are '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>'; nothing is rounded on the way [P13]}}
  %r = model.dispatch %x, %i {experts = 8 : i64, module = "a"}
      : tensor<?x256xbf16>, tensor<?x3xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 3, by expert>
  return
}

// -----

func.func @p12_ids_of_other_choices(%x: tensor<?x256xbf16>, %i: tensor<?x2xi32>) {
  // expected-error @+1 {{ids is 'tensor<?x2xi32>', expected [rows, 3] in i32 [P12]}}
  %r = model.dispatch %x, %i {experts = 8 : i64, module = "a"}
      : tensor<?x256xbf16>, tensor<?x2xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 3, by expert>
  return
}

// -----

func.func @w3c_uneven_groups(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>) {
  // expected-error @+1 {{8 experts over ep=3 groups of ranks are no whole number each [W3c]}}
  %r = model.dispatch %x, %i {experts = 8 : i64, ep = 3 : i64, module = "a"}
      : tensor<?x256xbf16>, tensor<?x3xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 3, by expert>
  return
}

// -----

func.func @p10_rows_in_floats(%r: tensor<?x8xf32>) {
  // expected-error @+1 {{input is 'tensor<?x8xf32>', expected the choice of an indexer, [rows, top_k] in i32 [P10]}}
  %y = model.broadcast %r {ranks = 8 : i64, module = "a"} : tensor<?x8xf32>
  return
}

// -----

func.func @w14_columns_of_a_join(%e: tensor<?x64xbf16>) {
  // expected-error @+1 {{inputs have 128 columns, the result has 192 [W14]}}
  %y = model.join %e, %e {module = "a"} : tensor<?x64xbf16>, tensor<?x64xbf16> -> tensor<?x192xbf16>
  return
}

// -----

func.func @join_of_one(%e: tensor<?x64xbf16>) {
  // expected-error @+1 {{joins 1 inputs, expected at least 2}}
  %y = model.join %e {module = "a"} : tensor<?x64xbf16> -> tensor<?x64xbf16>
  return
}

// -----

func.func @w12_codes_split_by_heads(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %kc: !q.tensor<4x64x512xf8E4M3FN, block<128x128>, f32>, %vc: tensor<4x32x512xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{w_kc is '!q.tensor<4x64x512xf8E4M3FN, block<128x128>, f32>', expected f32, bf16 or f16: kv_b is dequantised before it is split [W12]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%kc, %vc : !q.tensor<4x64x512xf8E4M3FN, block<128x128>, f32>, tensor<4x32x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @w12_halves_swapped(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %kc: tensor<4x64x512xbf16>, %vc: tensor<4x32x512xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{w_kc is 'tensor<4x32x512xbf16>', expected 4 x 64 x 512 [W12]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%vc, %kc : tensor<4x32x512xbf16>, tensor<4x64x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @p7_cache_without_its_scale(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: tensor<384x512xbf16>, %b: !model.batch, %l: index) {
  %k = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>
  // expected-error @+1 {{the cache is '!q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>', expected its scale [P7]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> cache(%k : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>) kv_b(%w : tensor<384x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @p7_scale_of_a_cache_that_has_its_own(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: tensor<384x512xbf16>, %s: tensor<f32>, %b: !model.batch, %l: index) {
  %k = q.kv_cache[%l] : !q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>
  // expected-error @+1 {{the cache is '!q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>', which has no scale of its own [P7]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> cache(%k : !q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>) scale(%s : tensor<f32>) kv_b(%w : tensor<384x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

// expected-error @+1 {{mla is 'both', expected auto, explicit or absorbed [W12]}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "both">

// -----

// expected-error @+1 {{index_cache is 'fp4', expected fp8 or bf16 [P9]}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, index_cache = "fp4">

// -----

// expected-error @+1 {{mtp is -1, expected 0 to 2147483647 [W14]}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mtp = -1>

// -----

func.func @w3_padded_rows_that_are_not_there(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: !q.tensor<384x512xf8E4M3FN, block<256x128>, f32>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{kv_b is '!q.tensor<384x512xf8E4M3FN, block<256x128>, f32>', expected 512 x 512 [W3]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%w : !q.tensor<384x512xf8E4M3FN, block<256x128>, f32>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a", kv_b_rows = #q.slice<rows 512 at affine_map<(d0) -> (d0 * 384)>, padded, own = 384 of 256>}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @w3_padding_of_other_heads(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: !q.tensor<512x512xf8E4M3FN, block<256x128>, f32>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{holds kv_b in #q.slice<rows 512 at affine_map<(d0) -> (d0 * 320)>, padded, own = 320 of 256>, expected a padded slice of rows with 384 of its own [W3]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%w : !q.tensor<512x512xf8E4M3FN, block<256x128>, f32>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a", kv_b_rows = #q.slice<rows 512 at affine_map<(d0) -> (d0 * 320)>, padded, own = 320 of 256>}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @w3_slice_without_padding(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %w: !q.tensor<384x512xf8E4M3FN, block<256x128>, f32>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{holds kv_b in #q.slice<rows 384 at affine_map<(d0) -> (d0 * 384)>>, expected a padded slice of rows with 384 of its own [W3]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%w : !q.tensor<384x512xf8E4M3FN, block<256x128>, f32>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a", kv_b_rows = #q.slice<rows 384 at affine_map<(d0) -> (d0 * 384)>>}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}

// -----

func.func @w12_padded_halves(%q: tensor<?x512xbf16>, %c: tensor<?x512xbf16>, %r: tensor<?x64xbf16>, %kc: tensor<4x64x512xbf16>, %vc: tensor<4x32x512xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{but reads only w_kc and w_vc, which are never padded [W12]}}
  %0 = model.mla_attention %q, %c, %r : tensor<?x512xbf16>, tensor<?x64xbf16> kv_b(%kc, %vc : tensor<4x64x512xbf16>, tensor<4x32x512xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 64 : i64, value_dim = 32 : i64, rank = 512 : i64, scale = 0.1 : f32, module = "a", kv_b_rows = #q.slice<rows 512 at affine_map<(d0) -> (d0 * 384)>, padded, own = 384 of 256>}
      : tensor<?x512xbf16> -> tensor<?x128xbf16>
  return
}
