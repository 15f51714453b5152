// RUN: octet-opt %s -split-input-file -verify-diagnostics

//===----------------------------------------------------------------------===//
// #q.stored
//===----------------------------------------------------------------------===//

// expected-error @+1 {{'weight' is 1 : i64, expected a tensor type}}
#a = #q.stored<{weight = 1}, "">

// -----

// expected-error @+1 {{'weight' is f32, expected a tensor type}}
#a = #q.stored<{weight = f32}, "">

// -----

// expected-error @+1 {{'weight' is tensor<?x2xf32>, a stored tensor has a static shape}}
#a = #q.stored<{weight = tensor<?x2xf32>}, "">

// -----

//===----------------------------------------------------------------------===//
// #q.method
//===----------------------------------------------------------------------===//

// expected-error @+1 {{a method has a name [C2]}}
#a = #q.method<"">

// -----

// expected-error @+1 {{a block-quantised weight needs a dynamic activation scheme, not static [C5]}}
#a = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = static>

// -----

// expected-error @+1 {{a weight's scales are per_tensor, per_channel, block or group, not per_token [W1]}}
#a = #q.method<"fp8", weight = per_token, scale = f32, activation = dynamic>

// -----

// expected-error @+1 {{scale type is 'i32', expected f32, bf16, f16 or f8E8M0FNU [W1]}}
#a = #q.method<"fp8", weight = per_tensor, scale = i32, activation = dynamic>

// -----

// expected-error @+1 {{an unquantized method has a quantised weight [C11]}}
#a = #q.method<"unquantized", weight = per_tensor, scale = f32, activation = dynamic>

// -----

// expected-error @+1 {{unknown activation scheme 'sometimes', expected none, static or dynamic}}
#a = #q.method<"fp8", weight = per_tensor, scale = f32, activation = sometimes>

// -----

// expected-error @+1 {{expected 'scale'}}
#a = #q.method<"fp8", weight = per_tensor, activation = dynamic>

// -----

//===----------------------------------------------------------------------===//
// #q.contract
//===----------------------------------------------------------------------===//

// expected-error @+1 {{a weight's scales are per_tensor, per_channel, block or group, not per_token [W1]}}
#a = #q.contract<weight = per_token, scale = f32, activation = per_token>

// -----

// expected-error @+1 {{scale type is 'f64', expected f32, bf16, f16 or f8E8M0FNU [W1]}}
#a = #q.contract<weight = per_channel, scale = f64, activation = per_token>

// -----

// expected-error @+1 {{an activation's scales are per_tensor, per_token or block, not per_channel [P3]}}
#a = #q.contract<weight = per_channel, scale = f32, activation = per_channel>

// -----

// expected-error @+1 {{a static activation scale and per_tensor come together: one scale of a whole step would make rows depend on each other [B5]}}
#a = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor>

// -----

// expected-error @+1 {{a static activation scale and per_tensor come together: one scale of a whole step would make rows depend on each other [B5]}}
#a = #q.contract<weight = per_channel, scale = f32, activation = per_token static>

// -----

// expected-error @+1 {{a static scale is the checkpoint's, ue8m0 is for dynamic ones [P3]}}
#a = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static ue8m0>

// -----

// expected-error @+1 {{a block-quantised weight goes with an activation in blocks along K and no other [N6]}}
#a = #q.contract<weight = block<128x128>, scale = f32, activation = per_token>

// -----

// expected-error @+1 {{a block-quantised weight goes with an activation in blocks along K and no other [N6]}}
#a = #q.contract<weight = per_channel, scale = f32, activation = block<1x128>>

// -----

// expected-error @+1 {{activation is block<1x64>, the weight's blocks imply block<1x128> [P3]}}
#a = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x64>>

// -----

// expected-error @+1 {{activation is block<128x128>, the weight's blocks imply block<1x128> [P3]}}
#a = #q.contract<weight = block<128x128>, scale = f32, activation = block<128x128>>

// -----

// expected-error @+1 {{block is 128x0, both sides are at least 1 [W1]}}
#a = #q.granularity<block<128x0>>

// -----

// expected-error @+1 {{expected '<'}}
#a = #q.granularity<block>

// -----

// expected-error @+1 {{no method is called 'nope'; expected 'auto-round', 'awq', 'awq_marlin', 'compressed-tensors', 'fbgemm_fp8', 'fp8', 'gguf', 'gptq', 'gptq_marlin', 'modelopt', 'modelopt_fp4', 'mxfp4', 'mxfp8', 'quark', 'w8a8_fp8' and 'w8a8_int8', or 'unquantized' [C2]}}
#m = #q.method<"nope">
