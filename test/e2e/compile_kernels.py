# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of small models for each CUDA target; needs no GPU.

    compile_kernels.py [--full] [TARGET]

Every template that a dense model uses is instantiated for every target: products
of the target's kinds, attention with both kinds of cache, row kernels. --full (or
OCTET_FULL_KERNELS=1) takes every format and a cache of FP8 for each of them.
Compiled a second time everything comes from the cache. Skips (77) without NVRTC.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

INPUTS = Path(__file__).parent.parent / "Inputs"
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100f", "sm_120f"]
# What make_model.py calls them; then options of octet compile.
FULL = [(form, kv) for form in ("bf16", "f16", "fp8-block", "ct-channel",
                                     "fp8-tensor-static", "fp8-tensor-dynamic", "ct-static")
        for kv in ("auto", "fp8_e4m3")]
FEW = [("fp8-block", "auto"), ("ct-channel", "fp8_e4m3")]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true",
                        default=bool(os.environ.get("OCTET_FULL_KERNELS")))
    parser.add_argument("target", nargs="?", choices=TARGETS)
    options = parser.parse_args()
    folder = Path(os.environ.get("OCTET_TEST_DIR", "compile-kernels"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    octet = Path(os.environ.get("OCTET_BIN_DIR", "")) / "octet"
    environment = dict(os.environ, XDG_CACHE_HOME=str((folder / "cache").resolve()))

    def run(*command):
        return subprocess.run([str(word) for word in command], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment)

    failures, compiled = [], 0
    cases = FULL if options.full else FEW
    for form, kv in cases:
        model = folder / form
        if not model.exists():
            made = run(sys.executable, INPUTS / "make_model.py", model, "--arch",
                       "qwen3", "--format", form, "--hidden", 256, "--intermediate",
                       640, "--layers", 1, "--heads", 4, "--kv-heads", 2, "--vocab",
                       256)
            if made.returncode != 0:
                sys.exit(made.stderr)
        for target in [options.target] if options.target else TARGETS:
            start = time.monotonic()
            warm = ["cache", "warm", model, "--target", target, "--kv-cache", kv, "--json"]
            first = run(octet, *warm)
            if "NVRTC of CUDA 13 compiles kernels and is not there" in first.stderr:
                print(first.stderr)
                sys.exit(77)
            name = f"{form} {kv} {target}"
            if first.returncode != 0:
                print(f"FAIL {name}\n{first.stderr}")
                failures.append(name)
                continue
            count = json.loads(first.stdout)["kernels"]
            seconds = time.monotonic() - start
            print(f"ok   {name}: {count - compiled} kernels, {seconds:.1f} s")
            compiled = count

    listed = json.loads(run(octet, "cache", "list", "--json").stdout)["kernels"]
    for kernel in listed:
        if kernel["damaged"] or not re.fullmatch(r"octet_\w+", kernel["entry"]):
            failures.append(f"cache: {kernel}")
    # Nothing is compiled twice: the cache alone is enough.
    if not failures and not options.target:
        start = time.monotonic()
        again = run(octet, "compile", folder / cases[0][0], "--target", "sm_90a",
                    "--kv-cache", cases[0][1], "--compile-to", "emit-kernels",
                    "-o", folder / "again.mlir")
        seconds = time.monotonic() - start
        print(f"again, from the cache: {seconds:.1f} s")
        after = json.loads(run(octet, "cache", "list", "--json").stdout)["kernels"]
        if again.returncode != 0 or len(after) != len(listed):
            failures.append("again: " + again.stderr)
    shutil.rmtree(folder)
    if failures:
        sys.exit("failed: " + ", ".join(failures))


main()
