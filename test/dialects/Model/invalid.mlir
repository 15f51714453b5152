// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// model.settings
//===----------------------------------------------------------------------===//

// expected-error @+1 {{target is 'gpu', expected cpu or sm_NN [C9]}}
#s = #model.settings<target = "gpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{dtype is 'f64', expected f32, bf16 or f16 [C9]}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = f64, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{max_context is 0, expected 1 to 2147483647}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 0, max_seqs = 8, max_step_tokens = 2048, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{max_step_tokens is 2147483648, expected 1 to 2147483647}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 1, max_seqs = 8, max_step_tokens = 2147483648, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{activation_quant is 'on', expected auto or off}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 1, max_seqs = 8, max_step_tokens = 2048, activation_quant = "on", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{kv_cache is 'int8', expected auto, f32, bf16, f16 or fp8_e4m3 [P7b]}}
#s = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 1, max_seqs = 8, max_step_tokens = 2048, activation_quant = "auto", kv_cache = "int8", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// -----

// expected-error @+1 {{'builtin.module' op model.settings is "cpu", expected #model.settings}}
module attributes {model.settings = "cpu"} {}

// -----

// expected-error @+1 {{'func.func' op has model.settings, which belongs to the module}}
func.func private @f() attributes {model.settings = "cpu"}

// -----

//===----------------------------------------------------------------------===//
// model.field, model.weight, model.rope_table
//===----------------------------------------------------------------------===//

func.func @field_ids(%b: !model.batch) {
  // expected-error @+1 {{'model.field' op ids is 'tensor<?xi64>', expected one i32 a row}}
  %x = model.field ids of %b : tensor<?xi64>
  return
}

// -----

func.func @field_input(%b: !model.batch) {
  // expected-error @+1 {{'model.field' op input is 'tensor<?xf32>', expected rows [rows, width] in f32, bf16 or f16}}
  %x = model.field input of %b : tensor<?xf32>
  return
}

// -----

func.func @c8_stored_entries() {
  // expected-error @+1 {{'model.weight' op has 2 paths and 1 stored entries [C8]}}
  %w = model.weight ["a", "b"] "weight" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<8x4xbf16>
  return
}

// -----

func.func @no_path() {
  // expected-error @+1 {{'model.weight' op has no module path}}
  %w = model.weight [] "weight" stored [] : tensor<8x4xbf16>
  return
}

// -----

func.func @no_name() {
  // expected-error @+1 {{'model.weight' op the name of the tensor is empty}}
  %w = model.weight ["a"] "" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<4x4xbf16>
  return
}

// -----

func.func @layer_without_index() {
  // expected-error @+1 {{'model.weight' op path 'model.layers.{l}.a' has a {l} and no index}}
  %w = model.weight ["model.layers.{l}.a"] "weight" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<4x4xbf16>
  return
}

// -----

func.func @w5b_shards_of_paths() {
  // expected-error @+1 {{'model.weight' op result is '!q.tensor<8x4xf8E4M3FN, per_tensor, f32>' with 1 shards, there are 2 paths [W5b]}}
  %w = model.weight ["a", "b"] "weight" stored [#q.stored<{weight = tensor<4x4xf8E4M3FN>}, "">, #q.stored<{weight = tensor<4x4xf8E4M3FN>}, "">] : !q.tensor<8x4xf8E4M3FN, per_tensor, f32>
  return
}

// -----

func.func @c13_stored_k() {
  // expected-error @+1 {{'model.weight' op result is 'tensor<4x8xbf16>', 'a' stores 'tensor<4x4xbf16>' [C13]}}
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<4x8xbf16>
  return
}

// -----

func.func @c13_stored_rows() {
  // expected-error @+1 {{'model.weight' op result has 9 rows, the checkpoint stores 8 [C13]}}
  %w = model.weight ["a", "b"] "weight" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">, #q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<9x4xbf16>
  return
}

// -----

func.func @c13_stored_dtype() {
  // expected-error @+1 {{'model.weight' op result is 'tensor<4x4xf16>', 'a' stores 'tensor<4x4xbf16>' [C13]}}
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<4x4xbf16>}, "">] : tensor<4x4xf16>
  return
}

// -----

