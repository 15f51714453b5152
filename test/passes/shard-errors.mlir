// RUN: octet-opt %s -octet-shard=tp=16 -split-input-file -verify-diagnostics

// A split inside a block, with the degrees that leave whole blocks.
// expected-note @+1 {{for the whole model tp=}}
module {
  func.func @w3_split_cuts_block(%x: tensor<?x3072xbf16>, %w: !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32>) -> tensor<?x256xbf16> {
    // expected-error @+1 {{model.layers.3.mlp.shared_experts.down_proj: input dimension 3072 over tp=16 is 192 per rank, not a multiple of the block (bk=128); tp=1, 2, 3, 4, 6, 8, 12 or 24 would work [W3]}}
    %y = model.linear %x, %w {module = "model.layers.3.mlp.shared_experts.down_proj"} : tensor<?x3072xbf16>, !q.tensor<256x3072xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
    return %y : tensor<?x256xbf16>
  }
}

// -----

// Every shard of a fused matrix has to divide.
// expected-note @+1 {{for the whole model tp=}}
module {
  func.func @w3_shard_of_fused(%x: tensor<?x8xbf16>, %w: !q.tensor<4136x8xf8E4M3FN, per_channel, f32, shards = [4096, 40]>) -> tensor<?x4136xbf16> {
    // expected-error @+1 {{a.gate_up_proj: output dimension 40 over tp=16 is not a whole number per rank; tp=1, 2, 4 or 8 would work [W3]}}
    %y = model.linear %x, %w {module = "a.gate_up_proj"} : tensor<?x8xbf16>, !q.tensor<4136x8xf8E4M3FN, per_channel, f32, shards = [4096, 40]> -> tensor<?x4136xbf16>
    return %y : tensor<?x4136xbf16>
  }
}

// -----

// Heads are split evenly, KV heads split or replicated evenly.
// expected-note @+1 {{for the whole model tp=}}
module {
  func.func @w3b_heads(%q: tensor<?x96xbf16>, %k: tensor<?x24xbf16>, %b: !model.batch) -> tensor<?x96xbf16> {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a: 24 heads and 6 KV heads over tp=16: heads are split evenly; tp=1, 2, 3, 6, 12 or 24 would work [W3b]}}
    %a = model.attention %q, %k : tensor<?x24xbf16>, v %k : tensor<?x24xbf16> of %b[%c0] {q_heads = 24 : i64, kv_heads = 6 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x96xbf16> -> tensor<?x96xbf16>
    return %a : tensor<?x96xbf16>
  }
}

// -----

// expected-note @+1 {{for the whole model tp=}}
module {
  func.func @w3b_kv_heads(%q: tensor<?x192xbf16>, %k: tensor<?x24xbf16>, %b: !model.batch) -> tensor<?x192xbf16> {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a: 48 heads and 6 KV heads over tp=16: KV heads are split evenly, or each stands on equally many ranks; tp=1, 2, 3, 6, 12, 24 or 48 would work [W3b]}}
    %a = model.attention %q, %k : tensor<?x24xbf16>, v %k : tensor<?x24xbf16> of %b[%c0] {q_heads = 48 : i64, kv_heads = 6 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x192xbf16> -> tensor<?x192xbf16>
    return %a : tensor<?x192xbf16>
  }
}

// -----

