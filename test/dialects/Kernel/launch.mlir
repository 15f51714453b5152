// RUN: octet-opt %s -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @launch
//       CHECK:   %{{.+}} = kernel.launch "cpu.indexer" "model.indexer"(%{{.+}}, %{{.+}}) of %{{.+}}[%{{.+}}] {module = "i", params = {top_k = 8 : i64}, unwritten} : (tensor<?x256xbf16>, tensor<?x128xbf16>) -> tensor<?x8xi32>
//       CHECK:   kernel.launch "cpu.all_reduce" "model.all_reduce"(%{{.+}}) into(%{{.+}} : !kernel.buffer<tensor<?x256xbf16>>) of %{{.+}} {module = "o", params = {}} : (tensor<?x256xbf16>)
func.func @launch(%b: !model.batch, %l: index, %q: tensor<?x256xbf16>, %k: tensor<?x128xbf16>) {
  %r = kernel.launch "cpu.indexer" "model.indexer"(%q, %k) of %b[%l] {module = "i", params = {top_k = 8 : i64}, unwritten} : (tensor<?x256xbf16>, tensor<?x128xbf16>) -> tensor<?x8xi32>
  %p = kernel.place 0 : !kernel.buffer<tensor<?x256xbf16>>
  kernel.launch "cpu.all_reduce" "model.all_reduce"(%q) into(%p : !kernel.buffer<tensor<?x256xbf16>>) of %b {module = "o", params = {}} : (tensor<?x256xbf16>)
  return
}

// -----

func.func @no_result(%b: !model.batch, %q: tensor<?x256xbf16>) {
  // expected-error @+1 {{'kernel.launch' op has neither results nor destinations, expected one or the other}}
  kernel.launch "cpu.x" "model.x"(%q) of %b {module = "o", params = {}} : (tensor<?x256xbf16>)
  return
}

// -----

// Rotation from a place inside each head on (P6).
// CHECK-LABEL: func.func @rope
//       CHECK:   kernel.rope {{.*}} head_dim 96 interleaved {offset = 64 : i64}
func.func @rope(%b: !model.batch, %x: tensor<?x192xbf16>, %t: tensor<16x32xf32>, %p: tensor<?xi32>) {
  %y = kernel.rowwise "rope" tokens of %b ins(%x, %t : tensor<?x192xbf16>, tensor<16x32xf32>) access [row, indexed] indices(%p : tensor<?xi32>) {
  ^bb0(%r: tensor<192xf32>, %c: tensor<32xf32>):
    %o = kernel.rope %r, %c head_dim 96 interleaved {offset = 64 : i64} : tensor<192xf32>, tensor<32xf32> -> tensor<192xf32>
    %q = kernel.round %o to bf16 : tensor<192xf32>
    kernel.yield %q : tensor<192xf32>
  } -> tensor<?x192xbf16>
  return
}
