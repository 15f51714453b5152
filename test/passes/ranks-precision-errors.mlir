// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file -verify-diagnostics

// Sums over ranks never come through FP8 (P15), of tensor-parallel ranks and of
// those that experts stand on.
func.func @p15_all_reduce(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) -> tensor<?x256xbf16> {
  %x = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
  // expected-error @+1 {{a.o_proj: operand 0 was rounded to !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>; a sum over ranks is never in FP8 [P15]}}
  %y = model.all_reduce %x {ranks = 2 : i64, module = "a.o_proj"} : tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

func.func @p15_scatter_sum(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) -> tensor<?x256xbf16> {
  %x = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
  // expected-error @+1 {{m: operand 0 was rounded to !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>; a sum over ranks is never in FP8 [P15]}}
  %y = model.scatter_sum %x {ranks = 2 : i64, groups = 2 : i64, module = "m"} : tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

// Tokens are gathered as codes (P13): what else reads codes is refused (P3).
func.func @p13_gather(%x: tensor<?x256xbf16>) -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> {
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %g = model.gather_tokens %q {groups = 2 : i64, module = "m"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  // expected-error @+1 {{only the input of a quantised linear is rounded [P3]}}
  return %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
}
