// RUN: octet-opt %s -octet-materialize-weights -split-input-file -verify-diagnostics

// A contract of INT8 reads INT8 (N8, N7).
func.func @n8_no_conversion(%x: tensor<?x96xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<64x96xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "">] : !q.tensor<64x96xf8E4M3FN, per_channel, f32>
  // expected-error @+1 {{a: stores f8E4M3FN codes, the contract's are i8; only FP8 formats become another [N8]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x96xbf16>, !q.tensor<64x96xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// INT8 is not requantised (W8, B3).
func.func @w8_int8(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xi8>, weight_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xi8>, weight_scale = tensor<f32>}, "">] : !q.tensor<64x32xi8, per_tensor, f32, shards = [32, 32]>
  // expected-error @+1 {{a.gate_up_proj: 2 shards of i8 have a scale each, the contract has one; only FP8 is requantised [W8]}}
  %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_tensor, codes = i8, scale = f32, activation = per_token>, method = #q.method<"w8a8_int8", weight = per_tensor, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, !q.tensor<64x32xi8, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// While loading, blocks are never made (W10).
func.func @w10_blocks(%x: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<32x32xbf16>}, "">] : tensor<32x32xbf16>
  // expected-error @+1 {{a: is stored as tensor<32x32xbf16> and would be quantised to #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>> while it loads; that is done per output channel, or per tensor with --requant-max [W10]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, tensor<32x32xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

// Powers of two are the scales of blocks, and channels do not become blocks (W11).
func.func @w11_channel(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "">] : !q.tensor<64x128xf8E4M3FN, per_channel, f32>
  // expected-error @+1 {{a: stores scales in f32, the contract's are f8E8M0FNU; only widening to f32 is exact [W11]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>, method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
