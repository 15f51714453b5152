// RUN: octet-opt %s -octet-shard=tp=16 -split-input-file -verify-diagnostics

// A split inside a block, with the degrees that leave whole blocks.
func.func @w3_split_cuts_block(%x: tensor<?x3072xbf16>, %w: !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32>) -> tensor<?x256xbf16> {
  // expected-error @+1 {{model.layers.3.mlp.shared_experts.down_proj: input dimension 3072 over tp=16 is 192 per rank, not a multiple of the block (bk=128); tp=1, 2, 3, 4, 6, 8, 12 or 24 would work [W3]}}
  %y = model.linear %x, %w {module = "model.layers.3.mlp.shared_experts.down_proj"} : tensor<?x3072xbf16>, !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

// Every shard of a fused matrix has to divide.
func.func @w3_shard_of_fused(%x: tensor<?x8xbf16>, %w: !q.tensor<4136x8xf8E4M3FN, per_channel, f32, shards = [4096, 40]>) -> tensor<?x4136xbf16> {
  // expected-error @+1 {{a.gate_up_proj: output dimension 40 over tp=16 is not a whole number per rank; tp=1, 2, 4 or 8 would work [W3]}}
  %y = model.linear %x, %w {module = "a.gate_up_proj"} : tensor<?x8xbf16>, !q.tensor<4136x8xf8E4M3FN, per_channel, f32, shards = [4096, 40]> -> tensor<?x4136xbf16>
  return %y : tensor<?x4136xbf16>
}

// -----

// Heads are split evenly, KV heads split or replicated evenly.
func.func @w3b_heads(%q: tensor<?x96xbf16>, %k: tensor<?x24xbf16>, %b: !model.batch) -> tensor<?x96xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: 24 heads and 6 KV heads over tp=16: heads are split evenly; tp=1, 2, 3, 6, 12 or 24 would work [W3b]}}
  %a = model.attention %q, %k : tensor<?x24xbf16>, v %k : tensor<?x24xbf16> of %b[%c0] {q_heads = 24 : i64, kv_heads = 6 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x96xbf16> -> tensor<?x96xbf16>
  return %a : tensor<?x96xbf16>
}

// -----

func.func @w3b_kv_heads(%q: tensor<?x192xbf16>, %k: tensor<?x24xbf16>, %b: !model.batch) -> tensor<?x192xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: 48 heads and 6 KV heads over tp=16: KV heads are split evenly, or each stands on equally many ranks; tp=1, 2, 3, 6, 12, 24 or 48 would work [W3b]}}
  %a = model.attention %q, %k : tensor<?x24xbf16>, v %k : tensor<?x24xbf16> of %b[%c0] {q_heads = 48 : i64, kv_heads = 6 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x192xbf16> -> tensor<?x192xbf16>
  return %a : tensor<?x192xbf16>
}

// -----

// A split that could work is refused too, until programs of several ranks are
// made; replicated KV heads and whole blocks pass the checks before.
// expected-error @+1 {{--tp 16: programs of several ranks are not made yet; tp=1 works [W3c]}}
module {
  func.func @w3c_not_yet(%x: tensor<?x2048xbf16>, %w: !q.tensor<2304x2048xf8E4M3FN, block<128x128>, f32, shards = [2048, 128, 128]>, %b: !model.batch) -> tensor<?x2048xbf16> {
    %c0 = arith.constant 0 : index
    %y = model.linear %x, %w {module = "a.qkv_proj"} : tensor<?x2048xbf16>, !q.tensor<2304x2048xf8E4M3FN, block<128x128>, f32, shards = [2048, 128, 128]> -> tensor<?x2304xbf16>
    %q, %k, %v = model.split %y : tensor<?x2304xbf16> -> tensor<?x2048xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
    %a = model.attention %q, %k : tensor<?x128xbf16>, v %v : tensor<?x128xbf16> of %b[%c0] {q_heads = 16 : i64, kv_heads = 1 : i64, head_dim = 128 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x2048xbf16> -> tensor<?x2048xbf16>
    return %a : tensor<?x2048xbf16>
  }
}
