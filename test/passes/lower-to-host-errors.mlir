// RUN: octet-opt %s -octet-lower-to-host -split-input-file -verify-diagnostics

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// expected-error @+1 {{the module has no kernel.arena_bytes; octet-plan-buffers writes it}}
module attributes {model.settings = #settings, model.info = {}} {
}

// -----

// expected-error @+1 {{the program has no function @load; materialize-weights makes it}}
module attributes {kernel.arena_bytes = 0 : i64} {
  func.func @step(%b: !model.batch) { return }
}

// -----

// expected-error @+1 {{the module has no model.settings; import writes both}}
module attributes {kernel.arena_bytes = 0 : i64, model.info = {}} {
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) { return }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  func.func @load(%rank: index) { return }
  // expected-error @+1 {{@layer passes 'tensor<?x8xf32>'; plan-buffers gives such values a place}}
  func.func @layer(%x: tensor<?x8xf32>, %b: !model.batch) { return }
  func.func @step(%b: !model.batch) { return }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  func.func @load(%rank: index) {
    // expected-error @+1 {{w.{l}: the index of a q.load is neither a constant nor of a loop with constant bounds}}
    %0 = q.load "w.{l}"[%rank] weight "weight" : tensor<8xf32>
    return
  }
  func.func @step(%b: !model.batch) { return }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// No code for a function that would be a library call, and none for a row that
// no thread's stack holds.
module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) {
    %x = kernel.place 0 : !kernel.buffer<tensor<?x8xf32>>
    // expected-error @+1 {{tanh: no code for 'math.tanh' in a row}}
    kernel.rowwise "tanh" tokens of %b ins(%x : !kernel.buffer<tensor<?x8xf32>>) access [row] outs(%x : !kernel.buffer<tensor<?x8xf32>>) {
    ^bb0(%r: tensor<8xf32>):
      %0 = math.tanh %r : tensor<8xf32>
      kernel.yield %0 : tensor<8xf32>
    }
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) {
    %x = kernel.place 0 : !kernel.buffer<tensor<?x2000000xf32>>
    %q = kernel.place 0 scales 64 : !kernel.buffer<!q.tensor<?x2000000xf8E4M3FN, per_token, f32>>
    // expected-error @+1 {{huge: a row needs 8000000 bytes of scratch, more than the 4194304 of a thread}}
    kernel.rowwise "huge" tokens of %b ins(%x : !kernel.buffer<tensor<?x2000000xf32>>) access [row] outs(%q : !kernel.buffer<!q.tensor<?x2000000xf8E4M3FN, per_token, f32>>) {
    ^bb0(%r: tensor<2000000xf32>):
      %0 = arith.addf %r, %r : tensor<2000000xf32>
      %1 = q.quantize %0 : tensor<2000000xf32> -> !q.tensor<1x2000000xf8E4M3FN, per_token, f32>
      kernel.yield %1 : !q.tensor<1x2000000xf8E4M3FN, per_token, f32>
    }
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// Before plan-buffers a product has a result and no destination.
module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  q.slot @w[1] : tensor<8x8xf32>
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x8xf32>
    %w = q.weight @w : tensor<8x8xf32>
    // expected-error @+1 {{'kernel.gemm' has a result without a place; octet-plan-buffers gives it one}}
    %y = kernel.gemm "cpu.gemm" %x, %w of %b tokens {module = "m", max_m = array<i64: -1>, variants = ["any"]} : tensor<?x8xf32>, tensor<8x8xf32> -> tensor<?x8xf32>
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

// W10 quantises per channel or per tensor, never in blocks.
module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  q.slot @w[1] : !q.tensor<8x8xf8E4M3FN, block<4x4>, f32>
  func.func @load(%rank: index) {
    %0 = q.load "m" weight "weight" : tensor<8x8xf32>
    // expected-error @+1 {{m: loading quantises per tensor or per channel only [W10]}}
    %1 = q.quantize %0 : tensor<8x8xf32> -> !q.tensor<8x8xf8E4M3FN, block<4x4>, f32>
    q.store %1, @w : !q.tensor<8x8xf8E4M3FN, block<4x4>, f32>
    return
  }
  func.func @step(%b: !model.batch) { return }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings, model.info = {}, kernel.arena_bytes = 0 : i64} {
  q.slot @w[1] : tensor<8xf32>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %0 = q.load "m" weight "weight" : tensor<8xf32>
    %1 = scf.for %l = %c0 to %c1 step %c1 iter_args(%x = %0) -> (tensor<8xf32>) {
      scf.yield %x : tensor<8xf32>
    }
    // expected-error @+1 {{'q.store' reads a value 'tensor<8xf32>' that no operator of the load function made}}
    q.store %1, @w : tensor<8xf32>
    return
  }
  func.func @step(%b: !model.batch) { return }
}
