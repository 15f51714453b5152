// RUN: octet-opt %s -octet-plan-buffers -split-input-file -verify-diagnostics

// expected-error @+1 {{the module has no model.settings, which says how many tokens a step has}}
module {
  func.func @step(%b: !model.batch) { return }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 2147483647,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x2147483648xf32>
    // expected-error @+1 {{an activation 'tensor<?x2147483648xf32>' of 2147483647 rows has more bytes than an int64_t holds; a smaller --max-step-tokens would fit}}
    %y = kernel.rowwise "copy" tokens of %b ins(%x : tensor<?x2147483648xf32>) access [row] {
    ^bb0(%r: tensor<2147483648xf32>):
      kernel.yield %r : tensor<2147483648xf32>
    } -> tensor<?x2147483648xf32>
    %z = kernel.rowwise "copy" tokens of %b ins(%y : tensor<?x2147483648xf32>) access [row] {
    ^bb0(%r: tensor<2147483648xf32>):
      kernel.yield %r : tensor<2147483648xf32>
    } -> tensor<?x2147483648xf32>
    model.output %z to %b : tensor<?x2147483648xf32>
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 4,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings} {
  // expected-error @+1 {{@layer calls itself; its frame has no size}}
  func.func private @layer(%b: !model.batch) {
    func.call @layer(%b) : (!model.batch) -> ()
    return
  }
}

// -----

#settings = #model.settings<target = "cpu", numerics = "cpu", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 4,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>

module attributes {model.settings = #settings} {
  func.func @step(%b: !model.batch) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // expected-error @+1 {{carries 'index', expected an activation}}
    %z = scf.for %l = %c0 to %c1 step %c1 iter_args(%h = %c0) -> (index) {
      scf.yield %h : index
    }
    return
  }
}
