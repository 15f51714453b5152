#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make_hole.py CHECKPOINT [NAME=VALUE]

Leaves of the data of a checkpoint in one file a hole: headers without values.
NAME=VALUE then stores one F32 scalar.
"""
import json
import struct
import sys
from pathlib import Path

PAGE = 65536  # a hole begins on an edge of the file system's blocks

path = Path(sys.argv[1]) / "model.safetensors"
data = path.read_bytes()
header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
text = json.dumps(header).encode()
text += b" " * (-(8 + len(text)) % PAGE)
size = max(entry["data_offsets"][1] for name, entry in header.items()
           if name != "__metadata__")
with open(path, "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate(8 + len(text) + size)
    for argument in sys.argv[2:]:
        name, _, value = argument.partition("=")
        file.seek(8 + len(text) + header[name]["data_offsets"][0])
        file.write(struct.pack("<f", float(value)))
