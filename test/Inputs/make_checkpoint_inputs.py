#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write checkpoint folders that are wrong in one way each, and some good ones.

    make_checkpoint_inputs.py OUTDIR [CASE ...]

Writes OUTDIR/CASE for each named case; without a name, all but those marked
(large). --list prints the cases. Only the standard library is used; data is a
hole in the file where its values do not matter.
"""
import argparse
import json
import os
import struct
from pathlib import Path

CASES = {}


def case(function):
    """Registers a function that fills the folder it is given."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def write_tensors(path, header, data_bytes, length=None):
    """A safetensors file. `header` is text, bytes, or a dict of entries."""
    if isinstance(header, dict):
        header = json.dumps(header)
    if isinstance(header, str):
        header = header.encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header) if length is None else length))
        file.write(header)
        file.truncate(8 + len(header) + data_bytes)


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def config(folder, **fields):
    fields = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"} | fields
    (folder / "config.json").write_text(json.dumps(fields))


def two_tensors(folder, a, b, data_bytes):
    """A checkpoint of tensors 'a' and 'b' with the given entries."""
    config(folder)
    write_tensors(folder / "model.safetensors", {"a": a, "b": b}, data_bytes)


def shards(folder, weight_map):
    """Tensors a, b in the first of two files and c in the second."""
    config(folder)
    write_tensors(folder / "m1.safetensors",
                  {"a": entry("F32", [4], 0, 16), "b": entry("F32", [4], 16, 32)}, 32)
    write_tensors(folder / "m2.safetensors", {"c": entry("F32", [4], 0, 16)}, 16)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": 48}, "weight_map": weight_map}))


GOOD_MAP = {"a": "m1.safetensors", "b": "m1.safetensors", "c": "m2.safetensors"}


# Good ones.

@case
def good(folder):
    """A block-FP8 model of two layers, one of which has experts."""
    config(folder, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    header, offset = {"__metadata__": {"format": "pt"}}, 0

    def add(name, dtype, shape, width):
        nonlocal offset
        size = width
        for side in shape:
            size *= side
        header[name] = entry(dtype, shape, offset, offset + size)
        offset += size

    add("model.embed_tokens.weight", "BF16", [256, 128], 2)
    for module in ["0.mlp.up_proj"] + [f"1.mlp.experts.{e}.up_proj" for e in range(4)]:
        add(f"model.layers.{module}.weight", "F8_E4M3", [256, 128], 1)
        add(f"model.layers.{module}.weight_scale_inv", "F32", [2, 1], 4)
    for layer in range(2):
        add(f"model.layers.{layer}.input_layernorm.weight", "BF16", [128], 2)
    write_tensors(folder / "model.safetensors", header, offset)


@case
def sharded(folder):
    shards(folder, GOOD_MAP)


@case
def without_config(folder):
    write_tensors(folder / "model.safetensors", {"a": entry("F32", [2, 3], 0, 24)}, 24)


@case
def large(folder):
    """(large) 118,584 tensors in 141 files, as a model of 750 billion parameters has."""
    config(folder, quantization_config={"quant_method": "fp8"})
    names = []
    for layer in range(77):
        for expert in range(256):
            for matrix in ("down_proj", "gate_proj", "up_proj"):
                stem = f"model.layers.{layer}.mlp.experts.{expert}.{matrix}"
                names += [(stem + ".weight", "F8_E4M3", [2048, 6144], 2048 * 6144),
                          (stem + ".weight_scale_inv", "F32", [16, 48], 4 * 16 * 48)]
    names += [(f"model.layers.{layer}.{part}.weight", "BF16", [6144], 2 * 6144)
              for layer in range(78) for part in ("input_layernorm", "mlp.gate", "mlp.norm", "self_attn.norm")]
    weight_map, per_file = {}, -(-len(names) // 141)
    for number in range(141):
        header, offset = {}, 0
        file = f"model-{number + 1:05d}-of-00141.safetensors"
        for name, dtype, shape, size in names[number * per_file:(number + 1) * per_file]:
            header[name] = entry(dtype, shape, offset, offset + size)
            weight_map[name] = file
            offset += size
        write_tensors(folder / file, header, offset)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}, indent=1))


# Files that are cut or no safetensors files.

@case
def empty_folder(folder):
    pass


@case
def too_short(folder):
    config(folder)
    (folder / "model.safetensors").write_bytes(b"12345")


@case
def truncated_header(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b'{"a":{"dtype":', 0, length=90)


