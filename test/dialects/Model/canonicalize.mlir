// RUN: octet-opt %s -canonicalize -cse | FileCheck %s

// Operators without effects go when nobody reads them; equal ones are one.
// CHECK-LABEL: func.func @unused
//  CHECK-NEXT:   return
func.func @unused(%x: tensor<?x256xbf16>, %w: tensor<256x256xbf16>) {
  %y = model.linear %x, %w {module = "a"} : tensor<?x256xbf16>, tensor<256x256xbf16> -> tensor<?x256xbf16>
  %z = model.add %y, %x : tensor<?x256xbf16>
  return
}

// CHECK-LABEL: func.func @equal_fields
//       CHECK:   %[[P:.+]] = model.field positions
//   CHECK-NOT:   model.field
//       CHECK:   return %[[P]], %[[P]]
func.func @equal_fields(%b: !model.batch) -> (tensor<?xi32>, tensor<?xi32>) {
  %p = model.field positions of %b : tensor<?xi32>
  %q = model.field positions of %b : tensor<?xi32>
  return %p, %q : tensor<?xi32>, tensor<?xi32>
}

// Attention writes its cache, trace and output are seen: they stay.
// CHECK-LABEL: func.func @effects
//       CHECK:   model.attention
//       CHECK:   model.trace
//       CHECK:   model.output
func.func @effects(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %x: tensor<?x384xf32>, %l: index) {
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  model.trace "hidden"[%l] %q : tensor<?x384xbf16>
  model.output %x to %b : tensor<?x384xf32>
  return
}
