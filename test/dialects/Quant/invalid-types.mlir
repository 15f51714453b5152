// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// !q.tensor
//===----------------------------------------------------------------------===//

// expected-error @+1 {{storage type is 'bf16', expected f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f4E2M1FN, i8 or i4 [N1]}}
func.func private @n1_storage(!q.tensor<64x64xbf16, per_tensor, f32>)

// -----

// expected-error @+1 {{storage type is 'i2', expected f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f4E2M1FN, i8 or i4 [N1]}}
func.func private @n1_packed_storage(!q.tensor<64x64xi2, per_tensor, f32>)

// -----

// expected-error @+1 {{rank is 1, expected 2 (rows, K) or 3 (experts, rows, K) [W1]}}
func.func private @w1_rank_1(!q.tensor<64xf8E4M3FN, block<128x128>, f32>)

// -----

// expected-error @+1 {{rank is 4, expected 2 (rows, K) or 3 (experts, rows, K) [W1]}}
func.func private @w1_rank_4(!q.tensor<1x1x64x64xf8E4M3FN, block<128x128>, f32>)

// -----

// expected-error @+1 {{scale type is 'f64', expected f32, bf16, f16, f8E8M0FNU or f8E4M3FN [W1]}}
func.func private @w1_scale_type(!q.tensor<64x64xf8E4M3FN, per_tensor, f64>)

// -----

// expected-error @+1 {{f8E4M3FN scales are those of NVFP4's f4E2M1FN codes, expected layout = packed or tiled [N7]}}
func.func private @w1_fp8_scale(!q.tensor<64x64xf8E4M3FN, per_tensor, f8E4M3FN>)

// -----

// expected-error @+1 {{block granularity on 'i8', expected an FP8 storage type [W1]}}
func.func private @w1_int8_block(!q.tensor<64x64xi8, block<32x32>, f32>)

// -----

// expected-error @+1 {{block is 0x128, both sides are at least 1 [W1]}}
func.func private @w1_empty_block(!q.tensor<64x64xf8E4M3FN, block<0x128>, f32>)

// -----

// expected-error @+1 {{a block has two sides, this one 3}}
func.func private @block_of_three_sides(!q.tensor<64x64xf8E4M3FN, block<1x2x3>, f32>)

// -----

// expected-error @+1 {{a block has two sides, this one 0}}
func.func private @negative_block(!q.tensor<64x64xf8E4M3FN, block<-1x128>, f32>)

// -----

// expected-error @+1 {{unknown granularity 'per_row', expected per_tensor, per_channel, per_token, block<NxK> or group<K>}}
func.func private @unknown_granularity(!q.tensor<64x64xf8E4M3FN, per_row, f32>)

// -----

// expected-error @+1 {{expected per_tensor, per_channel, per_token, block<NxK> or group<K>}}
func.func private @no_granularity(!q.tensor<64x64xf8E4M3FN, 128, f32>)

// -----

// expected-error @+1 {{dimension 1 is dynamic, only the leading one may be [W1]}}
func.func private @dynamic_k(!q.tensor<64x?xf8E4M3FN, per_token, f32>)

// -----

// expected-error @+1 {{dimension 0 is 0, expected at least 1 [W1]}}
func.func private @no_rows(!q.tensor<0x64xf8E4M3FN, per_channel, f32>)

// -----

// expected-error @+1 {{shards add up to 2560, the matrix has 2624 rows [W5b]}}
func.func private @w5b_sum(!q.tensor<2624x64xf8E4M3FN, block<128x128>, f32, shards = [2048, 512]>)

// -----

// expected-error @+1 {{shard of 0 rows, expected at least 1 [W5b]}}
func.func private @w5b_empty_shard(!q.tensor<64x64xf8E4M3FN, per_tensor, f32, shards = [64, 0]>)

// -----

// expected-error @+1 {{shard of -64 rows, expected at least 1 [W5b]}}
func.func private @w5b_negative_shard(!q.tensor<64x64xf8E4M3FN, per_tensor, f32, shards = [128, -64]>)

// -----

// expected-error @+1 {{shards add up to more than an int64_t [W5b]}}
func.func private @w5b_overflow(!q.tensor<64x64xf8E4M3FN, per_tensor, f32, shards = [9223372036854775807, 65]>)

// -----

// expected-error @+1 {{shards has one entry, a matrix that is not fused has none [W5b]}}
func.func private @w5b_one_shard(!q.tensor<64x64xf8E4M3FN, per_tensor, f32, shards = [64]>)

// -----

// expected-error @+1 {{shards is empty, a matrix that is not fused has none [W5b]}}
func.func private @w5b_no_shard(!q.tensor<64x64xf8E4M3FN, per_tensor, f32, shards = []>)

// -----

// expected-error @+1 {{per_token scales belong to an activation, which has no shards [W5b]}}
func.func private @w5b_per_token(!q.tensor<64x64xf8E4M3FN, per_token, f32, shards = [32, 32]>)

// -----

// expected-error @+1 {{a matrix with shards has a static number of rows [W5b]}}
func.func private @w5b_dynamic(!q.tensor<?x64xf8E4M3FN, per_channel, f32, shards = [32, 32]>)

// -----

// expected-error @+1 {{codes and scales have more bytes than an int64_t holds}}
func.func private @too_many_codes(!q.tensor<9223372036854775807x2xf8E4M3FN, per_tensor, f32>)

// -----

// The codes would fit, with their scales they do not.
// expected-error @+1 {{codes and scales have more bytes than an int64_t holds}}
func.func private @too_many_scales(!q.tensor<9223372036854775807x1xf8E4M3FN, per_channel, f32>)

// -----

// expected-error @+1 {{invalid dimension}}
func.func private @side_too_large(!q.tensor<99999999999999999999x2xf8E4M3FN, per_tensor, f32>)

// -----

// expected-error @+1 {{integer value too large}}
func.func private @shard_too_large(!q.tensor<64x2xf8E4M3FN, per_tensor, f32, shards = [99999999999999999999, 1]>)

// -----

// expected-error @+1 {{unknown 'parts', expected minimums, zero_points or zero_points_minus_one, global = NAME, act_order, shards = [...], layout = NAME, in that order}}
func.func private @not_shards(!q.tensor<64x2xf8E4M3FN, per_tensor, f32, parts = [32, 32]>)

// -----

//===----------------------------------------------------------------------===//
// !q.kv
//===----------------------------------------------------------------------===//

// expected-error @+1 {{page is 0, expected at least 1 [P7]}}
func.func private @p7_page(!q.kv<bf16, page = 0, heads = 2, dim = 64>)

// -----

// expected-error @+1 {{heads is -2, expected at least 1 [P7]}}
func.func private @p7_heads(!q.kv<bf16, page = 64, heads = -2, dim = 64>)

// -----

// expected-error @+1 {{dim is 0, expected at least 1 [P7]}}
func.func private @p7_dim(!q.kv<bf16, page = 64, heads = 2, dim = 0>)

// -----

// expected-error @+1 {{a page has more bytes than an int64_t holds [P7]}}
func.func private @p7_overflow(!q.kv<bf16, page = 4611686018427387904, heads = 2, dim = 64>)

// -----

// expected-error @+2 {{expected one of [f32, bf16, f16, fp8_e4m3, fp8_ds_mla, fp8_indexer] for layout of a KV cache, got: int8}}
// expected-error @+1 {{failed to parse Q_KvType parameter 'layout' which is to be a `::octet::q::KvLayout`}}
func.func private @p7_layout(!q.kv<int8, page = 64, heads = 2, dim = 64>)