func.func @c13_stored_shard() {
  // expected-error @+1 {{'model.weight' op shard 0 has 2 rows, 'a' stores 'tensor<4x4xf8E4M3FN>' [C13]}}
  %w = model.weight ["a", "b"] "weight" stored [#q.stored<{weight = tensor<4x4xf8E4M3FN>}, "">, #q.stored<{weight = tensor<4x4xf8E4M3FN>}, "">] : !q.tensor<8x4xf8E4M3FN, per_tensor, f32, shards = [2, 6]>
  return
}

// -----

func.func @c15_no_frequencies() {
  // expected-error @+1 {{'model.rope_table' op has no inverse frequencies}}
  %t = model.rope_table {inv_freq = array<f32>, scale = 1.0 : f32} : tensor<16x4xf32>
  return
}

// -----

func.func @p6_table_width() {
  // expected-error @+1 {{'model.rope_table' op result is 'tensor<16x3xf32>', expected [positions, 4] in f32: 2 cosines and sines a position [P6]}}
  %t = model.rope_table {inv_freq = array<f32: 1.0, 0.5>, scale = 1.0 : f32} : tensor<16x3xf32>
  return
}

// -----

func.func @c15_frequency() {
  // expected-error @+1 {{'model.rope_table' op inverse frequency -0.5 is not positive and finite [C15]}}
  %t = model.rope_table {inv_freq = array<f32: 1.0, -0.5>, scale = 1.0 : f32} : tensor<16x4xf32>
  return
}

// -----

func.func @c15_scale() {
  // expected-error @+1 {{'model.rope_table' op scale 0 is not positive and finite [C15]}}
  %t = model.rope_table {inv_freq = array<f32: 1.0, 0.5>, scale = 0.0 : f32} : tensor<16x4xf32>
  return
}

// -----

//===----------------------------------------------------------------------===//
// model.embedding, model.rms_norm
//===----------------------------------------------------------------------===//

func.func @p1_quantised_table(%ids: tensor<?xi32>, %w: tensor<256x64xf8E4M3FN>) {
  // expected-error @+1 {{'model.embedding' op table is 'tensor<256x64xf8E4M3FN>', expected a matrix in f32, bf16 or f16, or as a GGUF file packs it: an embedding is never quantised [P1]}}
  %h = model.embedding %ids, %w : tensor<?xi32>, tensor<256x64xf8E4M3FN> -> tensor<?x64xbf16>
  return
}

// -----

func.func @embedding_width(%ids: tensor<?xi32>, %w: tensor<256x64xbf16>) {
  // expected-error @+1 {{'model.embedding' op rows of the table have 64 values, the result has 32}}
  %h = model.embedding %ids, %w : tensor<?xi32>, tensor<256x64xbf16> -> tensor<?x32xbf16>
  return
}

// -----

func.func @embedding_rows(%ids: tensor<?xi32>, %w: tensor<256x64xbf16>) {
  // expected-error @+1 {{'model.embedding' op result has 3 rows, ids has ?}}
  %h = model.embedding %ids, %w : tensor<?xi32>, tensor<256x64xbf16> -> tensor<3x64xbf16>
  return
}

// -----

func.func @norm_result(%x: tensor<?x384xbf16>, %w: tensor<384xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op result is 'tensor<?x384xf32>', expected 'tensor<?x384xbf16>'}}
  %y = model.rms_norm %x, %w {eps = 0.1 : f32, module = "a"} : tensor<?x384xbf16>, tensor<384xbf16> -> tensor<?x384xf32>
  return
}

// -----

