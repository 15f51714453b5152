# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The other formats of 8 bits that make_model.py writes (FORMATS.md).

Each format has a config and the tensors of one linear. Scales of neighbours
differ by a factor of two and more, as in make_model.py.
"""
import struct

# name: (dtype of the codes, granularity, dtype and shape of the scale)
#   granularity: tensor, channel, block, mx
FORMATS = {
    "mxfp8": ("F8_E4M3", "mx"),
    "mxfp8-equal": ("F8_E4M3", "mx"),  # equal scales over blocks of 128
    "w8a8-fp8": ("F8_E4M3", "channel"),
    "w8a8-int8": ("I8", "channel"),
    "ct-int8-channel": ("I8", "channel"),
    "ct-int8-static": ("I8", "tensor"),
    "ct-int8-weight-only": ("I8", "channel"),
    "fbgemm": ("F8_E4M3", "channel"),
    "modelopt-fp8": ("F8_E4M3", "tensor"),
    "modelopt-channel": ("F8_E4M3", "channel"),
    "modelopt-block": ("F8_E4M3", "block"),
    "modelopt-mxfp8": ("F8_E4M3", "mx"),
    "quark-fp8": ("F8_E4M3", "tensor"),
    "quark-int8": ("I8", "channel"),
    "fp8-e5m2-block": ("F8_E5M2", "block"),
    "fp8-e5m2-tensor": ("F8_E5M2", "tensor"),
    "fp8-fnuz-block": ("F8_E4M3FNUZ", "block"),
    "fp8-fnuz-channel": ("F8_E4M3FNUZ", "channel"),
}
STATIC = ("ct-int8-static", "modelopt-fp8", "quark-fp8")


def ct_args(kind, strategy, dynamic):
    return {"num_bits": 8, "type": kind, "strategy": strategy,
            "symmetric": True, "dynamic": dynamic, "group_size": None}


def quantization_config(o, ignored):
    """The `quantization_config` of the format."""
    form = o.format
    codes, granularity = FORMATS[form]
    if form.startswith("mxfp8"):
        return {"quant_method": "mxfp8", "weight_block_size": [1, 32],
                "activation_scheme": "dynamic",
                "modules_to_not_convert": ignored}
    if form.startswith("w8a8"):
        return {"quant_method": form.replace("-", "_"), "ignore": ignored}
    if form == "fbgemm":
        # Low enough that some activations saturate.
        return {"quant_method": "fbgemm_fp8", "activation_scale_ub": 3.0,
                "modules_to_not_convert": ignored}
    if form.startswith("ct"):
        inputs = (None if form.endswith("weight-only") else
                  ct_args("int", "tensor", False) if form in STATIC else
                  ct_args("int", "token", True))
        return {"quant_method": "compressed-tensors", "format": "int-quantized",
                "config_groups": {"group_0": {
                    "targets": ["Linear"],
                    "weights": ct_args("int", granularity, False),
                    "input_activations": inputs}},
                "ignore": ignored}
    if form.startswith("modelopt"):
        return {"quant_method": "modelopt", "quant_algo": {
            "modelopt-fp8": "FP8", "modelopt-channel": "FP8_PER_CHANNEL_PER_TOKEN",
            "modelopt-block": "FP8_PB_WO", "modelopt-mxfp8": "MXFP8"}[form],
            "ignore": ignored}
    if form.startswith("quark"):
        dtype = "int8" if codes == "I8" else "fp8_e4m3"
        scheme = "per_tensor" if granularity == "tensor" else "per_channel"
        weight = {"dtype": dtype, "qscheme": scheme, "is_dynamic": False,
                  "symmetric": True, "group_size": None}
        inputs = dict(weight, qscheme="per_tensor")
        if form not in STATIC:
            inputs = dict(weight, is_dynamic=True)
        return {"quant_method": "quark", "global_quant_config": {
            "weight": weight, "input_tensors": inputs, "output_tensors": None},
            "layer_quant_config": {}, "layer_type_quant_config": {},
            "exclude": ignored}
    config = {"quant_method": "fp8", "activation_scheme": "dynamic",
              "modules_to_not_convert": ignored}
    if granularity == "block":
        config["weight_block_size"] = list(o.block)
    return config


def codes_of(maker, dtype, count):
    """Random codes of standard deviation 100 (FP8) or 30 (INT8)."""
    raw = maker.rng.randbytes(count)
    if dtype == "I8":
        return raw.translate(bytes(
            max(-127, min(127, round(30 * x))) & 255 for x in maker.normal))
    if dtype == "F8_E5M2":  # the upper byte of binary16, truncated
        return raw.translate(bytes(
            struct.pack("<e", 100 * x)[1] for x in maker.normal))
    codes = raw.translate(bytes(maker.encode_e4m3(100 * x) for x in maker.normal))
    if dtype == "F8_E4M3FNUZ":
        # No NaN; a +-240 in some blocks only.
        codes = codes.replace(b"\x80", b"\x00").replace(b"\x7f", b"\x7e")
        codes = codes.replace(b"\xff", b"\xfe")
        codes = b"\x7f" + codes[1:-1] + b"\xff"
    return codes


def add_linear(maker, path, rows, columns, input_size, size):
    """The tensors of one linear; `size` is the deviation of its weights."""
    o, form = maker.o, maker.o.format
    dtype, granularity = FORMATS[form]
    maker.add(path + ".weight", dtype, [rows, columns],
              codes_of(maker, dtype, rows * columns))
    deviation = 30.0 if dtype == "I8" else 100.0
    if dtype == "F8_E4M3FNUZ":
        deviation = 50.0
    base = size / deviation
    if granularity == "mx":
        equal = form.endswith("equal")
        draws = {}
        exponents = bytearray()
        for i in range(rows):
            for j in range(-(-columns // 32)):
                place = (i // 128, j // 4) if equal else (i, j)
                if place not in draws:
                    draws[place] = maker.rng.choice((-1, 0, 1))
                exponents.append(127 + draws[place] + maker.log2(base))
        name = ".weight_scale" if form.startswith("modelopt") else ".weight_scale_inv"
        maker.add(path + name, "U8", [rows, -(-columns // 32)], bytes(exponents))
    elif granularity == "block":
        n, k = (128, 128) if form.startswith("modelopt") else o.block
        grid = [-(-rows // n), -(-columns // k)]
        name = path + (".weight_scale" if form.startswith("modelopt")
                       else ".weight_scale_inv")
        maker.scales(name, grid, base, "F32")
        if form.startswith("modelopt"):
            _, _, data = maker.tensors[name]
            maker.tensors[name] = ("F32", [grid[0], 1, grid[1], 1], data)
    elif granularity == "channel":
        shape = [rows] if form == "modelopt-channel" else [rows, 1]
        maker.scales(path + ".weight_scale", shape, base,
                     "BF16" if form.startswith("ct") else "F32")
    else:
        one = [1] if form.startswith("ct") else []
        maker.add(path + ".weight_scale", "F32", one, struct.pack(
            "<f", base * maker.rng.uniform(0.5, 2.0)))
    if form in STATIC:
        largest = 127 if dtype == "I8" else 448
        maker.add(path + ".input_scale", "F32", [1] if form.startswith("ct") else [],
                  struct.pack("<f", input_size / largest
                              * maker.rng.uniform(0.6, 1.2)))
