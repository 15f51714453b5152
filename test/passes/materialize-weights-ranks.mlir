// RUN: octet-opt %s -octet-materialize-weights | FileCheck %s
// RUN: octet-opt %s -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy | FileCheck %s --check-prefix=STEP

// Slots have one rank's sides, with the scale rows that each of its shards
// starts (W4, W5b); `@load` cuts what is stored as a function of its argument.
// CHECK-DAG: #[[HALF:.+]] = affine_map<(d0) -> (d0 * 256)>
// CHECK-DAG: #[[V:.+]] = affine_map<(d0) -> (d0 * 129)>
// CHECK-DAG: q.slot @m.qkv_proj[2] : !q.tensor<512x512xf8E4M3FN, block<128x128>, f32, shards = [256, 128, 128]>
// CHECK-DAG: q.slot @m.experts.down_proj[2] : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>
// CHECK-DAG: q.slot @e[1] : tensor<129x512xbf16>
// CHECK-LABEL: func.func @load(%arg0: index)
//       CHECK:   %[[E:.+]] = q.load "e" weight "weight" : tensor<257x512xbf16>
//       CHECK:   %[[P:.+]] = q.slice %[[E]] of %arg0 <rows 129 at #[[V]], short> : tensor<257x512xbf16> -> tensor<129x512xbf16>
//       CHECK:   q.store %[[P]], @e
//       CHECK:   scf.for %[[L:.+]] =
//       CHECK:     %[[Q:.+]] = q.load "m.{l}.q_proj"[%[[L]]] weight "weight" scale "weight_scale_inv" : !q.tensor<512x512xf8E4M3FN, block<128x128>, bf16>
//  CHECK-NEXT:     %[[QS:.+]] = q.slice %[[Q]] of %arg0 <rows 256 at #[[HALF]]> : !q.tensor<512x512x{{.*}} -> !q.tensor<256x512xf8E4M3FN, block<128x128>, bf16>
//  CHECK-NEXT:     q.check_scales %[[QS]]
//  CHECK-NEXT:     %[[QC:.+]] = q.convert_scales %[[QS]]
//       CHECK:     q.concat %[[QC]], {{.*}} -> !q.tensor<512x512xf8E4M3FN, block<128x128>, f32, shards = [256, 128, 128]>

// Experts of a rank's group are read by their numbers and stored by their
// places (W3c, W5), with the static scales of their own (W9).
//       CHECK:     %[[G:.+]] = arith.divui %arg0, %c2{{.*}} : index
//       CHECK:     %[[F:.+]] = arith.muli %[[G]], %c4{{.*}} : index
//       CHECK:     scf.for %[[J:.+]] = %c0{{.*}} to %c4
//       CHECK:       %[[N:.+]] = arith.addi %[[F]], %[[J]] : index
//       CHECK:       %[[W:.+]] = q.load "m.{l}.experts.{e}.down_proj"[%[[L]]] expert(%[[N]])
//       CHECK:       q.slice %[[W]] of %arg0 <cols 128 at {{.*}}> : !q.tensor<256x256x{{.*}} -> !q.tensor<256x128xf8E4M3FN, block<128x128>, f32>
//       CHECK:       q.store {{.*}} @m.experts.down_proj[%[[L]]] expert(%[[J]])

// Dispatched as codes (P13).
// STEP-LABEL: func.func private @layer
//       STEP:   %[[C:.+]] = q.quantize %{{.+}} -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
//       STEP:   model.dispatch %[[C]]
func.func private @layer(%l: index, %x: tensor<?x512xbf16>, %h: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %b: !model.batch) -> (tensor<?x512xbf16>, tensor<?x256xbf16>) {
  %w = model.weight ["m.{l}.q_proj", "m.{l}.k_proj", "m.{l}.v_proj"][%l] "weight" stored [#q.stored<{weight = tensor<512x512xf8E4M3FN>, weight_scale_inv = tensor<4x4xbf16>}, "">, #q.stored<{weight = tensor<128x512xf8E4M3FN>, weight_scale_inv = tensor<1x4xbf16>}, "">, #q.stored<{weight = tensor<128x512xf8E4M3FN>, weight_scale_inv = tensor<1x4xbf16>}, "">]
    {slices = [#q.slice<rows 256 at affine_map<(d0) -> (d0 * 256)>>, #q.slice<rows 128 at affine_map<(d0) -> (0)>>, #q.slice<rows 128 at affine_map<(d0) -> (0)>>]} : !q.tensor<512x512xf8E4M3FN, block<128x128>, bf16, shards = [256, 128, 128]>
  %y = model.linear %x, %w {module = "m.{l}.qkv_proj", method = #q.method<"fp8", weight = block<128x128>, scale = bf16, activation = dynamic>, contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
    : tensor<?x512xbf16>, !q.tensor<512x512xf8E4M3FN, block<128x128>, bf16, shards = [256, 128, 128]> -> tensor<?x512xbf16>
  %g = model.weight ["m.{l}.experts.{e}.gate_proj", "m.{l}.experts.{e}.up_proj"][%l] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">, #q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">]
    {experts = 4 : i64, first_expert = affine_map<(d0) -> (d0 floordiv 2 * 4)>, slices = [#q.slice<rows 128 at affine_map<(d0) -> (d0 mod 2 * 128)>>, #q.slice<rows 128 at affine_map<(d0) -> (d0 mod 2 * 128)>>]} : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
  %d = model.weight ["m.{l}.experts.{e}.down_proj"][%l] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">]
    {experts = 4 : i64, first_expert = affine_map<(d0) -> (d0 floordiv 2 * 4)>, slices = [#q.slice<cols 128 at affine_map<(d0) -> (d0 mod 2 * 128)>>]} : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>
  %e = model.experts %h, %i, %s gate_up(%g : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>)
    {experts = 8 : i64, ep = 2 : i64, gating = #model<gating swiglu>, module = "m.{l}.experts", method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>, contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
    : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return %y, %e : tensor<?x512xbf16>, tensor<?x256xbf16>
}
func.func @step(%ids: tensor<?xi32>, %h: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %b: !model.batch) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %t = model.weight ["e"] "weight" stored [#q.stored<{weight = tensor<257x512xbf16>}, "">] {slices = [#q.slice<rows 129 at affine_map<(d0) -> (d0 * 129)>, short>]} : tensor<129x512xbf16>
  %x = model.embedding %ids, %t {parts = 2 : i64} : tensor<?xi32>, tensor<129x512xbf16> -> tensor<?x512xbf16>
  scf.for %l = %c0 to %c2 step %c1 {
    %y, %e = func.call @layer(%l, %x, %h, %i, %s, %b) : (index, tensor<?x512xbf16>, tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32>, !model.batch) -> (tensor<?x512xbf16>, tensor<?x256xbf16>)
  }
  return
}