func.func @norm_heads(%x: tensor<?x384xbf16>, %w: tensor<64xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op row of 384 values does not divide into 5 heads}}
  %y = model.rms_norm %x, %w {eps = 0.1 : f32, heads = 5 : i64, module = "a"} : tensor<?x384xbf16>, tensor<64xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @norm_negative_heads(%x: tensor<?x384xbf16>, %w: tensor<64xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op heads is -6, expected at least 1}}
  %y = model.rms_norm %x, %w {eps = 0.1 : f32, heads = -6 : i64, module = "a"} : tensor<?x384xbf16>, tensor<64xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p5_norm_weight(%x: tensor<?x384xbf16>, %w: tensor<128xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op weight is 'tensor<128xbf16>', expected 64 values in f32, bf16 or f16 [P5]}}
  %y = model.rms_norm %x, %w {eps = 0.1 : f32, heads = 6 : i64, module = "a"} : tensor<?x384xbf16>, tensor<128xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @norm_eps(%x: tensor<?x384xbf16>, %w: tensor<384xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op eps -1 is not finite and at least 0}}
  %y = model.rms_norm %x, %w {eps = -1.0 : f32, module = "a"} : tensor<?x384xbf16>, tensor<384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @no_module(%x: tensor<?x384xbf16>, %w: tensor<384xbf16>) {
  // expected-error @+1 {{'model.rms_norm' op the module path is empty}}
  %y = model.rms_norm %x, %w {eps = 0.1 : f32, module = ""} : tensor<?x384xbf16>, tensor<384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// model.linear, model.lm_head
//===----------------------------------------------------------------------===//

func.func @p4_k(%x: tensor<?x384xbf16>, %w: tensor<256x320xbf16>) {
  // expected-error @+1 {{'model.linear' op input has K = 384, the weight has 320 [P4]}}
  %y = model.linear %x, %w {module = "a"} : tensor<?x384xbf16>, tensor<256x320xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p4_n(%x: tensor<?x384xbf16>, %w: tensor<256x384xbf16>) {
  // expected-error @+1 {{'model.linear' op result has N = 384, the weight has 256 [P4]}}
  %y = model.linear %x, %w {module = "a"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @linear_rows(%x: tensor<?x384xbf16>, %w: tensor<256x384xbf16>) {
  // expected-error @+1 {{'model.linear' op input has ? rows, result has 4}}
  %y = model.linear %x, %w {module = "a"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<4x256xbf16>
  return
}

// -----

func.func @linear_experts(%x: tensor<?x384xbf16>, %w: tensor<8x256x384xbf16>) {
  // expected-error @+1 {{'model.linear' op weight is 'tensor<8x256x384xbf16>', expected a static matrix [N, K]}}
  %y = model.linear %x, %w {module = "a"} : tensor<?x384xbf16>, tensor<8x256x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @n6_bias(%x: tensor<?x384xbf16>, %w: tensor<256x384xbf16>, %b: tensor<128xbf16>) {
  // expected-error @+1 {{'model.linear' op bias is 'tensor<128xbf16>', expected 256 values in f32, bf16 or f16 [N6]}}
  %y = model.linear %x, %w bias(%b : tensor<128xbf16>) {module = "a"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b3_other_weight(%x: tensor<?x256xbf16>, %w: !q.tensor<256x256xf8E4M3FN, block<64x64>, f32>) {
  // expected-error @+1 {{'model.linear' op weight is '!q.tensor<256x256xf8E4M3FN, block<64x64>, f32>', which neither the method nor the contract describes [B3]}}
  %y = model.linear %x, %w {module = "a", method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>, contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
      : tensor<?x256xbf16>, !q.tensor<256x256xf8E4M3FN, block<64x64>, f32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b3_plain_weight(%x: tensor<?x256xbf16>, %w: tensor<256x256xbf16>) {
  // expected-error @+1 {{'model.linear' op weight is 'tensor<256x256xbf16>', the contract's is quantised [B3]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : tensor<?x256xbf16>, tensor<256x256xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p4_plain_weight(%x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %w: tensor<256x256xbf16>) {
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E4M3FN, per_token, f32>', the weight 'tensor<256x256xbf16>' is not quantised [P4]}}
  %y = model.linear %x, %w {module = "a"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, tensor<256x256xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b4_weight_only(%x: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %w: !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>', the contract has no quantised activation [B4]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>}
      : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p3_activation(%x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %w: !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E4M3FN, per_token, f32>', the contract is #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>> [P3]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
      : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<256x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @n1_activation(%x: !q.tensor<?x256xf8E5M2, per_token, f32>, %w: !q.tensor<256x256xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E5M2, per_token, f32>', expected f8E4M3FN, f4E2M1FN or i8 codes [N1]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>}
      : !q.tensor<?x256xf8E5M2, per_token, f32>, !q.tensor<256x256xf8E4M3FN, per_channel, f32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b4_input_scale(%x: tensor<?x256xbf16>, %w: !q.tensor<256x256xf8E4M3FN, per_channel, f32>, %s: tensor<f32>) {
  // expected-error @+1 {{'model.linear' op has an input_scale, the contract is #q.contract<weight = per_channel, scale = f32, activation = none> [B4]}}
  %y = model.linear %x, %w input_scale(%s : tensor<f32>) {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = none>}
      : tensor<?x256xbf16>, !q.tensor<256x256xf8E4M3FN, per_channel, f32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @w9_input_scale(%x: tensor<?x256xbf16>, %w: tensor<256x256xbf16>, %s: tensor<2xf32>) {
  // expected-error @+1 {{'model.linear' op input_scale is 'tensor<2xf32>', expected one float [W9]}}
  %y = model.linear %x, %w input_scale(%s : tensor<2xf32>) {module = "a"} : tensor<?x256xbf16>, tensor<256x256xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @b4_lm_head_input_scale(%x: tensor<?x256xbf16>, %w: !q.tensor<512x256xf8E4M3FN, per_channel, f32>, %s: tensor<f32>) {
  // expected-error @+1 {{'model.lm_head' op has an input_scale, the contract is #q.contract<weight = per_channel, scale = f32, activation = per_token> [B4]}}
  %y = model.lm_head %x, %w input_scale(%s : tensor<f32>) {module = "lm_head", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>}
      : tensor<?x256xbf16>, !q.tensor<512x256xf8E4M3FN, per_channel, f32> -> tensor<?x512xf32>
  return
}

// -----

func.func @p16_logits(%x: tensor<?x256xbf16>, %w: tensor<512x256xbf16>) {
  // expected-error @+1 {{'model.lm_head' op result is 'tensor<?x512xbf16>', logits are f32 [P16]}}
  %y = model.lm_head %x, %w {module = "lm_head"} : tensor<?x256xbf16>, tensor<512x256xbf16> -> tensor<?x512xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// model.split, model.rope, model.select_rows
//===----------------------------------------------------------------------===//

func.func @c8_split(%x: tensor<?x640xbf16>) {
  // expected-error @+1 {{'model.split' op results have 512 columns, the input has 640 [C8]}}
  %a, %b = model.split %x : tensor<?x640xbf16> -> tensor<?x384xbf16>, tensor<?x128xbf16>
  return
}

// -----

func.func @split_dtype(%x: tensor<?x640xbf16>) {
  // expected-error @+1 {{'model.split' op result 1 is 'tensor<?x256xf32>', the input is 'tensor<?x640xbf16>'}}
  %a, %b = model.split %x : tensor<?x640xbf16> -> tensor<?x384xbf16>, tensor<?x256xf32>
  return
}

// -----

func.func @p6_rope_heads(%x: tensor<?x384xbf16>, %t: tensor<16x64xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{'model.rope' op row of 384 values does not divide into heads of 100}}
  %y = model.rope %x, %t at %p {head_dim = 100 : i64, module = "a"} : tensor<?x384xbf16>, tensor<16x64xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p6_rope_width(%x: tensor<?x384xbf16>, %t: tensor<16x128xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{'model.rope' op table rotates 128 values of a head, expected an even number of at most 64 [P6]}}
  %y = model.rope %x, %t at %p {head_dim = 64 : i64, module = "a"} : tensor<?x384xbf16>, tensor<16x128xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p6_rope_table(%x: tensor<?x384xbf16>, %t: tensor<16x64xbf16>, %p: tensor<?xi32>) {
  // expected-error @+1 {{'model.rope' op table is 'tensor<16x64xbf16>', expected [positions, 2 * half] in f32 [P6]}}
  %y = model.rope %x, %t at %p {head_dim = 64 : i64, module = "a"} : tensor<?x384xbf16>, tensor<16x64xbf16>, tensor<?xi32> -> tensor<?x384xbf16>
  return
}

// -----

func.func @select_rows(%x: tensor<?x384xbf16>, %r: tensor<?xi32>) {
  // expected-error @+1 {{'model.select_rows' op result is 'tensor<?x256xbf16>', its rows are not those of 'tensor<?x384xbf16>'}}
  %y = model.select_rows %x, %r : tensor<?x384xbf16>, tensor<?xi32> -> tensor<?x256xbf16>
  return
}

// -----

//===----------------------------------------------------------------------===//
// model.attention
//===----------------------------------------------------------------------===//

func.func @w3b_heads(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x256xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op 6 query heads do not share 4 key heads evenly [W3b]}}
  %y = model.attention %q, %k : tensor<?x256xbf16>, v %k : tensor<?x256xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 4 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p11_q(%b: !model.batch, %q: tensor<?x320xbf16>, %k: tensor<?x128xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op q is 'tensor<?x320xbf16>', expected 6 heads of 64 [P11]}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x320xbf16> -> tensor<?x320xbf16>
  return
}

// -----

func.func @p11_v(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %v: tensor<?x64xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op v is 'tensor<?x64xbf16>', expected 2 heads of 64 [P11]}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %v : tensor<?x64xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @only_k(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op has only one of k and v}}
  %y = model.attention %q, %k : tensor<?x128xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7_nothing_to_read(%b: !model.batch, %q: tensor<?x384xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op has neither k, v nor a cache, expected one or the other [P7]}}
  %y = model.attention %q of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7_both(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'model.attention' op has k, v and a cache, expected one or the other [P7]}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> cache(%c : !q.kv<bf16, page = 64, heads = 2, dim = 64>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7_cache(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 4, dim = 32>, %l: index) {
  // expected-error @+1 {{'model.attention' op reads 2 heads of 64, the cache is '!q.kv<bf16, page = 64, heads = 4, dim = 32>' [P7]}}
  %y = model.attention %q cache(%c : !q.kv<bf16, page = 64, heads = 4, dim = 32>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p7a_no_scales(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %l: index) {
  // expected-error @+1 {{'model.attention' op the cache is '!q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>', expected scales of k and v [P7a]}}
  %y = model.attention %q cache(%c : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @window(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op window is -1, expected 0 (all keys) or more}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, window = -1 : i64, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @huge_heads(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op q is 'tensor<?x384xbf16>', expected 9223372036854775807 heads of 64 [P11]}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> of %b[%l]
      {q_heads = 9223372036854775807 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}
