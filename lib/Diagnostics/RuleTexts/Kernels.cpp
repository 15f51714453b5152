//===- Kernels.cpp - B: operand contracts and kernels ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RuleTexts.h"
#include <array>

using namespace octet;

static constexpr std::array kRules = {
    Rule{"B1", "128x128 block FP8 has a kernel on each target",
         "sm_90: warp-group MMA and TMA. sm_100: the block-scaled kernel with "
         "tensor memory and UE8M0 scales. sm_120 and sm_89: FP8 mma.sync. "
         "sm_80 to sm_88: weight-only (B4). CPU: the vector kernel.",
         "The contract follows from method and target before a kernel is "
         "chosen, so that tuning never changes a number.",
         "octet compile CKPT --numerics sm_100f with FP32 scales that are no "
         "powers of two: see W11.",
         "--numerics chooses the contracts of another target on the CPU."},
    Rule{
        "B2", "Other block sizes use the generic FP8 kernel",
        "A block whose side along K is not 128 uses the generic FP8 kernel of "
        "the target; [32, 32] runs in the fast kernel on sm_90, on sm_100 only "
        "with UE8M0 scales.",
        "The fast kernels promote their accumulator every 128 elements of K "
        "(N6), where the scale changes.",
        "weight_block_size [128, 64] on sm_90a\n"
        "remark: model.layers.2.mlp.down_proj: uses cuda.fp8_generic_gemm, not "
        "sm90.fp8_block_gemm: that kernel reads bk=128, this weight has 64 "
        "[B2]",
        "Quantise again with 128x128 blocks if speed matters."},
    Rule{
        "B3", "Per-channel and per-tensor weights",
        "Per-channel weights with per-token activations take the channel-wise "
        "kernel. Per-tensor weights: a single matrix the per-tensor kernel, a "
        "fused module the channel-wise kernel after W7 whatever its scales, on "
        "every target. One scale for a fused module (W8) only on sm_120 or "
        "with --requant-max. A checkpoint stored per channel is never "
        "collapsed.",
        "The numbers are the same (N6b) and no shard is requantised.",
        "a weight of another granularity than its contract\n"
        "error: a: its weight is !q.tensor<8x8xf8E4M3FN, per_tensor, f32>, its "
        "contract is #q.contract<weight = per_channel, scale = f32, activation "
        "= per_token> [B3]",
        "Run the passes in order; materialize-weights brings weights to their "
        "contract."},
    Rule{
        "B4", "Weight-only where the tensor cores lack the format",
        "sm_80 to sm_88 have no FP8 tensor cores: the weight stays FP8 in "
        "memory and is widened to BF16 in the kernel, activations are not "
        "quantised and input_scale is dropped. The same for MXFP4 and NVFP4 on "
        "targets without FP4 tensor cores, the CPU included. AWQ, GPTQ, "
        "compressed-tensors pack-quantized and GGUF are weight-only on every "
        "target.",
        "Memory is saved and no rounding is added.",
        "octet compile CKPT --target sm_80\n"
        "warning: --target sm_80: no FP8 tensor cores; weights stay F8_E4M3 "
        "and are widened to BF16 in the kernel, activations are not quantised "
        "[B4]",
        "--activation-quant off asks for the same on any target."},
    Rule{
        "B5", "Kernels by M are a table; rows do not depend on each other",
        "Decode and prefill may use different kernels and tiles, by a table of "
        "M ranges in the IR. Split-K has a fixed order of reduction. "
        "--batch-invariant, the default on the CPU, forbids each choice that "
        "makes a row's result depend on the other rows.",
        "A result that changes with the batch cannot be reproduced or "
        "compared.",
        "a contract with a static scale a block\n"
        "error: a static activation scale and per_tensor come together: one "
        "scale of a whole step would make rows depend on each other [B5]",
        "--no-batch-invariant allows split-K by M."},
    Rule{
        "B6", "MXFP8 runs natively on sm_100 and later and on the CPU",
        "Activations are quantised per token and 32, UE8M0. Elsewhere it is an "
        "error; --mxfp8-as block rewrites it as block FP8, verified at load "
        "(scales equal over each block), --mxfp8-as weight-only follows B4.",
        "Only those tensor cores multiply by an exponent every 32 elements.",
        "octet compile CKPT --target sm_90a, quant_method mxfp8\n"
        "error: --target sm_90a: method 'mxfp8' needs compute capability 10.0 "
        "or higher, or the CPU; sm_90a is 9.0; --mxfp8-as block or --mxfp8-as "
        "weight-only runs it there [B6]",
        "--mxfp8-as block, --mxfp8-as weight-only, or another target."},
    Rule{"B7", "Experts' rows are sorted, and the type says so",
         "The grouped product needs its rows sorted by expert. The layout is "
         "part of the operand's type, and a mismatch between dispatch and "
         "product does not verify.",
         "Rows in the order of tokens multiply by the wrong expert without an "
         "error.",
         "rows in token order given to a grouped product\n"
         "error: model.layers.3.mlp.experts: operand 0 is in token order, the "
         "grouped product reads rows sorted by expert; insert-quantization "
         "dispatches them [B7]",
         "None for a user; a pass that moves rows changes their type."},
};

std::span<const Rule> octet::getKernelRules() { return kRules; }
