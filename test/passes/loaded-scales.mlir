// RUN: octet-opt %s -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -split-input-file | FileCheck %s

// --requant-max: one scale for gate and up, that of both matrices whole on
// every rank; a rank's parts are rounded with it (W10, W9).
// CHECK-DAG: #[[HALF:.+]] = affine_map<(d0) -> (d0 * 128)>
// CHECK-DAG: q.slot @m.gate_up_proj[1] : !q.tensor<256x64xf8E4M3FN, per_tensor, f32>
// CHECK-DAG: q.slot @m.down_proj[1] : !q.tensor<64x128xf8E4M3FN, per_tensor, f32>
// CHECK-LABEL: func.func @load(%arg0: index)
//       CHECK:   %[[G:.+]] = q.load "m.gate_proj" weight "weight" : tensor<256x64xbf16>
//       CHECK:   %[[U:.+]] = q.load "m.up_proj" weight "weight" : tensor<256x64xbf16>
//       CHECK:   %[[ALL:.+]] = q.concat %[[G]], %[[U]] : {{.*}} -> tensor<512x64xbf16>
//       CHECK:   %[[Q:.+]] = q.quantize %[[ALL]] : tensor<512x64xbf16> -> !q.tensor<512x64xf8E4M3FN, per_tensor, f32>
//   CHECK-DAG:   %[[PG:.+]] = q.slice %[[G]] of %arg0 <rows 128 at #[[HALF]]> : tensor<256x64xbf16> -> tensor<128x64xbf16>
//   CHECK-DAG:   %[[PU:.+]] = q.slice %[[U]] of %arg0 <rows 128 at #[[HALF]]>
//   CHECK-DAG:   %{{.+}}, %[[S:.+]] = q.unpack %[[Q]]
//   CHECK-DAG:   %[[P:.+]] = q.concat %[[PG]], %[[PU]]
//       CHECK:   q.quantize %[[P]], %[[S]] : tensor<256x64xbf16>, {{.*}} -> !q.tensor<256x64xf8E4M3FN, per_tensor, f32>
// One matrix is rounded whole and cut after it.
//       CHECK:   %[[D:.+]] = q.load "m.down_proj" weight "weight" : tensor<64x256xbf16>
//       CHECK:   %[[DQ:.+]] = q.quantize %[[D]] : tensor<64x256xbf16> -> !q.tensor<64x256xf8E4M3FN, per_tensor, f32>
//       CHECK:   q.slice %[[DQ]] of %arg0 <cols 128 at #[[HALF]]>
func.func @step(%x: tensor<?x64xbf16>, %h: tensor<?x128xbf16>) -> (tensor<?x256xbf16>, tensor<?x64xbf16>) {
  %w = model.weight ["m.gate_proj", "m.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x64xbf16>}, "">, #q.stored<{weight = tensor<256x64xbf16>}, "">]
    {slices = [#q.slice<rows 128 at affine_map<(d0) -> (d0 * 128)>>, #q.slice<rows 128 at affine_map<(d0) -> (d0 * 128)>>]} : tensor<256x64xbf16>
  %y = model.linear %x, %w {module = "m.gate_up_proj", method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = dynamic>, contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>}
    : tensor<?x64xbf16>, tensor<256x64xbf16> -> tensor<?x256xbf16>
  %d = model.weight ["m.down_proj"] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">]
    {slices = [#q.slice<cols 128 at affine_map<(d0) -> (d0 * 128)>>]} : tensor<64x128xbf16>
  %z = model.linear %h, %d {module = "m.down_proj", method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = dynamic>, contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>}
    : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
  return %y, %z : tensor<?x256xbf16>, tensor<?x64xbf16>
}

// -----

// E5M2 with a scale a channel, cut along K: a row's new scale is that of all of
// it (N8). A block is one rank's, and is cut first.
// CHECK-LABEL: func.func @load(%arg0: index)
//       CHECK:   %[[W:.+]] = q.load "m.o_proj" {{.*}} : !q.tensor<64x256xf8E5M2, per_channel, f32>
//       CHECK:   %[[R:.+]] = q.requantize %[[W]] : {{.*}} -> !q.tensor<64x256xf8E4M3FN, per_channel, f32>
//       CHECK:   q.slice %[[R]] of %arg0 <cols 128
//       CHECK:   %[[B:.+]] = q.load "n.o_proj"
//       CHECK:   %[[C:.+]] = q.slice %[[B]] of %arg0 <cols 128
//       CHECK:   q.requantize %[[C]]
func.func @step(%h: tensor<?x128xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %d = model.weight ["m.o_proj"] "weight" stored [#q.stored<{weight = tensor<64x256xf8E5M2>, weight_scale = tensor<64x1xf32>}, "">]
    {slices = [#q.slice<cols 128 at affine_map<(d0) -> (d0 * 128)>>]} : !q.tensor<64x128xf8E5M2, per_channel, f32>
  %z = model.linear %h, %d {module = "m.o_proj", method = #q.method<"quark", weight = per_channel, scale = f32, activation = dynamic>, contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>}
    : tensor<?x128xbf16>, !q.tensor<64x128xf8E5M2, per_channel, f32> -> tensor<?x64xbf16>
  %e = model.weight ["n.o_proj"] "weight" stored [#q.stored<{weight = tensor<64x256xf8E5M2>, weight_scale_inv = tensor<1x2xf32>}, "">]
    {slices = [#q.slice<cols 128 at affine_map<(d0) -> (d0 * 128)>>]} : !q.tensor<64x128xf8E5M2, block<128x128>, f32>
  %y = model.linear %h, %e {module = "n.o_proj", method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>, contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
    : tensor<?x128xbf16>, !q.tensor<64x128xf8E5M2, block<128x128>, f32> -> tensor<?x64xbf16>
  return %z, %y : tensor<?x64xbf16>, tensor<?x64xbf16>
}
