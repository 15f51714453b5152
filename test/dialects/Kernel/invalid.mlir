// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// Row operators
//===----------------------------------------------------------------------===//

func.func @w4_reduce(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.reduce' op result has 4 values, 256 elements in groups of 60 have 5 [W4]}}
  %y = kernel.reduce add %x group 60 : tensor<256xf32> -> tensor<4xf32>
  return
}

// -----

func.func @reduce_to_two(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.reduce' op result has 2 values, a row without groups has 1}}
  %y = kernel.reduce add %x : tensor<256xf32> -> tensor<2xf32>
  return
}

// -----

func.func @reduce_group(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.reduce' op group is 0, expected at least 1}}
  %y = kernel.reduce max %x group 0 : tensor<256xf32> -> tensor<1xf32>
  return
}

// -----

func.func @reduce_dynamic(%x: tensor<?xf32>) {
  // expected-error @+1 {{'kernel.reduce' op has a row of type 'tensor<?xf32>', expected a static width of at least 1}}
  %y = kernel.reduce max %x : tensor<?xf32> -> tensor<1xf32>
  return
}

// -----

func.func @reduce_bf16(%x: tensor<256xbf16>) {
  // expected-error @+1 {{'kernel.reduce' op operand #0 must be 1D tensor of 32-bit float values, but got 'tensor<256xbf16>'}}
  %y = kernel.reduce max %x : tensor<256xbf16> -> tensor<1xf32>
  return
}

// -----

func.func @broadcast(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.broadcast' op input has 256 values, a row without groups has 1}}
  %y = kernel.broadcast %x : tensor<256xf32> -> tensor<512xf32>
  return
}

// -----

func.func @w4_broadcast(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.broadcast' op input has 256 values, 384 elements in groups of 64 have 6 [W4]}}
  %y = kernel.broadcast %x group 64 : tensor<256xf32> -> tensor<384xf32>
  return
}

// -----

func.func @tile(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.tile' op result of 384 elements is not a multiple of the input's 256}}
  %y = kernel.tile %x : tensor<256xf32> -> tensor<384xf32>
  return
}

// -----

func.func @slice(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.slice' op takes 128 elements at 200 of a row of 256}}
  %y = kernel.slice %x at 200 : tensor<256xf32> -> tensor<128xf32>
  return
}

// -----

func.func @slice_negative(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.slice' op takes 128 elements at -1 of a row of 256}}
  %y = kernel.slice %x at -1 : tensor<256xf32> -> tensor<128xf32>
  return
}

// -----

func.func @slice_overflow(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.slice' op takes 128 elements at 9223372036854775807 of a row of 256}}
  %y = kernel.slice %x at 9223372036854775807 : tensor<256xf32> -> tensor<128xf32>
  return
}

// -----

func.func @n9_round(%x: tensor<256xf32>) {
  // expected-error @+1 {{'kernel.round' op rounds to 'f32', expected bf16 or f16 [N9]}}
  %y = kernel.round %x to f32 : tensor<256xf32>
  return
}

// -----

func.func @rope_heads(%x: tensor<256xf32>, %t: tensor<64xf32>) {
  // expected-error @+1 {{'kernel.rope' op row of 256 values does not divide into heads of 100}}
  %y = kernel.rope %x, %t head_dim 100 : tensor<256xf32>, tensor<64xf32> -> tensor<256xf32>
  return
}

// -----

func.func @p6_rope(%x: tensor<256xf32>, %t: tensor<64xf32>) {
  // expected-error @+1 {{'kernel.rope' op table rotates 64 values of a head, expected an even number of at most 32 [P6]}}
  %y = kernel.rope %x, %t head_dim 32 : tensor<256xf32>, tensor<64xf32> -> tensor<256xf32>
  return
}

// -----

