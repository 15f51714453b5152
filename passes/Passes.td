//===- Passes.td - The passes of Octet ---------------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order of the pipeline (lib/Pipeline/Phases.def). Every pass works on a
// module, opens no file and has no input but the IR; an option only overrides
// what `model.settings` says, for tests.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_PASSES_TD
#define OCTET_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

def TraceInputs : Pass<"octet-trace-inputs", "mlir::ModuleOp"> {
  let summary = "Trace what each linear layer reads";
  let description = [{
    No phase: `octet quantize --calibrate` runs it after import, because a static activation scale is made of the largest input (P3, W9).
    ```mlir
    %y = model.linear %x, %w {module = "a.b"} : …        // before

    model.trace "input.a.b"[%l] %x : tensor<?x256xbf16>  // after
    %y = model.linear %x, %w {module = "a.b"} : …
    ```
  }];
  let statistics = [Statistic<"numTraced", "num-traced", "Linear layers whose input is traced">];
  let dependentDialects = ["octet::model::ModelDialect", "mlir::arith::ArithDialect"];
}

def ResolveQuantMethods : Pass<"octet-resolve-quant-methods", "mlir::ModuleOp"> {
  let summary = "Give each linear layer its quantisation method and operand contract";
  let description = [{
    The method of an operator says what its stored codes mean (C1-C15); the contract, from method and target, what its kernel reads (B1-B4).
    ```mlir
    %y = model.linear %x, %w {module = "a.b"} : …, tensor<384x256xf8E4M3FN> -> …      // before
    %y = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>,
                              method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>, module = "a.b"}
       : …, !q.tensor<384x256xf8E4M3FN, block<128x128>, f32> -> …                     // after
    ```
  }];
  let statistics = [Statistic<"numQuantized", "num-quantized", "Linear layers with a quantisation method">,
                    Statistic<"numUnquantized", "num-unquantized", "Linear layers without one">];
  let dependentDialects = ["octet::q::QuantDialect", "octet::model::ModelDialect"];
}

def FuseProjections : Pass<"octet-fuse-projections", "mlir::ModuleOp"> {
  let summary = "Join projections that read the same input into one matrix";
  let description = [{
    The shards of a fused module (`fused` = qkv_proj, gate_up_proj) become one `model.linear` over one `model.weight` whose type keeps the
    shards' widths, and a `model.split`. Shards of which only some are quantised are an error (C8), or stay apart with `unfuse-mixed`. A fused
    per-tensor weight has one scale a shard, so its contract becomes per-channel (B3, W7).
    ```mlir
    %q = model.linear %x, %wq {fused = "a.qkv_proj", module = "a.q_proj"} : …         // before; k and v alike
    %y = model.linear %x, %w {module = "a.qkv_proj"} : …                              // after
    %q, %k, %v = model.split %y : …
    ```
  }];
  let options = [Option<"unfuseMixed", "unfuse-mixed", "bool", /*default=*/"false",
                        "Keep shards of different methods apart, as unfuse_mixed of model.settings does">];
  let statistics = [Statistic<"numFused", "num-fused", "Fused matrices made">,
                    Statistic<"numKept", "num-kept-apart", "Fused modules whose shards stay apart">];
  let dependentDialects = ["octet::q::QuantDialect", "octet::model::ModelDialect"];
}

def Shard : Pass<"octet-shard", "mlir::ModuleOp"> {
  let summary = "Split linear layers and experts over the ranks";
  let description = [{
    Makes the program of one rank of `tp * dp`: weights become slices that are functions of the rank, and collectives join the results. Heads,
    columns and rows are split over tp, the vocabulary too (its last rank may be short), MLA's A projections, routers, indexers and norms are
    replicated; experts are divided into ep groups, and inside a group each is split `tp * dp / ep` ways. With dp > 1 attention is replicated over
    the groups and the experts' tokens are gathered and scattered. A split that would cut a block of scales is an error (W3), or padded to whole
    blocks with `pad`; heads and experts that do not divide are one (W3b, W3c). One rank passes through unchanged.
    ```mlir
    %w = model.weight ["a.o_proj"] "weight" stored […] : tensor<256x384xbf16>                                  // before
    %y = model.linear %x, %w {module = "a.o_proj"} : …

    %w = model.weight ["a.o_proj"] "weight" stored […] {slices = [#q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>]} : tensor<256x192xbf16>
    %p = model.linear %x, %w {module = "a.o_proj"} : …                                                         // after, tp = 2
    %y = model.all_reduce %p {ranks = 2 : i64, module = "a.o_proj"} : …
    ```
  }];
  let options = [Option<"tp", "tp", "int64_t", /*default=*/"0", "Tensor-parallel degree; 0: of model.settings">,
                 Option<"ep", "ep", "int64_t", /*default=*/"0", "Expert-parallel degree; 0: of model.settings">,
                 Option<"dp", "dp", "int64_t", /*default=*/"0", "Data-parallel degree; 0: of model.settings">,
                 Option<"pad", "pad", "bool", /*default=*/"false", "Splits inside a block load whole blocks, as split_blocks of model.settings says">];
  let statistics = [Statistic<"numChecked", "num-checked", "Linear layers and experts whose split was checked">,
                    Statistic<"numSharded", "num-sharded", "Linear layers split">];
  let dependentDialects = ["octet::model::ModelDialect", "octet::q::QuantDialect"];
}

