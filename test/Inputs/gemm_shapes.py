#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes of products, a line `M N K` each, as `octet kernel --shapes` reads.

    gemm_shapes.py --dense [--rows 1,16]      the shapes that kernels are compared on
    gemm_shapes.py --decode [--rows 1]        linear layers of dense checkpoints
    gemm_shapes.py --drawn 7 [--count 20]     shapes of no list, drawn from a seed
"""

import argparse
import random

# Projections of models with latent attention, on one rank and on several.
DENSE = [
    (24576, 1536), (7168, 16384), (4096, 7168), (7168, 2048), (2112, 7168),
    (32768, 512), (2624, 6144), (16384, 2048), (6144, 16384), (4096, 6144),
    (6144, 2048),
]

# qkv, o, gate and up, down.
DECODE = {
    "Qwen3-8B": [(6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)],
    "Llama-3.1-8B": [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)],
    "Qwen3-32B": [(10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600)],
    "Llama-3.1-70B": [(10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672)],
}

DENSE_ROWS = [1, 16, 64, 128, 512, 2048, 4096, 8192]
DECODE_ROWS = [1, 8, 16, 32, 64, 128, 512, 2048, 4096]


def draw(seed, count):
    """Columns of 64 to 32 Ki by their logarithm, blocks of K likewise, any rows
    up to 8192: half of them those of a decode step."""
    generator = random.Random(seed)

    def by_logarithm(least, most):
        return least * (most / least) ** generator.random()

    shapes = []
    while len(shapes) < count:
        n = 64 * round(by_logarithm(1024, 32768) / 64)
        k = 128 * round(by_logarithm(512, 16384) / 128)
        few = len(shapes) % 2 == 0
        m = round(by_logarithm(1, 128) if few else by_logarithm(128, 8192))
        if (n, k) not in DENSE:
            shapes.append((m, n, k))
    return shapes


def rows_of(text):
    """1,16 to [1, 16]."""
    rows = [int(m) if m.isdigit() else 0 for m in text.split(",")]
    if min(rows) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a list of numbers of rows")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--dense", action="store_true")
    which.add_argument("--decode", action="store_true")
    which.add_argument("--drawn", type=int, metavar="SEED")
    parser.add_argument("--count", type=int, default=20, help="of drawn shapes")
    parser.add_argument("--rows", type=rows_of,
                        help="M, separated by commas, in place of the list's own")
    args = parser.parse_args()
    if args.drawn is not None:
        shapes = draw(args.drawn, args.count)
    else:
        layers = DENSE if args.dense else [s for model in DECODE.values() for s in model]
        rows = args.rows or (DENSE_ROWS if args.dense else DECODE_ROWS)
        shapes = [(m, n, k) for n, k in dict.fromkeys(layers) for m in rows]
    for m, n, k in shapes:
        print(m, n, k)


if __name__ == "__main__":
    main()
