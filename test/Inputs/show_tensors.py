# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""show_tensors.py FILE.safetensors …: looks into a safetensors file.

    show_tensors.py A                  prints NAME DTYPE SHAPE of each tensor
    show_tensors.py A --same B         fails unless both files hold the same
    show_tensors.py A --equal X Y      fails unless tensors X and Y have the
                                       same bytes
    show_tensors.py A --argmax X Y     fails unless Y holds the argmax of X's rows
Python's standard library only.
"""
import array
import json
import struct
import sys
from pathlib import Path

TYPES = {"F32": "f", "I64": "q"}


def load(path):
    blob = Path(path).read_bytes()
    size = struct.unpack("<Q", blob[:8])[0]
    tensors = {}
    for name, entry in json.loads(blob[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array.array(TYPES[entry["dtype"]])
        values.frombytes(blob[8 + size + begin:8 + size + end])
        tensors[name] = (entry["dtype"], entry["shape"], values)
    return tensors


def main():
    tensors = load(sys.argv[1])
    mode = sys.argv[2] if len(sys.argv) > 2 else ""
    if mode == "--same":
        other = load(sys.argv[3])
        if tensors.keys() != other.keys():
            sys.exit(f"different names: {sorted(tensors.keys() ^ other.keys())}")
        for name, (dtype, shape, values) in tensors.items():
            if other[name][:2] != (dtype, shape):
                sys.exit(f"{name}: {dtype} {shape} and {other[name][:2]}")
            for i, (a, b) in enumerate(zip(values, other[name][2])):
                if struct.pack("d", a) != struct.pack("d", b):
                    sys.exit(f"{name}: element {i} is {a!r} and {b!r}")
        print(f"{len(tensors)} tensors are the same")
    elif mode == "--equal":
        x, y = (tensors[name] for name in sys.argv[3:5])
        if x[2].tobytes() != y[2].tobytes():
            sys.exit(f"{sys.argv[3]} {x[1]} and {sys.argv[4]} {y[1]} differ")
        print("equal")
    elif mode == "--argmax":
        x, y = (tensors[name] for name in sys.argv[3:5])
        width = x[1][1]
        for row in range(x[1][0]):
            values = x[2][row * width:(row + 1) * width]
            if values.index(max(values)) != y[2][row]:
                sys.exit(f"row {row}: {values.index(max(values))} and {y[2][row]}")
        print("argmax")
    else:
        for name, (dtype, shape, values) in sorted(tensors.items()):
            print(name, dtype, shape)


if __name__ == "__main__":
    main()