func.func @rope_result(%x: tensor<256xf32>, %t: tensor<64xf32>) {
  // expected-error @+1 {{'kernel.rope' op result is 'tensor<128xf32>', expected 'tensor<256xf32>'}}
  %y = kernel.rope %x, %t head_dim 64 : tensor<256xf32>, tensor<64xf32> -> tensor<128xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// kernel.gemm
//===----------------------------------------------------------------------===//

func.func @p4_k(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x128xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op input has K = 256, the weight has 128 [P4]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x128xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @p4_n(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op destination has N = 512, the weight has 640 [P4]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x512xbf16>
  return
}

// -----

func.func @no_kernel(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op the kernel's name is empty}}
  %y = kernel.gemm "" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @p4_plain_weight(%b: !model.batch, %x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op input is '!q.tensor<?x256xf8E4M3FN, per_token, f32>', the weight 'tensor<640x256xbf16>' is not quantised [P4]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @n6_groups(%b: !model.batch, %x: !q.tensor<?x256xf8E4M3FN, block<1x64>, f32>, %w: !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'kernel.gemm' op input is '!q.tensor<?x256xf8E4M3FN, block<1x64>, f32>', the weight is '!q.tensor<640x256xf8E4M3FN, block<128x128>, f32>'; their scales do not go together [N6]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : !q.tensor<?x256xf8E4M3FN, block<1x64>, f32>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x640xbf16>
  return
}

// -----

func.func @n6_token_and_block(%b: !model.batch, %x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %w: !q.tensor<640x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'kernel.gemm' op input is '!q.tensor<?x256xf8E4M3FN, per_token, f32>', the weight is '!q.tensor<640x256xf8E4M3FN, block<128x128>, f32>'; their scales do not go together [N6]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x640xbf16>
  return
}

// -----

func.func @gemm_destination(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op destination is 'tensor<?x640xf8E4M3FN>', expected rows in f32, bf16 or f16}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xf8E4M3FN>
  return
}

// -----

func.func @n6_bias(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>, %c: tensor<64xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op bias is 'tensor<64xbf16>', expected 640 values in f32, bf16 or f16 [N6]}}
  %y = kernel.gemm "k" %x, %w bias(%c : tensor<64xbf16>) of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @b5_no_ranges(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op has 0 ranges of M and 0 variants, expected as many and at least one [B5]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64>, variants = []} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @b5_variants(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op has 2 ranges of M and 1 variants, expected as many and at least one [B5]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: 8, -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @b5_open_end(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op last range of M ends at 8, expected -1 (no end) [B5]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: 8>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @b5_order(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op range of M ends at 8 after 16, expected ascending ends [B5]}}
  %y = kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: 16, 8, -1>, variants = ["s", "t", "u"]} : tensor<?x256xbf16>, tensor<640x256xbf16> -> tensor<?x640xbf16>
  return
}

// -----

func.func @gemm_no_destination(%b: !model.batch, %x: tensor<?x256xbf16>, %w: tensor<640x256xbf16>) {
  // expected-error @+1 {{'kernel.gemm' op has neither a result nor a destination, expected one or the other}}
  kernel.gemm "k" %x, %w of %b tokens {module = "a", max_m = array<i64: -1>, variants = ["s"]} : tensor<?x256xbf16>, tensor<640x256xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// kernel.attention
//===----------------------------------------------------------------------===//

func.func @w3b_heads(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op has 6 query heads over 4 key heads of 64, expected a whole number of queries a key [W3b]}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 4 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p11_q(%b: !model.batch, %q: tensor<?x320xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op q is 'tensor<?x320xbf16>', expected 6 heads of 64 [P11]}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x320xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p11_result(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op destination is 'tensor<?x320xbf16>', expected 6 heads of 64 [P11]}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x320xbf16>
  return
}

// -----

func.func @p7_cache(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 4, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op reads 2 heads of 64, the cache is '!q.kv<bf16, page = 64, heads = 4, dim = 64>' [P7]}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 4, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7a_no_scales(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op the cache is '!q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>', expected scales of k and v [P7a]}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7a_scales(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index, %s: tensor<f32>) {
  // expected-error @+1 {{'kernel.attention' op the cache is '!q.kv<bf16, page = 64, heads = 2, dim = 64>', which has no scales [P7a]}}
  %y = kernel.attention "k" %q, %c scales(%s, %s : tensor<f32>, tensor<f32>) of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p8_scales(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %l: index, %s: tensor<2xf32>) {
  // expected-error @+1 {{'kernel.attention' op cache scale is 'tensor<2xf32>', expected one float [P8]}}
  %y = kernel.attention "k" %q, %c scales(%s, %s : tensor<2xf32>, tensor<2xf32>) of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

func.func @window(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'kernel.attention' op window is -5, expected 0 (all keys) or more}}
  %y = kernel.attention "k" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, window = -5 : i64, module = "a"} : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

// expected-error @+1 {{buffer of 'f32', expected a tensor or a quantised tensor}}
func.func private @buffer_of_scalar(!kernel.buffer<f32>)

// -----

// expected-error @+1 {{buffer of 'tensor<4x256xbf16>', expected a dynamic leading dimension (rows of a step) and no other}}
func.func private @buffer_static(!kernel.buffer<tensor<4x256xbf16>>)

// -----

// expected-error @+1 {{buffer of 'tensor<?x?xbf16>', expected a dynamic leading dimension (rows of a step) and no other}}
func.func private @buffer_dynamic(!kernel.buffer<tensor<?x?xbf16>>)

// -----

func.func @place_offset() {
  // expected-error @+1 {{'kernel.place' op offset is -64, expected 0 or more}}
  %p = kernel.place -64 : !kernel.buffer<tensor<?x256xbf16>>
  return
}

// -----

func.func @place_of_scales_missing() {
  // expected-error @+1 {{'kernel.place' op holds '!q.tensor<?x256xf8E4M3FN, per_token, f32>', expected a place of its scales}}
  %p = kernel.place 0 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, per_token, f32>>
  return
}

// -----

func.func @place_of_scales() {
  // expected-error @+1 {{'kernel.place' op holds 'tensor<?x256xbf16>', which has no scales}}
  %p = kernel.place 0 scales 64 : !kernel.buffer<tensor<?x256xbf16>>
  return
}

// -----

func.func @place_scale_offset() {
  // expected-error @+1 {{'kernel.place' op offset of the scales is -1, expected 0 or more}}
  %p = kernel.place 0 scales -1 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, per_token, f32>>
  return
}

// -----

func.func @p16_output(%b: !model.batch) {
  // expected-error @+1 {{'kernel.output' op is 'tensor<?x256xbf16>', the batch's output is rows in f32 [P16]}}
  %o = kernel.output of %b : !kernel.buffer<tensor<?x256xbf16>>
  return
}
