# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""truncate_while_running.py FILE COMMAND…: cuts FILE short during COMMAND.

COMMAND must write more than a pipe holds: it stands still until its first line
is read, and by then FILE has 4096 bytes left. Its status and stderr are ours.
"""
import os
import subprocess
import sys

file, command = sys.argv[1], sys.argv[2:]
with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
    process.stdout.readline()
    os.truncate(file, 4096)
    process.stdout.read()
sys.exit(process.returncode if process.returncode >= 0 else
         f"killed by signal {-process.returncode}")
