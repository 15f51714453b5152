// RUN: octet-opt %s -octet-insert-quantization -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-insert-quantization -octet-insert-quantization -split-input-file | FileCheck %s

// Groups of bk along K, the last one short (P3, W4).
// CHECK-LABEL: func.func @p3_block
//       CHECK:   %[[Q:.+]] = q.quantize %{{.+}} : tensor<?x192xbf16> -> !q.tensor<?x192xf8E4M3FN, block<1x128>, f32>
//       CHECK:   model.linear %[[Q]], %{{.+}} {{.*}} : !q.tensor<?x192xf8E4M3FN, block<1x128>, f32>
func.func @p3_block(%x: tensor<?x192xbf16>, %w: !q.tensor<64x192xf8E4M3FN, block<128x128>, f32>) -> tensor<?x64xbf16> {
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>} : tensor<?x192xbf16>, !q.tensor<64x192xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// One scale a token, and one for the tensor that the checkpoint stores; the
// scale goes with the codes, not with the linear. One element is the smallest.
// CHECK-LABEL: func.func @p3_token_and_static
//  CHECK-SAME:   %[[S:[a-z0-9]+]]: tensor<f32>
//       CHECK:   %[[T:.+]] = q.quantize %{{.+}} : tensor<?x1xbf16> -> !q.tensor<?x1xf8E4M3FN, per_token, f32>
//       CHECK:   %[[Y:.+]] = model.linear %[[T]]
//       CHECK:   %[[Z:.+]] = q.quantize %[[Y]], %[[S]] : tensor<?x1xbf16>, tensor<f32> -> !q.tensor<?x1xf8E4M3FN, per_tensor, f32>
//       CHECK:   model.linear %[[Z]], %{{[a-z0-9]+}} {
func.func @p3_token_and_static(%x: tensor<?x1xbf16>, %w: !q.tensor<1x1xf8E4M3FN, per_channel, f32>, %s: tensor<f32>) -> tensor<?x1xbf16> {
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : tensor<?x1xbf16>, !q.tensor<1x1xf8E4M3FN, per_channel, f32> -> tensor<?x1xbf16>
  %z = model.linear %y, %w input_scale(%s : tensor<f32>) {module = "b", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>} : tensor<?x1xbf16>, !q.tensor<1x1xf8E4M3FN, per_channel, f32> -> tensor<?x1xbf16>
  return %z : tensor<?x1xbf16>
}

// -----

// Linears that want one value alike share its codes; one that wants it
// otherwise, or with another static scale, has its own.
// CHECK-LABEL: func.func @shared
//       CHECK:   %[[A:.+]] = q.quantize %[[X:.+]] : {{.*}} per_token
//       CHECK:   model.linear %[[A]]
//   CHECK-NOT:   q.quantize
//       CHECK:   model.linear %[[A]]
//       CHECK:   %[[B:.+]] = q.quantize %[[X]], %[[S:.+]] : {{.*}} per_tensor
//       CHECK:   model.linear %[[B]]
//       CHECK:   %[[C:.+]] = q.quantize %[[X]], %[[R:.+]] : {{.*}} per_tensor
//       CHECK:   model.linear %[[C]]
func.func @shared(%x: tensor<?x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>, %s: tensor<f32>, %r: tensor<f32>) {
  %0 = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  %1 = model.linear %x, %w {module = "b", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  %2 = model.linear %x, %w input_scale(%s : tensor<f32>) {module = "c", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  %3 = model.linear %x, %w input_scale(%r : tensor<f32>) {module = "d", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  return
}

// -----

// Power-of-two scales where the checkpoint says so, whatever its letter case
// (P3, N4); a static scale is taken as it is.
// CHECK-LABEL: func.func @p3_ue8m0
//       CHECK:   q.quantize %{{[a-z0-9]+}} ue8m0 : tensor<?x8xbf16> -> !q.tensor<?x8xf8E4M3FN, block<1x128>, f32>
//       CHECK:   q.quantize %{{.+}}, %{{[a-z0-9]+}} : tensor<?x8xbf16>, tensor<f32>
module attributes {q.config = #q.config<{quant_method = "fp8", scale_fmt = "UE8M0"}, "config.json: quantization_config">} {
  func.func @p3_ue8m0(%x: tensor<?x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, block<128x128>, f32>, %v: !q.tensor<8x8xf8E4M3FN, per_tensor, f32>, %s: tensor<f32>) {
    %0 = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, block<128x128>, f32> -> tensor<?x8xbf16>
    %1 = model.linear %x, %v input_scale(%s : tensor<f32>) {module = "b", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_tensor, f32> -> tensor<?x8xbf16>
    return
  }
}

// -----

// Weight-only and unquantised linears read the activation as it is (B4); what
// is rounded already stays.
// CHECK-LABEL: func.func @unchanged
//   CHECK-NOT:   q.quantize
//       CHECK:   return
func.func @unchanged(%x: tensor<?x8xbf16>, %p: tensor<8x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>, %q: !q.tensor<?x8xf8E4M3FN, per_token, f32>) {
  %0 = model.linear %x, %p {module = "a", contract = #q.contract<none>} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  %1 = model.linear %x, %w {module = "b", contract = #q.contract<weight = per_channel, scale = f32, activation = none>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  %2 = model.linear %q, %w {module = "c", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : !q.tensor<?x8xf8E4M3FN, per_token, f32>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  return
}

// -----

// A quantised lm_head of the checkpoint is a linear like any other (P16).
// CHECK-LABEL: func.func @p16_lm_head
//       CHECK:   %[[Q:.+]] = q.quantize
//       CHECK:   model.lm_head %[[Q]]
func.func @p16_lm_head(%x: tensor<?x8xbf16>, %w: !q.tensor<32x8xf8E4M3FN, block<128x128>, f32>) -> tensor<?x32xf32> {
  %y = model.lm_head %x, %w {module = "lm_head", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>} : tensor<?x8xbf16>, !q.tensor<32x8xf8E4M3FN, block<128x128>, f32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// A static scale too; it travels with the codes (P3).
// CHECK-LABEL: func.func @p16_static_lm_head
//       CHECK:   %[[Q:.+]] = q.quantize %{{.+}}, %{{.+}} : tensor<?x8xbf16>, tensor<f32> -> !q.tensor<?x8xf8E4M3FN, per_tensor, f32>
//       CHECK:   model.lm_head %[[Q]], %{{[^ ]+}} {
func.func @p16_static_lm_head(%x: tensor<?x8xbf16>, %s: tensor<f32>, %w: !q.tensor<32x8xf8E4M3FN, per_tensor, f32>) -> tensor<?x32xf32> {
  %y = model.lm_head %x, %w input_scale(%s : tensor<f32>) {module = "lm_head", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>} : tensor<?x8xbf16>, !q.tensor<32x8xf8E4M3FN, per_tensor, f32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
