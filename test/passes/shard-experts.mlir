// RUN: octet-opt %s -octet-shard=tp=2 | FileCheck %s --check-prefix=TP
// RUN: octet-opt %s -octet-shard="tp=4 ep=2" | FileCheck %s --check-prefix=EP
// RUN: octet-opt %s -octet-shard="tp=2 dp=2 ep=4" | FileCheck %s --check-prefix=DP
// RUN: octet-opt %s -octet-shard="dp=2" | FileCheck %s --check-prefix=GROUPS

// Experts over tensor-parallel ranks: each expert is split (W3c), gate and up on
// their own (W5), and the sums of the ranks are added in BF16 (P15).
// TP-DAG: #[[HALF:.+]] = affine_map<(d0) -> (d0 * 128)>
// TP-LABEL: func.func @experts
//       TP:   model.weight ["m.{e}.gate_proj", "m.{e}.up_proj"]
//  TP-SAME:     {experts = 8 : i64, slices = [#q.slice<rows 128 at #[[HALF]]>, #q.slice<rows 128 at #[[HALF]]>]}
//  TP-SAME:     : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
//       TP:   slices = [#q.slice<cols 128 at #[[HALF]]>]} : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>
//       TP:   %[[Y:.+]] = model.experts
//       TP:   model.all_reduce %[[Y]] {module = "m", ranks = 2 : i64} : tensor<?x256xbf16>

// Two groups of two ranks: four experts each, split two ways inside (W3c).
// EP-DAG: #[[PART:.+]] = affine_map<(d0) -> ((d0 mod 2) * 128)>
// EP-DAG: #[[GROUP:.+]] = affine_map<(d0) -> ((d0 floordiv 2) * 4)>
// EP-LABEL: func.func @experts
//       EP:   {experts = 4 : i64, first_expert = #[[GROUP]], slices = [#q.slice<rows 128 at #[[PART]]>, #q.slice<rows 128 at #[[PART]]>]}
//  EP-SAME:     : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
//       EP:   {experts = 4 : i64, first_expert = #[[GROUP]], slices = [#q.slice<cols 128 at #[[PART]]>]}
//       EP:   model.experts {{.*}}ep = 2 : i64, experts = 8 : i64
//       EP:   model.all_reduce {{.*}}ranks = 4 : i64

// Two data-parallel groups: their tokens are gathered to experts that stand on
// four ranks, whole, and the sums go back in BF16 (P13, P15).
// DP-DAG: #[[EACH:.+]] = affine_map<(d0) -> (d0 * 2)>
// DP-LABEL: func.func @experts
//       DP:   {experts = 2 : i64, first_expert = #[[EACH]]} : !q.tensor<2x512x256x
//       DP:   %[[X:.+]] = model.gather_tokens %{{.+}} {groups = 2 : i64, module = "m"} : tensor<?x256xbf16>
//       DP:   %[[I:.+]] = model.gather_tokens %{{.+}} {groups = 2 : i64, module = "m"} : tensor<?x2xi32>
//       DP:   %[[S:.+]] = model.gather_tokens %{{.+}} {groups = 2 : i64, module = "m"} : tensor<?x2xf32>
//       DP:   %[[Y:.+]] = model.experts %[[X]], %[[I]], %[[S]]
//       DP:   model.scatter_sum %[[Y]] {groups = 2 : i64, module = "m", ranks = 4 : i64} : tensor<?x256xbf16>
//   DP-NOT:   model.all_reduce

// With dp alone nothing but the experts is split.
// GROUPS-LABEL: func.func @experts
//       GROUPS:   slices = [#q.slice<rows 128
//       GROUPS:   model.gather_tokens
//       GROUPS:   model.scatter_sum {{.*}}ranks = 2 : i64
func.func @experts(%x: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>) -> tensor<?x256xbf16> {
  %w = model.weight ["m.{e}.gate_proj", "m.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">, #q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">] {experts = 8 : i64} : !q.tensor<8x512x256xf8E4M3FN, block<128x128>, f32, shards = [256, 256]>
  %d = model.weight ["m.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">] {experts = 8 : i64} : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32>
  %y = model.experts %x, %i, %s gate_up(%w : !q.tensor<8x512x256xf8E4M3FN, block<128x128>, f32, shards = [256, 256]>) down(%d : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32>)
    {experts = 8 : i64, gating = #model<gating swiglu>, module = "m"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}
