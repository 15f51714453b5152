#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The `bash` blocks of each example's README, run as they stand, and the IR in
the top README against the files that the first example writes."""
import os
import re
from pathlib import Path

from octet_test import BIN, TestCase, main

SOURCE = Path(__file__).resolve().parents[2]
# Of the build: `address,undefined`, or nothing.
SANITIZE = os.environ.get("OCTET_SANITIZE", "")
READMES = sorted((SOURCE / "examples").glob("*/README.md"))


class Examples(TestCase):
    def test_there_are_some(self):
        self.assertGreaterEqual(len(READMES), 5)

    def test_excerpts_of_the_readme(self):
        """Each line of an `mlir` block is one of the file named above it; `…`
        is any text, and values may have other numbers."""
        folder = self.make("qwen3", "--layers", 4)
        self.compile(folder, "qwen3.exe", "--dump-ir", self.dir / "ir")
        blocks = re.findall(r"^```mlir\n(.*?)^```",
                            (SOURCE / "README.md").read_text(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 8)
        for block in blocks:
            text = ""
            for line in block.splitlines():
                if line.startswith("// "):
                    text = (self.dir / "ir" / line[3:]).read_text()
                    continue
                pattern = re.escape(line).replace("…", ".*")
                pattern = re.sub(r"%\w+", r"%\\w+", pattern)
                pattern = re.sub(r"\^bb\d+", r"^bb\\d+", pattern)
                self.assertTrue(re.search(f"(?m)^ *{pattern}", text), line)


def add(readme):
    def test(self):
        if readme.parent.name == "python-ctypes" and SANITIZE:
            self.skipTest("liboctet.so has sanitizers, this Python has none")
        blocks = re.findall(r"^```bash\n(.*?)^```", readme.read_text(),
                            re.M | re.S)
        self.assertTrue(blocks)
        place = self.dir / readme.parent.name
        place.mkdir()
        self.call("bash", "-euo", "pipefail", "-c", "".join(blocks), cwd=place,
                  env=os.environ | {
                      "SOURCE": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1",
                      "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"})
    setattr(Examples, f"test_{readme.parent.name.replace('-', '_')}", test)


for one in READMES:
    add(one)

if __name__ == "__main__":
    main()
