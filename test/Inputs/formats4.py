# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights whose codes share words, for make_model.py (FORMATS.md).

AWQ, GPTQ (4 and 8 bits, both checkpoint formats, act-order, one group a
channel), auto-round in both layouts, pack-quantized, MXFP4 and NVFP4. Codes are
uniform; scales of neighbours differ by a factor of two and more.
"""
import math
import struct
from collections import namedtuple

# layout: awq, gptq (words along K), rows (words along a row), mx, nv
# zeros: none, z, z-1
Format = namedtuple("Format", "layout bits group zeros order scale")
FORMATS = {
    "awq": Format("awq", 4, 32, "z", False, "F16"),
    "gptq": Format("gptq", 4, 32, "z-1", False, "F16"),
    "gptq-v2": Format("gptq", 4, 64, "z", False, "F16"),
    "gptq-act-order": Format("gptq", 4, 32, "z-1", True, "F16"),
    "gptq-8": Format("gptq", 8, 32, "z-1", False, "F16"),
    "gptq-channel": Format("gptq", 4, -1, "z-1", False, "F16"),
    "auto-round-gptq": Format("gptq", 4, 32, "z-1", False, "F16"),
    "auto-round-awq": Format("awq", 4, 32, "z", False, "F16"),
    "packed-4": Format("rows", 4, 32, "none", False, "BF16"),
    "packed-4-zeros": Format("rows", 4, 32, "z", True, "BF16"),
    "packed-4-channel": Format("rows", 4, -1, "none", False, "F32"),
    "packed-8": Format("rows", 8, 32, "none", False, "BF16"),
    "mxfp4-quark": Format("mx", 4, 32, "none", False, "U8"),
    "mxfp4-quark-w4a4": Format("mx", 4, 32, "none", False, "U8"),
    "auto-round-mxfp4": Format("mx", 4, 32, "none", False, "U8"),
    "auto-round-nvfp4": Format("nv", 4, 16, "none", False, "F8_E4M3"),
    "nvfp4": Format("nv", 4, 16, "none", False, "F8_E4M3"),
    "nvfp4-weight-only": Format("nv", 4, 16, "none", False, "F8_E4M3"),
    "nvfp4-ct": Format("nv", 4, 16, "none", False, "F8_E4M3"),
    "nvfp4-ct-w4a4": Format("nv", 4, 16, "none", False, "F8_E4M3"),
}
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def quantization_config(o, ignored):
    """The `quantization_config` of the format."""
    name, form = o.format, FORMATS[o.format]
    if name == "awq":
        return {"quant_method": "awq", "bits": 4, "group_size": form.group,
                "zero_point": True, "version": "gemm",
                "modules_to_not_convert": ignored}
    if name.startswith("gptq"):
        config = {"quant_method": "gptq", "bits": form.bits,
                  "group_size": form.group, "desc_act": form.order,
                  "sym": False, "lm_head": o.quantized_head}
        # Absent means 'gptq'.
        if form.zeros == "z":
            config["checkpoint_format"] = "gptq_v2"
        config["dynamic"] = {"-:.*" + path.replace(".", "\\.") + "$": {}
                             for path in ignored if path != "lm_head"}
        return config
    if name in ("auto-round-mxfp4", "auto-round-nvfp4"):
        return {"quant_method": "auto-round", "bits": 4, "sym": True,
                "group_size": form.group, "act_bits": 4, "act_dynamic": True,
                "data_type": form.layout + "_fp",
                "act_data_type": form.layout + "_fp",
                "extra_config": {p: {"bits": 16} for p in ignored}}
    if name.startswith("auto-round"):
        return {"quant_method": "auto-round", "bits": 4, "sym": False,
                "group_size": form.group, "data_type": "int",
                "packing_format": "auto_round:auto_" + form.layout,
                "extra_config": {p: {"bits": 16} for p in ignored}}
    if name.startswith("mxfp4-quark"):
        weight = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32,
                  "is_dynamic": False}
        inputs = None
        if name == "mxfp4-quark-w4a4":
            inputs = {**weight, "is_dynamic": True}
        return {"quant_method": "quark", "global_quant_config": {
            "weight": weight, "input_tensors": inputs, "output_tensors": None},
            "layer_quant_config": {}, "layer_type_quant_config": {},
            "exclude": ignored}
    if name in ("nvfp4", "nvfp4-weight-only"):
        algorithm = "NVFP4" if name == "nvfp4" else "W4A16_NVFP4"
        return {"quant_method": "modelopt", "quant_algo": algorithm,
                "group_size": 16, "ignore": ignored}
    weights = {"num_bits": form.bits, "type": "int", "symmetric": True,
               "dynamic": False, "strategy": "group", "group_size": form.group,
               "actorder": "group" if form.order else None}
    kind, inputs = "pack-quantized", None
    if form.layout == "nv":
        weights |= {"type": "float", "strategy": "tensor_group"}
        kind = "nvfp4-pack-quantized"
        if name == "nvfp4-ct-w4a4":
            inputs = {"num_bits": 4, "type": "float", "symmetric": True,
                      "dynamic": "local", "strategy": "tensor_group",
                      "group_size": form.group}
    elif form.group == -1:
        weights |= {"strategy": "channel", "group_size": None}
    weights["symmetric"] = form.zeros == "none"
    return {"quant_method": "compressed-tensors", "format": kind,
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights,
                "input_activations": inputs}}, "ignore": ignored}


def pack(fields, bits):
    """Fields of a line, lowest bits first, in whole 32-bit words."""
    per_word = 32 // bits
    fields = fields + [0] * (-len(fields) % per_word)
    return b"".join(
        struct.pack("<I", sum(f << bits * i for i, f in enumerate(
            fields[at:at + per_word]))) for at in range(0, len(fields), per_word))


def awq_line(fields):
    return [fields[at + column] for at in range(0, len(fields), 8)
            for column in AWQ_ORDER]


def transposed(rows):
    return [list(column) for column in zip(*rows)]


def add_integers(maker, path, form, rows, columns, size):
    rng, group = maker.rng, form.group if form.group > 0 else columns
    groups, top = -(-columns // group), (1 << form.bits) - 1
    order = [i // group for i in range(columns)]
    if form.order:
        rng.shuffle(order)
    code = [list(rng.randbytes(columns)) for _ in range(rows)]
    code = [[c & top for c in row] for row in code]
    middle = (top + 1) // 2
    zero = [[middle if form.zeros == "none"
             else middle + rng.randint(-middle // 4, middle // 4)
             for _ in range(groups)] for _ in range(rows)]
    base = size / (top / math.sqrt(12))
    scale = [[base * (1.4 if (i + j) % 2 else 0.5) * rng.uniform(0.8, 1.2)
              for j in range(groups)] for i in range(rows)]
    stored = [[z - (form.zeros == "z-1") for z in row] for row in zero]
    per_word = 32 // form.bits

    def words(lines):
        return b"".join(pack(line, form.bits) for line in lines)

    if form.layout == "rows":
        maker.add(path + ".weight_packed", "I32",
                  [rows, -(-columns // per_word)], words(code))
        maker.add(path + ".weight_scale", form.scale, [rows, groups],
                  maker.encode(form.scale, [s for row in scale for s in row]))
        maker.add(path + ".weight_shape", "I64", [2],
                  struct.pack("<2q", rows, columns))
        if form.zeros != "none":  # packed along N
            maker.add(path + ".weight_zero_point", "I32",
                      [-(-rows // per_word), groups],
                      words_by_column(stored, form.bits))
        if form.order:
            maker.add(path + ".weight_g_idx", "I32", [columns],
                      struct.pack(f"<{columns}i", *order))
        return
    across = transposed(code)  # [K][N]
    zeros = transposed(stored)  # [groups][N]
    scales = [s for row in transposed(scale) for s in row]
    if form.layout == "awq":
        maker.add(path + ".qweight", "I32", [columns, rows // 8],
                  words([awq_line(line) for line in across]))
        zeros = [awq_line(line) for line in zeros]
    else:
        maker.add(path + ".qweight", "I32", [columns // per_word, rows],
                  words_by_column(across, form.bits))
        maker.add(path + ".g_idx", "I32", [columns],
                  struct.pack(f"<{columns}i", *order))
    maker.add(path + ".qzeros", "I32", [groups, rows // per_word], words(zeros))
    maker.add(path + ".scales", "F16", [groups, rows],
              maker.encode("F16", scales))


def words_by_column(table, bits):
    """Words along the first side of a table: [ceil(lines * bits / 32)][columns]."""
    per_word = 32 // bits
    out = b""
    for at in range(0, len(table), per_word):
        lines = table[at:at + per_word]
        out += b"".join(pack([line[c] for line in lines], bits)
                        for c in range(len(table[0])))
    return out


def add_fp4(maker, path, form, rows, columns, size):
    rng = maker.rng
    groups = columns // form.group
    base = size / 2.6  # the deviation of uniform E2M1 codes
    is_mx = form.layout == "mx"
    packed = maker.o.format.startswith(("nvfp4-ct", "auto-round"))
    codes = rng.randbytes(rows * columns // 2)
    maker.add(path + (".weight_packed" if packed else ".weight"), "U8",
              [rows, columns // 2], codes)
    if is_mx:
        exponents = bytes(127 + maker.log2(base) + rng.choice((-1, 0, 1))
                          for _ in range(rows * groups))
        maker.add(path + ".weight_scale", "U8", [rows, groups], exponents)
        return
    above = base / 8 * rng.uniform(0.7, 1.4)  # group scales are about 8
    scales = bytes(maker.encode_e4m3(rng.choice((3.0, 6.0, 12.0))
                                     * rng.uniform(0.8, 1.2))
                   for _ in range(rows * groups))
    maker.add(path + ".weight_scale", "F8_E4M3", [rows, groups], scales)
    if packed:
        maker.add(path + ".weight_global_scale", "F32", [1],
                  struct.pack("<f", 1 / above))
        if maker.o.format != "nvfp4-ct":
            maker.add(path + ".input_global_scale", "F32", [1],
                      struct.pack("<f", 100 * rng.uniform(0.7, 1.4)))
        return
    maker.add(path + ".weight_scale_2", "F32", [], struct.pack("<f", above))
    if maker.o.format == "nvfp4":
        maker.add(path + ".input_scale", "F32", [],
                  struct.pack("<f", 0.01 * rng.uniform(0.7, 1.4)))


def add_linear(maker, path, rows, columns, size):
    """The tensors of one linear; `size` is the deviation of its weights."""
    form = FORMATS[maker.o.format]
    if form.layout in ("mx", "nv"):
        add_fp4(maker, path, form, rows, columns, size)
    else:
        add_integers(maker, path, form, rows, columns, size)
