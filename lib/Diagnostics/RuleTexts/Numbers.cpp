//===- Numbers.cpp - N: formats, scales, rounding -------------------------===//
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
    Rule{"N1", "E4M3FN is the one FP8 format of compute",
         "FP8 weights and activations are E4M3FN: 1 sign, 4 exponent and 3 "
         "mantissa bits, largest finite value 448, smallest normal 2^-6, "
         "smallest subnormal 2^-9, no infinity, NaN in 0x7F and 0xFF only.",
         "Three FP8 formats share a name and differ in what a byte means; a "
         "weight read in the wrong one is off by two or is NaN, and the model "
         "still runs. One format in compute leaves one place to convert.",
         "config.json: quantization_config.fmt is 'e3m4'\n"
         "error: config.json: quantization_config.fmt: is 'e3m4', expected "
         "'e4m3' or 'e5m2' [N1]",
         "Store the weights in E4M3. E4M3FNUZ and E5M2 weights are a matter of "
         "loading (N8)."},
    Rule{
        "N2", "Quantising clamps, divides and rounds to nearest even",
        "q = rne(clamp(x / s, -448, 448)); the value is q * s. x / s and "
        "amax / 448 are true divisions, never products with a reciprocal. A "
        "NaN stays NaN.",
        "A product with a reciprocal differs in the last bit, which is a whole "
        "step of E4M3 at a rounding boundary: two kernels that disagree there "
        "cannot be compared bit for bit.",
        "s = 1: 1.0625 lies halfway between the codes of 1 and 1.125 and "
        "becomes 1, the even one; 500 becomes 448.\n"
        "No input breaks it; a kernel that does fails the comparison with "
        "lib/Numerics over all codes.",
        "None is needed: every kernel and every loading rewrite keeps it."},
    Rule{
        "N3", "A dynamic scale is amax / 448 and never zero",
        "s = max(amax, 1e-10) / 448, with amax over the elements that share "
        "the scale.",
        "Without the lower bound a row of zeros, such as padding, divides zero "
        "by zero and the NaN spreads through attention.",
        "amax = 0: s = 1e-10 / 448, all codes are 0, the product is 0.\n"
        "No input breaks it.",
        "None is needed. INT8 has the same bound over 127 (N7)."},
    Rule{
        "N4", "Power-of-two scales round up, from the bits of the float",
        "s = 2^ceil(log2(max(amax, 1e-10) / 448)), the exponent taken from the "
        "float's bits, stored as a biased byte: 2^(e - 127), 0xFF is NaN.",
        "Rounding to the nearest power would let amax / s exceed 448 and "
        "saturate; log2f is off by one for some arguments just above a power.",
        "amax = 449: amax / 448 is a little above 1, so s = 2, not 1.\n"
        "octet check CKPT --with-weights, quant_method mxfp8\n"
        "error: a.b: scale 'a.b.weight_scale' is 0xFF, NaN, at [3, 0]; "
        "expected an exponent of 0 to 254 [N4]",
        "None is needed for activations. Weights with FP32 scales are "
        "requantised where a contract wants powers of two (W11)."},
    Rule{"N5", "The error of one rounding is known",
         "One normal E4M3 value is off by at most 2^-4 of itself, with an RMS "
         "of about 2^-4 / sqrt(6), 2.6 %, over a block of Gaussian values. "
         "Below 2^-6 the error is absolute, at most 2^-10 (times the scale).",
         "Every tolerance of a test and every bound of the ledger derives from "
         "these two figures; a tolerance that was tuned until the test passed "
         "proves nothing.",
         "1.0625 lies between 1 and 1.125; its error is 0.0625 = 2^-4.\n"
         "No input breaks it.",
         "Smaller blocks do not reduce this error for normal values; they keep "
         "values normal."},
    Rule{
        "N6", "Block products accumulate in FP32, one scale pair a block",
        "For each block of K the product of two FP8 tiles is accumulated in "
        "FP32, multiplied by sx[i, b] * sw[row(j), b] and added to an FP32 "
        "accumulator. row(j) is the scale row of weight row j (W5b). A tensor "
        "core whose accumulator keeps fewer than 23 mantissa bits is promoted "
        "to FP32 registers at least every 128 elements of K. Bias is added in "
        "FP32 and the output is rounded once.",
        "Hopper's FP8 tensor cores keep about 14 bits; over K = 7168 that is a "
        "visible error, and the promotion is what the block size is for.",
        "A product that applies the scales after all of K mixes blocks of "
        "different scales.\n"
        "No input breaks it; kernels are compared with lib/Numerics.",
        "None is needed."},
    Rule{
        "N6b", "Per-tensor and per-channel products scale once",
        "FP32 accumulation over all of K, one multiplication by sx[i] * sw[j], "
        "bias in FP32, one rounding. INT8: exact INT32 accumulation, then the "
        "same.",
        "Per-tensor is per-channel with equal scales: the two kernels give the "
        "same numbers, so a fused module may take either (B3).",
        "s = 0.5 for q and 0.25 for k: the fused matrix has sw = 0.5 on q's "
        "rows and 0.25 on k's.\n"
        "No input breaks it.",
        "None is needed."},
    Rule{
        "N7", "MX, NVFP4 and INT8 have fixed groups, scales and rounding",
        "MXFP8: groups of 32 along K with a UE8M0 scale in a byte. MXFP4: "
        "E2M1 pairs in a byte, low nibble first, groups of 32, UE8M0. NVFP4: "
        "E2M1, groups of 16, an E4M3 scale a group times one FP32 scale a "
        "tensor; a quantised activation has the group scale e4m3(amax / 6 / g) "
        "with g the stored input scale, then e2m1(x / (group scale * g)). E2M1 "
        "has 0, .5, 1, 1.5, 2, 3, 4, 6 and saturates at 6; ties go to the even "
        "code. INT8: s = max(amax, 1e-10) / 127, clamped to +-127.",
        "The formats differ in where the second scale goes (NVFP4 of ModelOpt "
        "multiplies, that of compressed-tensors divides) and in the order of "
        "nibbles; both mistakes give a model that is wrong and finite.",
        "!q.tensor<64x256xf4E2M1FN, group<64>, f8E8M0FNU, layout = packed>\n"
        "error: f4E2M1FN codes have group<32> and f8E8M0FNU scales (MXFP4) or "
        "group<16>, f8E4M3FN scales and a global one (NVFP4), these have "
        "group<64>, 'f8E8M0FNU' scales and no global one [N7]",
        "Convert with the exporter of the format; a group size that the format "
        "does not have cannot be read."},
    Rule{"N8", "E4M3FNUZ and E5M2 are converted on load",
         "FNUZ to FN keeps the bits and halves the scale, except 0x80, FNUZ's "
         "NaN, which is an error, and 0x7F/0xFF, +-240 there and NaN in FN: a "
         "scale group that holds one is dequantised and requantised. FN to "
         "FNUZ doubles the scale, 0x80 becomes 0x00, 0x7F/0xFF is an error. "
         "E5M2 is requantised at its own granularity.",
         "The two E4M3 formats have exponent biases of 7 and 8: the same byte "
         "is half as much. Checkpoints of ROCm exporters hold FNUZ.",
         "0x80 in an F8_E4M3FNUZ weight\n"
         "error: model.safetensors: tensor 'a.b.weight': element [3, 17] is "
         "0x80, which is no finite number in its format; the codes of a weight "
         "are finite [N8]",
         "Export the tensor again: such a code has no value in any format."},
    Rule{"N9", "Fusion changes no number",
         "A value that the unfused program rounds to the activation dtype (the "
         "output of a norm, a residual sum, the results before and after "
         "SwiGLU) is rounded there in the fused kernel too, before it is "
         "quantised. Fused and unfused agree bit for bit. The local sum over a "
         "token's experts is in FP32, in ascending order of the experts, and "
         "rounded once.",
         "A fused kernel that is more exact than its parts cannot be tested "
         "against them, and a change of fusion would change what a model says.",
         "norm and quantise in one kernel without rounding the norm's output: "
         "a code may differ by one.\n"
         "No input breaks it; fuse-rowwise keeps every kernel.round.",
         "None is needed; --dtype f32 rounds nothing but what is quantised."},
};

std::span<const Rule> octet::getNumberRules() { return kRules; }
