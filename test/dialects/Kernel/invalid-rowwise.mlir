// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// kernel.rowwise: operands
//===----------------------------------------------------------------------===//

func.func @access_count(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op has 1 inputs and 2 ways to read them}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row, uniform] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @unknown_access(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{unknown access 'column', expected row, uniform or indexed}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [column] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @uniform_matrix(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op input 0 is 'tensor<?x64xbf16>', read as uniform; expected a static vector in f32, bf16 or f16}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [uniform] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @row_vector(%b: !model.batch, %x: tensor<64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op input 0 is 'tensor<64xbf16>', read as row; expected rows [rows, K] in f32, bf16 or f16}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @row_of_codes(%b: !model.batch, %x: !q.tensor<?x64xf8E4M3FN, per_token, f32>) {
  // expected-error @+1 {{'kernel.rowwise' op input 0 is '!q.tensor<?x64xf8E4M3FN, per_token, f32>', read as row; expected rows [rows, K] in f32, bf16 or f16}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : !q.tensor<?x64xf8E4M3FN, per_token, f32>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @indices_missing(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op has 1 indexed inputs and 0 indices}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [indexed] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @index_type(%b: !model.batch, %x: tensor<?x64xbf16>, %i: tensor<?xi64>) {
  // expected-error @+1 {{'kernel.rowwise' op index 0 is 'tensor<?xi64>', expected one i32 a row}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [indexed] indices(%i : tensor<?xi64>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @results_and_outs(%b: !model.batch, %x: tensor<?x64xbf16>) {
  %p = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
  // expected-error @+1 {{'kernel.rowwise' op has results and destinations, expected one or the other}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] outs(%p : !kernel.buffer<tensor<?x64xbf16>>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @writes_nothing(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op writes nothing}}
  kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield
  }
  return
}

// -----

func.func @p7a_slots(%b: !model.batch, %x: tensor<?x64xbf16>, %c: !q.kv<bf16, page = 64, heads = 1, dim = 64>, %s: tensor<?xf32>) {
  // expected-error @+1 {{'kernel.rowwise' op slots is 'tensor<?xf32>', expected one i32 a row [P7a]}}
  kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] cache(%c, %s : !q.kv<bf16, page = 64, heads = 1, dim = 64>, tensor<?xf32>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r, %r : tensor<64xf32>, tensor<64xf32>
  }
  return
}

// -----

func.func @p7a_cache_alone(%b: !model.batch, %x: tensor<?x64xbf16>, %c: !q.kv<bf16, page = 64, heads = 1, dim = 64>) {
  // expected-error @+1 {{expected cache(%cache, %slots : !q.kv<…>, tensor<?xi32>)}}
  kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] cache(%c : !q.kv<bf16, page = 64, heads = 1, dim = 64>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r, %r : tensor<64xf32>, tensor<64xf32>
  }
  return
}

// -----

//===----------------------------------------------------------------------===//
// kernel.rowwise: the region
//===----------------------------------------------------------------------===//

