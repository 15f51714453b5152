// RUN: octet-opt %s -split-input-file -verify-diagnostics | octet-opt -split-input-file | FileCheck %s

// kv_b_proj of 4 heads of 48 + 64 rows: no head but the first starts on the edge of a block (W12).
// CHECK-LABEL: func.func @ragged_heads
//       CHECK:   %[[M:.+]] = q.dequantize
//       CHECK:   q.split_heads %[[M]] : tensor<448x64xbf16> -> tensor<4x48x64xbf16>, tensor<4x64x64xbf16>
func.func @ragged_heads(%w: !q.tensor<448x64xf8E4M3FN, block<128x128>, f32>) -> (tensor<4x48x64xbf16>, tensor<4x64x64xbf16>) {
  %m = q.dequantize %w : !q.tensor<448x64xf8E4M3FN, block<128x128>, f32> -> tensor<448x64xbf16>
  %kc, %vc = q.split_heads %m : tensor<448x64xbf16> -> tensor<4x48x64xbf16>, tensor<4x64x64xbf16>
  return %kc, %vc : tensor<4x48x64xbf16>, tensor<4x64x64xbf16>
}

// -----

func.func @w12_rows_left_over(%m: tensor<449x64xbf16>) {
  // expected-error @+1 {{'q.split_heads' op input is 'tensor<449x64xbf16>', its heads are not those of 'tensor<4x48x64xbf16>' and 'tensor<4x64x64xbf16>' [W12]}}
  %kc, %vc = q.split_heads %m : tensor<449x64xbf16> -> tensor<4x48x64xbf16>, tensor<4x64x64xbf16>
  return
}

// -----

func.func @w12_codes(%m: tensor<448x64xf8E4M3FN>) {
  // expected-error @+1 {{input is 'tensor<448x64xf8E4M3FN>', expected a matrix in f32, bf16 or f16: codes are dequantised before they are split [W12]}}
  %kc, %vc = q.split_heads %m : tensor<448x64xf8E4M3FN> -> tensor<4x48x64xf8E4M3FN>, tensor<4x64x64xf8E4M3FN>
  return
}

// -----

func.func @w12_overflow(%m: tensor<448x64xbf16>) {
  // expected-error @+1 {{its heads are not those of}}
  %kc, %vc = q.split_heads %m : tensor<448x64xbf16> -> tensor<4611686018427387904x4x64xbf16>, tensor<4611686018427387904x4x64xbf16>
  return
}
