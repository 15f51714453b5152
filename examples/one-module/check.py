# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The input of the example, and its result computed once more in Python."""
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test" / "e2e"))
import reference  # noqa: E402

ROWS, K = 3, 256


def main():
    if sys.argv[1] == "make-input":
        rng = random.Random(1)
        x = [reference.f32(rng.gauss(0, 1)) for _ in range(ROWS * K)]
        reference.write_safetensors(sys.argv[2], {"x": ("F32", [ROWS, K], x)})
        return
    folder, x_file, y_file = sys.argv[2:]
    linear = reference.Checkpoint(folder, activation_quant=False).linear(
        "model.layers.1.self_attn.q_proj", [])
    (_, _, x), (_, shape, y) = (reference.read_safetensors(f)[n] for f, n in
                                ((x_file, "x"), (y_file, "y")))
    x, y = reference.decode("F32", x), reference.decode("F32", y)
    want = [v for i in range(ROWS)
            for v in linear(x[i * K:(i + 1) * K], model=None)]
    error = sum((a - b) ** 2 for a, b in zip(y, want, strict=True)) ** 0.5
    error /= sum(b * b for b in want) ** 0.5
    print(f"y is {shape[0]} x {shape[1]}, relative error {error:.1e}")
    # Float32 sums of 256 products: at most 256 · 2^-24, here far less.
    sys.exit(error > 1e-6)


if __name__ == "__main__":
    main()
