// RUN: octet-opt %s -octet-shard | FileCheck %s
// RUN: octet-opt %s -octet-shard="tp=1 ep=1 dp=1" | FileCheck %s

// One rank holds everything (W3c): nothing is split, nothing is checked, ragged
// blocks included (W3: a module that is not split may be ragged).
// CHECK-LABEL: func.func @one_rank
//       CHECK:   model.linear %{{.+}} : tensor<?x192xbf16>, !q.tensor<576x192xf8E4M3FN, block<128x128>, f32> -> tensor<?x576xbf16>
func.func @one_rank(%x: tensor<?x192xbf16>, %w: !q.tensor<576x192xf8E4M3FN, block<128x128>, f32>) -> tensor<?x576xbf16> {
  %y = model.linear %x, %w {module = "a.down_proj"} : tensor<?x192xbf16>, !q.tensor<576x192xf8E4M3FN, block<128x128>, f32> -> tensor<?x576xbf16>
  return %y : tensor<?x576xbf16>
}
