// RUN: octet-opt %s -split-input-file -verify-diagnostics

// An activation in NVFP4: groups below a stored scale (N7).
func.func @stored_scale(%x: tensor<?x64xbf16>) {
  // expected-error @below {{'q.quantize' op has no scale, the groups of '!q.tensor<?x64xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>' stand below a stored one [N7]}}
  %q = q.quantize %x : tensor<?x64xbf16> -> !q.tensor<?x64xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
  return
}

// -----

func.func @divides(%x: tensor<?x64xbf16>, %s: tensor<f32>) {
  // expected-error @below {{an activation in f4E2M1FN is group<16>, f8E4M3FN, global = multiplies, layout = packed [N7]}}
  %q = q.quantize %x, %s : tensor<?x64xbf16>, tensor<f32> -> !q.tensor<?x64xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed>
  return
}

// -----

func.func @mxfp4(%x: tensor<?x64xbf16>, %s: tensor<f32>) {
  // expected-error @below {{an activation in MXFP4 is group<32>, f8E8M0FNU, layout = packed, with ue8m0 and no stored scale [N7]}}
  %q = q.quantize %x, %s : tensor<?x64xbf16>, tensor<f32> -> !q.tensor<?x64xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  return
}

// -----

func.func @half_scale(%x: tensor<?x64xbf16>, %s: tensor<f16>) {
  // expected-error @below {{'q.quantize' op scale is 'tensor<f16>', the one above NVFP4's groups is f32 [N7]}}
  %q = q.quantize %x, %s : tensor<?x64xbf16>, tensor<f16> -> !q.tensor<?x64xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
  return
}

// -----

func.func @exponents(%x: tensor<?x64xbf16>, %s: tensor<f32>) {
  // expected-error @below {{ue8m0, bound and shards do not belong to}}
  %q = q.quantize %x, %s ue8m0 : tensor<?x64xbf16>, tensor<f32> -> !q.tensor<?x64xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
  return
}

// -----

// The contract: the weight's groups on both sides, below a stored scale.
// expected-error @below {{an activation beside NVFP4 is group<16> static, groups below a stored scale [N7]}}
#dynamic = #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = group<16>, layout = packed>

// -----

// expected-error @below {{an activation beside NVFP4 is group<16> static, groups below a stored scale [N7]}}
#tokens = #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = per_token, layout = packed>

// -----

// expected-error @below {{an activation beside NVFP4 is group<16> static, groups below a stored scale [N7]}}
#exponents = #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = group<16> static ue8m0, layout = packed>

// -----

// Integers are widened; an activation beside them stays as it is.
// expected-error @below {{layout tiled is of weights only; an activation beside them is not quantised [B4]}}
#tiles = #q.contract<weight = group<32>, codes = i4, scale = f16, activation = group<32> static, layout = tiled>

// -----

// expected-error @below {{an activation beside MXFP4 is group<32> ue8m0, a power of two a group [N7]}}
#mx = #q.contract<weight = group<32>, codes = f4E2M1FN, scale = f8E8M0FNU, activation = group<32> static, layout = packed>
