// Kernels of rows-host.test, in the order of its main.cpp.

module {
  q.slot @w[1] : tensor<4096xbf16>
  q.slot @t[1] : tensor<64x64xf32>
  q.slot @s[1] : tensor<f32>
  func.func @rows(%b: !model.batch, %l: index) {
    %w = q.weight @w : tensor<4096xbf16>
    %t = q.weight @t : tensor<64x64xf32>
    %s = q.weight @s : tensor<f32>
    %c = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>
    %positions = model.field positions of %b : tensor<?xi32>
    %slots = model.field slots of %b : tensor<?xi32>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x4096xbf16>>
    %y = kernel.place 64 : !kernel.buffer<tensor<?x4096xbf16>>
    %q = kernel.place 0 scales 64 : !kernel.buffer<!q.tensor<?x4096xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>
    %g = kernel.place 0 : !kernel.buffer<tensor<?x240xf32>>
    %h = kernel.place 64 : !kernel.buffer<tensor<?x240xf32>>
    %r = kernel.place 0 : !kernel.buffer<tensor<?x45xf32>>
    %u = kernel.place 0 scales 64 : !kernel.buffer<!q.tensor<?x45xf8E4M3FN, block<1x20>, f32>>
    %p = kernel.place 0 : !kernel.buffer<tensor<?x256xbf16>>
    %k = kernel.place 0 scales 64 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
    %o = kernel.place 64 : !kernel.buffer<tensor<?x128xbf16>>
    %gu = kernel.place 0 : !kernel.buffer<tensor<?x512xbf16>>
    %sw = kernel.place 8192 scales 65536 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>

    // Two variants, for few rows and for many.
    kernel.rowwise "norm" tokens of %b ins(%x, %y, %w : !kernel.buffer<tensor<?x4096xbf16>>, !kernel.buffer<tensor<?x4096xbf16>>, tensor<4096xbf16>) access [row, row, uniform]
        outs(%y, %q : !kernel.buffer<tensor<?x4096xbf16>>, !kernel.buffer<!q.tensor<?x4096xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>) {
    ^bb0(%a: tensor<4096xf32>, %d: tensor<4096xf32>, %v: tensor<4096xf32>):
      %0 = arith.addf %a, %d : tensor<4096xf32>
      %1 = kernel.round %0 to bf16 : tensor<4096xf32>
      %2 = arith.mulf %1, %1 : tensor<4096xf32>
      %3 = kernel.reduce add %2 : tensor<4096xf32> -> tensor<1xf32>
      %4 = arith.constant dense<4096.0> : tensor<1xf32>
      %5 = arith.divf %3, %4 : tensor<1xf32>
      %6 = math.rsqrt %5 : tensor<1xf32>
      %7 = kernel.broadcast %6 : tensor<1xf32> -> tensor<4096xf32>
      %8 = arith.mulf %1, %7 : tensor<4096xf32>
      %9 = arith.mulf %8, %v : tensor<4096xf32>
      %10 = kernel.round %9 to bf16 : tensor<4096xf32>
      %11 = q.quantize %10 : tensor<4096xf32> -> !q.tensor<1x4096xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
      kernel.yield %1, %11 : tensor<4096xf32>, !q.tensor<1x4096xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
    }
    // Ten chunks a group: sums of chunks meet in shared memory.
    kernel.rowwise "groups" tokens of %b ins(%g : !kernel.buffer<tensor<?x240xf32>>) access [row] outs(%h : !kernel.buffer<tensor<?x240xf32>>) {
    ^bb0(%a: tensor<240xf32>):
      %0 = kernel.reduce max %a group 80 : tensor<240xf32> -> tensor<3xf32>
      %1 = kernel.broadcast %0 group 80 : tensor<3xf32> -> tensor<240xf32>
      %2 = arith.subf %a, %1 : tensor<240xf32>
      kernel.yield %2 : tensor<240xf32>
    }
    // No whole chunk a group, and a ragged end (W4).
    kernel.rowwise "ragged" tokens of %b ins(%r : !kernel.buffer<tensor<?x45xf32>>) access [row] outs(%u : !kernel.buffer<!q.tensor<?x45xf8E4M3FN, block<1x20>, f32>>) {
    ^bb0(%a: tensor<45xf32>):
      %0 = q.quantize %a : tensor<45xf32> -> !q.tensor<1x45xf8E4M3FN, block<1x20>, f32>
      kernel.yield %0 : !q.tensor<1x45xf8E4M3FN, block<1x20>, f32>
    }
    kernel.rowwise "rope" tokens of %b ins(%p, %t, %s : !kernel.buffer<tensor<?x256xbf16>>, tensor<64x64xf32>, tensor<f32>) access [row, indexed, uniform]
        indices(%positions : tensor<?xi32>) outs(%o : !kernel.buffer<tensor<?x128xbf16>>)
        cache(%c, %slots : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>, tensor<?xi32>) {
    ^bb0(%a: tensor<256xf32>, %d: tensor<64xf32>, %v: tensor<1xf32>):
      %0 = kernel.slice %a at 0 : tensor<256xf32> -> tensor<128xf32>
      %1 = kernel.rope %0, %d head_dim 64 : tensor<128xf32>, tensor<64xf32> -> tensor<128xf32>
      %2 = kernel.round %1 to bf16 : tensor<128xf32>
      %3 = kernel.slice %a at 128 : tensor<256xf32> -> tensor<64xf32>
      %4 = kernel.rope %3, %d head_dim 64 : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
      %5 = kernel.round %4 to bf16 : tensor<64xf32>
      %6 = q.quantize %5, %v : tensor<64xf32>, tensor<1xf32> -> !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
      %7 = kernel.slice %a at 192 : tensor<256xf32> -> tensor<64xf32>
      %8 = q.quantize %7, %v : tensor<64xf32>, tensor<1xf32> -> !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
      kernel.yield %2, %6, %8 : tensor<128xf32>, !q.tensor<1x64xf8E4M3FN, per_tensor, f32>, !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
    }
    kernel.rowwise "short" tokens of %b ins(%p : !kernel.buffer<tensor<?x256xbf16>>) access [row] outs(%k : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>) {
    ^bb0(%a: tensor<256xf32>):
      %0 = q.quantize %a : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
      kernel.yield %0 : !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
    }
    // Both halves of a row; scales are powers of two (N4).
    kernel.rowwise "swiglu" tokens of %b ins(%gu : !kernel.buffer<tensor<?x512xbf16>>) access [row] outs(%sw : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>) {
    ^bb0(%a: tensor<512xf32>):
      %0 = kernel.slice %a at 0 : tensor<512xf32> -> tensor<256xf32>
      %1 = kernel.slice %a at 256 : tensor<512xf32> -> tensor<256xf32>
      %2 = arith.constant dense<1.0> : tensor<256xf32>
      %3 = arith.negf %0 : tensor<256xf32>
      %4 = math.exp %3 : tensor<256xf32>
      %5 = arith.addf %2, %4 : tensor<256xf32>
      %6 = arith.divf %0, %5 : tensor<256xf32>
      %7 = arith.mulf %6, %1 : tensor<256xf32>
      %8 = kernel.round %7 to bf16 : tensor<256xf32>
      %9 = q.quantize %8 ue8m0 : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
      kernel.yield %9 : !q.tensor<1x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
    }
    return
  }
}
