// RUN: octet-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// What a rank has of a tensor, and the scales that go with it (W4).
// CHECK-LABEL: func.func @slices
//       CHECK:   q.slice %{{.+}} of %{{.+}} <rows 512 at #{{.+}}> : !q.tensor<4096x7168x{{.+}} -> !q.tensor<512x7168xf8E4M3FN, block<128x128>, f32>
//       CHECK:   q.slice %{{.+}} of %{{.+}} <cols 640 at #{{.+}}, padded, own = 576 of 128>
//       CHECK:   q.slice %{{.+}} of %{{.+}} <rows 129 at #{{.+}}, short> : tensor<257x64xbf16> -> tensor<129x64xbf16>
//       CHECK:   q.slice %{{.+}} of %{{.+}} <experts 2 at #{{.+}}>
func.func @slices(%r: index, %w: !q.tensor<4096x7168xf8E4M3FN, block<128x128>, f32>, %d: !q.tensor<512x1152xf8E4M3FN, block<128x128>, f32>, %v: tensor<257x64xbf16>, %e: tensor<8x64x32xbf16>) {
  %0 = q.slice %w of %r <rows 512 at affine_map<(d0) -> (d0 * 512)>> : !q.tensor<4096x7168xf8E4M3FN, block<128x128>, f32> -> !q.tensor<512x7168xf8E4M3FN, block<128x128>, f32>
  %1 = q.slice %d of %r <cols 640 at affine_map<(d0) -> (d0 * 576)>, padded, own = 576 of 128> : !q.tensor<512x1152xf8E4M3FN, block<128x128>, f32> -> !q.tensor<512x640xf8E4M3FN, block<128x128>, f32>
  %2 = q.slice %v of %r <rows 129 at affine_map<(d0) -> (d0 * 129)>, short> : tensor<257x64xbf16> -> tensor<129x64xbf16>
  %3 = q.slice %e of %r <experts 2 at affine_map<(d0) -> (d0 floordiv 2 * 2)>> : tensor<8x64x32xbf16> -> tensor<2x64x32xbf16>
  return
}

// -----

// Per channel the scales of the rows go along, per tensor there is one (W1); a
// whole side may be ragged (W3).
// CHECK-LABEL: func.func @scales
func.func @scales(%r: index, %c: !q.tensor<64x256xf8E4M3FN, per_channel, f32>, %t: !q.tensor<64x256xf8E4M3FN, per_tensor, f32>, %w: !q.tensor<576x256xf8E4M3FN, block<128x128>, f32>) {
  %0 = q.slice %c of %r <rows 20 at affine_map<(d0) -> (d0 * 20)>> : !q.tensor<64x256xf8E4M3FN, per_channel, f32> -> !q.tensor<20x256xf8E4M3FN, per_channel, f32>
  %1 = q.slice %t of %r <cols 100 at affine_map<(d0) -> (d0 * 100)>> : !q.tensor<64x256xf8E4M3FN, per_tensor, f32> -> !q.tensor<64x100xf8E4M3FN, per_tensor, f32>
  %2 = q.slice %w of %r <rows 576 at affine_map<(d0) -> (0)>> : !q.tensor<576x256xf8E4M3FN, block<128x128>, f32> -> !q.tensor<576x256xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

// With act_order a part of the columns has the scales of all groups: 8 of 512
// columns as of 1024 (W3).
// CHECK-LABEL: func.func @act_order
//       CHECK:   -> !q.tensor<64x512xi4, group<64>, f16, zero_points_minus_one, act_order, layout = packed_k>
func.func @act_order(%r: index, %w: !q.tensor<64x1024xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>) {
  %0 = q.slice %w of %r <cols 512 at affine_map<(d0) -> (d0 * 512)>> : !q.tensor<64x1024xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k> -> !q.tensor<64x512xi4, group<64>, f16, zero_points_minus_one, act_order, layout = packed_k>
  return
}

// -----

func.func @w3_size(%r: index, %w: !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'q.slice' op is a slice of 192 cols, not a multiple of the block (128) [W3]}}
  %0 = q.slice %w of %r <cols 192 at affine_map<(d0) -> (d0 * 192)>> : !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32> -> !q.tensor<256x192xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w3_first(%r: index, %w: !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'q.slice' op is a slice that begins at a multiple of 64 cols, not of the block (128) [W3]}}
  %0 = q.slice %w of %r <cols 128 at affine_map<(d0) -> (d0 * 64)>> : !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32> -> !q.tensor<256x128xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w3_words(%r: index, %w: !q.tensor<64x256xi4, group<32>, f16, zero_points, layout = awq>) {
  // expected-error @+1 {{'q.slice' op is a slice of 4 rows, not a multiple of the block (8) [W3]}}
  %0 = q.slice %w of %r <rows 4 at affine_map<(d0) -> (d0 * 4)>> : !q.tensor<64x256xi4, group<32>, f16, zero_points, layout = awq> -> !q.tensor<64x256xi4, group<32>, f16, zero_points, layout = awq>
  return
}

// -----

func.func @w4_scales(%r: index, %w: !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'q.slice' op result is '!q.tensor<256x128xf8E4M3FN, block<128x64>, f32>', the slice implies '!q.tensor<256x128xf8E4M3FN, block<128x128>, f32>' [W4]}}
  %0 = q.slice %w of %r <cols 128 at affine_map<(d0) -> (d0 * 128)>> : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32> -> !q.tensor<256x128xf8E4M3FN, block<128x64>, f32>
  return
}

// -----

func.func @w5b_shards(%r: index, %w: !q.tensor<256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) {
  // expected-error @+1 {{each shard is cut by itself; slice them and join them with q.concat [W5b]}}
  %0 = q.slice %w of %r <rows 128 at affine_map<(d0) -> (d0 * 128)>> : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]> -> !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w3_padded(%r: index, %w: tensor<256x256xbf16>) {
  // expected-error @+1 {{a padded slice of 512 for 128 of its own, expected whole blocks of 128 that it touches [W3]}}
  %0 = q.slice %w of %r <cols 512 at affine_map<(d0) -> (d0 * 128)>, padded, own = 128 of 128> : tensor<256x256xbf16> -> tensor<256x512xbf16>
  return
}

// -----

func.func @w3_begins_behind_the_end(%r: index, %w: !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'q.slice' op is 128 rows from 1280 of !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>, which has 384 [W3]}}
  %0 = q.slice %w of %r <rows 128 at affine_map<(d0) -> (1280)>> : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32> -> !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @w3c_size(%r: index, %w: tensor<8x64x32xbf16>) {
  // expected-error @+1 {{'q.slice' op is 16 experts of tensor<8x64x32xbf16>, which has 8 [W3c]}}
  %0 = q.slice %w of %r <experts 16 at affine_map<(d0) -> (0)>> : tensor<8x64x32xbf16> -> tensor<16x64x32xbf16>
  return
}

// -----

func.func @w3_map(%r: index, %w: tensor<256x256xbf16>) {
  // expected-error @+1 {{expected one function of the rank [W3]}}
  %0 = q.slice %w of %r <rows 128 at affine_map<(d0, d1) -> (d0)>> : tensor<256x256xbf16> -> tensor<128x256xbf16>
  return
}
