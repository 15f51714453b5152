// RUN: octet-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{f4E2M1FN codes without a layout, which says how two of them share a byte, expected layout = packed or tiled [N7]}}
func.func private @n7_no_layout(!q.tensor<64x64xf4E2M1FN, group<32>, f8E8M0FNU>)

// -----

// expected-error @+1 {{f4E2M1FN codes have group<32> and f8E8M0FNU scales (MXFP4) or group<16>, f8E4M3FN scales and a global one (NVFP4), these have group<64>, 'f8E8M0FNU' scales and no global one [N7]}}
func.func private @n7_group(!q.tensor<64x64xf4E2M1FN, group<64>, f8E8M0FNU, layout = packed>)

// -----

// expected-error @+1 {{f4E2M1FN codes have group<32> and f8E8M0FNU scales (MXFP4) or group<16>, f8E4M3FN scales and a global one (NVFP4), these have group<16>, 'f8E4M3FN' scales and no global one [N7]}}
func.func private @n7_one_level(!q.tensor<64x64xf4E2M1FN, group<16>, f8E4M3FN, layout = packed>)

// -----

// expected-error @+1 {{f4E2M1FN codes have group<32> and f8E8M0FNU scales (MXFP4) or group<16>, f8E4M3FN scales and a global one (NVFP4), these have group<32>, 'f8E8M0FNU' scales and a global one [N7]}}
func.func private @n7_mx_global(!q.tensor<64x64xf4E2M1FN, group<32>, f8E8M0FNU, global = divides, layout = packed>)

// -----

// expected-error @+1 {{f4E2M1FN codes have neither offsets nor act_order, these have zero_points [N7]}}
func.func private @n7_zeros(!q.tensor<64x64xf4E2M1FN, group<32>, f8E8M0FNU, zero_points, layout = packed>)

// -----

// expected-error @+1 {{layout packed_k holds integers, f4E2M1FN codes are packed or tiled [N7]}}
func.func private @n7_gptq(!q.tensor<64x64xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed_k>)

// -----

// expected-error @+1 {{layout packed needs whole groups of 32, K is 48 [W1]}}
func.func private @n7_ragged(!q.tensor<64x48xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>)

// -----

// expected-error @+1 {{f8E4M3FN scales are those of NVFP4's f4E2M1FN codes, expected layout = packed or tiled [N7]}}
func.func private @n7_scale(!q.tensor<64x64xf8E4M3FN, block<1x32>, f8E4M3FN>)

// -----

// expected-error @+1 {{a global scale stands above those of NVFP4's groups, these codes are 'i4' [N7]}}
func.func private @n7_int_global(!q.tensor<64x64xi4, group<32>, f16, zero_points, global = divides, layout = packed>)

// -----

// expected-error @+1 {{a global scale stands above those of NVFP4's groups, expected layout = packed or tiled [N7]}}
func.func private @n7_fp8_global(!q.tensor<64x64xf8E4M3FN, per_channel, f32, global = divides>)

// -----

// expected-error @+1 {{layout awq holds i4 codes, not 'i8' [W1]}}
func.func private @w1_awq8(!q.tensor<64x64xi8, group<32>, f16, zero_points, layout = awq>)

// -----

// expected-error @+1 {{layout awq has zero_points, not none [W1]}}
func.func private @w1_awq_zeros(!q.tensor<64x64xi4, group<32>, f16, layout = awq>)

// -----

// expected-error @+1 {{layout packed_k has zero_points or zero_points_minus_one, not none [W1]}}
func.func private @w1_gptq_zeros(!q.tensor<64x64xi4, group<32>, f16, layout = packed_k>)

// -----

// expected-error @+1 {{layout packed has zero_points or none, not zero_points_minus_one [W1]}}
func.func private @w1_ct_zeros(!q.tensor<64x64xi4, group<32>, f16, zero_points_minus_one, layout = packed>)

// -----

// expected-error @+1 {{layout tiled has zero_points, none, or minimums of i4 with f16 scales, not zero_points_minus_one [W1]}}
func.func private @w1_tiled_zeros(!q.tensor<64x64xi4, group<32>, f16, zero_points_minus_one, layout = tiled>)

// -----

// expected-error @+1 {{layout tiled has f32 or f16 scales for integers, these are 'bf16' [W1]}}
func.func private @w1_tiled_bf16(!q.tensor<64x64xi4, group<32>, bf16, layout = tiled>)

// -----

// expected-error @+1 {{layout packed has f32, bf16 or f16 scales for integers, these are 'f8E8M0FNU' [W1]}}
func.func private @w1_exponents(!q.tensor<64x64xi4, group<32>, f8E8M0FNU, layout = packed>)

// -----

// expected-error @+1 {{layout packed holds i4, i8 or f4E2M1FN codes, not 'f8E4M3FN' [W1]}}
func.func private @w1_fp8(!q.tensor<64x64xf8E4M3FN, group<32>, f16, layout = packed>)

// -----

// expected-error @+1 {{layout packed has a scale a group or a channel, this is per_tensor [W1]}}
func.func private @w1_tensor(!q.tensor<64x64xi4, per_tensor, f16, layout = packed>)

// -----

// expected-error @+1 {{act_order says which group a column is in; one scale a channel is one group [W1]}}
func.func private @w1_order(!q.tensor<64x64xi4, per_channel, f16, zero_points, act_order, layout = packed_k>)

// -----

// expected-error @+1 {{act_order says which group a column is in; layout awq keeps them in order [W1]}}
func.func private @w1_awq_order(!q.tensor<64x64xi4, group<32>, f16, zero_points, act_order, layout = awq>)

// -----

// expected-error @+1 {{act_order belongs to codes that share words, expected layout = packed or tiled [W1]}}
func.func private @w1_fp8_order(!q.tensor<64x64xf8E4M3FN, per_channel, f32, act_order>)