@case
def truncated_data(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", {"a": entry("F32", [4], 0, 16)}, 15)


@case
def header_length(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b"{}", 0, length=2**64 - 1)


@case
def header_limit(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b"{", 2 * 10**8, length=15 * 10**7)


@case
def header_not_json(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b'{"a":}', 0)


@case
def header_list(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b"[]", 0)


@case
def header_nesting(folder):
    """(large) 100 MB of open brackets."""
    config(folder)
    write_tensors(folder / "model.safetensors", b'{"a":' + b"[" * 10**8, 0)


@case
def fifo(folder):
    config(folder)
    os.mkfifo(folder / "model.safetensors")


# Entries that lie.

@case
def overlap(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 8, 24), 24)


@case
def out_of_range(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 16, 32), 24)


@case
def gap(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 24, 40), 40)


@case
def left_over(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 16, 32), 40)


@case
def backwards(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 32, 16), 32)


@case
def wrong_bytes(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("BF16", [2, 3], 16, 32), 32)


@case
def unknown_dtype(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F4", [4], 16, 32), 32)


@case
def negative_shape(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [2, -2], 16, 32), 32)


@case
def float_shape(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4.0], 16, 32), 32)


@case
def overflowing_shape(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("U8", [2**32, 2**32], 16, 16), 16)


@case
def overflowing_offsets(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), entry("F32", [4], 2**64 - 8, 2**64 + 8), 32)


@case
def missing_field(folder):
    two_tensors(folder, entry("F32", [4], 0, 16), {"dtype": "F32", "shape": [4]}, 16)


@case
def twice(folder):
    config(folder)
    one = json.dumps(entry("F32", [4], 0, 16))
    two = json.dumps(entry("F32", [4], 16, 32))
    write_tensors(folder / "model.safetensors", f'{{"a": {one}, "a": {two}}}', 32)


@case
def hostile_name(folder):
    """A name that would clear the terminal, and goes on."""
    config(folder)
    write_tensors(folder / "model.safetensors", {"\x1b[2J'\n" + "x" * 1000: entry("F9", [4], 0, 16)}, 16)


@case
def name_not_utf8(folder):
    config(folder)
    write_tensors(folder / "model.safetensors", b'{"\xff\xfe":{}}', 0)


# The index.

@case
def index_parent(folder):
    shards(folder, GOOD_MAP | {"c": "../m2.safetensors"})


@case
def index_absolute(folder):
    shards(folder, GOOD_MAP | {"c": "/etc/passwd"})


@case
def index_no_file(folder):
    shards(folder, GOOD_MAP | {"c": "m3.safetensors"})


@case
def index_other_file(folder):
    shards(folder, GOOD_MAP | {"b": "m2.safetensors"})


@case
def index_extra(folder):
    shards(folder, GOOD_MAP | {"d": "m2.safetensors"})


@case
def index_lacks(folder):
    shards(folder, {"a": "m1.safetensors", "c": "m2.safetensors"})


@case
def index_twice(folder):
    shards(folder, {})
    (folder / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "m1.safetensors", "a": "m1.safetensors"}}')


@case
def index_not_json(folder):
    shards(folder, {})
    (folder / "model.safetensors.index.json").write_text("weight_map")


# config.json

def with_config(folder, text):
    write_tensors(folder / "model.safetensors", {"a": entry("F32", [4], 0, 16)}, 16)
    (folder / "config.json").write_bytes(text)


@case
def config_not_json(folder):
    with_config(folder, b"model_type: llama\n")


@case
def config_list(folder):
    with_config(folder, b"[]")


@case
def config_twice(folder):
    with_config(folder, b'{"hidden_size": 64, "hidden_size": 128}')


@case
def config_nesting(folder):
    """(large) 50 MB of open brackets: as much as is looked into."""
    with_config(folder, b'{"a":' + b"[" * (5 * 10**7))


@case
def config_huge(folder):
    """(large) 100 MB of open brackets."""
    with_config(folder, b"[" * 10**8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("outdir", nargs="?")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    arguments = parser.parse_args()
    if arguments.list:
        for name, function in CASES.items():
            print(f"{name:22} {(function.__doc__ or '').splitlines()[0] if function.__doc__ else ''}".rstrip())
        return
    if not arguments.outdir:
        parser.error("no OUTDIR")
    small = [name for name, function in CASES.items() if not (function.__doc__ or "").startswith("(large)")]
    for name in arguments.cases or small:
        if name not in CASES:
            parser.error(f"no case {name!r}")
        folder = Path(arguments.outdir, name)
        folder.mkdir(parents=True)
        CASES[name](folder)


if __name__ == "__main__":
    main()
