# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights whose codes share words, for reference.py (FORMATS.md, N7).

Each layout is read element by element: which word, which bits, which group.
Weights only (B4), so that a linear is its values, but for MXFP4 and NVFP4 by the
numbers of targets with FP4 products.
"""
import math
import struct

from reference import Linear, decode, dot, f32, round_e4m3

E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def ints(ckpt, name, letter="I"):
    _, shape, data = ckpt.tensors[name]
    return shape, struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}",
                                data)


def floats(ckpt, name):
    dtype, shape, data = ckpt.tensors[name]
    return shape, decode(dtype, data)


def codes_name(path, tensors):
    """The name of a linear's codes, or None if they do not share words."""
    for name in (path + ".qweight", path + ".weight_packed"):
        if name in tensors:
            return name
    name = path + ".weight"
    packs = name in tensors and tensors[name][0] == "U8"
    return name if packs else None


def has_fp4_products(ckpt):
    return ckpt.activation_quant and ckpt.numerics.startswith(("sm_100", "sm_120"))


def round_e2m1(x):
    """The nearest value of E2M1 (of a tie the one of the even code), and the
    distance to the next step."""
    size, code, distance = abs(x), 0, math.inf
    for i in range(7):
        middle = (E2M1[i] + E2M1[i + 1]) / 2
        code += size > middle if i % 2 == 0 else size >= middle
        distance = min(distance, abs(size - middle))
    return math.copysign(E2M1[code], x), distance


class LinearFp4(Linear):
    """A linear whose input becomes E2M1 in groups: below the stored scale
    `above` (NVFP4), or with a power of two each (MXFP4, `above` is None)."""

    def __init__(self, weight, bias, group, above):
        super().__init__(weight, bias)
        self.group, self.above = group, above

    def input(self, row, model):
        out, margin = [], math.inf
        for begin in range(0, len(row), self.group):
            part = [f32(x) for x in row[begin:begin + self.group]]
            amax = max(map(abs, part))
            if self.above is None:
                least = f32(max(amax, 1e-10) / 6)
                fraction, exponent = math.frexp(least)
                scale = 2.0 ** (exponent - 1 if fraction == 0.5 else exponent)
            else:
                wanted = f32(f32(amax / 6) / self.above)
                stored, distance = round_e4m3(wanted)
                margin = min(margin, distance * self.above)
                scale = f32(stored * self.above)
            for x in part:
                value, distance = round_e2m1(f32(x / scale)) if scale else (0, 1)
                out.append(value * scale)
                margin = min(margin, distance * scale)
        size = math.sqrt(dot(row, row) / len(row))
        model.note_margin(margin / size if size else margin)
        return out


def read_linear(ckpt, path, shards, bias):
    if path + ".qweight" in ckpt.tensors:
        config = ckpt.quant
        is_awq = (config["quant_method"] == "awq"
                  or "awq" in config.get("packing_format", ""))
        weight = read_awq(ckpt, path) if is_awq else read_gptq(ckpt, path)
    elif path + ".weight_shape" in ckpt.tensors:
        weight = read_rows(ckpt, path)
    else:
        return read_fp4(ckpt, path, shards, bias)
    return Linear(weight, bias)


