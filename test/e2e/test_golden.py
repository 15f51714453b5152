#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The golden cases of the shared folder, as its check_golden.py judges them.

    test_golden.py CASE DTYPE       exits with 77 (skipped) without the folder
"""
import os
import subprocess
import sys
from pathlib import Path

from octet_test import BIN, SHARED, clear

CASES = ["llama-bf16", "llama-fp8-static", "llama-fp8-ct-static",
         "llama-fp8-ct-channel", "llama-mxfp8", "qwen3-fp8-block", "qwen3-fp8-block-partial"]


def main():
    case, dtype = sys.argv[1:]
    script = Path(SHARED) / "tools" / "check_golden.py"
    golden = Path(SHARED) / "golden"
    if not SHARED or not script.is_file() or not (golden / case).is_dir():
        print(f"skipped: no golden case {case}; OCTET_SHARED_DIR is "
              f"'{SHARED}', it should name a folder with golden/ and tools/")
        return 77
    build = Path(os.environ["OCTET_TEST_DIR"])
    # -k takes a part of a name; the folder alone is given, so that another
    # case's name may contain this one's.
    link = build / "case"
    link.mkdir(parents=True, exist_ok=True)
    for old in link.iterdir():
        old.unlink()
    (link / case).symlink_to(golden / case)
    status = subprocess.call([
        sys.executable, script, BIN / "octet", link, "--dtype", dtype,
        "--build", build])
    if not status:
        clear(build)
    return status


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(";".join(CASES), end="")
        sys.exit()
    sys.exit(main())