func.func @argument_count(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op has 1 inputs, its region has 2 arguments}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>, %s: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @argument_type(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op argument 0 is 'tensor<64xbf16>', its operand 'tensor<?x64xbf16>' implies 'tensor<64xf32>'}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xbf16>):
    kernel.yield %r : tensor<64xbf16>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @argument_of_scalar(%b: !model.batch, %x: tensor<bf16>) {
  // expected-error @+1 {{'kernel.rowwise' op argument 0 is 'tensor<f32>', its operand 'tensor<bf16>' implies 'tensor<1xf32>'}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<bf16>) access [uniform] {
  ^bb0(%r: tensor<f32>):
    kernel.yield %r : tensor<f32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @n9_foreign_operator(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op holds 'tensor.dim', expected arith, math, row operators of kernel or q.quantize [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %c = arith.constant 0 : index
    %d = tensor.dim %r, %c : tensor<64xf32>
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @n9_truncation(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op holds 'arith.truncf' with a result 'tensor<64xbf16>'; values of a row are f32, kernel.round rounds them [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %t = arith.truncf %r : tensor<64xf32> to tensor<64xbf16>
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @yield_count(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields 2 values, has 1 destinations}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r, %r : tensor<64xf32>, tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @yield_width(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields 'tensor<64xf32>' to destination 0 'tensor<?x32xbf16>'}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x32xbf16>
  return
}

// -----

func.func @n9_not_rounded(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields a row that was not rounded to destination 0 'tensor<?x64xbf16>', expected kernel.round to 'bf16' [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %s = arith.addf %r, %r : tensor<64xf32>
    kernel.yield %s : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @n9_rounded_to_another(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields a row that was not rounded to destination 0 'tensor<?x64xbf16>', expected kernel.round to 'bf16' [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %a = arith.addf %r, %r : tensor<64xf32>
    %s = kernel.round %a to f16 : tensor<64xf32>
    kernel.yield %s : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @n9_rope_after_round(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields a row that was not rounded to destination 0 'tensor<?x64xbf16>', expected kernel.round to 'bf16' [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %a = kernel.rope %r, %r head_dim 64 : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
    kernel.yield %a : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}

// -----

func.func @p3_codes(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields '!q.tensor<1x64xf8E4M3FN, per_token, f32>' to destination 0 '!q.tensor<?x64xf8E4M3FN, block<1x32>, f32>' [P3]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %q = q.quantize %r : tensor<64xf32> -> !q.tensor<1x64xf8E4M3FN, per_token, f32>
    kernel.yield %q : !q.tensor<1x64xf8E4M3FN, per_token, f32>
  } -> !q.tensor<?x64xf8E4M3FN, block<1x32>, f32>
  return
}

// -----

func.func @destination_type(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op destination 0 is 'tensor<?x64xi32>', expected rows in f32, bf16 or f16, or quantised rows}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r : tensor<64xf32>
  } -> tensor<?x64xi32>
  return
}

// -----

func.func @p7a_cache_rows(%b: !model.batch, %x: tensor<?x64xbf16>, %c: !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>, %s: tensor<?xi32>) {
  // expected-error @+1 {{'kernel.rowwise' op yields 'tensor<64xf32>' to the cache's keys '!q.tensor<?x64xf8E4M3FN, per_tensor, f32>' [P3]}}
  kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] cache(%c, %s : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 64>, tensor<?xi32>) {
  ^bb0(%r: tensor<64xf32>):
    kernel.yield %r, %r : tensor<64xf32>, tensor<64xf32>
  }
  return
}

// -----

func.func @n9_cache_not_rounded(%b: !model.batch, %x: tensor<?x64xbf16>, %c: !q.kv<bf16, page = 64, heads = 1, dim = 64>, %s: tensor<?xi32>) {
  // expected-error @+1 {{'kernel.rowwise' op yields a row that was not rounded to the cache's values 'tensor<?x64xbf16>', expected kernel.round to 'bf16' [N9]}}
  kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] cache(%c, %s : !q.kv<bf16, page = 64, heads = 1, dim = 64>, tensor<?xi32>) {
  ^bb0(%r: tensor<64xf32>):
    %a = arith.addf %r, %r : tensor<64xf32>
    kernel.yield %r, %a : tensor<64xf32>, tensor<64xf32>
  }
  return
}

// -----

// The value uses itself: an error of dominance, and no endless search for a round.
func.func @cycle(%b: !model.batch, %x: tensor<?x64xbf16>) {
  // expected-error @+1 {{'kernel.rowwise' op yields a row that was not rounded to destination 0 'tensor<?x64xbf16>', expected kernel.round to 'bf16' [N9]}}
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %a = kernel.slice %a at 0 : tensor<64xf32> -> tensor<64xf32>
    kernel.yield %a : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return
}
