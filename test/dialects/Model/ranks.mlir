// RUN: octet-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @tokens
//       CHECK:   model.gather_tokens %{{.+}} {groups = 2 : i64, module = "m"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
//       CHECK:   model.gather_tokens %{{.+}} {groups = 2 : i64, module = "m"} : tensor<?x3xi32>
//       CHECK:   model.scatter_sum %{{.+}} {groups = 2 : i64, module = "m", ranks = 16 : i64} : tensor<?x256xbf16>
func.func @tokens(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %i: tensor<?x3xi32>, %x: tensor<?x256xbf16>) {
  %0 = model.gather_tokens %q {groups = 2 : i64, module = "m"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %1 = model.gather_tokens %i {groups = 2 : i64, module = "m"} : tensor<?x3xi32>
  %2 = model.scatter_sum %x {ranks = 16 : i64, groups = 2 : i64, module = "m"} : tensor<?x256xbf16>
  return
}

// -----

// CHECK-LABEL: func.func @columns
//       CHECK:   model.own_columns {{.+}} : tensor<?x256xbf16> -> tensor<?x192xbf16>
//       CHECK:   model.place_columns {{.+}} : tensor<?x192xbf16> -> tensor<?x256xbf16>
func.func @columns(%x: tensor<?x256xbf16>) {
  %0 = model.own_columns %x {first = affine_map<(d0) -> (d0 * 192)>, block = 128 : i64, module = "a"} : tensor<?x256xbf16> -> tensor<?x192xbf16>
  %1 = model.place_columns %0 {first = affine_map<(d0) -> (d0 * 192)>, block = 128 : i64, module = "a"} : tensor<?x192xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p15_all_reduce(%x: tensor<?x256xf8E4M3FN>) {
  // expected-error @+1 {{'model.all_reduce' op adds 'tensor<?x256xf8E4M3FN>'; a sum over ranks is in f32, bf16 or f16, never in FP8 [P15]}}
  %0 = model.all_reduce %x {ranks = 2 : i64, module = "m"} : tensor<?x256xf8E4M3FN>
  return
}

// -----

func.func @p15_scatter_sum(%x: tensor<?x256xf8E4M3FN>) {
  // expected-error @+1 {{'model.scatter_sum' op adds 'tensor<?x256xf8E4M3FN>'; a sum over ranks is in f32, bf16 or f16, never in FP8 [P15]}}
  %0 = model.scatter_sum %x {ranks = 2 : i64, groups = 2 : i64, module = "m"} : tensor<?x256xf8E4M3FN>
  return
}

// -----

func.func @w3c_groups(%x: tensor<?x256xbf16>) {
  // expected-error @+1 {{'model.scatter_sum' op 16 ranks are not 3 equal groups [W3c]}}
  %0 = model.scatter_sum %x {ranks = 16 : i64, groups = 3 : i64, module = "m"} : tensor<?x256xbf16>
  return
}

// -----

func.func @w3c_rows(%x: tensor<16x256xbf16>) {
  // expected-error @+1 {{'model.gather_tokens' op input is 'tensor<16x256xbf16>', expected the rows of a step [W3c]}}
  %0 = model.gather_tokens %x {groups = 2 : i64, module = "m"} : tensor<16x256xbf16>
  return
}

// -----

func.func @w3_columns(%x: tensor<?x512xbf16>) {
  // expected-error @+1 {{'model.own_columns' op pads 'tensor<?x192xbf16>' to 'tensor<?x512xbf16>', expected less than two blocks of 128 more, in the same dtype [W3]}}
  %0 = model.own_columns %x {first = affine_map<(d0) -> (d0 * 192)>, block = 128 : i64, module = "a"} : tensor<?x512xbf16> -> tensor<?x192xbf16>
  return
}

// -----

func.func @w3_slices() {
  // expected-error @+1 {{'model.weight' op has 1 paths and 2 slices [W3]}}
  %0 = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">] {slices = [#q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>, #q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>]} : tensor<256x192xbf16>
  return
}

// -----

func.func @w3_slice_cuts_block() {
  // expected-error @+1 {{'model.weight' op is a slice of 192 cols, not a multiple of the block (128) [W3]}}
  %0 = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<256x384xf8E4M3FN>}, "">] {slices = [#q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>]} : !q.tensor<256x192xf8E4M3FN, block<128x128>, f32>
  return
}

// -----

func.func @c13_other_sides() {
  // expected-error @+1 {{'model.weight' op result is 'tensor<256x128xbf16>', 'a' stores 'tensor<256x384xbf16>' [C13]}}
  %0 = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">] {slices = [#q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>]} : tensor<256x128xbf16>
  return
}
