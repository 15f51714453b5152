// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file -verify-diagnostics

// One scale of a tensor, made of what one rank has of it: ranks would have
// different ones (W10, --requant-max).
module {
  q.slot @m.down_proj [1] : !q.tensor<64x128xf8E4M3FN, per_tensor, f32>
  func.func @load(%rank: index) {
    %0 = q.load "m.down_proj" weight "weight" : tensor<64x256xbf16>
    %1 = q.slice %0 of %rank <cols 128 at affine_map<(d0) -> (d0 * 128)>> : tensor<64x256xbf16> -> tensor<64x128xbf16>
    // expected-error @+1 {{m.down_proj: scales of '!q.tensor<64x128xf8E4M3FN, per_tensor, f32>' are made of 'tensor<64x128xbf16>', one rank's part of what they describe; expected them of the whole tensor, which is cut after it [W10]}}
    %2 = q.quantize %1 : tensor<64x128xbf16> -> !q.tensor<64x128xf8E4M3FN, per_tensor, f32>
    q.store %2, @m.down_proj : !q.tensor<64x128xf8E4M3FN, per_tensor, f32>
    return
  }
}

// -----

// The same behind a q.concat, of rows.
module {
  q.slot @m [1] : !q.tensor<128x64xf8E4M3FN, per_tensor, f32>
  func.func @load(%rank: index) {
    %0 = q.load "m.gate_proj" weight "weight" : tensor<128x64xbf16>
    %1 = q.slice %0 of %rank <rows 64 at affine_map<(d0) -> (d0 * 64)>> : tensor<128x64xbf16> -> tensor<64x64xbf16>
    %2 = q.concat %1, %1 : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<128x64xbf16>
    // expected-error @+1 {{m.gate_proj: scales of '!q.tensor<128x64xf8E4M3FN, per_tensor, f32>' are made of 'tensor<64x64xbf16>', one rank's part of what they describe; expected them of the whole tensor, which is cut after it [W10]}}
    %3 = q.quantize %2 : tensor<128x64xbf16> -> !q.tensor<128x64xf8E4M3FN, per_tensor, f32>
    q.store %3, @m : !q.tensor<128x64xf8E4M3FN, per_tensor, f32>
    return
  }
}

// -----

// A channel's scale is made of all of K (N8).
module {
  q.slot @m [1] : !q.tensor<64x128xf8E4M3FN, per_channel, f32>
  func.func @load(%rank: index) {
    %0 = q.load "m.o_proj" weight "weight" scale "weight_scale" : !q.tensor<64x256xf8E5M2, per_channel, f32>
    %1 = q.slice %0 of %rank <cols 128 at affine_map<(d0) -> (d0 * 128)>> : !q.tensor<64x256xf8E5M2, per_channel, f32> -> !q.tensor<64x128xf8E5M2, per_channel, f32>
    // expected-error @+1 {{m.o_proj: scales of '!q.tensor<64x128xf8E4M3FN, per_channel, f32>' are made of '!q.tensor<64x128xf8E5M2, per_channel, f32>', one rank's part of what they describe; expected them of the whole tensor, which is cut after it [N8]}}
    %2 = q.requantize %1 : !q.tensor<64x128xf8E5M2, per_channel, f32> -> !q.tensor<64x128xf8E4M3FN, per_channel, f32>
    q.store %2, @m : !q.tensor<64x128xf8E4M3FN, per_channel, f32>
    return
  }
}
