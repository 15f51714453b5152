# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""truncate_while_running.py [--when GLOB] FILE COMMAND…: cuts FILE short during COMMAND.

COMMAND must write more than a pipe holds: it stands still until its first line
is read, and by then FILE has 4096 bytes left. With --when, FILE is cut as soon as
something is called like GLOB. Its status and stderr are ours.
"""
import glob
import os
import subprocess
import sys
import time

arguments, pattern = sys.argv[1:], None
if arguments[0] == "--when":
    pattern, arguments = arguments[1], arguments[2:]
file, command = arguments[0], arguments[1:]
with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
    if pattern:
        while not glob.glob(pattern) and process.poll() is None:
            time.sleep(0.0005)
    else:
        process.stdout.readline()
    os.truncate(file, 4096)
    process.stdout.read()
sys.exit(process.returncode if process.returncode >= 0 else
         f"killed by signal {-process.returncode}")
