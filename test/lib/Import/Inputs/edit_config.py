#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Change a checkpoint's config.json.

    edit_config.py FOLDER KEY=JSON … -KEY …

KEY may go into objects with dots; -KEY removes it.
"""
import json
import sys
from pathlib import Path

path = Path(sys.argv[1], "config.json")
config = json.loads(path.read_text())
for change in sys.argv[2:]:
    key, _, value = change.partition("=")
    *outer, last = key.lstrip("-").split(".")
    place = config
    for name in outer:
        place = place[name]
    if key.startswith("-"):
        del place[last]
    else:
        place[last] = json.loads(value)
path.write_text(json.dumps(config, indent=2))
