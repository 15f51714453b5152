// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func private @types
//  CHECK-SAME: !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>
//  CHECK-SAME: !q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 576]>
//  CHECK-SAME: !q.tensor<8x4096x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 2048]>
//  CHECK-SAME: !q.tensor<?x7168xf8E4M3FN, block<1x128>, f32>
//  CHECK-SAME: !q.tensor<64x32xf8E5M2, per_channel, bf16>
//  CHECK-SAME: !q.tensor<64x32xf8E4M3FNUZ, per_tensor, f16>
//  CHECK-SAME: !q.tensor<64x32xi8, per_channel, f32>
//  CHECK-SAME: !q.tensor<?x64xf8E4M3FN, block<1x32>, f8E8M0FNU>
//  CHECK-SAME: !q.kv<fp8_e4m3, page = 64, heads = 8, dim = 128>
func.func private @types(
  !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>,
  !q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 576]>,
  !q.tensor<8x4096x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 2048]>,
  !q.tensor<?x7168xf8E4M3FN, block<1x128>, f32>,
  !q.tensor<64x32xf8E5M2, per_channel, bf16>,
  !q.tensor<64x32xf8E4M3FNUZ, per_tensor, f16>,
  !q.tensor<64x32xi8, per_channel, f32>,
  !q.tensor<?x64xf8E4M3FN, block<1x32>, f8E8M0FNU>,
  !q.kv<fp8_e4m3, page = 64, heads = 8, dim = 128>)

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func private @attributes
//  CHECK-SAME: blocks = #q.granularity<block<128x64>>
//  CHECK-SAME: channel = #q.contract<weight = per_channel, scale = f32, activation = per_token>
//  CHECK-SAME: config = #q.config<{activation_scheme = "dynamic", quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">
//  CHECK-SAME: dynamic = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
//  CHECK-SAME: fp8 = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>
//  CHECK-SAME: none = #q.contract<none>
//  CHECK-SAME: only_weight = #q.contract<weight = block<128x128>, scale = f32, activation = none>
//  CHECK-SAME: plain = #q.method<"unquantized">
//  CHECK-SAME: power = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> ue8m0>
//  CHECK-SAME: static = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>
//  CHECK-SAME: stored = #q.stored<{weight = tensor<384x256xf8E4M3FN>, weight_scale_inv = tensor<3x2xf32>}, "ignored: ignore[0] 'a'">
//  CHECK-SAME: tensor = #q.granularity<per_tensor>
func.func private @attributes() attributes {
  blocks = #q.granularity<block<128x64>>,
  channel = #q.contract<weight = per_channel, scale = f32, activation = per_token>,
  config = #q.config<{activation_scheme = "dynamic", quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">,
  dynamic = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>,
  fp8 = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>,
  none = #q.contract<none>,
  only_weight = #q.contract<weight = block<128x128>, scale = f32, activation = none>,
  plain = #q.method<"unquantized">,
  power = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> ue8m0>,
  static = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>,
  stored = #q.stored<{weight = tensor<384x256xf8E4M3FN>, weight_scale_inv = tensor<3x2xf32>}, "ignored: ignore[0] 'a'">,
  tensor = #q.granularity<per_tensor>
}

//===----------------------------------------------------------------------===//
// Where values are rounded
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @quantize
func.func @quantize(%x: tensor<?x256xbf16>, %s: tensor<f32>, %row: tensor<256xf32>) {
  // CHECK: q.quantize %{{.+}} : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  // CHECK: q.quantize %{{.+}}, %{{.+}} : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  %r = q.quantize %x, %s : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
  // CHECK: q.quantize %{{.+}} ue8m0 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %u = q.quantize %x ue8m0 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  // The last group of a row may be short (W4).
  // CHECK: -> !q.tensor<?x256xf8E4M3FN, block<1x96>, f32>
  %g = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x96>, f32>
  // CHECK: q.quantize %{{.+}} : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, per_token, f32>
  %t = q.quantize %row : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, per_token, f32>
  // CHECK: q.dequantize %{{.+}} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
  %y = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
  return
}

