// FLAGS: --octet-verify-precision-policy
module {
  q.slot @layers.norm [2147483648] : tensor<8xbf16>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %0 = q.load "model.layers.{l}.norm"[%c0] weight "weight" : tensor<8xbf16>
    q.store %0, @layers.norm[%c0] : tensor<8xbf16>
    scf.for %l = %c2 to %c4 step %c1 {
      %1 = q.load "model.layers.{l}.norm"[%l] weight "weight" : tensor<8xbf16>
      q.store %1, @layers.norm[%l] : tensor<8xbf16>
    }
    return
  }
}