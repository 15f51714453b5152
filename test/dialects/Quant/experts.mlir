// RUN: octet-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// One expert of a slot that holds them all (W5).
// CHECK: q.slot @up[2] : !q.tensor<8x64x256xf8E4M3FN, block<128x128>, f32>
q.slot @up[2] : !q.tensor<8x64x256xf8E4M3FN, block<128x128>, f32>
q.slot @scale[2] : tensor<8xf32>
// CHECK-LABEL: func.func @load
//       CHECK:   %[[W:.+]] = q.load "m.{l}.{e}.up"[%[[L:.+]]] expert(%[[E:.+]]) weight "weight" scale "weight_scale_inv" : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
//       CHECK:   q.store %[[W]], @up[%[[L]]] expert(%[[E]]) : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
//       CHECK:   q.store %{{.+}}, @scale[%[[L]]] expert(%[[E]]) : tensor<f32>
func.func @load(%l: index, %e: index, %s: tensor<f32>) {
  %w = q.load "m.{l}.{e}.up"[%l] expert(%e) weight "weight" scale "weight_scale_inv" : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  q.store %w, @up[%l] expert(%e) : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  q.store %s, @scale[%l] expert(%e) : tensor<f32>
  return
}

// -----

func.func @no_place(%l: index, %e: index) {
  // expected-error @+1 {{'q.load' op path 'm.{l}.up' has no {e} for the expert}}
  %w = q.load "m.{l}.up"[%l] expert(%e) weight "weight" : tensor<64x256xbf16>
  return
}

// -----

func.func @no_expert(%l: index) {
  // expected-error @+1 {{'q.load' op path 'm.{l}.{e}.up' has a {e} and no expert}}
  %w = q.load "m.{l}.{e}.up"[%l] weight "weight" : tensor<64x256xbf16>
  return
}

// -----

// expected-note @+1 {{the slot is here}}
q.slot @up[2] : tensor<8x64x256xbf16>
func.func @w5_slot(%l: index, %e: index, %w: tensor<60x256xbf16>) {
  // expected-error @+1 {{'q.store' op}}
  q.store %w, @up[%l] expert(%e) : tensor<60x256xbf16>
  return
}

// -----

// Caches of one vector a token (P7, P9).
// CHECK-LABEL: func.func private @caches(!q.kv<bf16, page = 64, heads = 1, dim = 512, rope = 64>, !q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>, !q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 0>)
func.func private @caches(!q.kv<bf16, page = 64, heads = 1, dim = 512, rope = 64>, !q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>,
                          !q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 0>)

// -----

// expected-error @+1 {{rope is -1, fp8_ds_mla has a rotated part [P7]}}
func.func private @p7_no_rope(!q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512>)

// -----

// expected-error @+1 {{rope is 64, fp8_indexer has 0 [P9]}}
func.func private @p9_rope(!q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 64>)

// -----

// expected-error @+1 {{heads is 2, a vector a token has 1 [P7]}}
func.func private @p7_heads(!q.kv<bf16, page = 64, heads = 2, dim = 512, rope = 64>)
