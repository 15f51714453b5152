// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// q.quantize, q.dequantize
//===----------------------------------------------------------------------===//

func.func @quantize_shape(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op input is 'tensor<?x256xbf16>', its shape is not that of '!q.tensor<?x128xf8E4M3FN, block<1x128>, f32>' [P3]}}
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x128xf8E4M3FN, block<1x128>, f32>
  return
}

// -----

func.func @quantize_row_to_rows(%x: tensor<256xf32>) {
  // expected-error @+1 {{'q.quantize' op input is 'tensor<256xf32>', its shape is not that of '!q.tensor<2x256xf8E4M3FN, block<1x128>, f32>' [P3]}}
  %q = q.quantize %x : tensor<256xf32> -> !q.tensor<2x256xf8E4M3FN, block<1x128>, f32>
  return
}

// -----

func.func @p3_quantize_codes(%x: tensor<?x256xf8E4M3FN>) {
  // expected-error @+1 {{'q.quantize' op input is 'tensor<?x256xf8E4M3FN>', expected f32, bf16 or f16 elements [P3]}}
  %q = q.quantize %x : tensor<?x256xf8E4M3FN> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  return
}

// -----

func.func @n1_quantize_to_e5m2(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op rounds to 'f8E5M2', only f8E4M3FN, f4E2M1FN and i8 are used in compute [N1]}}
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E5M2, block<1x128>, f32>
  return
}

// -----

func.func @b5_dynamic_scale_of_a_step(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op result is '!q.tensor<?x256xf8E4M3FN, per_tensor, f32>', one scale of a whole step would make rows depend on each other; expected a static scale or per_token [B5]}}
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  return
}

// -----

func.func @p3_static_group(%x: tensor<?x256xbf16>, %s: tensor<f32>) {
  // expected-error @+1 {{'q.quantize' op a static scale describes a per_tensor result, not '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>' [P3]}}
  %q = q.quantize %x, %s : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  return
}

// -----

func.func @w1_static_shards(%x: tensor<64x256xbf16>, %s: tensor<f32>) {
  // expected-error @+1 {{'q.quantize' op one static scale cannot describe 2 shards [W1]}}
  %q = q.quantize %x, %s : tensor<64x256xbf16>, tensor<f32> -> !q.tensor<64x256xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
  return
}

// -----

func.func @n4_static_power(%x: tensor<?x256xbf16>, %s: tensor<f32>) {
  // expected-error @+1 {{'q.quantize' op a static scale is taken as it is, ue8m0 is for dynamic ones [N4]}}
  %q = q.quantize %x, %s ue8m0 : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  return
}

// -----

func.func @w1_static_type(%x: tensor<?x256xbf16>, %s: tensor<bf16>) {
  // expected-error @+1 {{'q.quantize' op scale is 'tensor<bf16>', the result type implies 'f32' [W1]}}
  %q = q.quantize %x, %s : tensor<?x256xbf16>, tensor<bf16> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  return
}

// -----

func.func @static_vector(%x: tensor<?x256xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{'q.quantize' op operand #1 must be tensor of one float, but got 'tensor<2xf32>'}}
  %q = q.quantize %x, %s : tensor<?x256xbf16>, tensor<2xf32> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  return
}

// -----

func.func @p3_scale_type(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op scales of the result are 'bf16', expected f32 or f8E8M0FNU [P3]}}
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, bf16>
  return
}

// -----

func.func @n4_power_of_two(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op f8E8M0FNU scales are powers of two, expected ue8m0 [N4]}}
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f8E8M0FNU>
  return
}

// -----

func.func @dequantize_shape(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) {
  // expected-error @+1 {{'q.dequantize' op result is 'tensor<?x128xbf16>', its shape is not that of '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>' [P3]}}
  %x = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x128xbf16>
  return
}

// -----

