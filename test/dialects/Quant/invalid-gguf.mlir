// RUN: octet-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{K is 48, layout gguf has whole groups of 32 [W1]}}
func.func private @w1_ragged(!q.tensor<64x48xi4, group<32>, f16, layout = gguf>)

// -----

// expected-error @+1 {{layout gguf has group<32> with f16 scales, this is group<1x64> with 'f16' [W1]}}
func.func private @w1_group(!q.tensor<64x64xi4, group<64>, f16, layout = gguf>)

// -----

// expected-error @+1 {{layout gguf has group<32> with f16 scales, this is group<1x32> with 'f32' [W1]}}
func.func private @w1_scale(!q.tensor<64x64xi4, group<32>, f32, layout = gguf>)

// -----

// expected-error @+1 {{layout gguf has group<32> with f16 scales, this is per_channel<0x0> with 'f16' [W1]}}
func.func private @w1_channel(!q.tensor<64x64xi8, per_channel, f16, layout = gguf>)

// -----

// expected-error @+1 {{layout gguf holds i8 codes, i4 codes or i4 codes with minimums, not 'i8' with minimums [W1]}}
func.func private @w1_q8_1(!q.tensor<64x64xi8, group<32>, f16, minimums, layout = gguf>)

// -----

// expected-error @+1 {{group granularity on 'f8E4M3FN', expected i8 or i4 codes; FP8 ones have block<1x32> [W1]}}
func.func private @w1_fp8_group(!q.tensor<64x64xf8E4M3FN, group<32>, f16, layout = gguf>)

// -----

// expected-error @+1 {{i4 codes without a layout, which says how two of them share a byte; expected layout = gguf, packed, packed_k, awq or tiled [W1]}}
func.func private @w1_no_layout(!q.tensor<64x64xi4, group<32>, f16>)

// -----

// expected-error @+1 {{group granularity without a layout, expected layout = gguf, packed, packed_k, awq or tiled [W1]}}
func.func private @w1_group_plain(!q.tensor<64x64xi8, group<32>, f16>)

// -----

// expected-error @+1 {{minimums belong to groups of integers, the granularity is per_channel [W1]}}
func.func private @w1_minimums(!q.tensor<64x64xi8, per_channel, f16, minimums>)

// -----

// expected-error @+1 {{a group of 0 elements, expected at least 1 [W1]}}
func.func private @w1_no_group(!q.tensor<64x64xi8, group<0>, f16, layout = gguf>)

// -----

// expected-error @+1 {{unknown layout 'marlin', expected gguf, column_major_scales, ue8m0_packed, weight_only, packed, packed_k, awq or tiled}}
func.func private @layout(!q.tensor<64x64xi4, group<32>, f16, layout = marlin>)

// -----

// expected-error @+1 {{unknown 'zeros', expected minimums, zero_points or zero_points_minus_one, global = NAME, act_order, shards = [...], layout = NAME, in that order}}
func.func private @field(!q.tensor<64x64xi4, group<32>, f16, zeros>)

// -----

// expected-error @+1 {{misplaced 'minimums', expected minimums, zero_points or zero_points_minus_one, global = NAME, act_order, shards = [...], layout = NAME, in that order}}
func.func private @order(!q.tensor<64x64xi4, group<32>, f16, layout = gguf, minimums>)

// -----

// expected-error @+1 {{shards add up to 60, the matrix has 64 rows [W5b]}}
func.func private @w5b_shards(!q.tensor<64x64xi4, group<32>, f16, shards = [32, 28], layout = gguf>)

// -----

// expected-error @+1 {{head_rows is 33, a head has an even number of rows [W16]}}
#a = #q.stored<{weight = tensor<66x64xf32>}, "", head_rows = 33>

// -----

// expected-error @+1 {{'weight' is !q.tensor<64x64xf8E4M3FN, per_tensor, f32>, expected a tensor type}}
#a = #q.stored<{weight = !q.tensor<64x64xf8E4M3FN, per_tensor, f32>}, "">

// -----

// expected-error @+1 {{a block-quantised weight needs a dynamic activation scheme, not static [C5]}}
#a = #q.method<"gguf", weight = group<32>, scale = f16, activation = static>

// -----

// expected-error @+1 {{integers in groups are weights only; an activation beside them is not quantised [B4]}}
#a = #q.contract<weight = group<32>, scale = f16, activation = per_token>

// -----

func.func @w1_parts(%w: !q.tensor<64x64xi4, group<32>, f16, layout = gguf>) {
  // expected-error @+1 {{'q.unpack' op '!q.tensor<64x64xi4, group<32>, f16, layout = gguf>' holds codes and scales in one tensor and has no parts [W1]}}
  %c, %s = q.unpack %w : !q.tensor<64x64xi4, group<32>, f16, layout = gguf> -> tensor<64x64xi4>, tensor<64x2xf16>
  return
}

// -----

func.func @w2_scale() {
  // expected-error @+1 {{'q.load' op result is '!q.tensor<64x64xi4, group<32>, f16, layout = gguf>', which holds its scales itself [W2]}}
  %w = q.load "a" weight "weight" scale "weight_scale" : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  return
}

// -----

func.func @w16_heads() {
  // expected-error @+1 {{'q.load' op result is '!q.tensor<64x64xi4, group<32>, f16, layout = gguf>', which is not made of heads of 48 rows [W16]}}
  %w = q.load "a" weight "weight" head_rows 48 : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  return
}

// -----

func.func @w16_odd() {
  // expected-error @+1 {{'q.load' op result is '!q.tensor<64x64xi4, group<32>, f16, layout = gguf>', which is not made of heads of 1 rows [W16]}}
  %w = q.load "a" weight "weight" head_rows 1 : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  return
}

// -----

func.func @c8_minimums(%a: !q.tensor<64x64xi4, group<32>, f16, layout = gguf>, %b: !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>) {
  // expected-error @+1 {{'q.concat' op input 1 is '!q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>', the result is '!q.tensor<128x64xi4, group<32>, f16, shards = [64, 64], layout = gguf>'; they may differ only in their rows [C8]}}
  %w = q.concat %a, %b : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>, !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf> -> !q.tensor<128x64xi4, group<32>, f16, shards = [64, 64], layout = gguf>
  return
}

// -----

func.func @c13_stored() {
  // expected-error @+1 {{'model.weight' op result is '!q.tensor<64x64xi4, group<32>, f16, layout = gguf>', 'a' stores '!q.tensor<64x64xi8, group<32>, f16, layout = gguf>' [C13]}}
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = !q.tensor<64x64xi8, group<32>, f16, layout = gguf>}, "">] : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  return
}

// -----

func.func @p1_table(%ids: tensor<?xi32>, %w: !q.tensor<64x64xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{'model.embedding' op table is '!q.tensor<64x64xf8E4M3FN, per_channel, f32>', expected a matrix in f32, bf16 or f16, or as a GGUF file packs it: an embedding is never quantised [P1]}}
  %h = model.embedding %ids, %w : tensor<?xi32>, !q.tensor<64x64xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  return
}
