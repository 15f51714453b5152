// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard | FileCheck %s

// Experts have one method and one contract for all their matrices, gate and up
// become one matrix an expert whose shards keep their scale rows (W5, W5b).
// The router and the indexer's head weights are nobody's (W13, P9); kv_b_proj
// is a linear inside its attention (W12). The A projections of latent attention
// are one module (C8).
// CHECK-LABEL: func.func @step
//       CHECK:   model.moe_router
//       CHECK:   %[[D:.+]] = model.weight ["m.0.experts.{e}.down_proj"]{{.*}} : !q.tensor<8x256x192xf8E4M3FN, block<128x128>, f32>
//       CHECK:   %[[GU:.+]] = model.weight ["m.0.experts.{e}.gate_proj", "m.0.experts.{e}.up_proj"]{{.*}}{experts = 8 : i64} : !q.tensor<8x384x256xf8E4M3FN, block<128x128>, f32, shards = [192, 192]>
//       CHECK:   model.experts {{.*}}gate_up(%[[GU]] : {{.*}}) down(%[[D]] : {{.*}}) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, {{.*}}method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>
//       CHECK:   model.linear {{.*}}contract = #q.contract<none>, method = #q.method<"unquantized">, module = "m.0.indexer.weights_proj", precise
//       CHECK:   model.weight ["m.0.q_a", "m.0.kv_a"]{{.*}} : !q.tensor<288x256xf8E4M3FN, block<128x128>, f32, shards = [128, 160]>
//       CHECK:   model.linear {{.*}}module = "m.0.fused_qkv_a"
//       CHECK:   model.mla_attention {{.*}}kv_b(%{{.+}} : !q.tensor<512x128xf8E4M3FN, block<128x128>, f32>) {{.*}}contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 0 : index
    %x = model.field input of %b : tensor<?x256xbf16>
    %gw = model.weight ["m.0.gate"] "weight" stored [#q.stored<{weight = tensor<8x256xbf16>}, "">] : tensor<8x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.0.gate"}
      : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %g = model.weight ["m.0.experts.{e}.gate_proj"] "weight" stored [#q.stored<{weight = tensor<192x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x192x256xf8E4M3FN>
    %u = model.weight ["m.0.experts.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<192x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x192x256xf8E4M3FN>
    %d = model.weight ["m.0.experts.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x192xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x256x192xf8E4M3FN>
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x192x256xf8E4M3FN>, tensor<8x192x256xf8E4M3FN>) down(%d : tensor<8x256x192xf8E4M3FN>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "m.0.experts"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    %pw = model.weight ["m.0.indexer.weights_proj"] "weight" stored [#q.stored<{weight = tensor<2x256xbf16>}, "">] : tensor<2x256xbf16>
    %p = model.linear %y, %pw {precise, module = "m.0.indexer.weights_proj"} : tensor<?x256xbf16>, tensor<2x256xbf16> -> tensor<?x2xf32>
    %qw = model.weight ["m.0.q_a"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
    %q = model.linear %y, %qw {fused = "m.0.fused_qkv_a", module = "m.0.q_a"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
    %kw = model.weight ["m.0.kv_a"] "weight" stored [#q.stored<{weight = tensor<160x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] : tensor<160x256xf8E4M3FN>
    %kv = model.linear %y, %kw {fused = "m.0.fused_qkv_a", module = "m.0.kv_a"} : tensor<?x256xbf16>, tensor<160x256xf8E4M3FN> -> tensor<?x160xbf16>
    %c, %r = model.split %kv : tensor<?x160xbf16> -> tensor<?x128xbf16>, tensor<?x32xbf16>
    %bw = model.weight ["m.0.kv_b"] "weight" stored [#q.stored<{weight = tensor<512x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xf32>}, "">] : tensor<512x128xf8E4M3FN>
    %qq = model.field input of %b : tensor<?x384xbf16>
    %o = model.mla_attention %qq, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%bw : tensor<512x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "m.0"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    func.call @use(%p, %q) : (tensor<?x2xf32>, tensor<?x128xbf16>) -> ()
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
  func.func private @use(tensor<?x2xf32>, tensor<?x128xbf16>)
}
