// RUN: octet-opt %s -octet-insert-quantization=kv-cache=fp8_ds_mla -verify-diagnostics

// A layout of latent attention; the text of any unknown word.
func.func @p7a_layout_of_mla(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: --kv-cache is 'fp8_ds_mla', the cache of grouped-query attention is auto, bf16, f16, f32 or fp8_e4m3 [P7a]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}
