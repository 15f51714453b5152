// FLAGS: 
q.slot @up[2] : !q.tensor<128x64x256xf8E4M3FN, block<128x128>, f32>
q.slot @scale[2] : tensor<8xf32>
func.func @load(%l: index, %e: index, %s: tensor<f32>) {
  %w = q.load "m.{l}.{e}.up"[%l] expert(%e) weight "weight" scale "weight_scale_inv" : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  q.store %w, @dynamic_k[%l] expert(%e) : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  q.store %s, @scale[%l] expert(%e) : tensor<f32>
  return
}
