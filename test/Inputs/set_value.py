#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""set_value.py FILE TENSOR ROW VALUE

Stores VALUE, which may be nan, as the first element of a row of an F32 matrix of
a safetensors file.
"""
import json
import struct
import sys

path, name, row, value = sys.argv[1:]
with open(path, "r+b") as file:
    size = int.from_bytes(file.read(8), "little")
    tensor = json.loads(file.read(size))[name]
    assert tensor["dtype"] == "F32", tensor
    columns = tensor["shape"][-1]
    file.seek(8 + size + tensor["data_offsets"][0] + 4 * int(row) * columns)
    file.write(struct.pack("<f", float(value)))