func.func @p3_dequantize_to_codes(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) {
  // expected-error @+1 {{'q.dequantize' op result is 'tensor<?x256xf8E5M2>', expected f32, bf16 or f16 elements [P3]}}
  %x = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xf8E5M2>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.pack, q.unpack
//===----------------------------------------------------------------------===//

func.func @w1_pack_scale(%d: tensor<7168x2048xf8E4M3FN>, %s: tensor<56x15xf32>) {
  // expected-error @+1 {{'q.pack' op scale is 'tensor<56x15xf32>', the type implies 'tensor<56x16xf32>' [W1]}}
  %w = q.pack %d, %s : tensor<7168x2048xf8E4M3FN>, tensor<56x15xf32> -> !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

// 2048 + 576 rows in blocks of 128 are 16 + 5 scale rows, not 2624 / 128 = 20.5
// rounded up.
func.func @w5b_pack_scale(%d: tensor<2660x256xf8E4M3FN>, %s: tensor<21x2xf32>) {
  // expected-error @+1 {{'q.pack' op scale is 'tensor<21x2xf32>', the type implies 'tensor<22x2xf32>' [W1]}}
  %w = q.pack %d, %s : tensor<2660x256xf8E4M3FN>, tensor<21x2xf32> -> !q.tensor<2660x256xf8E4M3FN, block<128x128>, f32, shards = [2060, 600]>
  return
}

// -----

func.func @w1_pack_data(%d: tensor<7168x2048xf8E5M2>, %s: tensor<56x16xf32>) {
  // expected-error @+1 {{'q.pack' op data is 'tensor<7168x2048xf8E5M2>', the type implies 'tensor<7168x2048xf8E4M3FN>' [W1]}}
  %w = q.pack %d, %s : tensor<7168x2048xf8E5M2>, tensor<56x16xf32> -> !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w1_unpack_scale(%w: !q.tensor<64x32xf8E4M3FN, per_channel, bf16>) {
  // expected-error @+1 {{'q.unpack' op scale is 'tensor<64xbf16>', the type implies 'tensor<64x1xbf16>' [W1]}}
  %d, %s = q.unpack %w : !q.tensor<64x32xf8E4M3FN, per_channel, bf16> -> tensor<64x32xf8E4M3FN>, tensor<64xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.slot, q.weight, q.store
//===----------------------------------------------------------------------===//

// expected-error @+1 {{'q.slot' op has 0 instances, expected at least 1}}
q.slot @s[0] : tensor<4xf32>

// -----

// expected-error @+1 {{'q.slot' op has -3 instances, expected at least 1}}
q.slot @s[-3] : tensor<4xf32>

// -----

// expected-error @+1 {{'q.slot' op uses index 3, expected ascending ones from 0 to 2}}
q.slot @s[3] used [0, 3] : tensor<4xf32>

// -----

// expected-error @+1 {{'q.slot' op uses index 1, expected ascending ones from 0 to 2}}
q.slot @s[3] used [1, 1] : tensor<4xf32>

// -----

// expected-error @+1 {{'q.slot' op type is 'f32', expected a quantised or plain tensor}}
q.slot @s[1] : f32

// -----

// expected-error @+1 {{'q.slot' op type is 'tensor<?xf32>', a weight has a static shape}}
q.slot @s[1] : tensor<?xf32>

// -----

func.func @no_slot() {
  // expected-error @+1 {{'q.weight' op there is no q.slot @s [W6]}}
  %w = q.weight @s : tensor<4xf32>
  return
}

// -----

func.func private @s()
func.func @not_a_slot() {
  // expected-error @+1 {{'q.weight' op there is no q.slot @s [W6]}}
  %w = q.weight @s : tensor<4xf32>
  return
}

// -----

// expected-note @+1 {{the slot is here}}
q.slot @s[1] : tensor<4xf32>
func.func @w1_weight_type() {
  // expected-error @+1 {{'q.weight' op value is 'tensor<5xf32>', slot @s holds 'tensor<4xf32>' [W1]}}
  %w = q.weight @s : tensor<5xf32>
  return
}

// -----

// expected-note @+1 {{the slot is here}}
q.slot @s[1] : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
func.func @w1_store_type(%w: !q.tensor<256x384xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{'q.store' op value is '!q.tensor<256x384xf8E4M3FN, per_channel, f32>', slot @s holds '!q.tensor<256x384xf8E4M3FN, block<128x128>, f32>' [W1]}}
  q.store %w, @s : !q.tensor<256x384xf8E4M3FN, per_channel, f32>
  return
}

// -----

q.slot @s[2] : tensor<4xf32>
func.func @no_index() {
  // expected-error @+1 {{'q.weight' op slot @s has 2 instances, expected an index [W6]}}
  %w = q.weight @s : tensor<4xf32>
  return
}

// -----

q.slot @s[2] : tensor<4xf32>
func.func @index_too_large(%v: tensor<4xf32>) {
  %i = arith.constant 2 : index
  // expected-error @+1 {{'q.store' op index 2 is not one of the 2 instances of slot @s [W6]}}
  q.store %v, @s[%i] : tensor<4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.load
//===----------------------------------------------------------------------===//

func.func @empty_path() {
  // expected-error @+1 {{'q.load' op the module path is empty}}
  %w = q.load "" weight "weight" : tensor<4xf32>
  return
}

// -----

func.func @path_without_index() {
  // expected-error @+1 {{'q.load' op path 'model.layers.{l}.norm' has a {l} and no index}}
  %w = q.load "model.layers.{l}.norm" weight "weight" : tensor<4xf32>
  return
}

// -----

func.func @index_without_path(%l: index) {
  // expected-error @+1 {{'q.load' op path 'model.norm' has no {l} for the index}}
  %w = q.load "model.norm"[%l] weight "weight" : tensor<4xf32>
  return
}

// -----

// A path comes from a file: control characters are escaped.
func.func @hostile_path(%l: index) {
  // expected-error @+1 {{'q.load' op path 'a\x1b[31m\'b' has no {l} for the index}}
  %w = q.load "a\1B[31m'b"[%l] weight "weight" : tensor<4xf32>
  return
}

// -----

func.func @w2_no_scale() {
  // expected-error @+1 {{'q.load' op result is '!q.tensor<64x32xf8E4M3FN, per_channel, f32>', expected the name of its scale [W2]}}
  %w = q.load "a" weight "weight" : !q.tensor<64x32xf8E4M3FN, per_channel, f32>
  return
}

// -----

func.func @w2_scale_of_plain() {
  // expected-error @+1 {{'q.load' op result is 'tensor<64x32xbf16>', which has no scale [W2]}}
  %w = q.load "a" weight "weight" scale "weight_scale" : tensor<64x32xbf16>
  return
}

// -----

func.func @w1_stored_grid() {
  // expected-error @+1 {{'q.load' op scale_shape is [2, 3, 2], the type implies 6 scales [W1]}}
  %w = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 2, 3, 2>} : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w1_stored_grid_overflow() {
  // expected-error @+1 {{'q.load' op scale_shape is [4611686018427387904, 4], the type implies 6 scales [W1]}}
  %w = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 4611686018427387904, 4>} : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @c13_codes_without_scale() {
  // expected-error @+1 {{'q.load' op result is 'tensor<64x32xf8E4M3FN>', FP8 codes mean nothing without a scale [C13]}}
  %w = q.load "a" weight "weight" : tensor<64x32xf8E4M3FN>
  return
}

// -----

func.func @c8_load_of_shards() {
  // expected-error @+1 {{'q.load' op result is '!q.tensor<64x32xf8E4M3FN, per_channel, f32, shards = [32, 32]>', one stored tensor has no shards; load each and join them with q.concat [C8]}}
  %w = q.load "a" weight "weight" scale "weight_scale" : !q.tensor<64x32xf8E4M3FN, per_channel, f32, shards = [32, 32]>
  return
}

// -----

func.func @load_dynamic() {
  // expected-error @+1 {{'q.load' op result is 'tensor<?x32xbf16>', a stored tensor has a static shape}}
  %w = q.load "a" weight "weight" : tensor<?x32xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.convert_scales, q.expand_scales
//===----------------------------------------------------------------------===//

func.func @n2_narrow(%w: !q.tensor<64x32xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{'q.convert_scales' op turns 'f32' scales into 'bf16', only widening to f32 is exact [N2]}}
  %v = q.convert_scales %w : !q.tensor<64x32xf8E4M3FN, per_channel, f32> -> !q.tensor<64x32xf8E4M3FN, per_channel, bf16>
  return
}

// -----

func.func @convert_codes(%w: !q.tensor<64x32xf8E4M3FN, per_channel, bf16>) {
  // expected-error @+1 {{'q.convert_scales' op turns '!q.tensor<64x32xf8E4M3FN, per_channel, bf16>' into '!q.tensor<64x32xf8E5M2, per_channel, f32>', only the scale type may change [N2]}}
  %v = q.convert_scales %w : !q.tensor<64x32xf8E4M3FN, per_channel, bf16> -> !q.tensor<64x32xf8E5M2, per_channel, f32>
  return
}

// -----

func.func @w7_from_blocks(%w: !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>) {
  // expected-error @+1 {{'q.expand_scales' op turns '!q.tensor<64x32xf8E4M3FN, block<32x32>, f32>' into '!q.tensor<64x32xf8E4M3FN, per_channel, f32>', expected per_tensor into per_channel [W7]}}
  %v = q.expand_scales %w : !q.tensor<64x32xf8E4M3FN, block<32x32>, f32> -> !q.tensor<64x32xf8E4M3FN, per_channel, f32>
  return
}

// -----

func.func @w7_shards(%w: !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>) {
  // expected-error @+1 {{'q.expand_scales' op turns '!q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>' into '!q.tensor<64x32xf8E4M3FN, per_channel, f32>', only the granularity may change [W7]}}
  %v = q.expand_scales %w : !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]> -> !q.tensor<64x32xf8E4M3FN, per_channel, f32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.concat
//===----------------------------------------------------------------------===//

func.func @c8_concat_k(%a: !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, %b: !q.tensor<64x64xf8E4M3FN, block<32x32>, f32>) {
  // expected-error @+1 {{'q.concat' op input 1 has K = 64, the result has 32 [C8]}}
  %w = q.concat %a, %b : !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, !q.tensor<64x64xf8E4M3FN, block<32x32>, f32> -> !q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [64, 64]>
  return
}

// -----

func.func @w5b_concat_order(%a: !q.tensor<96x32xf8E4M3FN, block<32x32>, f32>, %b: !q.tensor<32x32xf8E4M3FN, block<32x32>, f32>) {
  // expected-error @+1 {{'q.concat' op shards of the result are [32, 96], the inputs have [96, 32] rows [W5b]}}
  %w = q.concat %a, %b : !q.tensor<96x32xf8E4M3FN, block<32x32>, f32>, !q.tensor<32x32xf8E4M3FN, block<32x32>, f32> -> !q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [32, 96]>
  return
}

// -----

func.func @w5b_concat_without_shards(%a: !q.tensor<96x32xf8E4M3FN, block<32x32>, f32>, %b: !q.tensor<32x32xf8E4M3FN, block<32x32>, f32>) {
  // expected-error @+1 {{'q.concat' op shards of the result are [128], the inputs have [96, 32] rows [W5b]}}
  %w = q.concat %a, %b : !q.tensor<96x32xf8E4M3FN, block<32x32>, f32>, !q.tensor<32x32xf8E4M3FN, block<32x32>, f32> -> !q.tensor<128x32xf8E4M3FN, block<32x32>, f32>
  return
}

// -----

func.func @c8_concat_blocks(%a: !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, %b: !q.tensor<64x32xf8E4M3FN, block<64x32>, f32>) {
  // expected-error @+1 {{'q.concat' op input 1 is '!q.tensor<64x32xf8E4M3FN, block<64x32>, f32>', the result is '!q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [64, 64]>'; they may differ only in their rows [C8]}}
  %w = q.concat %a, %b : !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, !q.tensor<64x32xf8E4M3FN, block<64x32>, f32> -> !q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [64, 64]>
  return
}

// -----

func.func @c8_concat_mixed(%a: !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, %b: tensor<64x32xbf16>) {
  // expected-error @+1 {{'q.concat' op input 1 is 'tensor<64x32xbf16>', the result '!q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [64, 64]>' is quantised [C8]}}
  %w = q.concat %a, %b : !q.tensor<64x32xf8E4M3FN, block<32x32>, f32>, tensor<64x32xbf16> -> !q.tensor<128x32xf8E4M3FN, block<32x32>, f32, shards = [64, 64]>
  return
}

// -----

func.func @w5b_concat_activation(%a: !q.tensor<?x32xf8E4M3FN, per_token, f32>) {
  // expected-error @+1 {{'q.concat' op input 0 is '!q.tensor<?x32xf8E4M3FN, per_token, f32>', an activation is no shard [W5b]}}
  %w = q.concat %a : !q.tensor<?x32xf8E4M3FN, per_token, f32> -> !q.tensor<?x32xf8E4M3FN, per_token, f32>
  return
}

// -----

func.func @c8_plain_concat_k(%a: tensor<64x32xbf16>, %b: tensor<64x16xbf16>) {
  // expected-error @+1 {{'q.concat' op input 1 has K = 16, the result has 32 [C8]}}
  %w = q.concat %a, %b : tensor<64x32xbf16>, tensor<64x16xbf16> -> tensor<128x32xbf16>
  return
}

// -----

func.func @c8_plain_concat_rows(%a: tensor<64x32xbf16>) {
  // expected-error @+1 {{'q.concat' op inputs have 128 rows, the result has 129 [C8]}}
  %w = q.concat %a, %a : tensor<64x32xbf16>, tensor<64x32xbf16> -> tensor<129x32xbf16>
  return
}

// -----

func.func @c8_plain_concat_dtype(%a: tensor<64x32xbf16>, %b: tensor<64x32xf16>) {
  // expected-error @+1 {{'q.concat' op input 1 is 'tensor<64x32xf16>', the result is 'tensor<128x32xbf16>'; they may differ only in their rows [C8]}}
  %w = q.concat %a, %b : tensor<64x32xbf16>, tensor<64x32xf16> -> tensor<128x32xbf16>
  return
}

// -----

func.func @concat_of_nothing() {
  // expected-error @+1 {{'q.concat' op expected at least one input}}
  %w = "q.concat"() : () -> tensor<4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.max, q.kv_scales
//===----------------------------------------------------------------------===//

func.func @max_of_nothing() {
  // expected-error @+1 {{'q.max' op expected at least one input}}
  %m = "q.max"() : () -> tensor<f32>
  return
}

// -----

func.func @max_type(%s: tensor<bf16>) {
  // expected-error @+1 {{'q.max' op result is 'tensor<bf16>', expected an f32 scalar}}
  %m = q.max %s : tensor<bf16> -> tensor<bf16>
  return
}

// -----

func.func @kv_scales_type() {
  // expected-error @+1 {{'q.kv_scales' op value scale is 'tensor<bf16>', expected an f32 scalar}}
  %k, %v = q.kv_scales "a.self_attn" : tensor<f32>, tensor<bf16>
  return
}

// -----

func.func @kv_scales_path() {
  // expected-error @+1 {{'q.kv_scales' op path 'a.{l}.self_attn' has a {l} and no index}}
  %k, %v = q.kv_scales "a.{l}.self_attn" : tensor<f32>, tensor<f32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// q.kv_write
//===----------------------------------------------------------------------===//

func.func @p7a_width(%k: tensor<?x64xbf16>, %v: tensor<?x128xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %s: tensor<?xi32>) {
  // expected-error @+1 {{'q.kv_write' op k is 'tensor<?x64xbf16>', the cache '!q.kv<bf16, page = 64, heads = 2, dim = 64>' takes 128 values a row in f32, bf16 or f16 [P7a]}}
  q.kv_write %k, %v, %c at %s : tensor<?x64xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  return
}

// -----

func.func @kv_slots(%k: tensor<?x128xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %s: tensor<?xi64>) {
  // expected-error @+1 {{'q.kv_write' op slots is 'tensor<?xi64>', expected one i32 a row of k}}
  q.kv_write %k, %k, %c at %s : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi64>
  return
}

// -----

func.func @kv_rows(%k: tensor<3x128xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %s: tensor<4xi32>) {
  // expected-error @+1 {{'q.kv_write' op k, v and slots have different numbers of rows: 'tensor<3x128xbf16>', 'tensor<3x128xbf16>', 'tensor<4xi32>'}}
  q.kv_write %k, %k, %c at %s : tensor<3x128xbf16>, tensor<3x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<4xi32>
  return
}

// -----

func.func @p7a_scales_missing(%k: tensor<?x128xbf16>, %c: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %s: tensor<?xi32>) {
  // expected-error @+1 {{'q.kv_write' op the cache is '!q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>', expected scales of k and v [P7a]}}
  q.kv_write %k, %k, %c at %s : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  return
}

// -----

func.func @p7a_scales_of_bf16(%k: tensor<?x128xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %s: tensor<?xi32>, %f: tensor<f32>) {
  // expected-error @+1 {{'q.kv_write' op the cache is '!q.kv<bf16, page = 64, heads = 2, dim = 64>', which has no scales [P7a]}}
  q.kv_write %k, %k, %c at %s scales(%f, %f : tensor<f32>, tensor<f32>) : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  return
}