def read_awq(ckpt, path):
    (k_size, words), code = ints(ckpt, path + ".qweight")
    (groups, n_size), scale = floats(ckpt, path + ".scales")
    _, zero = ints(ckpt, path + ".qzeros")
    group = k_size // groups
    place = {0: 0, 2: 1, 4: 2, 6: 3, 1: 4, 3: 5, 5: 6, 7: 7}

    def nibble(table, line, column):
        word = table[line * words + column // 8]
        return word >> 4 * place[column % 8] & 15
    return [[(nibble(code, k, n) - nibble(zero, k // group, n))
             * scale[k // group * n_size + n] for k in range(k_size)]
            for n in range(n_size)]


def read_gptq(ckpt, path):
    config = ckpt.quant
    bits, v2 = config["bits"], config.get("checkpoint_format") == "gptq_v2"
    per_word, mask = 32 // bits, (1 << bits) - 1
    (lines, n_size), code = ints(ckpt, path + ".qweight")
    (_, words), zero = ints(ckpt, path + ".qzeros")
    _, scale = floats(ckpt, path + ".scales")
    _, group_of = ints(ckpt, path + ".g_idx", "i")
    out = []
    for n in range(n_size):
        row = []
        for k in range(lines * per_word):
            g = group_of[k]
            q = code[k // per_word * n_size + n] >> bits * (k % per_word) & mask
            z = zero[g * words + n // per_word] >> bits * (n % per_word) & mask
            row.append((q - z - (0 if v2 else 1)) * scale[g * n_size + n])
        out.append(row)
    return out


def read_rows(ckpt, path):
    weights = ckpt.quant["config_groups"]["group_0"]["weights"]
    bits = weights["num_bits"]
    per_word, mask = 32 // bits, (1 << bits) - 1
    _, (n_size, k_size) = ints(ckpt, path + ".weight_shape", "q")
    (_, words), code = ints(ckpt, path + ".weight_packed")
    (_, groups), scale = floats(ckpt, path + ".weight_scale")
    group = weights["group_size"] or k_size
    if path + ".weight_g_idx" in ckpt.tensors:
        _, group_of = ints(ckpt, path + ".weight_g_idx", "i")
    else:
        group_of = [k // group for k in range(k_size)]
    zero = None
    if path + ".weight_zero_point" in ckpt.tensors:
        _, zero = ints(ckpt, path + ".weight_zero_point")
    out = []
    for n in range(n_size):
        row = []
        for k in range(k_size):
            g = group_of[k]
            q = code[n * words + k // per_word] >> bits * (k % per_word) & mask
            # Both are stored plus 2^(bits - 1), so that it cancels.
            z = (1 << bits - 1) if zero is None else (
                zero[n // per_word * groups + g] >> bits * (n % per_word) & mask)
            row.append((q - z) * scale[n * groups + g])
        out.append(row)
    return out


def factor_above(ckpt, path):
    """What NVFP4 stores above the groups of a weight, as a factor; None: nothing."""
    if path + ".weight_scale_2" in ckpt.tensors:
        return ckpt.scalar(path + ".weight_scale_2")
    if path + ".weight_global_scale" in ckpt.tensors:
        return 1 / ckpt.scalar(path + ".weight_global_scale")
    return None


def stored_input(ckpt, path):
    if path + ".input_scale" in ckpt.tensors:
        return ckpt.scalar(path + ".input_scale")
    if path + ".input_global_scale" in ckpt.tensors:
        return f32(1 / ckpt.scalar(path + ".input_global_scale"))
    return None


def read_fp4(ckpt, path, shards, bias):
    name = codes_name(path, ckpt.tensors)
    _, (n_size, half), data = ckpt.tensors[name]
    dtype, (_, groups), raw = ckpt.tensors[path + ".weight_scale"]
    scale = ([2.0 ** (e - 127) for e in raw] if dtype == "U8"
             else decode(dtype, raw))
    above, quantises = factor_above(ckpt, path), False
    if has_fp4_products(ckpt):
        quantises = (above is None if dtype == "U8"
                     else stored_input(ckpt, path) is not None)
    if quantises and above is not None:
        # One for all shards, and group scales below it (W9).
        shared = max(factor_above(ckpt, s) for s in shards)
        if shared != above:
            scale = [round_e4m3(f32(s * above / shared))[0] for s in scale]
            above = shared
    above = 1.0 if above is None else above
    group = 2 * half // groups
    out = []
    for n in range(n_size):
        row = []
        for k in range(2 * half):
            code = data[n * half + k // 2] >> 4 * (k % 2) & 15
            value = math.copysign(E2M1[code & 7], -1 if code & 8 else 1)
            row.append(value * scale[n * groups + k // group] * above)
        out.append(row)
    if not quantises:
        return Linear(out, bias)
    return LinearFp4(out, bias, group, None if dtype == "U8" else max(
        stored_input(ckpt, s) for s in shards))
