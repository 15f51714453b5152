// RUN: octet-opt %s -octet-select-kernels -split-input-file | FileCheck %s

// MXFP8, INT8 and power-of-two scales of blocks have kernels on the CPU (B6,
// N6b, W11); weights of both beside plain activations too (B4).
// CHECK-LABEL: func.func @contracts
//       CHECK:   kernel.gemm "cpu.mxfp8_gemm" {{.*}} module = "mx"
//       CHECK:   kernel.gemm "cpu.fp8_weight_only_gemm" {{.*}} module = "mx_weight_only"
//       CHECK:   kernel.gemm "cpu.fp8_block_gemm" {{.*}} module = "exponents"
//       CHECK:   kernel.gemm "cpu.int8_gemm" {{.*}} module = "int8"
//       CHECK:   kernel.gemm "cpu.int8_gemm" {{.*}} module = "int8_static"
//       CHECK:   kernel.gemm "cpu.int8_weight_only_gemm" {{.*}} module = "int8_weight_only"
func.func @contracts(%x: tensor<?x256xbf16>, %xm: !q.tensor<?x256xf8E4M3FN, block<1x32>, f32>, %xb: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>,
                     %xi: !q.tensor<?x256xi8, per_token, f32>, %xs: !q.tensor<?x256xi8, per_tensor, f32>, %b: !model.batch) {
  %wm = q.weight @wm : !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>
  %we = q.weight @we : !q.tensor<64x256xf8E4M3FN, block<128x128>, f8E8M0FNU>
  %wi = q.weight @wi : !q.tensor<64x256xi8, per_channel, f32>
  %0 = model.linear %xm, %wm {contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>, module = "mx"} : !q.tensor<?x256xf8E4M3FN, block<1x32>, f32>, !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x64xbf16>
  %1 = model.linear %x, %wm {contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = none>, module = "mx_weight_only"} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x64xbf16>
  %2 = model.linear %xb, %we {contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>, module = "exponents"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<64x256xf8E4M3FN, block<128x128>, f8E8M0FNU> -> tensor<?x64xbf16>
  %3 = model.linear %xi, %wi {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, module = "int8"} : !q.tensor<?x256xi8, per_token, f32>, !q.tensor<64x256xi8, per_channel, f32> -> tensor<?x64xbf16>
  %4 = model.linear %xs, %wi {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_tensor static>, module = "int8_static"} : !q.tensor<?x256xi8, per_tensor, f32>, !q.tensor<64x256xi8, per_channel, f32> -> tensor<?x64xbf16>
  %5 = model.linear %x, %wi {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = none>, module = "int8_weight_only"} : tensor<?x256xbf16>, !q.tensor<64x256xi8, per_channel, f32> -> tensor<?x64xbf16>
  return
}
q.slot @wm[1] : !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>
q.slot @we[1] : !q.tensor<64x256xf8E4M3FN, block<128x128>, f8E8M0FNU>
q.slot @wi[1] : !q.tensor<64x256xi8, per_channel, f32>
