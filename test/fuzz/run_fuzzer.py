#!/usr/bin/env python3
# Runs one fuzz target over its seeds and then for a while.
#
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a fuzz target: first each seed and each input that once failed, then new
ones for some seconds. What it finds stays in FOLDER/corpus for the next run; an
input that fails stays in FOLDER, and how to run it again is printed."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import make_corpus

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(make_corpus.TARGETS))
    parser.add_argument("program", type=Path)
    parser.add_argument("--seconds", type=int, default=60,
                        help="for new inputs; OCTET_FUZZ_SECONDS wins (60). "
                        "OCTET_FUZZ_SEED picks them (1; 0: by the clock)")
    parser.add_argument("--folder", type=Path, help="to work in (./TARGET)")
    parser.add_argument("rest", nargs="*", metavar="OPTION",
                        help="of libFuzzer, after --")
    o = parser.parse_args()
    seconds = int(os.environ.get("OCTET_FUZZ_SECONDS") or o.seconds)
    # The same inputs each time, or a change would not be what broke a test.
    seed = os.environ.get("OCTET_FUZZ_SEED") or "1"
    folder = (o.folder or Path(o.target)).resolve()
    seeds, found, temporary = folder / "seeds", folder / "corpus", folder / "tmp"
    for each in (seeds, temporary):
        shutil.rmtree(each, ignore_errors=True)
    for each in (seeds, found, temporary):
        each.mkdir(parents=True, exist_ok=True)
    for name, data in make_corpus.seeds(o.target):
        (seeds / name).write_bytes(data)
    regressions = HERE / "corpus" / o.target
    for path in sorted(regressions.glob("*")) if regressions.is_dir() else []:
        shutil.copy(path, seeds / ("regression-" + path.name))

    dictionary = folder / "words.dict"
    dictionary.write_text("".join(
        '"' + "".join(f"\\x{b:02x}" for b in word) + '"\n'
        for word in make_corpus.words(o.target)))
    environment = dict(os.environ, TMPDIR=str(temporary),
                       ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=0",
                       UBSAN_OPTIONS="print_stacktrace=1")
    common = [str(o.program.resolve()), f"-artifact_prefix={folder}/",
              "-timeout=20", "-rss_limit_mb=2560", *o.rest]
    runs = [[*common, "-runs=0", str(seeds)]]
    if seconds > 0:
        runs.append([*common, f"-seed={seed}", f"-max_total_time={seconds}", f"-dict={dictionary}",
                     f"-max_len={make_corpus.TARGETS[o.target].most}", "-reload=0",
                     "-print_final_stats=1", str(found), str(seeds)])
    for command in runs:
        result = subprocess.run(command, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, errors="replace")
        lines = result.stdout.splitlines()
        if result.returncode == 0:
            print(*lines[-12:], sep="\n", flush=True)
            continue
        # What was new before is of no interest.
        print(*[line for line in lines if "\tNEW " not in line and
                "\tREDUCE " not in line][-150:], sep="\n")
        for path in folder.iterdir():
            if path.name.startswith(("crash-", "leak-", "oom-", "timeout-", "slow-")):
                print(f"to run it again: {o.program} {path}")
        print("an input that failed belongs into "
              f"test/fuzz/corpus/{o.target} with the fix")
        return 1
    shutil.rmtree(temporary, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
