#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_readme.py FILE PREFIX FOLDER

Runs the command of FILE whose line is `$ PREFIX…`, with FOLDER for CKPT, and
compares stdout followed by stderr with what the code block shows below it. A
line `…` of the block stands for any lines.
"""
import difflib
import subprocess
import sys
from pathlib import Path

file, prefix, folder = sys.argv[1:]
lines = Path(file).read_text().split("\n")
starts = [i for i, line in enumerate(lines)
          if line.startswith("$ " + prefix) and lines[i - 1].startswith("```")]
if len(starts) != 1:
    sys.exit(f"{file}: {len(starts)} blocks begin with '$ {prefix}', expected one")
first = starts[0] + 1
shown = lines[first:lines.index("```", first)]
command = [folder if word == "CKPT" else word for word in lines[starts[0]][2:].split()]
done = subprocess.run(command, capture_output=True, text=True)
printed = (done.stdout + done.stderr).splitlines()
for i, line in enumerate(shown):
    if line == "…":  # up to where the next line that is shown is printed
        following, end = shown[i + 1] if i + 1 < len(shown) else None, i
        while end < len(printed) and printed[end] != following:
            end += 1
        printed[i:end] = [line]
if printed != shown:
    sys.exit("\n".join(difflib.unified_diff(shown, printed, file, " ".join(command),
                                            lineterm="")))
