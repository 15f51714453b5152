# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The output of -octet-print-row-source as C++ for Emulate.h: the kernels, and
a table kLaunches in their order."""

import re
import sys

text = sys.stdin.read()
table = []
text = text.replace("extern __shared__ float4 sharedBytes[];",
                    "static float4 sharedBytes[1 << 13];")
for part in text.split("// launch: ")[1:]:
    launch = re.match(r"up to (-?\d+) rows, (\d+) threads, grid x (\d+) rows, y (\d+)", part)
    entry, parameters = re.search(r"^(octet_row_\w+)\(([^)]*)\)", part, re.M).groups()
    arguments = []
    for i, parameter in enumerate(re.split(r",\s+", parameters)[:-1]):
        kind = re.sub(r"\w+$", "", parameter)
        arguments.append(f"static_cast<{kind}>(a[{i}])")
    call = f"[](void **a, int rows) {{ {entry}({', '.join(arguments)}, rows); }}"
    table.append("{" + ", ".join(launch.groups()) + f", {call}}},")
print(text)
print("static const Launch kLaunches[] = {", *table, "};", sep="\n")
