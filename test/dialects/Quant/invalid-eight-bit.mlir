// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// expected-error @+1 {{scale type is 'f8E8M0FNU', which is of blocks; the granularity is per_channel [N4]}}
func.func private @n4_channel(!q.tensor<64x64xf8E4M3FN, per_channel, f8E8M0FNU>)

// -----

// expected-error @+1 {{scale type is 'f8E8M0FNU', which is of f8E4M3FN codes, not 'f8E5M2' [N7]}}
func.func private @n7_e5m2(!q.tensor<64x64xf8E5M2, block<1x32>, f8E8M0FNU>)

// -----

// expected-error @+1 {{block granularity on 'i8', expected an FP8 storage type [W1]}}
func.func private @w1_int8_blocks(!q.tensor<64x64xi8, block<1x32>, f8E8M0FNU>)

// -----

// expected-error @+1 {{layout column_major_scales is of an activation, per_token or block<1xK>; this is block [P3]}}
func.func private @p3_weight(!q.tensor<64x64xf8E4M3FN, block<32x32>, f32, layout = column_major_scales>)

// -----

// expected-error @+1 {{layout column_major_scales has f32 scales, these are 'bf16' [P3]}}
func.func private @p3_scales(!q.tensor<?x64xf8E4M3FN, block<1x32>, bf16, layout = column_major_scales>)

// -----

// expected-error @+1 {{layout ue8m0_packed has four f8E8M0FNU scales in a word, these are 'f32' [N4]}}
func.func private @n4_packed(!q.tensor<64x64xf8E4M3FN, block<32x32>, f32, layout = ue8m0_packed>)

// -----

// expected-error @+1 {{layout weight_only is of weights, the granularity is per_token [B4]}}
func.func private @b4_activation(!q.tensor<?x64xf8E4M3FN, per_token, f32, layout = weight_only>)

// -----

// expected-error @+1 {{layout weight_only has f8E4M3FN or integer codes, these are 'f8E5M2'; loading converts them first [N8]}}
func.func private @n8_weight_only(!q.tensor<64x64xf8E5M2, per_channel, f32, layout = weight_only>)

// -----

// expected-error @+1 {{unknown layout 'diagonal', expected gguf, column_major_scales}}
func.func private @layout(!q.tensor<64x64xf8E4M3FN, per_channel, f32, layout = diagonal>)

// -----

//===----------------------------------------------------------------------===//
// Contracts
//===----------------------------------------------------------------------===//

// expected-error @+1 {{codes are i8 in blocks, expected one scale a tensor or a channel [N7]}}
#a = #q.contract<weight = block<1x32>, codes = i8, scale = f32, activation = none>

// -----

// expected-error @+1 {{scale type is 'f8E8M0FNU', which is of blocks of f8E4M3FN codes [N7]}}
#a = #q.contract<weight = per_channel, scale = f8E8M0FNU, activation = none>

// -----

// expected-error @+1 {{i8 activations have f32 scales, ue8m0 is for FP8 [N7]}}
#a = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token ue8m0>

// -----

// expected-error @+1 {{a bound is of dynamic per_token scales [P3]}}
#a = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static bound 3.0>

// -----

// expected-error @+1 {{bound is 0.000000e+00, expected a positive number [P3]}}
#a = #q.contract<weight = per_channel, scale = f32, activation = per_token bound 0.0>

// -----

// expected-error @+1 {{codes are 'i32', expected a storage type such as i8 [N1]}}
#a = #q.contract<weight = per_channel, codes = i32, scale = f32, activation = none>

// -----

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

func.func @p3_bound(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op bound is of dynamic per_token scales, the result is '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>' [P3]}}
  %q = q.quantize %x bound 1.0 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  return
}

// -----

func.func @n7_int8_exponents(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'q.quantize' op i8 codes have f32 scales, ue8m0 is for FP8 [N7]}}
  %q = q.quantize %x ue8m0 : tensor<?x256xbf16> -> !q.tensor<?x256xi8, per_token, f32>
  return
}

// -----

func.func @n7_scale_type() {
  // expected-error @+1 {{'q.load' op scale_type is 'ui8', the result '!q.tensor<64x64xf8E4M3FN, block<1x32>, f32>'; only f8E8M0FNU scales are stored as ui8 [N7]}}
  %w = q.load "a" weight "weight" scale "weight_scale" {scale_type = ui8} : !q.tensor<64x64xf8E4M3FN, block<1x32>, f32>
  return
}

// -----

// Another granularity at the same time is two rewrites.
func.func @n8_granularity(%w: !q.tensor<64x64xf8E5M2, per_tensor, f32>) {
  // expected-error @+1 {{'q.requantize' op turns '!q.tensor<64x64xf8E5M2, per_tensor, f32>' into '!q.tensor<64x64xf8E4M3FN, per_channel, f32>'; expected another FP8 format with f32 scales [N8]}}
  %v = q.requantize %w : !q.tensor<64x64xf8E5M2, per_tensor, f32> -> !q.tensor<64x64xf8E4M3FN, per_channel, f32>
  return
}

// -----

