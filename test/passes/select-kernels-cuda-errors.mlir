// RUN: octet-opt %s -octet-select-kernels -split-input-file -verify-diagnostics

// No kernel takes heads of 12 (P11): every reason is given.
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @p11_odd_heads(%q: tensor<?x24xbf16>, %b: !model.batch) {
    %c0 = arith.constant 0 : index
    %cache = q.kv_cache[%c0] : !q.kv<bf16, page = 64, heads = 1, dim = 12>
    // expected-error @+3 {{m: no kernel of sm_90a attends [C11]}}
    // expected-note @+2 {{sm90.paged_attention: that kernel takes heads of a multiple of 16 up to 256, these have 12}}
    // expected-note @+1 {{cuda.paged_attention: it takes heads of a multiple of 8 up to 256, these have 12}}
    %0 = model.attention %q cache(%cache : !q.kv<bf16, page = 64, heads = 1, dim = 12>) of %b[%c0] {q_heads = 2 : i64, kv_heads = 1 : i64, head_dim = 12 : i64, scale = 0.5 : f32, module = "m"} : tensor<?x24xbf16> -> tensor<?x24xbf16>
    return
  }
}

// -----

// Groups of 32 with powers of two are multiplied from sm_100 on (B6).
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @b6_groups(%x: !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU>
    // expected-error @+1 {{mx: no kernel of sm_90a multiplies}}
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>, module = "mx"} : !q.tensor<?x2048xf8E4M3FN, block<1x32>, f32>, !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x2048xf8E4M3FN, block<1x32>, f8E8M0FNU>
}

// -----

// FP8 operands on a target without FP8 products: its contract is another (B4).
module attributes {
  model.settings = #model.settings<target = "sm_86", numerics = "sm_86", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @b4_no_fp8(%x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x256xf8E4M3FN, per_channel, f32>
    // expected-error @+1 {{channel: no kernel of sm_86 multiplies}}
    %0 = model.linear %x, %w {contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, module = "channel"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<256x256xf8E4M3FN, per_channel, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x256xf8E4M3FN, per_channel, f32>
}

// -----

// A kernel reads the input's scales in its own order (B1, P3): an input in that of
// another target has none.
module attributes {
  model.settings = #model.settings<target = "sm_120f", numerics = "sm_120f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @b1_order(%x: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>
    // expected-error @+3 {{order: no kernel of sm_120f multiplies}}
    // expected-note @+2 {{mma.fp8_block_gemm: that kernel reads the input's scales in rows, these are in column_major_scales}}
    // expected-note @+1 {{cuda.fp8_generic_gemm: that kernel reads the input's scales in rows, these are in column_major_scales}}
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>, module = "order"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>, !q.tensor<256x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>
}

// -----

// One 16-bit type for both operands of a product (C9).
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = f16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @mixed(%x: tensor<?x256xf16>, %b: !model.batch) {
    %w = q.weight @w : tensor<64x256xbf16>
    // expected-error @+3 {{m: no kernel of sm_90a multiplies tensor<?x256xf16> by tensor<64x256xbf16> [C11]}}
    // expected-note @+2 {{sm90.dense_gemm: that kernel multiplies operands of one type, these are f16 and bf16; --dtype bf16 has the weight's}}
    // expected-note @+1 {{mma.dense_gemm: that kernel multiplies operands of one type, these are f16 and bf16; --dtype bf16 has the weight's}}
    %0 = model.linear %x, %w {module = "m"} : tensor<?x256xf16>, tensor<64x256xbf16> -> tensor<?x64xf16>
    return
  }
  q.slot @w[1] : tensor<64x256xbf16>
}
