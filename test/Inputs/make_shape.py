#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write the shape of a model: a checkpoint whose weights are a hole.

    make_shape.py OUT --shape llama-1.1b --format fp8-block [OPTIONS of make_model.py]
    make_shape.py OUT.gguf --shape llama-1.1b --types Q4_1 [OPTIONS of make_gguf.py]

config.json and the headers are those that make_model.py or make_gguf.py writes
for the same options, so the folder or file compiles; the data are not there (a sparse file of zeros,
which takes no room on most file systems), so the executable runs with
`--weights random`. Options given beside --shape override it. Python's standard
library only.
"""
import json
import struct
import sys
from pathlib import Path

import make_gguf
import make_model

# What a step of decode reads in BF16, without the cache, is in the comments.
SHAPES = {
    # TinyLlama-1.1B: 2069 MB
    "llama-1.1b": dict(arch="llama", hidden=2048, intermediate=5632, layers=22,
                       heads=32, kv_heads=4, head_dim=64, vocab=32000,
                       max_position=4096),
    # SmolLM2-135M: 269 MB
    "smollm2-135m": dict(arch="llama", hidden=576, intermediate=1536, layers=30,
                         heads=9, kv_heads=3, head_dim=64, vocab=49152,
                         max_position=8192, rope_theta=100000.0, tied=True),
    # Qwen3-0.6B: 1192 MB
    "qwen3-0.6b": dict(arch="qwen3", hidden=1024, intermediate=3072, layers=28,
                       heads=16, kv_heads=8, head_dim=128, vocab=151936,
                       max_position=40960, rope_theta=1000000.0, tied=True),
    # Qwen3-8B: 15.1 GB; 7.6 GB of its layers and head in FP8
    "qwen3-8b": dict(arch="qwen3", hidden=4096, intermediate=12288, layers=36,
                     heads=32, kv_heads=8, head_dim=128, vocab=151936,
                     max_position=40960, rope_theta=1000000.0),
    # Llama-3.1-8B: 15.0 GB
    "llama-8b": dict(arch="llama", hidden=4096, intermediate=14336, layers=32,
                     heads=32, kv_heads=8, head_dim=128, vocab=128256,
                     max_position=131072, rope_theta=500000.0),
    # As small as anything of use: for tests.
    "tiny": dict(arch="llama", hidden=128, intermediate=256, layers=2, heads=4,
                 kv_heads=2, head_dim=32, vocab=320, max_position=512),
}


class Hole:
    """So many bytes that are not there."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


class ShapeMaker(make_model.Maker):
    """Tensors of the right names and shapes; what is large is a hole."""

    def vector(self, name, count, mean, size):
        self.matrix(name, 1, count, size)
        self.tensors[name] = (self.plain, [count], self.tensors[name][2])

    def matrix(self, name, rows, columns, size):
        self.add(name, self.plain, [rows, columns],
                 make_hole(None, self.plain, rows * columns, size))

    def scales(self, name, shape, base, dtype):
        count = 1
        for side in shape:
            count *= side
        self.add(name, dtype, shape, make_hole(None, dtype, count, base))


def make_hole(rng, dtype, count, size):
    """In place of make_model.gaussian."""
    return Hole(count * make_model.WIDTH[dtype])


def write_safetensors(path, tensors):
    header, offset, small = {}, 0, []
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        if not isinstance(data, Hole):
            small.append((offset, data))
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        start = file.tell()
        for at, data in small:
            file.seek(start + at)
            file.write(data)
        file.truncate(start + offset)
    return offset


def write_gguf(options):
    """A GGUF file; norms are there, they are small."""
    make_gguf.random_data = lambda rng, dtype, count, size: Hole(
        count // make_gguf.TYPES[dtype][1] * make_gguf.TYPES[dtype][2])
    metadata, tensors = make_gguf.make(options)
    make_gguf.write_gguf(options.out, metadata, tensors)
    return len(tensors), sum(len(data) for _, _, data in tensors.values()
                             if isinstance(data, Hole))


def main():
    arguments = sys.argv[1:]
    if "--shape" not in arguments[:-1]:
        sys.exit(f"{__doc__}\nshapes: {', '.join(SHAPES)}")
    at = arguments.index("--shape")
    name = arguments[at + 1]
    del arguments[at:at + 2]
    if name not in SHAPES:
        sys.exit(f"make_shape.py: no shape '{name}'; there are "
                 f"{', '.join(SHAPES)}")
    gguf, shape = "--types" in arguments, []
    for key, value in SHAPES[name].items():
        if gguf and key in ("max_position", "rope_theta"):
            continue  # of no concern for the time that a step takes
        option = "--" + key.replace("_", "-")
        shape += [option] if value is True else [option, str(value)]
    if gguf:
        options = make_gguf.parse(shape + arguments)
        count, size = write_gguf(options)
        print(f"{options.out}: {name} {options.types}, {count} tensors, {size} "
              f"bytes of weights that are not there", file=sys.stderr)
        return
    options = make_model.parse(shape + arguments)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    make_model.gaussian = make_hole
    tensors = ShapeMaker(options).model()
    (out / "config.json").write_text(
        json.dumps(make_model.make_config(options), indent=1))
    size = write_safetensors(out / "model.safetensors", tensors)
    print(f"{out}: {name} {options.format}, {len(tensors)} tensors, {size} "
          f"bytes of weights that are not there", file=sys.stderr)


if __name__ == "__main__":
    main()
