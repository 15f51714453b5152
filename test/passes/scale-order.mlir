// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods | FileCheck %s --check-prefix=METHOD
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels -octet-plan-buffers | FileCheck %s --check-prefix=KERNEL

// Warp-group products of sm_90 read F32 scales along rows (B1, P3). 70 rows of 256
// codes are 17920 bytes; both groups have 72 scales, 70 rounded up to 4, which are
// 576 bytes; the result of 70 x 128 x 2 follows.
// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>
// KERNEL-LABEL: module attributes
//  KERNEL-SAME:   kernel.arena_bytes = 36416
//       KERNEL:   kernel.place 0 scales 17920 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>>
//       KERNEL:   kernel.gemm "sm90.fp8_block_gemm"
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// Block-scaled products of sm_100 take four exponents a word (B1, N4): one word of
// both groups a row, 72 of them in whole lines of 64 bytes.
// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0 ue8m0_packed>
// KERNEL-LABEL: module attributes
//       KERNEL:   kernel.place 0 scales 17920 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f8E8M0FNU, layout = ue8m0_packed>>
//       KERNEL:   kernel.place 18240 : !kernel
//       KERNEL:   kernel.gemm "sm100.fp8_block_gemm"
module attributes {model.settings = #model.settings<target = "sm_100f", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// The CPU reads rows, whichever target's numbers it follows (B1).
// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
// KERNEL-LABEL: module attributes
//       KERNEL:   !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
//       KERNEL:   kernel.gemm "cpu.fp8_block_gemm"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// What bulk copies do not move takes the generic kernel and scales in rows (B2): K
// of 200 + 4, and blocks of 64. So does mma.sync on sm_89 (B1).
// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>
// KERNEL-LABEL: module attributes
//       KERNEL:   !kernel.buffer<!q.tensor<?x204xf8E4M3FN, block<1x128>, f32>>
//       KERNEL:   kernel.gemm "cuda.fp8_generic_gemm"
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x204xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x204xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x204xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x204xbf16>, tensor<128x204xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<64x64>, scale = f32, activation = block<1x64>>
// KERNEL-LABEL: module attributes
//       KERNEL:   kernel.gemm "cuda.fp8_generic_gemm"
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [64, 64]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<2x4xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// METHOD-LABEL: func.func @step
//       METHOD:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
// KERNEL-LABEL: module attributes
//       KERNEL:   kernel.gemm "mma.fp8_block_gemm"
module attributes {model.settings = #model.settings<target = "sm_89", numerics = "sm_89", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 70, max_seqs = 1, max_step_tokens = 70, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}
