#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""show_check.py MODULE[:KEY,KEY…] … < JSON of `octet check --json`

Prints a line for each module: its name and the keys, or that it is not there.
`.` is the whole report.
"""
import json
import sys

report = json.load(sys.stdin)
for argument in sys.argv[1:]:
    module, _, keys = argument.partition(":")
    found = report if module == "." else report["layers"].get(module)
    if found is None:
        print(module, "is not there")
        continue
    wanted = {key: found.get(key) for key in keys.split(",")} if keys else found
    print(module, " ".join(f"{key}={json.dumps(value)}" for key, value in wanted.items()))
