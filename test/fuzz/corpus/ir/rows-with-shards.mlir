// FLAGS: --octet-lower-to-host
func.func @destination_type(%b: !model.batch, %x: tensor<?x64xbf16>) {
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
  return
}
