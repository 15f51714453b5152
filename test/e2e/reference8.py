# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The other formats of 8 bits, and what loading makes of them, for reference.py.

Formats (FORMATS.md): mxfp8, w8a8_int8 and w8a8_fp8, INT8 of compressed-tensors,
fbgemm_fp8, ModelOpt and Quark of 8 bits, E5M2 and FNUZ codes (N8).
Rewrites: the largest scale of the shards (W8), power-of-two scales (W11), one
scale a tensor while loading (W10), MXFP8 as blocks (B6), weights only (B4).
"""
import math

import reference
from reference import Linear, f32

F8 = ("F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


def decode_float8(dtype, code):
    """The value of a code in any of the formats (N1, N8)."""
    bits, bias, fnuz = {"F8_E4M3": (3, 7, False), "F8_E4M3FNUZ": (3, 8, True),
                        "F8_E5M2": (2, 15, False),
                        "F8_E5M2FNUZ": (2, 16, True)}[dtype]
    if fnuz and code == 0x80:
        return math.nan
    exponent, mantissa = (code & 127) >> bits, code & ((1 << bits) - 1)
    if dtype == "F8_E4M3" and code & 127 == 127:
        return math.nan
    if dtype == "F8_E5M2" and exponent == 31:
        return math.nan if mantissa else math.inf
    if exponent:
        value = (1 + mantissa / (1 << bits)) * 2.0 ** (exponent - bias)
    else:
        value = mantissa / (1 << bits) * 2.0 ** (1 - bias)
    return -value if code >= 128 else value


def to_e4m3(values, scale):
    """e4m3(v / s) · s of dequantised values."""
    return [reference.round_e4m3(f32(f32(v) / scale))[0] * scale for v in values]


class Linear8(Linear):
    """A linear whose input becomes INT8 codes, or FP8 with a bounded scale."""

    def __init__(self, weight, bias, scheme, codes="e4m3", bound=None, **rest):
        super().__init__(weight, bias, scheme, **rest)
        self.codes, self.bound = codes, bound

    def input(self, row, model):
        if self.codes == "e4m3" and self.bound is None:
            return super().input(row, model)
        scale = self.scale
        if self.scheme == "token":
            amax = max(max(map(abs, row)), 1e-10)
            if self.bound is not None:
                amax = min(amax, self.bound)
            scale = f32(f32(amax) / (127 if self.codes == "i8" else 448))
        if self.codes == "e4m3":
            out, margin = reference.quantize(row, scale, math.inf)
        else:
            out, margin = [], math.inf
            for x in row:
                value = f32(f32(x) / scale)
                whole = max(-127, min(127, round(value)))
                if abs(value) < 127:
                    margin = min(margin, abs(
                        abs(value - math.floor(value)) - 0.5) * scale)
                out.append(whole * scale)
        size = math.sqrt(reference.dot(row, row) / len(row))
        model.note_margin(margin / size if size else margin)
        return out


class Matrix:
    """Codes' values, and a scale for each block [bn, bk]."""

    def __init__(self, ckpt, path):
        dtype, (self.n, self.k), data = ckpt.tensors[path + ".weight"]
        self.dtype = dtype
        if dtype == "I8":
            values = [c - 256 if c > 127 else c for c in data]
        else:
            table = [decode_float8(dtype, c) for c in range(256)]
            values = [table[c] for c in data]
        self.rows = [values[i * self.k:(i + 1) * self.k] for i in range(self.n)]
        name = next(path + suffix for suffix in
                    (".weight_scale_inv", ".weight_scale")
                    if path + suffix in ckpt.tensors)
        kind, shape, raw = ckpt.tensors[name]
        self.is_mx = kind in ("U8", "F8_E8M0")
        if self.is_mx:
            self.scale = [2.0 ** (e - 127) for e in raw]
            self.bn, self.bk = 1, 32
        else:
            self.scale = ckpt.values(name)
            sides = [s for s in shape if s != 1] if len(shape) == 4 else shape
            if len(self.scale) == 1:
                self.bn, self.bk = self.n, self.k
            elif len(self.scale) == self.n and (len(shape) == 1
                                                or shape[-1] == 1):
                self.bn, self.bk = 1, self.k
            else:
                block = ckpt.quant.get("weight_block_size") or [128, 128]
                self.bn, self.bk = block
                assert len(sides) == 2 or len(shape) == 4, name
        self.across = -(-self.k // self.bk)

    def blocks(self):
        """(index, rows, first column, last column) of each block."""
        for r in range(0, self.n, self.bn):
            for c in range(self.across):
                yield (r // self.bn * self.across + c,
                       range(r, min(r + self.bn, self.n)),
                       c * self.bk, min((c + 1) * self.bk, self.k))

    def per_tensor(self):
        return self.bn == self.n and self.bk == self.k

    def dequantise(self):
        """Applies the scales, in float32 where a rounding follows."""
        for index, rows, begin, end in self.blocks():
            s = self.scale[index]
            for r in rows:
                self.rows[r][begin:end] = [v * s for v in self.rows[r][begin:end]]
        return self.rows

    def convert(self):
        """N8: other FP8 formats become E4M3, numbers of FNUZ stay but for
        groups with 240."""
        for index, rows, begin, end in self.blocks():
            part = [v for r in rows for v in self.rows[r][begin:end]]
            if self.dtype == "F8_E4M3FNUZ" and max(map(abs, part)) < 240:
                continue
            s = self.scale[index]
            new = reference.dynamic_scale([f32(v * s) for v in part], False)
            for r in rows:
                self.rows[r][begin:end] = [
                    v / new for v in
                    to_e4m3([f32(v * s) for v in self.rows[r][begin:end]], new)]
            self.scale[index] = new

    def round_again(self, scale):
        """W8: codes below another scale."""
        old, = self.scale
        if old != scale:
            self.rows = [[v / scale for v in
                          to_e4m3([f32(v * old) for v in row], scale)]
                         for row in self.rows]
        self.scale = [scale]

    def to_exponents(self):
        """W11: powers of two for the scales of blocks."""
        for index, rows, begin, end in self.blocks():
            s = self.scale[index]
            if math.frexp(s)[0] == 0.5:
                continue
            part = [f32(v * s) for r in rows for v in self.rows[r][begin:end]]
            new = reference.dynamic_scale(part, True)
            for r in rows:
                self.rows[r][begin:end] = [
                    v / new for v in
                    to_e4m3([f32(v * s) for v in self.rows[r][begin:end]], new)]
            self.scale[index] = new


def input_scheme(ckpt, matrix, path):
    """How the input is quantised, as the config says: (scheme, codes, bound)."""
    q = ckpt.quant
    method, algorithm = q.get("quant_method", "modelopt"), q.get("quant_algo", "")
    codes = "i8" if matrix.dtype == "I8" else "e4m3"
    if method == "compressed-tensors":
        inputs = ckpt.ct_inputs()
        if inputs is None:
            return None, codes, None
        return ("static" if inputs["dynamic"] is False else "token"), codes, None
    if method == "quark":
        inputs = q["global_quant_config"]["input_tensors"]
        if inputs is None:
            return None, codes, None
        return ("token" if inputs["is_dynamic"] else "static"), codes, None
    if method == "fbgemm_fp8":
        return "token", codes, q["activation_scale_ub"]
    if matrix.is_mx or (not matrix.per_tensor() and matrix.bn > 1):
        return "group", codes, None
    if method == "fp8":
        return ("static" if q["activation_scheme"] == "static" else "token",
                codes, None)
    if method == "modelopt" and algorithm == "FP8":
        return "static", codes, None
    return "token", codes, None


def read_linear(ckpt, path, shards, bias):
    """The linear at `path`, whose input goes to all of `shards`."""
    if ckpt.tensors[path + ".weight"][0] not in (*F8, "I8"):
        if not ckpt.quantize_weights:
            return Linear(ckpt.rows(path + ".weight"), bias)
        return one_scale(ckpt, path, shards, bias)
    matrix = Matrix(ckpt, path)
    if matrix.dtype in F8[1:]:
        matrix.convert()
    numerics = ckpt.numerics
    largest = ckpt.requant_max or numerics.startswith("sm_120")
    if (largest and len(shards) > 1 and matrix.per_tensor()
            and matrix.dtype != "I8"):
        scales = [Matrix(ckpt, s) for s in shards]
        for each in scales:
            if each.dtype in F8[1:]:
                each.convert()
        matrix.round_again(max(each.scale[0] for each in scales))
    exponents = (numerics.startswith("sm_100") and not ckpt.keep_scales
                 and (matrix.bn, matrix.bk) in ((128, 128), (32, 32)))
    if exponents:
        matrix.to_exponents()
    scheme, codes, bound = input_scheme(ckpt, matrix, path)
    weak = numerics.startswith(("sm_80", "sm_86")) and codes == "e4m3"
    group, power = matrix.bk, matrix.is_mx or exponents or (
        ckpt.quant.get("scale_fmt") == "ue8m0")
    if matrix.is_mx and ckpt.mxfp8_as == "block":
        group = 128
    if matrix.is_mx and ckpt.mxfp8_as == "weight-only":
        weak = True
    weight = matrix.dequantise()
    if not ckpt.activation_quant or weak or scheme is None:
        return Linear(weight, bias)
    scale = None
    if scheme == "static":
        scale = max(ckpt.scalar(s + ".input_scale") for s in shards
                    if s + ".input_scale" in ckpt.tensors)
    return Linear8(weight, bias, scheme, codes, bound, scale=scale, group=group,
                   power_of_two=power)


def one_scale(ckpt, path, shards, bias):
    """W10 with --requant-max: one scale for all shards."""
    parts = [ckpt.rows(s + ".weight") for s in shards]
    scale = reference.dynamic_scale(
        [v for part in parts for row in part for v in row], False)
    weight = [to_e4m3(row, scale) for row in ckpt.rows(path + ".weight")]
    return Linear(weight, bias, "token" if ckpt.activation_quant else None)
