// RUN: octet-opt %s -octet-print-row-source -verify-diagnostics -split-input-file -o %t

q.slot @t[1] : !q.tensor<64x256xi8, group<32>, f16, layout = gguf>
func.func @gguf(%b: !model.batch) {
  %t = q.weight @t : !q.tensor<64x256xi8, group<32>, f16, layout = gguf>
  %ids = model.field ids of %b : tensor<?xi32>
  %y = kernel.place 0 : !kernel.buffer<tensor<?x256xf32>>
  // expected-error @below {{internal error: embedding: reads '!q.tensor<64x256xi8, group<32>, f16, layout = gguf>'; CUDA row code reads f32, bf16 and f16}}
  kernel.rowwise "embedding" tokens of %b ins(%t : !q.tensor<64x256xi8, group<32>, f16, layout = gguf>) access [indexed] indices(%ids : tensor<?xi32>) outs(%y : !kernel.buffer<tensor<?x256xf32>>) {
  ^bb0(%a: tensor<256xf32>):
    kernel.yield %a : tensor<256xf32>
  }
  return
}

// -----

func.func @operator(%b: !model.batch) {
  %x = kernel.place 0 : !kernel.buffer<tensor<?x16xf32>>
  // expected-error @below {{internal error: round: no CUDA code for 'math.floor' in a row}}
  kernel.rowwise "round" tokens of %b ins(%x : !kernel.buffer<tensor<?x16xf32>>) access [row] outs(%x : !kernel.buffer<tensor<?x16xf32>>) {
  ^bb0(%a: tensor<16xf32>):
    %0 = math.floor %a : tensor<16xf32>
    kernel.yield %0 : tensor<16xf32>
  }
  return
}