// -----

// expected-error @+1 {{zero_points belong to codes that share words, expected layout = packed or tiled [W1]}}
func.func private @w1_int8_zeros(!q.tensor<64x64xi8, per_channel, f32, zero_points>)

// -----

// expected-error @+1 {{layout awq needs whole words of 8, N is 60 [W1]}}
func.func private @w1_awq_n(!q.tensor<60x64xi4, group<32>, f16, zero_points, layout = awq>)

// -----

// expected-error @+1 {{layout awq needs whole groups of 32, K is 80 [W1]}}
func.func private @w1_awq_k(!q.tensor<64x80xi4, group<32>, f16, zero_points, layout = awq>)

// -----

// expected-error @+1 {{layout packed_k needs whole words of 4, K is 66 [W1]}}
func.func private @w1_gptq_k(!q.tensor<64x66xi8, group<32>, f16, zero_points, layout = packed_k>)

// -----

// expected-error @+1 {{layout packed_k needs whole words of 8, N is 4 [W1]}}
func.func private @w1_gptq_shard(!q.tensor<36x64xi4, group<32>, f16, zero_points, shards = [32, 4], layout = packed_k>)

// -----

// expected-error @+1 {{codes and scales have more bytes than an int64_t holds}}
func.func private @bytes(!q.tensor<4611686018427387904x64xi4, group<32>, f16, zero_points, layout = awq>)

// -----

// expected-error @+1 {{unknown global scale 'adds', expected multiplies or divides}}
func.func private @global(!q.tensor<64x64xf4E2M1FN, group<16>, f8E4M3FN, global = adds, layout = packed>)

// -----

// expected-error @+1 {{misplaced 'zero_points', expected minimums}}
func.func private @misplaced(!q.tensor<64x64xi4, group<32>, f16, act_order, zero_points, layout = packed_k>)

// -----

// expected-error @+1 {{layout tiled is of weights only; an activation beside them is not quantised [B4]}}
func.func private @b4() attributes {c = #q.contract<weight = group<32>, codes = i4, scale = f16, activation = per_token, layout = tiled>}

// -----

// expected-error @+1 {{layout tiled names its codes, in groups or channels; these are block [B4]}}
func.func private @b4_block() attributes {c = #q.contract<weight = block<1x32>, codes = i4, scale = f16, activation = none, layout = tiled>}

// -----

func.func @w1_zeros(%c: tensor<256x8xi32>, %s: tensor<2x64xf16>) {
  // expected-error @+1 {{has no zeros, the type implies 'tensor<2x8xi32>' [W1]}}
  %w = q.pack %c, %s : tensor<256x8xi32>, tensor<2x64xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
  return
}

// -----

func.func @w1_scale(%c: tensor<256x8xi32>, %s: tensor<64x2xf16>, %z: tensor<2x8xi32>) {
  // expected-error @+1 {{scale is 'tensor<64x2xf16>', the type implies 'tensor<2x64xf16>' [W1]}}
  %w = q.pack %c, %s zeros(%z : tensor<2x8xi32>) : tensor<256x8xi32>, tensor<64x2xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
  return
}

// -----

func.func @w1_order(%c: tensor<32x64xi32>, %s: tensor<2x64xf16>, %z: tensor<2x8xi32>, %o: tensor<256xi32>) {
  // expected-error @+1 {{order is 'tensor<256xi32>', '!q.tensor<64x256xi4, group<128>, f16, zero_points, layout = packed_k>' has none [W1]}}
  %w = q.pack %c, %s zeros(%z : tensor<2x8xi32>) order(%o : tensor<256xi32>) : tensor<32x64xi32>, tensor<2x64xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = packed_k>
  return
}

// -----

func.func @n7_global(%c: tensor<64x128xui8>, %s: tensor<64x16xf8E4M3FN>) {
  // expected-error @+1 {{has no global, the type implies 'tensor<f32>' [N7]}}
  %w = q.pack %c, %s : tensor<64x128xui8>, tensor<64x16xf8E4M3FN> -> !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed>
  return
}

// -----

func.func @w1_fp8_zeros(%c: tensor<64x64xf8E4M3FN>, %s: tensor<64x1xf32>, %z: tensor<64xi32>) {
  // expected-error @+1 {{zeros, global and order belong to codes that share words, the result is '!q.tensor<64x64xf8E4M3FN, per_channel, f32>' [W1]}}
  %w = q.pack %c, %s zeros(%z : tensor<64xi32>) : tensor<64x64xf8E4M3FN>, tensor<64x1xf32> -> !q.tensor<64x64xf8E4M3FN, per_channel, f32>
  return
}

// -----

func.func @w1_unpack(%w: !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>) {
  // expected-error @+1 {{has more than codes and scales; q.repack takes it as a whole [W1]}}
  %c, %s = q.unpack %w : !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq> -> tensor<256x8xi32>, tensor<2x64xf16>
  return
}

// -----

func.func @b4_repack(%w: !q.tensor<64x256xi4, group<128>, bf16, zero_points, layout = packed>) {
  // expected-error @+1 {{expected '!q.tensor<64x256xi4, group<128>, f32, zero_points, layout = tiled>' [B4]}}
  %t = q.repack %w : !q.tensor<64x256xi4, group<128>, bf16, zero_points, layout = packed> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = tiled>
  return
}

// -----

func.func @b4_q8(%w: !q.tensor<64x64xi8, group<32>, f16, layout = gguf>) {
  // expected-error @+1 {{expected codes that share words [B4]}}
  %t = q.repack %w : !q.tensor<64x64xi8, group<32>, f16, layout = gguf> -> !q.tensor<64x64xi8, group<32>, f16, layout = tiled>
  return
}
