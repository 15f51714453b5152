#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether `octet check` and `octet compile` refuse a checkpoint alike.

    compare_refusals.py FOLDER WORK [OPTION ...]

Of each kind of tensor in FOLDER (layers and experts are alike) the first is
taken away, gets another shape, or another dtype, in a copy in WORK. Both
commands have to end with the same status, and their first errors to be the same
line but for the types, which check prints as safetensors does (F32 [1]) and a
pass as MLIR does (tensor<1xf32>). Prints how many were compared and refused.
"""
import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

WIDTH = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1, "U8": 1, "I8": 1,
         "I64": 8}
OTHER = {"BF16": "F8_E4M3", "F16": "F8_E4M3", "F8_E4M3": "I8", "F32": "F8_E4M3",
         "U8": "I32", "I32": "F32", "I8": "F32", "I64": "F32"}


def read(folder):
    """Name to (dtype, shape), of one file."""
    with open(folder / "model.safetensors", "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"]) for name, t in header.items()}


def write(folder, tensors):
    """A header; the data are a hole, whose zeros check does not judge (W6)."""
    header, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = WIDTH[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4096)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)


def changes(dtype, shape):
    yield "taken away", None
    yield "another shape", (dtype, [shape[0] + 32, *shape[1:]] if shape else [2])
    yield "another dtype", (OTHER[dtype], shape)


def first_error(*command):
    done = subprocess.run([str(part) for part in command], text=True,
                          capture_output=True)
    lines = re.findall(r"^error: (.*)$", done.stderr, re.M)
    return done.returncode, lines[0] if lines else ""


def main():
    source, work, options = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    tensors = read(source)
    kinds = {}
    for name in tensors:
        kinds.setdefault(re.sub(r"\.\d+\.", ".#.", name), name)
    count = refused = 0
    faults = []
    for name in kinds.values():
        for what, value in changes(*tensors[name]):
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            shutil.copy(source / "config.json", work)
            write(work, {key: value if key == name else old
                         for key, old in tensors.items()
                         if key != name or value})
            check = first_error("octet", "check", work, *options)
            compiled = first_error("octet", "compile", work, *options,
                                   "--compile-to", "materialize-weights", "-o", "-")
            count += 1
            refused += check[0] == 1
            if check != compiled:
                faults += [f"{name}, {what}:", f"    check   {check[0]} {check[1]}",
                           f"    compile {compiled[0]} {compiled[1]}"]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{count} compared, {refused} refused alike")


if __name__ == "__main__":
    main()
