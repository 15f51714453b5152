# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights whose codes share words, for reference.py (FORMATS.md, N7).

Each layout is read element by element: which word, which bits, which group.
Weights only (B4), so that a linear is its values.
"""
import math
import struct

from reference import Linear, decode

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


def read_linear(ckpt, path, bias):
    if path + ".qweight" in ckpt.tensors:
        config = ckpt.quant
        is_awq = (config["quant_method"] == "awq"
                  or "awq" in config.get("packing_format", ""))
        weight = read_awq(ckpt, path) if is_awq else read_gptq(ckpt, path)
    elif path + ".weight_shape" in ckpt.tensors:
        weight = read_rows(ckpt, path)
    else:
        weight = read_fp4(ckpt, path)
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


def read_fp4(ckpt, path):
    name = codes_name(path, ckpt.tensors)
    _, (n_size, half), data = ckpt.tensors[name]
    dtype, (_, groups), raw = ckpt.tensors[path + ".weight_scale"]
    scale = ([2.0 ** (e - 127) for e in raw] if dtype == "U8"
             else decode(dtype, raw))
    above = 1.0
    if path + ".weight_scale_2" in ckpt.tensors:
        above = ckpt.scalar(path + ".weight_scale_2")
    if path + ".weight_global_scale" in ckpt.tensors:
        above = 1 / ckpt.scalar(path + ".weight_global_scale")
    group = 2 * half // groups
    out = []
    for n in range(n_size):
        row = []
        for k in range(2 * half):
            code = data[n * half + k // 2] >> 4 * (k % 2) & 15
            value = math.copysign(E2M1[code & 7], -1 if code & 8 else 1)
            row.append(value * scale[n * groups + k // group] * above)
        out.append(row)
    return out
