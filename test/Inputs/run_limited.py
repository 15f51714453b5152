#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run a command and fail if it took more time or memory than allowed.

    run_limited.py --seconds S --mib M COMMAND [ARGUMENT ...]

Time is that of the processor, so that other work on the machine does not count;
memory is the largest resident set. Prints both on stderr.
"""
import argparse
import resource
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--mib", type=float, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    status = subprocess.call(arguments.command)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, mib = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(f"{seconds:.2f} s of {arguments.seconds:g}, {mib:.0f} MiB of {arguments.mib:g}", file=sys.stderr)
    if status:
        sys.exit(status)
    sys.exit(seconds > arguments.seconds or mib > arguments.mib)


if __name__ == "__main__":
    main()
