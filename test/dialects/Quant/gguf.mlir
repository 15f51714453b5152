// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// Q8_0, Q4_0 and Q4_1 as a file packs them: integers in groups of 32 along K,
// each with an F16 scale, and minimums.
// CHECK-LABEL: func.func private @types
//  CHECK-SAME: !q.tensor<576x1536xi8, group<32>, f16, layout = gguf>
//  CHECK-SAME: !q.tensor<576x1536xi4, group<32>, f16, layout = gguf>
//  CHECK-SAME: !q.tensor<576x1536xi4, group<32>, f16, minimums, layout = gguf>
//  CHECK-SAME: !q.tensor<960x576xi4, group<32>, f16, minimums, shards = [576, 192, 192], layout = gguf>
func.func private @types(
  !q.tensor<576x1536xi8, group<32>, f16, layout = gguf>,
  !q.tensor<576x1536xi4, group<32>, f16, layout = gguf>,
  !q.tensor<576x1536xi4, group<32>, f16, minimums, layout = gguf>,
  !q.tensor<960x576xi4, group<32>, f16, minimums, shards = [576, 192, 192], layout = gguf>)

// CHECK-LABEL: func.func private @attributes
//  CHECK-SAME: contract = #q.contract<weight = group<32>, scale = f16, activation = none>
//  CHECK-SAME: granularity = #q.granularity<group<128>>
//  CHECK-SAME: method = #q.method<"gguf", weight = group<32>, scale = f16, activation = none>
//  CHECK-SAME: stored = #q.stored<{bias = tensor<64xf32>, weight = !q.tensor<64x64xi8, group<32>, f16, layout = gguf>}, "", head_rows = 32>
func.func private @attributes() attributes {
  contract = #q.contract<weight = group<32>, scale = f16, activation = none>,
  granularity = #q.granularity<group<128>>,
  method = #q.method<"gguf", weight = group<32>, scale = f16, activation = none>,
  stored = #q.stored<{weight = !q.tensor<64x64xi8, group<32>, f16, layout = gguf>, bias = tensor<64xf32>}, "", head_rows = 32>}

q.slot @w[1] : !q.tensor<96x64xi4, group<32>, f16, shards = [64, 32], layout = gguf>

// No name of a scale, and the order of rows beside the tensor's name (W16).
// CHECK-LABEL: func.func @load
//       CHECK:   q.load "a.q" weight "weight" head_rows 32 : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
//       CHECK:   q.check_scales
//       CHECK:   q.concat {{.*}} -> !q.tensor<96x64xi4, group<32>, f16, shards = [64, 32], layout = gguf>
func.func @load() {
  %q = q.load "a.q" weight "weight" head_rows 32 : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  q.check_scales %q : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  %k = q.load "a.k" weight "weight" : !q.tensor<32x64xi4, group<32>, f16, layout = gguf>
  %w = q.concat %q, %k : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>, !q.tensor<32x64xi4, group<32>, f16, layout = gguf> -> !q.tensor<96x64xi4, group<32>, f16, shards = [64, 32], layout = gguf>
  q.store %w, @w : !q.tensor<96x64xi4, group<32>, f16, shards = [64, 32], layout = gguf>
  return
}
