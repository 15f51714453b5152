// RUN: octet-opt %s -octet-trace-inputs -split-input-file -verify-diagnostics

func.func @p3_rounded(%x: !q.tensor<?x32xf8E4M3FN, per_token, f32>, %w: !q.tensor<32x32xf8E4M3FN, per_channel, f32>) {
  // expected-error @+1 {{a: its input is '!q.tensor<?x32xf8E4M3FN, per_token, f32>', rounded already; inputs are traced before octet-insert-quantization [P3]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : !q.tensor<?x32xf8E4M3FN, per_token, f32>, !q.tensor<32x32xf8E4M3FN, per_channel, f32> -> tensor<?x32xbf16>
  return
}

// -----

q.slot @a [1] : tensor<32x32xbf16>
func.func @materialized(%x: tensor<?x32xbf16>) {
  %w = q.weight @a : tensor<32x32xbf16>
  // expected-error @+1 {{a: its weight is not a model.weight; inputs are traced before octet-materialize-weights}}
  %y = model.linear %x, %w {module = "a"} : tensor<?x32xbf16>, tensor<32x32xbf16> -> tensor<?x32xbf16>
  return
}
