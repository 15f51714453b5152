# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the end-to-end tests share: folders, checkpoints, calls, comparisons.

ctest sets OCTET_BIN_DIR (octet, octet-opt, octet-run), OCTET_TEST_DIR (a folder
to write in, emptied first) and OCTET_SHARED_DIR (golden/, tools/; may be empty).
A test that passes leaves nothing in its folder: every one compiles executables, and
all of them together fill a disk. OCTET_KEEP_TESTS=1 keeps them.
"""
import json
import math
import os
import random
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "Inputs"))
import make_model  # noqa: E402
import reference   # noqa: E402

BIN = Path(os.environ.get("OCTET_BIN_DIR", "build/dev/bin")).resolve()
SHARED = os.environ.get("OCTET_SHARED_DIR", "")
SEED = 20240731


def test_dir():
    """The folder of the tests that run in this process."""
    return Path(os.environ.get("OCTET_TEST_DIR", "e2e-test")).resolve()


class TestCase(unittest.TestCase):
    """A test with a folder of its own, `self.dir`."""

    @classmethod
    def setUpClass(cls):
        cls.dir = test_dir() / cls.__name__
        shutil.rmtree(cls.dir, ignore_errors=True)
        cls.dir.mkdir(parents=True)

    def make(self, name, *arguments):
        """A generated checkpoint; the arguments are make_model.py's."""
        folder = self.dir / name
        options = make_model.parse([str(folder), *map(str, arguments)])
        make_model.write_checkpoint(folder, options)
        return folder

    def call(self, *command, status=0, **keywords):
        """Runs a command; fails the test unless it ends with `status`."""
        done = subprocess.run([str(part) for part in command], text=True,
                              capture_output=True, timeout=600, **keywords)
        self.assertEqual(
            done.returncode, status,
            f"\n$ {' '.join(map(str, command))}\nstatus {done.returncode}, "
            f"expected {status}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def compile(self, checkpoint, name, *options, status=0):
        """`octet compile` into self.dir / name."""
        exe = self.dir / name
        self.call(BIN / "octet", "compile", checkpoint, "-o", exe,
                  "--target", "cpu", *options, status=status)
        return exe

    def logits(self, exe, prompts, *options, out="out.safetensors"):
        """The file that `EXE logits` writes for {name: ids}."""
        ids, out = self.dir / f"{out}.ids.json", self.dir / out
        ids.write_text(json.dumps(prompts))
        self.call(exe, "logits", "--ids-file", ids, "-o", out, *options)
        return out

    def error_of(self, done, *parts):
        """One error with these parts, on stderr, and nothing on stdout."""
        self.assertEqual(done.stdout, "")
        errors = [line for line in done.stderr.splitlines()
                  if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, done.stderr)
        for part in parts:
            self.assertIn(str(part), done.stderr)


def load(path):
    """name -> (shape, values) of a safetensors file."""
    return {name: (shape, reference.decode(dtype, data)) for name,
            (dtype, shape, data) in reference.read_safetensors(path).items()}


def draw_prompts(lengths, vocab=256, seed=SEED):
    """{"p0": ids, …} of the given lengths; no begin or end of sequence in it."""
    rng = random.Random(seed)
    return {f"p{i}": [rng.randrange(3, vocab) for _ in range(length)]
            for i, length in enumerate(lengths)}


def rel_l2(got, want):
    assert len(got) == len(want), (len(got), len(want))
    above = sum((g - w) ** 2 for g, w in zip(got, want))
    below = sum(w * w for w in want)
    value = math.sqrt(above / below) if below else math.sqrt(above)
    return value if value == value else math.inf


def clear(folder):
    """Takes away what a test that has passed has written."""
    if not os.environ.get("OCTET_KEEP_TESTS"):
        shutil.rmtree(folder, ignore_errors=True)


def main():
    print(f"seed {SEED}", file=sys.stderr)
    program = unittest.main(verbosity=2, exit=False)
    if program.result.wasSuccessful():
        clear(test_dir())
    sys.exit(not program.result.wasSuccessful())
