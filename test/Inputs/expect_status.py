# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""expect_status.py N COMMAND…: runs COMMAND and succeeds if it exits with N.

lit's `not` takes any failure; SPEC section 6 tells them apart.
"""
import subprocess
import sys

wanted, command = int(sys.argv[1]), sys.argv[2:]
status = subprocess.run(command).returncode
if status != wanted:
    sys.exit(f"exit status {status}, expected {wanted}: {' '.join(command)}")