// The last error says what works for the whole model; experts that would be cut
// say that whole ones would not (W3c).
// expected-note @+1 {{for the whole model tp=1 or 2 would work}}
module {
  func.func @w3_experts(%x: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>) -> tensor<?x256xbf16> {
    %w = model.weight ["m.{e}.gate_proj", "m.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">, #q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">] {experts = 32 : i64} : !q.tensor<32x512x256xf8E4M3FN, block<128x128>, f32, shards = [256, 256]>
    %d = model.weight ["m.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>}, "">] {experts = 32 : i64} : !q.tensor<32x256x256xf8E4M3FN, block<128x128>, f32>
    // expected-error @+2 {{m.gate_up_proj: output dimension 256 over tp=16 is 16 per rank, not a multiple of the block (bn=128); tp=1 or 2 would work, or ep=16, which keeps each expert whole [W3]}}
    // expected-error @+1 {{m.down_proj: input dimension 256 over tp=16 is 16 per rank, not a multiple of the block (bk=128); tp=1 or 2 would work, or ep=16, which keeps each expert whole [W3]}}
    %y = model.experts %x, %i, %s gate_up(%w : !q.tensor<32x512x256xf8E4M3FN, block<128x128>, f32, shards = [256, 256]>) down(%d : !q.tensor<32x256x256xf8E4M3FN, block<128x128>, f32>)
      {experts = 32 : i64, gating = #model<gating swiglu>, module = "m"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    return %y : tensor<?x256xbf16>
  }
}

// -----

// Groups in act_order belong to all ranks alike (W3).
// expected-note @+1 {{for the whole model tp=1, 2, 4 or 8 would work}}
module {
  func.func @w3_act_order(%x: tensor<?x1024xbf16>) -> tensor<?x64xbf16> {
    %w = model.weight ["a.down_proj"] "qweight" stored [#q.stored<{qweight = tensor<128x64xi32>}, "">] : !q.tensor<64x1024xi4, group<8>, f16, zero_points_minus_one, act_order, layout = packed_k>
    // expected-error @+1 {{a.down_proj: its groups of 8 columns in act_order are not the same for each of tp=16 ranks; a tp that divides them would work [W3]}}
    %y = model.linear %x, %w {module = "a.down_proj"} : tensor<?x1024xbf16>, !q.tensor<64x1024xi4, group<8>, f16, zero_points_minus_one, act_order, layout = packed_k> -> tensor<?x64xbf16>
    return %y : tensor<?x64xbf16>
  }
}

// -----

// One module has no neighbours that would join its parts (W3c).
// expected-error @+1 {{--extract: one module is compiled for one rank; tp=1 and dp=1 would work [W3c]}}
module attributes {model.info = {kind = "module"}} {
}

// -----

// What has no sides, is split already, or is no weight of the checkpoint.
// expected-note @+1 {{for the whole model}}
module {
  func.func @w3_no_sides(%x: tensor<?x1024xbf16>, %v: tensor<64x1024xbf16>) {
    %w = model.weight ["a.down_proj"] "qweight" stored [#q.stored<{qweight = tensor<128xi32>}, "">] : tensor<128xi32>
    // expected-error @+1 {{a.down_proj: stores codes whose sides are not known, so they cannot be split; tp=1 works [W3]}}
    %0 = model.linear %x, %w {module = "a.down_proj"} : tensor<?x1024xbf16>, tensor<128xi32> -> tensor<?x64xbf16>
    %s = model.weight ["b.down_proj"] "weight" stored [#q.stored<{weight = tensor<64x2048xbf16>}, "">] {slices = [#q.slice<cols 1024 at affine_map<(d0) -> (d0 * 1024)>>]} : tensor<64x1024xbf16>
    // expected-error @+1 {{b.down_proj: its weight is a part of one rank already; ranks are split once [W3]}}
    %1 = model.linear %x, %s {module = "b.down_proj"} : tensor<?x1024xbf16>, tensor<64x1024xbf16> -> tensor<?x64xbf16>
    // expected-error @+1 {{c.down_proj: its weight is no model.weight, of which a rank could have a part [W3]}}
    %2 = model.linear %x, %v {module = "c.down_proj"} : tensor<?x1024xbf16>, tensor<64x1024xbf16> -> tensor<?x64xbf16>
    return
  }
}

// -----

// Products of two operands in FP4 read whole copies of 32 elements (C11), though
// groups of 16 would divide the part of a rank (W3): 256 over 16 is one of them.
// expected-note @+1 {{for the whole model tp=1, 2, 4 or 8 would work}}
module {
  func.func @w3_fp4(%x: tensor<?x256xbf16>) -> tensor<?x64xbf16> {
    %w = model.weight ["a.down_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xui8>}, "">] : !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
    // expected-error @+1 {{a.down_proj: input dimension 256 over tp=16 is 16 per rank, not a multiple of the block (group=32); tp=1, 2, 4 or 8 would work [W3]}}
    %y = model.linear %x, %w {module = "a.down_proj", method = #q.method<"modelopt_fp4", weight = group<16>, scale = f8E4M3FN, activation = dynamic>, contract = #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = group<16> static, layout = packed>} : tensor<?x256xbf16>, !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed> -> tensor<?x64xbf16>
    return %y : tensor<?x64xbf16>
  }
}
