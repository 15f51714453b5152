// RUN: octet-opt %s -octet-select-kernels -split-input-file -verify-diagnostics

// One instruction multiplies 32 elements of K, so no kernel takes blocks of 48
// (B2): every reason is given.
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @b2_odd_block(%x: !q.tensor<?x480xf8E4M3FN, block<1x48>, f32>, %b: !model.batch) {
    %w = q.weight @w : !q.tensor<256x480xf8E4M3FN, block<128x48>, f32>
    // expected-error @+3 {{block: no kernel of sm_90a multiplies !q.tensor<?x480xf8E4M3FN, block<1x48>, f32> by !q.tensor<256x480xf8E4M3FN, block<128x48>, f32> [C11]}}
    // expected-note @+2 {{sm90.fp8_block_gemm: that kernel reads bk=128, this weight has 48}}
    // expected-note @+1 {{cuda.fp8_generic_gemm: it multiplies 32 elements of K at a time, this weight has bk=48}}
    %0 = model.linear %x, %w {contract = #q.contract<weight = block<128x48>, scale = f32, activation = block<1x48>>, module = "block"} : !q.tensor<?x480xf8E4M3FN, block<1x48>, f32>, !q.tensor<256x480xf8E4M3FN, block<128x48>, f32> -> tensor<?x256xbf16>
    return
  }
  q.slot @w[1] : !q.tensor<256x480xf8E4M3FN, block<128x48>, f32>
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
