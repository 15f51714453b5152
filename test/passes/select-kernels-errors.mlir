// RUN: octet-opt %s -octet-select-kernels -split-input-file -verify-diagnostics

// A linear without a kernel names its module, each kernel says why not, and all
// such linears are reported.
func.func @c11_no_kernel(%t: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %x: tensor<?x256xbf16>, %b: !model.batch) {
  %v = q.weight @v : !q.tensor<64x256xf8E5M2, per_channel, f32>
  %u = q.weight @u : !q.tensor<64x256xf8E4M3FN, per_channel, bf16>
  // expected-error @+6 {{model.layers.0.k_proj: no kernel of the CPU multiplies !q.tensor<?x256xf8E4M3FN, per_token, f32> by !q.tensor<64x256xf8E5M2, per_channel, f32> [C11]}}
  // expected-note @+5 {{cpu.mxfp8_gemm: its weight must be f8E4M3FN, this one is f8E5M2}}
  // expected-note @+4 {{cpu.fp8_block_gemm: its weight must be f8E4M3FN, this one is f8E5M2}}
  // expected-note @+3 {{cpu.fp8_channel_gemm: its weight must be f8E4M3FN, this one is f8E5M2}}
  // expected-note @+2 {{cpu.fp8_tensor_gemm: its weight must be f8E4M3FN, this one is f8E5M2}}
  // expected-note @+1 {{cpu.fp8_weight_only_gemm: its weight must be f8E4M3FN, this one is f8E5M2}}
  %z = model.linear %t, %v {contract = #q.contract<weight = per_channel, codes = f8E5M2, scale = f32, activation = per_token>, module = "model.layers.0.k_proj"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<64x256xf8E5M2, per_channel, f32> -> tensor<?x64xbf16>
  // expected-error @+6 {{model.layers.0.q_proj: no kernel of the CPU multiplies}}
  // expected-note @+5 {{cpu.mxfp8_gemm: its scales must be f32 or f8E8M0FNU, these are bf16}}
  // expected-note @+4 {{cpu.fp8_block_gemm: its scales must be f32 or f8E8M0FNU, these are bf16}}
  // expected-note @+3 {{cpu.fp8_channel_gemm: its scales must be f32 or f8E8M0FNU, these are bf16}}
  // expected-note @+2 {{cpu.fp8_tensor_gemm: its scales must be f32 or f8E8M0FNU, these are bf16}}
  // expected-note @+1 {{cpu.fp8_weight_only_gemm: its scales must be f32 or f8E8M0FNU, these are bf16}}
  %y = model.linear %x, %u {contract = #q.contract<weight = per_channel, scale = bf16, activation = none>, module = "model.layers.0.q_proj"} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, per_channel, bf16> -> tensor<?x64xbf16>
  return
}
q.slot @u[1] : !q.tensor<64x256xf8E4M3FN, per_channel, bf16>
q.slot @v[1] : !q.tensor<64x256xf8E5M2, per_channel, f32>

// -----

func.func @w5b_too_many_shards(%x: tensor<?x64xbf16>, %b: !model.batch) {
  %w = q.weight @w : !q.tensor<160x64xf8E4M3FN, per_channel, f32, shards = [32, 32, 32, 32, 32]>
  // expected-error @+6 {{a.b: no kernel of the CPU}}
  // expected-note @+5 {{cpu.mxfp8_gemm: it joins at most 4 shards, this weight has 5}}
  // expected-note @+4 {{cpu.fp8_block_gemm: it joins at most 4 shards, this weight has 5}}
  // expected-note @+3 {{cpu.fp8_channel_gemm: it joins at most 4 shards, this weight has 5}}
  // expected-note @+2 {{cpu.fp8_tensor_gemm: it joins at most 4 shards, this weight has 5}}
  // expected-note @+1 {{cpu.fp8_weight_only_gemm: it joins at most 4 shards, this weight has 5}}
  %y = model.linear %x, %w {contract = #q.contract<weight = per_channel, scale = f32, activation = none>, module = "a.b"} : tensor<?x64xbf16>, !q.tensor<160x64xf8E4M3FN, per_channel, f32, shards = [32, 32, 32, 32, 32]> -> tensor<?x160xbf16>
  return
}
q.slot @w[1] : !q.tensor<160x64xf8E4M3FN, per_channel, f32, shards = [32, 32, 32, 32, 32]>

// -----

func.func @p7b_no_cache(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %l: index, %b: !model.batch) {
  // expected-error @+1 {{a: attention without a cache; octet-insert-quantization gives it one [P7b]}}
  %a = model.attention %q, %k : tensor<?x64xbf16>, v %k : tensor<?x64xbf16> of %b[%l] {q_heads = 2 : i64, kv_heads = 1 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x128xbf16> -> tensor<?x128xbf16>
  return
}
