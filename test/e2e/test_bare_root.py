#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An executable starts and runs where there is nothing but glibc.

The root that it is put into holds the executable, the checkpoint, and of this
machine's glibc the loader, libc and libm: no C++ library, no shell, no /proc;
an empty /tmp, since a program is mapped from a file where there is no /proc.
Changing the root needs to be root; skipped otherwise.
"""
import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

from octet_test import TestCase, draw_prompts, main, SEED

LOADER = Path("/lib64/ld-linux-x86-64.so.2")


def library(name):
    """Where the loader finds a library here."""
    text = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True,
                          env={"PATH": "/sbin:/usr/sbin:/usr/bin:/bin"}).stdout
    for line in text.splitlines():
        if line.strip().startswith(name + " ") and "x86-64" in line:
            return Path(line.split("=>")[1].strip())
    return None


@unittest.skipUnless(os.geteuid() == 0, "changing the root needs root")
@unittest.skipUnless(LOADER.exists(), f"no {LOADER}")
class BareRoot(TestCase):
    def test_runs(self):
        folder = self.make("model", "--seed", SEED, "--hidden", 128,
                           "--intermediate", 192, "--head-dim", 32)
        exe = self.compile(folder, "exe")
        root = self.dir / "root"
        (root / "lib64").mkdir(parents=True)
        (root / "tmp").mkdir()
        shutil.copy(LOADER, root / LOADER.relative_to("/"))
        for name in ("libc.so.6", "libm.so.6"):
            found = library(name)
            self.assertIsNotNone(found, name)
            shutil.copy(found, root / "lib64" / name)
        shutil.copy(exe, root / "exe")
        shutil.copytree(folder, root / "model")
        (root / "ids.json").write_text(json.dumps(draw_prompts([9])))

        def inside(*command, status=0):
            done = subprocess.run(
                ["/exe", *command], capture_output=True, text=True,
                env={"LD_LIBRARY_PATH": "/lib64"}, timeout=120,
                preexec_fn=lambda: (os.chroot(root), os.chdir("/")))
            self.assertEqual(done.returncode, status, done.stderr)
            return done
        inside("info")
        run = ["run", "--prompt-ids", "3,4,5", "--max-tokens", "4", "--json"]
        there = inside(*run, "--weights", "/model").stdout
        self.assertEqual(there, self.call(exe, *run).stdout)
        inside("logits", "--ids-file", "/ids.json", "-o", "/out",
               "--weights", "/model")
        here = self.logits(exe, draw_prompts([9]))
        self.assertEqual((root / "out").read_bytes(), here.read_bytes())
        # The folder that was compiled does not exist there.
        self.error_of(inside(*run, status=1), folder)


if __name__ == "__main__":
    main()