def MaterializeWeights : Pass<"octet-materialize-weights", "mlir::ModuleOp"> {
  let summary = "Make the load function and the slots that it fills";
  let description = [{
    Each `model.weight` becomes a `q.weight` that reads a slot; `@load` reads the checkpoint's tensors, checks their scales (W6) and rewrites them
    to the contract (W4-W12), as visible IR.
    ```mlir
    %w = model.weight ["model.layers.{l}.mlp.down_proj"][%l] "weight" stored [#q.stored<{…}, "">] : !q.tensor<256x320xf8E4M3FN, block<128x128>, bf16>     // before

    q.slot @layers.mlp.down_proj [2] : !q.tensor<256x320xf8E4M3FN, block<128x128>, f32>                                                                   // after
    %w = q.weight @layers.mlp.down_proj[%l] : !q.tensor<256x320xf8E4M3FN, block<128x128>, f32>
    func.func @load(%rank: index) {
      scf.for %l = … {
        %0 = q.load "model.layers.{l}.mlp.down_proj"[%l] weight "weight" scale "weight_scale_inv" : !q.tensor<256x320xf8E4M3FN, block<128x128>, bf16>
        q.check_scales %0 : …
        %1 = q.convert_scales %0 : … -> !q.tensor<256x320xf8E4M3FN, block<128x128>, f32>
        q.store %1, @layers.mlp.down_proj[%l] : …
    ```
  }];
  let statistics = [Statistic<"numSlots", "num-slots", "Slots declared">,
                    Statistic<"numLoads", "num-loads", "Tensors of the checkpoint read (a loop counts once)">];
  let dependentDialects = ["octet::q::QuantDialect", "octet::model::ModelDialect", "mlir::func::FuncDialect", "mlir::scf::SCFDialect",
                           "mlir::arith::ArithDialect"];
}

def InsertQuantization : Pass<"octet-insert-quantization", "mlir::ModuleOp"> {
  let summary = "Write where activations, keys and values are rounded";
  let description = [{
    Each linear reads what its contract says: a `q.quantize` stands before it, shared by the linears that read the same value alike (P3). The KV
    cache's layout becomes a type, and the write to it an operator (P7, P7a, P7b, P8, P9). Rows are dispatched to experts, as codes where the
    experts read codes (P13), and stand by expert (B7).
    ```mlir
    %y = model.linear %x, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, …} : tensor<?x256xbf16>, …   // before

    %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>                                                         // after
    %y = model.linear %q, %w {…} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, …
    ```
  }];
  let options = [Option<"kvCache", "kv-cache", "std::string", /*default=*/"", "Layout of the KV cache; empty: of model.settings">];
  let statistics = [Statistic<"numQuantize", "num-quantize", "Roundings of activations inserted">,
                    Statistic<"numShared", "num-shared", "Linear layers that share a rounding with another">];
  let dependentDialects = ["octet::q::QuantDialect", "octet::model::ModelDialect"];
}

def VerifyPrecisionPolicy : Pass<"octet-verify-precision-policy", "mlir::ModuleOp"> {
  let summary = "Refuse a program that rounds where section 5 of the specification forbids it";
  let description = [{
    Changes nothing. Norms, embeddings, `lm_head` (unless the checkpoint itself says so), residual sums, positions, routers and sums over ranks are
    never quantised, and a linear reads exactly what its contract says (P1-P8, P11, P12, P15, P16). Rows move to experts as the grouped product
    reads them, by expert (P13, P14, B7). An indexer's head weights and norm stay as they are, and all ranks read one choice (P9, P10).
    ```mlir
    %n = model.rms_norm %x, %g {…} : …     // an error [P5] where %g is a dequantised weight
    ```
  }];
  let statistics = [Statistic<"numChecked", "num-checked", "Operators checked">];
}

def FuseRowwise : Pass<"octet-fuse-rowwise", "mlir::ModuleOp"> {
  let summary = "Put pointwise operators and row reductions into fused row kernels";
  let description = [{
    Norms, residual sums, activations, RoPE, quantisation and KV writes become regions of `kernel.rowwise`, fused where one reads the other; no
    number changes (N9).
    ```mlir
    %h1 = model.add %h, %o : …                      // before
    %n = model.rms_norm %h1, %g {…} : …
    %q = q.quantize %n : …

    %h1, %q = kernel.rowwise "add+rms_norm+quantize" tokens of %b ins(%h, %o, %g : …) …     // after
    ```
  }];
  let options = [Option<"fuse", "fuse", "bool", /*default=*/"true", "Merge kernels; false leaves one an operator, for tests">];
  let statistics = [Statistic<"numKernels", "num-kernels", "Row kernels made">, Statistic<"numFused", "num-fused", "Operators fused into them">];
  let dependentDialects = ["octet::kernel::KernelDialect"];
}

