// RUN: octet-opt %s -split-input-file -verify-diagnostics

// The layout that a kernel reads is that of its cache (P7, P9).
func.func @p7_same_layout(%q: tensor<?x128xbf16>, %x: tensor<?x64xbf16>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
  %0 = kernel.attention "cpu.paged_attention" %q, %c of %b[%l] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a", reads = "bf16"}
      : tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x128xbf16>
  %k = q.kv_cache[%l] : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 0>
  %1 = kernel.launch "cpu.indexer" "model.indexer"(%q, %k) of %b[%l] {module = "i", params = {}, reads = "fp8_indexer", unwritten}
      : (tensor<?x128xbf16>, !q.kv<fp8_indexer, page = 64, heads = 1, dim = 128, rope = 0>) -> tensor<?x8xi32>
  return
}

// -----

func.func @p7_attention_of_another_layout(%q: tensor<?x128xbf16>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<f16, page = 64, heads = 2, dim = 64>
  // expected-error @+1 {{cpu.paged_attention reads a cache in bf16, this one is '!q.kv<f16, page = 64, heads = 2, dim = 64>' [P7]}}
  %0 = kernel.attention "cpu.paged_attention" %q, %c of %b[%l] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a", reads = "bf16"}
      : tensor<?x128xbf16>, !q.kv<f16, page = 64, heads = 2, dim = 64> -> tensor<?x128xbf16>
  return
}

// -----

// 656 and 576 bytes a token: the wrong one reads scales as codes.
func.func @p7_latents_of_another_layout(%q: tensor<?x128xbf16>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>
  // expected-error @+1 {{sm90.mla_attention reads a cache in fp8_ds_mla, this one is '!q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>' [P7]}}
  %0 = kernel.launch "sm90.mla_attention" "model.mla_attention"(%q, %c) of %b[%l] {module = "a", params = {}, reads = "fp8_ds_mla", unwritten}
      : (tensor<?x128xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 512, rope = 64>) -> tensor<?x128xbf16>
  return
}

// -----

func.func @p9_keys_of_another_layout(%q: tensor<?x128xbf16>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 0>
  // expected-error @+1 {{cpu.indexer reads a cache in fp8_indexer, this one is '!q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 0>' [P9]}}
  %0 = kernel.launch "cpu.indexer" "model.indexer"(%q, %c) of %b[%l] {module = "i", params = {}, reads = "fp8_indexer", unwritten}
      : (tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 0>) -> tensor<?x8xi32>
  return
}

// -----

func.func @p7_no_cache(%q: tensor<?x128xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{reads a cache in bf16, and has none [P7]}}
  %0 = kernel.launch "cpu.mla_attention" "model.mla_attention"(%q) of %b[%l] {module = "a", params = {}, reads = "bf16", unwritten} : (tensor<?x128xbf16>) -> tensor<?x128xbf16>
  return
}

// -----

func.func @p7_no_layout(%q: tensor<?x128xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{reads 'int3', which is no layout of a cache [P7]}}
  %0 = kernel.launch "cpu.mla_attention" "model.mla_attention"(%q) of %b[%l] {module = "a", params = {}, reads = "int3", unwritten} : (tensor<?x128xbf16>) -> tensor<?x128xbf16>
  return
}

// -----

func.func @b7_launch_of_rows_by_token(%r: !model.dispatched<tensor<?x256xbf16>, choices = 2, by token>, %b: !model.batch) {
  // expected-error @+1 {{input is '!model.dispatched<tensor<?x256xbf16>, choices = 2, by token>', rows by token; the grouped product reads rows by expert [B7]}}
  %0 = kernel.launch "cpu.experts" "model.experts"(%r) of %b {module = "m", params = {}, unwritten} : (!model.dispatched<tensor<?x256xbf16>, choices = 2, by token>) -> tensor<?x256xbf16>
  return
}