// Scales are widened before codes are converted.
func.func @n8_bf16_scales(%w: !q.tensor<64x64xf8E5M2, per_channel, bf16>) {
  // expected-error @+1 {{expected another FP8 format with f32 scales [N8]}}
  %v = q.requantize %w : !q.tensor<64x64xf8E5M2, per_channel, bf16> -> !q.tensor<64x64xf8E4M3FN, per_channel, bf16>
  return
}

// -----

func.func @w8_channel(%w: !q.tensor<64x64xf8E4M3FN, per_channel, f32, shards = [32, 32]>) {
  // expected-error @+1 {{one scale for the shards of a per_tensor matrix [W8]}}
  %v = q.requantize %w : !q.tensor<64x64xf8E4M3FN, per_channel, f32, shards = [32, 32]> -> !q.tensor<64x64xf8E4M3FN, per_tensor, f32>
  return
}

// -----

// Nothing is made of powers of two again.
func.func @w11_back(%w: !q.tensor<64x64xf8E4M3FN, block<32x32>, f8E8M0FNU>) {
  // expected-error @+1 {{or f8E8M0FNU for the f32 scales of blocks [W11]}}
  %v = q.requantize %w : !q.tensor<64x64xf8E4M3FN, block<32x32>, f8E8M0FNU> -> !q.tensor<64x64xf8E4M3FN, block<32x32>, f32>
  return
}

// -----

func.func @b6_input(%w: !q.tensor<64x64xf8E4M3FN, block<1x64>, f8E8M0FNU>) {
  // expected-error @+1 {{'q.merge_scales' op input is '!q.tensor<64x64xf8E4M3FN, block<1x64>, f8E8M0FNU>', expected block<1x32> with f8E8M0FNU scales [B6]}}
  %v = q.merge_scales %w : !q.tensor<64x64xf8E4M3FN, block<1x64>, f8E8M0FNU> -> !q.tensor<64x64xf8E4M3FN, block<64x64>, f32>
  return
}

// -----

func.func @b6_cut(%w: !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU>) {
  // expected-error @+1 {{expected blocks of whole groups of 32 with f32 scales [B6]}}
  %v = q.merge_scales %w : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU> -> !q.tensor<64x96xf8E4M3FN, block<16x48>, f32>
  return
}

// -----

func.func @b4_repack_plain(%w: !q.tensor<64x64xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{expected a plain weight into the layout of a kernel [B4]}}
  %v = q.repack %w : !q.tensor<64x64xf8E4M3FN, per_channel, f32> -> !q.tensor<64x64xf8E4M3FN, per_channel, f32>
  return
}

// -----

func.func @b4_repack_scales(%w: !q.tensor<64x64xf8E4M3FN, block<32x32>, f32>) {
  // expected-error @+1 {{only the layout may change [B4]}}
  %v = q.repack %w : !q.tensor<64x64xf8E4M3FN, block<32x32>, f32> -> !q.tensor<64x64xf8E4M3FN, block<32x32>, f8E8M0FNU, layout = ue8m0_packed>
  return
}

// -----

// A type that another scale would make invalid is compared, not made.
func.func @n2_packed(%w: !q.tensor<64x64xf8E4M3FN, block<32x32>, f8E8M0FNU, layout = ue8m0_packed>) {
  // expected-error @+1 {{'q.convert_scales' op turns}}
  %v = q.convert_scales %w : !q.tensor<64x64xf8E4M3FN, block<32x32>, f8E8M0FNU, layout = ue8m0_packed> -> !q.tensor<64x64xf8E4M3FN, block<32x32>, f32>
  return
}

// -----

// expected-error @+1 {{activation in column_major_scales, which is of scales that are computed, a token or a group each [P3]}}
func.func private @p3_static() attributes {a = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static column_major_scales>}

// -----

// expected-error @+1 {{activation in ue8m0_packed, whose words hold powers of two; expected ue8m0 [N4]}}
func.func private @n4_words() attributes {a = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0_packed>}

// -----

// expected-error @+1 {{an activation beside MXFP4 is group<32> ue8m0, a power of two a group [N7]}}
func.func private @n7_mxfp4() attributes {a = #q.contract<weight = group<32>, codes = f4E2M1FN, scale = f8E8M0FNU, activation = group<32> static, layout = packed>}

// -----

func.func @w9_one_matrix(%w: !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>) {
  // expected-error @+1 {{is one matrix, which has one scale above its groups already [W9]}}
  %v = q.share_global %w : !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed> -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
  return
}

// -----

func.func @w9_no_global(%w: !q.tensor<96x256xf4E2M1FN, group<32>, f8E8M0FNU, shards = [64, 32], layout = packed>) {
  // expected-error @+1 {{has no scale above those of its groups [W9]}}
  %v = q.share_global %w : !q.tensor<96x256xf4E2M1FN, group<32>, f8E8M0FNU, shards = [64, 32], layout = packed> -> !q.tensor<96x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  return
}

// -----

func.func @n7_mxfp4_scale(%x: tensor<?x64xbf16>) {
  // expected-error @+1 {{an activation in MXFP4 is group<32>, f8E8M0FNU, layout = packed, with ue8m0 and no stored scale [N7]}}
  %q = q.quantize %x : tensor<?x64xbf16> -> !q.tensor<?x64xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  return
}