def SelectKernels : Pass<"octet-select-kernels", "mlir::ModuleOp"> {
  let summary = "Choose a kernel of exactly the contract for each product and attention";
  let description = [{
    `model.linear`, `model.lm_head` and `model.attention` become `kernel.gemm` and `kernel.attention` with a kernel's name and its variants by
    ranges of M (B3, B5); routing, experts, latent attention and the indexer become `kernel.launch`. A kernel that is known by its contract but not
    written yet is marked so, and lower-to-host refuses it. Never changes a number.
    ```mlir
    %y = model.linear %q, %w {…} : …                                                   // before
    %y = kernel.gemm "cpu.fp8_block_gemm" %q, %w of %b tokens {…} : …                  // after
    ```
  }];
  let statistics = [Statistic<"numKernels", "num-kernels", "Kernels chosen">,
                    Statistic<"numUnwritten", "num-unwritten", "Kernels among them that are not written">];
  let dependentDialects = ["octet::kernel::KernelDialect"];
}

def PlanBuffers : Pass<"octet-plan-buffers", "mlir::ModuleOp"> {
  let summary = "Give each activation a fixed place in one arena";
  let description = [{
    Results become destinations (`kernel.place`); places are shared by values that do not live at the same time.
    ```mlir
    %y = kernel.gemm "cpu.gemm" %x, %w of %b tokens {…} : … -> tensor<?x256xbf16>                               // before

    %p = kernel.place 4096 : !kernel.buffer<tensor<?x256xbf16>>                                                 // after
    kernel.gemm "cpu.gemm" %x, %w into %p : !kernel.buffer<tensor<?x256xbf16>> of %b tokens {…} : …
    ```
  }];
  let statistics = [Statistic<"arenaBytes", "arena-bytes", "Bytes of the arena">];
  let dependentDialects = ["octet::kernel::KernelDialect"];
}

def EmitKernels : Pass<"octet-emit-kernels", "mlir::ModuleOp"> {
  let summary = "Write CUDA C++ for each kernel and compile it";
  let description = [{
    Each row kernel, product and attention of a CUDA target gets a `launch`: which kernels serve it, their grids and parameters. Each distinct
    source is compiled by NVRTC, or taken from the cache of earlier compilations, and stands in the module as `kernel.binary`. Programs of the CPU
    are left as they are; a kernel that is not written yet is an error.
    ```mlir
    kernel.gemm "sm90.dense_gemm" %x, %w into %p : … of %b tokens {…} : …                                                       // before

    kernel.binary @octet_kernel_… for "sm_90a" {cubin = dense_resource<…> : tensor<…xi8>, source = "…"}                         // after
    kernel.gemm "sm90.dense_gemm" %x, %w into %p : … of %b tokens {launch = {variants = [{kernels = [{entry = "octet_kernel_…", …
    ```
  }];
  let options = [Option<"dumpCuda", "dump-cuda", "std::string", /*default=*/"", "Folder for a .cu of each source; empty: none">,
                 Option<"jobs", "jobs", "unsigned", /*default=*/"0", "Threads that compile; 0: one a processor">,
                 Option<"nvrtc", "nvrtc", "std::string", /*default=*/"", "libnvrtc; empty: where it is found">,
                 Option<"cache", "cache", "bool", /*default=*/"true", "Take kernels from the cache, and keep them there">,
                 Option<"progress", "progress", "bool", /*default=*/"false", "Say on stderr how many are compiled">];
  let statistics = [Statistic<"numBinaries", "num-binaries", "Distinct sources">,
                    Statistic<"numCompiled", "num-compiled", "Sources among them that were not in the cache">];
  let dependentDialects = ["octet::kernel::KernelDialect"];
}

def LowerToHost : Pass<"octet-lower-to-host", "mlir::ModuleOp"> {
  let summary = "Lower the load and step functions to native code that calls the runtime";
  let description = [{
    Everything becomes the LLVM dialect: `octet_program`, the load and step functions, and one function per row kernel and SIMD level
    (runtime/abi.h).
    ```mlir
    kernel.gemm "cpu.gemm" %x, %w into %p …                 // before
    llvm.call %gemm(%ctx, %desc) : !llvm.ptr, (!llvm.ptr, !llvm.ptr) -> i32      // after
    ```
  }];
  let statistics = [Statistic<"numRowFunctions", "num-row-functions", "Row functions generated">];
  let dependentDialects = ["mlir::LLVM::LLVMDialect", "mlir::func::FuncDialect", "mlir::scf::SCFDialect", "mlir::arith::ArithDialect",
                           "mlir::math::MathDialect", "mlir::vector::VectorDialect", "mlir::cf::ControlFlowDialect"];
}

#endif // OCTET_PASSES_PASSES_TD
