// RUN: octet-opt %s -octet-print-row-source=target=sm_90a -o %t | FileCheck %s
// RUN: octet-opt %s -octet-print-row-source=target=sm_80 -o %t | FileCheck %s --check-prefix=OLD

// Before sm_90 no kernel starts ahead of its turn, or reads ahead of it.
// OLD: // launch: {{.*}}
// OLD-NOT: overlaps
// OLD-NOT: prefetch(a0, thread);

module {
  q.slot @w[1] : tensor<256xbf16>
  q.slot @e[1] : tensor<64x256xbf16>
  q.slot @t[1] : tensor<64x32xf32>
  q.slot @s[1] : tensor<f32>
  func.func @rows(%b: !model.batch, %l: index) {
    %w = q.weight @w : tensor<256xbf16>
    %e = q.weight @e : tensor<64x256xbf16>
    %t = q.weight @t : tensor<64x32xf32>
    %s = q.weight @s : tensor<f32>
    %c = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>
    %ids = model.field ids of %b : tensor<?xi32>
    %positions = model.field positions of %b : tensor<?xi32>
    %slots = model.field slots of %b : tensor<?xi32>
    %x = kernel.place 0 : !kernel.buffer<tensor<?x256xbf16>>
    %y = kernel.place 1024 : !kernel.buffer<tensor<?x256xbf16>>
    %q = kernel.place 2048 scales 4096 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
    %qc = kernel.place 2048 scales 4096 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>
    %qp = kernel.place 2048 scales 4096 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>>
    %z = kernel.place 8192 : !kernel.buffer<tensor<?x4096xbf16>>
    %qz = kernel.place 16384 scales 32768 : !kernel.buffer<!q.tensor<?x4096xf8E4M3FN, per_token, f32>>
    %r = kernel.place 65536 : !kernel.buffer<tensor<?x37xf32>>
    %o = kernel.place 60000 : !kernel.buffer<tensor<?x128xbf16>>
    %rz = kernel.place 70000 : !kernel.buffer<tensor<?x37xf32>>

    // Short rows have a warp each. The sum of rows is rounded, stored and kept
    // as it is rounded (N9); weights are loaded before the kernels before this
    // one have ended, rows after it.
    // CHECK-LABEL: // add_norm_quantize
    //       CHECK: // 32 threads a row, 4 rows a CTA of 128.
    //       CHECK: #include "row/row.cuh"
    //       CHECK: extern "C" __global__ void __launch_bounds__(128)
    //  CHECK-NEXT: octet_row_add_norm_quantize_{{[0-9a-f]+}}(const Bf16 *in0, const Bf16 *in1, const Bf16 *in2,
    //  CHECK-NEXT:     Bf16 *out0, E4m3 *out1, float *scale1, int rows) {
    //       CHECK:   launchNextGrid();
    //       CHECK:     [[W:x[0-9]+]] = load(in2, thread);
    //       CHECK:   waitForPriorGrids();
    //       CHECK:     [[X:x[0-9]+]] = load(a0, thread);
    //       CHECK:     [[R:x[0-9]+]] = load(a1, thread);
    //       CHECK:     const Floats [[SUM:v[0-9]+]] = add([[X]], [[R]]);
    //  CHECK-NEXT:     [[KEPT:v[0-9]+]] = round<Bf16>([[SUM]]);
    //  CHECK-NEXT:     store(out0 + row * 256, thread, [[KEPT]]);
    //       CHECK:   reduceLanes<Sum, 32>
    //       CHECK:   multiply(r{{[0-9]+}}, 0.00390625f);
    //       CHECK:   [[ROOT:v[0-9]+]] = inverseSquareRoot(v{{[0-9]+}});
    //       CHECK:     multiply([[KEPT]], [[ROOT]]);
    //   CHECK-NOT:     add([[X]]
    //       CHECK:     reduceLanes<Amax, 16>
    //       CHECK:     const float scale = dynamicScale<true>(
    //  CHECK-NEXT:     quantizeE4m3<Range::ShortInScale>(v{{[0-9]+}}, scale);
    //       CHECK:     if (thread % 16 == 0)
    //  CHECK-NEXT:       scale1[row * 2 + thread / 16u] = scale;
    kernel.rowwise "add_norm_quantize" tokens of %b ins(%x, %y, %w : !kernel.buffer<tensor<?x256xbf16>>, !kernel.buffer<tensor<?x256xbf16>>, tensor<256xbf16>) access [row, row, uniform]
        outs(%y, %q : !kernel.buffer<tensor<?x256xbf16>>, !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>) {
    ^bb0(%a: tensor<256xf32>, %d: tensor<256xf32>, %v: tensor<256xf32>):
      %0 = arith.addf %a, %d : tensor<256xf32>
      %1 = kernel.round %0 to bf16 : tensor<256xf32>
      %2 = arith.mulf %1, %1 : tensor<256xf32>
      %3 = kernel.reduce add %2 : tensor<256xf32> -> tensor<1xf32>
      %4 = arith.constant dense<256.0> : tensor<1xf32>
      %5 = arith.divf %3, %4 : tensor<1xf32>
      %6 = math.rsqrt %5 : tensor<1xf32>
      %7 = kernel.broadcast %6 : tensor<1xf32> -> tensor<256xf32>
      %8 = arith.mulf %1, %7 : tensor<256xf32>
      %9 = arith.mulf %8, %v : tensor<256xf32>
      %10 = kernel.round %9 to bf16 : tensor<256xf32>
      %11 = q.quantize %10 : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
      kernel.yield %1, %11 : tensor<256xf32>, !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
    }

    // Scales along rows, which are a multiple of four apart (B1). Nothing
    // crosses warps: the row is spread.
    // CHECK-LABEL: // column_major
    //       CHECK: const int unit =
    //       CHECK: storeColumn(scale0, scale, chunk / 16u, row, rows);
    kernel.rowwise "column_major" tokens of %b ins(%x : !kernel.buffer<tensor<?x256xbf16>>) access [row]
        outs(%qc : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>) {
    ^bb0(%a: tensor<256xf32>):
      %0 = q.quantize %a ue8m0 : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
      kernel.yield %0 : !q.tensor<1x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
    }

    // Exponents, four groups a word.
    // CHECK-LABEL: // packed
    //       CHECK: E4m3 *out0, u8 *scale0, int rows)
    //       CHECK: const float scale = roundUpToPowerOfTwo(dynamicScale<true>(
    //       CHECK: if (chunk % 4 == 0)
    //  CHECK-NEXT:   storeExponent(scale0, scale, chunk / 4u, 8, row, rows);
    kernel.rowwise "packed" tokens of %b ins(%x : !kernel.buffer<tensor<?x256xbf16>>) access [row]
        outs(%qp : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>>) {
    ^bb0(%a: tensor<256xf32>):
      %0 = q.quantize %a ue8m0 : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>
      kernel.yield %0 : !q.tensor<1x256xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>
    }

    // A scale of the whole row: warps meet in shared memory. Few rows have a
    // thread a chunk, and bring themselves to L2 before the kernels before this
    // one have ended; many rows have fewer threads, in turns, and bring a row that
    // a later CTA has; the order in which the row is reduced is the same (B5).
    // CHECK-LABEL: // launch: up to 512 rows
    //       CHECK: // per_token
    //       CHECK: // 512 threads a row, 1 rows a CTA of 512.
    //       CHECK: __shared__ float partials[1][16];
    //       CHECK: prefetch(a0, thread);
    //       CHECK: waitForPriorGrids();
    //       CHECK: startRow<Amax>(pm0, thread, partials[0]);
    //       CHECK: __syncthreads();
    //       CHECK: const float m0 = finishRow<Amax, 16>(partials[0]);
    //       CHECK: if (thread == 0)
    //  CHECK-NEXT:   scale0[row] = rowScale0;
    // CHECK-LABEL: // launch: up to -1 rows, 128 threads, grid x 1 rows,
    //       CHECK: // per_token
    //       CHECK: __launch_bounds__(128, 8)
    //   CHECK-NOT: prefetch
    //       CHECK: waitForPriorGrids();
    //       CHECK: for (int i = 0; i < 4; ++i) {
    //  CHECK-NEXT:   const int chunk = thread + i * 128;
    //  CHECK-NEXT:   x0[i] = load(a0, chunk);
    //       CHECK:   if (row + 640 < rows)
    //  CHECK-NEXT:     prefetch(a0 + 2621440, chunk);
    //       CHECK: startRow<Amax, 128>(pm0, thread, partials[0]);
    //       CHECK: const float m0 = finishRow<Amax, 16>(partials[0]);
    kernel.rowwise "per_token" tokens of %b ins(%z : !kernel.buffer<tensor<?x4096xbf16>>) access [row]
        outs(%qz : !kernel.buffer<!q.tensor<?x4096xf8E4M3FN, per_token, f32>>) {
    ^bb0(%a: tensor<4096xf32>):
      %0 = q.quantize %a : tensor<4096xf32> -> !q.tensor<1x4096xf8E4M3FN, per_token, f32>
      kernel.yield %0 : !q.tensor<1x4096xf8E4M3FN, per_token, f32>
    }

    // Queries, keys and values lie side by side. The other halves of pairs come
    // from two chunks away; rows of the cache are chosen by slot.
    // CHECK-LABEL: // rope_kv
    //       CHECK: if (unit < 32) {
    //       CHECK:   const float *const a1 = in1 + i64(index0[row]) * 32;
    //       CHECK:   load(a1 + RopePlace<64, 16, 16>(chunk).pair, 0);
    //       CHECK:   load(a1 + 16 + RopePlace<64, 16, 16>(chunk).pair, 0);
    //       CHECK:   const i64 slot = slots[row];
    //       CHECK:   exchange<2>({{.*}}, RopePlace<64, 16, 16>(chunk).isFirst);
    //       CHECK:   storeCodes(keys + slot * 64, chunk, codes);
    //       CHECK: } else if (unit < 64) {
    //       CHECK:   const float [[S:e[0-9]+]] = toFloat(in2[0 + 0]);
    //       CHECK:   quantizeE4m3<Range::Short>({{.*}}, [[S]]);
    //       CHECK:   storeCodes(values + slot * 64, chunk, codes);
    //       CHECK: } else {
    //       CHECK:   store(out0 + row * 128, chunk,
    kernel.rowwise "rope_kv" tokens of %b ins(%x, %t, %s : !kernel.buffer<tensor<?x256xbf16>>, tensor<64x32xf32>, tensor<f32>) access [row, indexed, uniform]
        indices(%positions : tensor<?xi32>) outs(%o : !kernel.buffer<tensor<?x128xbf16>>)
        cache(%c, %slots : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>, tensor<?xi32>) {
    ^bb0(%a: tensor<256xf32>, %d: tensor<32xf32>, %v: tensor<1xf32>):
      %0 = kernel.slice %a at 0 : tensor<256xf32> -> tensor<128xf32>
      %1 = kernel.rope %0, %d head_dim 64 {offset = 16 : i64} : tensor<128xf32>, tensor<32xf32> -> tensor<128xf32>
      %2 = kernel.round %1 to bf16 : tensor<128xf32>
      %3 = kernel.slice %a at 128 : tensor<256xf32> -> tensor<64xf32>
      %4 = kernel.rope %3, %d head_dim 64 {offset = 16 : i64} : tensor<64xf32>, tensor<32xf32> -> tensor<64xf32>
      %5 = kernel.round %4 to bf16 : tensor<64xf32>
      %6 = q.quantize %5, %v : tensor<64xf32>, tensor<1xf32> -> !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
      %7 = kernel.slice %a at 192 : tensor<256xf32> -> tensor<64xf32>
      %8 = q.quantize %7, %v : tensor<64xf32>, tensor<1xf32> -> !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
      kernel.yield %2, %6, %8 : tensor<128xf32>, !q.tensor<1x64xf8E4M3FN, per_tensor, f32>, !q.tensor<1x64xf8E4M3FN, per_tensor, f32>
    }

    // Memory that is only moved is not converted.
    // CHECK-LABEL: // embedding
    //       CHECK:   const Bf16 *const a0 = in0 + i64(index0[row]) * 256;
    //       CHECK:   [[X:x[0-9]+]] = load(a0, chunk);
    //       CHECK:   store(out0 + row * 256, chunk, [[X]]);
    kernel.rowwise "embedding" tokens of %b ins(%e : tensor<64x256xbf16>) access [indexed] indices(%ids : tensor<?xi32>) outs(%y : !kernel.buffer<tensor<?x256xbf16>>) {
    ^bb0(%a: tensor<256xf32>):
      kernel.yield %a : tensor<256xf32>
    }

    // A ragged row (W4), and groups that chunks do not fit: through shared
    // memory, one thread a group.
    // CHECK-LABEL: // ragged
    //       CHECK:   loadSome(a0, thread, 37);
    //       CHECK:   storeSome([[S:s[0-9]+]], thread, 37,
    //       CHECK:   __syncwarp();
    //       CHECK:   reduceGroups<Max>([[S]], 37, 10, [[M:sr[0-9]+]], thread, 32);
    //       CHECK:   loadGroups([[M]], thread, 10, 37);
    //       CHECK:   storeSome(out0 + row * 37, thread, 37,
    kernel.rowwise "ragged" tokens of %b ins(%r : !kernel.buffer<tensor<?x37xf32>>) access [row] outs(%rz : !kernel.buffer<tensor<?x37xf32>>) {
    ^bb0(%a: tensor<37xf32>):
      %0 = kernel.reduce max %a group 10 : tensor<37xf32> -> tensor<4xf32>
      %1 = kernel.broadcast %0 group 10 : tensor<4xf32> -> tensor<37xf32>
      %2 = arith.subf %a, %1 : tensor<37xf32>
      kernel.yield %2 : tensor<37xf32>
    }
    return
  }
}
