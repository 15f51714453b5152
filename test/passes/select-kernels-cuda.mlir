// RUN: octet-opt %s -octet-select-kernels -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-select-kernels -split-input-file -remarks-filter=octet-select-kernels 2>&1 | FileCheck %s --check-prefix=REMARK

// Kernels of CUDA targets are in the table of contracts; some are not written yet.
// The block kernel of sm_90 takes 128x128 and [32,32] (B1, B2), other sides of a
// block the generic one; the table over M is in the IR (B5): few rows, which
// are wgmma's columns, split the sum over K where N is short.
// CHECK-LABEL: module attributes {{.*}}target = "sm_90a"
//       CHECK:   kernel.gemm "sm90.fp8_block_gemm" {{.*}} {max_m = array<i64: {{.*}}, -1>, module = "block", variants = ["swap_{{[^"]*}}_split{{[^"]*}}", {{.*}}"m128n128k128{{[^"]*}}"]}
//       CHECK:   kernel.gemm "sm90.fp8_block_gemm" {{.*}} module = "block32"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "block64"
//       CHECK:   kernel.gemm "sm90.fp8_channel_gemm" {{.*}} module = "channel"
//       CHECK:   kernel.gemm "sm90.fp8_tensor_gemm" {{.*}} module = "tensor"
//       CHECK:   kernel.gemm "cuda.fp8_weight_only_gemm" {{.*}} module = "weight_only"
//       CHECK:   kernel.gemm "sm90.dense_gemm" {{.*}} module = "plain"
//       CHECK:   kernel.gemm "mma.int8_gemm" {{.*}} module = "int8"
//   CHECK-NOT:   model.linear
// REMARK-DAG: remark: [Missed] preferred-kernel {{.*}}"block64: uses cuda.fp8_generic_gemm, not sm90.fp8_block_gemm: that kernel reads bk=128, this weight has 64 [B2]"
// REMARK-DAG: remark: [Passed] kernel {{.*}}"block: uses sm90.fp8_block_gemm [B1]"
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @contracts(%x: tensor<?x2048xbf16>, %xb: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, %x32: !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32, layout = column_major_scales>, %x64: !q.tensor<?x2048xf8E4M3FN, block<1x64>, f32>,
                       %xt: !q.tensor<?x2048xf8E4M3FN, per_token, f32>, %xs: !q.tensor<?x2048xf8E4M3FN, per_tensor, f32>, %xi: !q.tensor<?x2048xi8, per_token, f32>, %b: !model.batch) {
    %wb = q.weight @wb : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %w32 = q.weight @w32 : !q.tensor<256x2048xf8E4M3FN, block<32x32>, f32>
    %w64 = q.weight @w64 : !q.tensor<256x2048xf8E4M3FN, block<128x64>, f32>
    %wc = q.weight @wc : !q.tensor<256x2048xf8E4M3FN, per_channel, f32>
    %wt = q.weight @wt : !q.tensor<256x2048xf8E4M3FN, per_tensor, f32>
    %wp = q.weight @wp : tensor<256x2048xbf16>
    %wi = q.weight @wi : !q.tensor<256x2048xi8, per_channel, f32>
    %0 = model.linear %xb, %wb {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    %1 = model.linear %x32, %w32 {contract = #q.contract<weight = block<32x32>, scale = f32, activation = block<1x32> column_major_scales>, module = "block32"} : !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32, layout = column_major_scales>, !q.tensor<256x2048xf8E4M3FN, block<32x32>, f32> -> tensor<?x256xbf16>
    %2 = model.linear %x64, %w64 {contract = #q.contract<weight = block<128x64>, scale = f32, activation = block<1x64>>, module = "block64"} : !q.tensor<?x2048xf8E4M3FN, block<1x64>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x64>, f32> -> tensor<?x256xbf16>
    %3 = model.linear %xt, %wc {contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, module = "channel"} : !q.tensor<?x2048xf8E4M3FN, per_token, f32>, !q.tensor<256x2048xf8E4M3FN, per_channel, f32> -> tensor<?x256xbf16>
    %4 = model.linear %xs, %wt {contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, module = "tensor"} : !q.tensor<?x2048xf8E4M3FN, per_tensor, f32>, !q.tensor<256x2048xf8E4M3FN, per_tensor, f32> -> tensor<?x256xbf16>
    %5 = model.linear %x, %wb {contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>, module = "weight_only"} : tensor<?x2048xbf16>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    %6 = model.linear %x, %wp {contract = #q.contract<none>, module = "plain"} : tensor<?x2048xbf16>, tensor<256x2048xbf16> -> tensor<?x256xbf16>
    %7 = model.linear %xi, %wi {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, module = "int8"} : !q.tensor<?x2048xi8, per_token, f32>, !q.tensor<256x2048xi8, per_channel, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @wb[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
  q.slot @w32[1] : !q.tensor<256x2048xf8E4M3FN, block<32x32>, f32>
  q.slot @w64[1] : !q.tensor<256x2048xf8E4M3FN, block<128x64>, f32>
  q.slot @wc[1] : !q.tensor<256x2048xf8E4M3FN, per_channel, f32>
  q.slot @wt[1] : !q.tensor<256x2048xf8E4M3FN, per_tensor, f32>
  q.slot @wp[1] : tensor<256x2048xbf16>
  q.slot @wi[1] : !q.tensor<256x2048xi8, per_channel, f32>
}

// -----

// A row's result may not depend on how many there are (B5): tiles by M, sums in
// one order.
// REMARK-DAG: remark: [Missed] variant {{.*}}"block: K is not split 2 ways for few rows: the order of a row's sum would depend on how many there are, which --batch-invariant forbids [B5]"
// CHECK-LABEL: module attributes {{.*}}target = "sm_90a"
//   CHECK-NOT:   _split
//       CHECK:   kernel.gemm "sm90.fp8_block_gemm" {{.*}}variants = [{{.*}}"m128n128k128{{[^"]*}}"]
//   CHECK-NOT:   _split
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @block(%x: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
}

// -----

// FP8 products of warps on sm_89 (B1). Their family chooses tiles by N, too, and
// never splits K (B5).
// CHECK-LABEL: module attributes {{.*}}target = "sm_89"
//       CHECK:   kernel.gemm "mma.fp8_block_gemm" {{.*}} {max_m = array<i64: 256, 1024, -1>, module = "block", variants = ["m16n32k128s8", "m16n128k128s5", "m128n128k128s3"]}
module attributes {
  model.settings = #model.settings<target = "sm_89", numerics = "sm_89", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @block(%x: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
}

// -----

// And on sm_120 (B1).
// CHECK-LABEL: module attributes {{.*}}target = "sm_120f"
//       CHECK:   kernel.gemm "mma.fp8_block_gemm" 
module attributes {
  model.settings = #model.settings<target = "sm_120f", numerics = "sm_120f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @block(%x: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
}

// -----

// Block-scaled products of sm_100 read powers of two (B1).
// CHECK-LABEL: module attributes {{.*}}target = "sm_100f"
//       CHECK:   kernel.gemm "sm100.fp8_block_gemm" {{.*}} {max_m = array<i64: 16, 32, 64, -1>, module = "block", variants = ["m16n128s8", "m32n128s8", "m64n128s8", "m128n128s7"]}
module attributes {
  model.settings = #model.settings<target = "sm_100f", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @block(%x: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f8E8M0FNU, layout = ue8m0_packed>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0 ue8m0_packed>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f8E8M0FNU, layout = ue8m0_packed>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
}

// -----

// Other scales, where they are to stay, take the generic kernel (B2, W11).
// REMARK-DAG: "block: uses cuda.fp8_generic_gemm, not sm100.fp8_block_gemm: that kernel reads f8E8M0FNU scales, these are f32 [B2]"
// CHECK-LABEL: module attributes {{.*}}target = "sm_100f"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" 
module attributes {
  model.settings = #model.settings<target = "sm_100f", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @block(%x: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, module = "block"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
}

// -----

// No FP8 tensor cores: the weight is widened in the kernel (B4).
// CHECK-LABEL: module attributes {{.*}}target = "sm_80"
//       CHECK:   kernel.gemm "cuda.fp8_weight_only_gemm" 
module attributes {
  model.settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @block(%x: tensor<?x2048xbf16>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>, module = "block"} : tensor<?x2048xbf16>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f32>
}

// -----

// Experts, latent attention and the indexer have tables of their own; what does
// not fit the fast kernel takes the general one, with a remark.
// CHECK-LABEL: module attributes {{.*}}target = "sm_90a"
//       CHECK:   kernel.launch "sm90.fp8_block_experts" "model.experts"
//       CHECK:   kernel.launch "nccl.all_reduce" "model.all_reduce"
//       CHECK:   kernel.launch "cuda.sparse_mla_attention" "model.mla_attention"
//       CHECK:   kernel.launch "nccl.broadcast" "model.broadcast"
// REMARK-DAG: "m: uses cuda.sparse_mla_attention, not sm90.sparse_mla_attention: that kernel takes latents of 512 + 64, these have 64 + 32 [P11]"
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 2, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @sparse(%x: !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %t: tensor<?x8xi32>, %b: !model.batch) {
    %c0 = arith.constant 0 : index
    %g = q.weight @g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
    %d = q.weight @d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>
    %kv = q.weight @kv : tensor<512x64xbf16>
    %y = model.experts %x, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "e", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    %z = model.all_reduce %y {ranks = 2 : i64, module = "e"} : tensor<?x256xbf16>
    %cache = q.kv_cache[%c0] : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 32>
    %a = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> cache(%cache : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 32>) kv_b(%kv : tensor<512x64xbf16>) selected(%t : tensor<?x8xi32>) of %b[%c0]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "m"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    %n = model.broadcast %t {ranks = 2 : i64, module = "m.indexer"} : tensor<?x8xi32>
    return
  }
  q.slot @g[1] : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
  q.slot @d[1] : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>
  q.slot @kv[1] : tensor<512x64xbf16>
}

// -----

// Blocks of any K side take the generic kernel (B2): groups of 32 with f32 scales,
// which are no MXFP8 (N7), and 7, where the rest of an instruction is zeros.
// Scales of another dtype than a kernel reads take it, too (--numerics).
// REMARK-DAG: "powers: uses cuda.fp8_generic_gemm, not sm90.fp8_block_gemm: that kernel reads f32 scales, these are f8E8M0FNU [B2]"
// CHECK-LABEL: module attributes {{.*}}target = "sm_90a"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "groups"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "seven"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "powers"
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @generic(%x0: !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, %x1: !q.tensor<?x2100xf8E4M3FN, block<1x7>, f32>, %x2: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
    %w0 = q.weight @groups : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32>
    %0 = model.linear %x0, %w0 {contract = #q.contract<weight = block<1x32>, scale = f32, activation = block<1x32>>, module = "groups"} : !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32> -> tensor<?x256xbf16>
    %w1 = q.weight @seven : !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32>
    %1 = model.linear %x1, %w1 {contract = #q.contract<weight = block<128x7>, scale = f32, activation = block<1x7>>, module = "seven"} : !q.tensor<?x2100xf8E4M3FN, block<1x7>, f32>, !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32> -> tensor<?x256xbf16>
    %w2 = q.weight @powers : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
    %2 = model.linear %x2, %w2 {contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>, module = "powers"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU> -> tensor<?x256xbf16>
    return
  }
  q.slot @groups[1] : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32>
  q.slot @seven[1] : !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32>
  q.slot @powers[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
}

// -----

// As on sm_100, where only powers of two are MXFP8 (N7, B6).
// REMARK-DAG: "groups: uses cuda.fp8_generic_gemm, not sm100.fp8_block_gemm: that kernel reads f8E8M0FNU scales, these are f32 [B2]"
// CHECK-LABEL: module attributes {{.*}}target = "sm_100f"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "groups"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "seven"
//       CHECK:   kernel.gemm "sm100.mxfp8_gemm" {{.*}} module = "mx"
module attributes {
  model.settings = #model.settings<target = "sm_100f", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @generic(%x0: !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, %x1: !q.tensor<?x2100xf8E4M3FN, block<1x7>, f32>, %x2: !q.tensor<?x2048xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>, %b: !model.batch) {
    %w0 = q.weight @groups : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32>
    %0 = model.linear %x0, %w0 {contract = #q.contract<weight = block<1x32>, scale = f32, activation = block<1x32>>, module = "groups"} : !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32> -> tensor<?x256xbf16>
    %w1 = q.weight @seven : !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32>
    %1 = model.linear %x1, %w1 {contract = #q.contract<weight = block<128x7>, scale = f32, activation = block<1x7>>, module = "seven"} : !q.tensor<?x2100xf8E4M3FN, block<1x7>, f32>, !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32> -> tensor<?x256xbf16>
    %w2 = q.weight @mx : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU>
    %2 = model.linear %x2, %w2 {contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0 ue8m0_packed>, module = "mx"} : !q.tensor<?x2048xf8E4M3FN, block<1x32>, f8E8M0FNU, layout = ue8m0_packed>, !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x256xbf16>
    return
  }
  q.slot @groups[1] : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f32>
  q.slot @seven[1] : !q.tensor<256x2100xf8E4M3FN, block<128x7>, f32>
  q.slot @mx[1] : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU>
}

// -----

// mma.sync reads f32 scales (B1).
// REMARK-DAG: "powers: uses cuda.fp8_generic_gemm, not mma.fp8_block_gemm: that kernel reads f32 scales, these are f8E8M0FNU [B2]"
// CHECK-LABEL: module attributes {{.*}}target = "sm_120f"
//       CHECK:   kernel.gemm "cuda.fp8_generic_gemm" {{.*}} module = "powers"
module attributes {
  model.settings = #model.settings<target = "sm_120f", numerics = "sm_120f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @generic(%x0: !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
    %w0 = q.weight @powers : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
    %0 = model.linear %x0, %w0 {contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>, module = "powers"} : !q.tensor<?x2048xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU> -> tensor<?x256xbf16>
    return
  }
  q.slot @powers[1] : !q.tensor<256x2048xf8E4M3FN, block<128x128>, f8E8M0FNU>
}