// The scale's type follows from the tensor's (W1, W5, W5b).
// CHECK-LABEL: func.func @w1_scale_shapes
func.func @w1_scale_shapes(
    %a: !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>, %b: !q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 576]>,
    %c: !q.tensor<576x7168xf8E4M3FN, per_channel, bf16>, %d: !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]>,
    %e: !q.tensor<8x600x200xf8E4M3FN, block<128x128>, f32, shards = [300, 300]>, %f: !q.tensor<?x200xf8E4M3FN, block<1x128>, f32>,
    %g: !q.tensor<8x600x200xf8E4M3FN, per_tensor, f32>) {
  // CHECK: tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>
  %0:2 = q.unpack %a : !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32> -> tensor<7168x2048xf8E4M3FN>, tensor<56x16xf32>
  // CHECK: tensor<2624x7168xf8E4M3FN>, tensor<21x56xf32>
  %1:2 = q.unpack %b : !q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 576]> -> tensor<2624x7168xf8E4M3FN>, tensor<21x56xf32>
  // CHECK: tensor<576x7168xf8E4M3FN>, tensor<576x1xbf16>
  %2:2 = q.unpack %c : !q.tensor<576x7168xf8E4M3FN, per_channel, bf16> -> tensor<576x7168xf8E4M3FN>, tensor<576x1xbf16>
  // CHECK: tensor<512x128xf8E4M3FN>, tensor<3xf32>
  %3:2 = q.unpack %d : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]> -> tensor<512x128xf8E4M3FN>, tensor<3xf32>
  // CHECK: tensor<8x600x200xf8E4M3FN>, tensor<8x6x2xf32>
  %4:2 = q.unpack %e : !q.tensor<8x600x200xf8E4M3FN, block<128x128>, f32, shards = [300, 300]> -> tensor<8x600x200xf8E4M3FN>, tensor<8x6x2xf32>
  // CHECK: tensor<?x200xf8E4M3FN>, tensor<?x2xf32>
  %5:2 = q.unpack %f : !q.tensor<?x200xf8E4M3FN, block<1x128>, f32> -> tensor<?x200xf8E4M3FN>, tensor<?x2xf32>
  // CHECK: tensor<8x600x200xf8E4M3FN>, tensor<8x1xf32>
  %6:2 = q.unpack %g : !q.tensor<8x600x200xf8E4M3FN, per_tensor, f32> -> tensor<8x600x200xf8E4M3FN>, tensor<8x1xf32>
  return
}

// CHECK-LABEL: func.func @pack
func.func @pack(%codes: tensor<576x7168xf8E4M3FN>, %scale: tensor<5x56xf32>) {
  // CHECK: q.pack %{{.+}}, %{{.+}} : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !q.tensor<576x7168xf8E4M3FN, block<128x128>, f32>
  %w = q.pack %codes, %scale : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !q.tensor<576x7168xf8E4M3FN, block<128x128>, f32>
  return
}

//===----------------------------------------------------------------------===//
// Slots and the load function
//===----------------------------------------------------------------------===//

// CHECK: q.slot @layers.self_attn.qkv_proj[2] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
q.slot @layers.self_attn.qkv_proj[2] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
// CHECK: q.slot @layers.mlp.down_proj.kind1[3] used [1] : tensor<128x192xbf16>
q.slot @layers.mlp.down_proj.kind1[3] used [1] : tensor<128x192xbf16>
// CHECK: q.slot @norm[1] : tensor<256xbf16>
q.slot @norm[1] : tensor<256xbf16>

// CHECK-LABEL: func.func @weights
func.func @weights(%l: index) {
  // CHECK: q.weight @layers.self_attn.qkv_proj[%{{.+}}] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  %w = q.weight @layers.self_attn.qkv_proj[%l] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  // CHECK: q.weight @norm : tensor<256xbf16>
  %g = q.weight @norm : tensor<256xbf16>
  return
}

// CHECK-LABEL: func.func @load
func.func @load(%l: index) {
  // CHECK: q.load "model.layers.{l}.self_attn.q_proj"[%{{.+}}] weight "weight" scale "weight_scale_inv" : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16>
  %q0 = q.load "model.layers.{l}.self_attn.q_proj"[%l] weight "weight" scale "weight_scale_inv" : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16>
  %k = q.load "model.layers.{l}.self_attn.k_proj"[%l] weight "weight" scale "weight_scale_inv" : !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>
  // CHECK: q.check_scales %{{.+}} : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16>
  q.check_scales %q0 : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16>
  // CHECK: q.convert_scales %{{.+}} : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16> -> !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  %q = q.convert_scales %q0 : !q.tensor<384x256xf8E4M3FN, block<128x128>, bf16> -> !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  // CHECK: q.concat %{{.+}}, %{{.+}}, %{{.+}} : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>, {{.*}} -> !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  %w = q.concat %q, %k, %k : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>, !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>, !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>
      -> !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  // CHECK: q.store %{{.+}}, @layers.self_attn.qkv_proj[%{{.+}}] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  q.store %w, @layers.self_attn.qkv_proj[%l] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
  // CHECK: q.load "model.norm" weight "weight" : tensor<256xbf16>
  %g = q.load "model.norm" weight "weight" : tensor<256xbf16>
  // CHECK: q.store %{{.+}}, @norm : tensor<256xbf16>
  q.store %g, @norm : tensor<256xbf16>
  return
}

// A grid that is stored as [a, 1, b, 1], a scale as [] or [N].
// CHECK-LABEL: func.func @w2_stored_shapes
func.func @w2_stored_shapes() {
  // CHECK: q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 3, 1, 2, 1>} : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  %a = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 3, 1, 2, 1>} : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>
  // CHECK: q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64>} : !q.tensor<384x256xf8E4M3FN, per_tensor, f32>
  %b = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64>} : !q.tensor<384x256xf8E4M3FN, per_tensor, f32>
  // CHECK: q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 384>} : !q.tensor<384x256xf8E4M3FN, per_channel, f32>
  %c = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 384>} : !q.tensor<384x256xf8E4M3FN, per_channel, f32>
  return
}

// CHECK-LABEL: func.func @scales
func.func @scales(%w: !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]>, %a: tensor<f32>, %b: tensor<1xbf16>, %l: index) {
  // CHECK: q.expand_scales %{{.+}} : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]> -> !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]>
  %v = q.expand_scales %w : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]> -> !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]>
  // CHECK: q.max %{{.+}}, %{{.+}} : tensor<f32>, tensor<1xbf16> -> tensor<f32>
  %s = q.max %a, %b : tensor<f32>, tensor<1xbf16> -> tensor<f32>
  // CHECK: q.kv_scales "model.layers.{l}.self_attn"[%{{.+}}] k(%{{.+}} : tensor<f32>) v(%{{.+}} : tensor<1xbf16>) : tensor<f32>, tensor<f32>
  %ks, %vs = q.kv_scales "model.layers.{l}.self_attn"[%l] k(%a : tensor<f32>) v(%b : tensor<1xbf16>) : tensor<f32>, tensor<f32>
  // CHECK: q.kv_scales "model.self_attn" v(%{{.+}} : tensor<f32>) : tensor<f32>, tensor<f32>
  %k1, %v1 = q.kv_scales "model.self_attn" v(%a : tensor<f32>) : tensor<f32>, tensor<f32>
  // CHECK: q.kv_scales "model.self_attn" : tensor<f32>, tensor<f32>
  %k2, %v2 = q.kv_scales "model.self_attn" : tensor<f32>, tensor<f32>
  return
}

// CHECK-LABEL: func.func @plain_concat
func.func @plain_concat(%a: tensor<320x192xbf16>, %b: tensor<64xf32>) {
  // CHECK: q.concat %{{.+}}, %{{.+}} : tensor<320x192xbf16>, tensor<320x192xbf16> -> tensor<640x192xbf16>
  %p = q.concat %a, %a : tensor<320x192xbf16>, tensor<320x192xbf16> -> tensor<640x192xbf16>
  // CHECK: q.concat %{{.+}}, %{{.+}} : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  %c = q.concat %b, %b : tensor<64xf32>, tensor<64xf32> -> tensor<128xf32>
  return
}

// CHECK-LABEL: func.func @kv_cache
func.func @kv_cache(%k: tensor<?x128xbf16>, %slots: tensor<?xi32>, %s: tensor<f32>, %l: index) {
  // CHECK: q.kv_cache[%{{.+}}] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
  %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
  %f = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>
  // CHECK: q.kv_write %{{.+}}, %{{.+}}, %{{.+}} at %{{.+}} : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  q.kv_write %k, %k, %c at %slots : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  // CHECK: q.kv_write %{{.+}}, %{{.+}}, %{{.+}} at %{{.+}} scales(%{{.+}}, %{{.+}} : tensor<f32>, tensor<f32>) : {{.*}}!q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>
  q.kv_write %k, %k, %f at %slots scales(%s, %s : tensor<f32>, tensor<f32>) : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  return
}
