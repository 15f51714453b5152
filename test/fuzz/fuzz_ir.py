#!/usr/bin/env python3
# Mutates IR and looks for crashes of octet-opt.
#
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mutates valid IR (that of the tests, and dumps given by --corpus) by bytes,
tokens and lines, and runs octet-opt on it: parser, verifiers, passes. Anything
but exit status 0 or 1 is a failure: a signal, an assert, a run without end. An
input that fails is reduced to the part that does it and stays in FOLDER, and
how to run it again is printed.

Each process takes a batch of mutants apart from each other; what a pass says of
one does not keep it from the next. The same seed makes the same mutants."""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPLIT = "\n// -----\n"
PHASES = ["resolve-quant-methods", "fuse-projections", "shard",
          "materialize-weights", "insert-quantization",
          "verify-precision-policy", "fuse-rowwise", "select-kernels",
          "plan-buffers", "lower-to-host"]
OTHERS = ["--canonicalize", "--cse", "--octet-trace-inputs", "--inline"]
NUMBERS = ["0", "1", "-1", "2", "3", "7", "127", "128", "129", "255", "256",
           "2147483647", "2147483648", "4294967296", "-9223372036854775808",
           "9223372036854775807", "9223372036854775808",
           "18446744073709551615", "4611686018427387904",
           "1180591620717411303424", "0x7FC00000", "1.0e+39", "-0.0"]
TYPES = ["f32", "bf16", "f16", "f64", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ",
         "f8E8M0FNU", "f4E2M1FN", "i1", "i4", "i8", "ui8", "i32", "i64",
         "index", "none", "tensor<*xf32>", "tensor<f32>", "tensor<0xf32>",
         "tensor<?x?xbf16>", "tensor<?x8xi32>", "memref<8xf32>",
         "vector<4xf32>", "!model.batch", "tuple<>", "complex<f32>"]
TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%@#!^][\w.$-]*|[A-Za-z_][\w.$]*|-?\d[\w.+]*|->|::|\S|\s+')
# What ends MLIR 22's own parser: floats in an array of index, and the number of
# a result that no memory holds.
UPSTREAM = re.compile(r"array<index:[^>]*\d\.|#\d{7,}")


def read_chunks(paths):
    """The parts of all files, without comments: they are no code."""
    chunks = []
    for path in paths:
        for part in path.read_text().split("// -----"):
            lines = [line for line in part.splitlines()
                     if not line.lstrip().startswith("//")]
            text = "\n".join(lines).strip()
            if text and len(text) < 60000:
                chunks.append(text)
    return chunks


class Mutator:
    def __init__(self, chunks, rng):
        self.chunks, self.rng = chunks, rng
        words, types, lines, ops = set(), set(TYPES), set(), set()
        for chunk in chunks:
            for token in TOKEN.findall(chunk):
                if token.strip():
                    words.add(token)
            types.update(re.findall(
                r"(?:tensor|!q\.tensor|!q\.kv|!kernel\.buffer|!model\.dispatched)"
                r"<[^<>]*(?:<[^<>]*>[^<>]*)*>", chunk))
            lines.update(line for line in chunk.splitlines() if "%" in line)
            ops.update(re.findall(r"\b(?:q|model|kernel|arith|scf|func)\.\w+",
                                  chunk))
        self.words, self.types = sorted(words), sorted(types)
        self.lines, self.ops = sorted(lines), sorted(ops)

    def mutate(self, text):
        for _ in range(self.rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            text = self.rng.choice((
                self.number, self.number, self.type, self.type, self.token,
                self.token, self.operation, self.line, self.bytes,
                self.attribute, self.dimension))(text) or text
        return text

    def replace(self, text, pattern, choose):
        found = [match.span() for match in re.finditer(pattern, text)]
        if not found:
            return text
        begin, end = self.rng.choice(found)
        return text[:begin] + choose(text[begin:end]) + text[end:]

    def number(self, text):
        return self.replace(text, r"-?\b\d+(?:\.\d+)?(?:e[+-]?\d+)?",
                            lambda _: self.rng.choice(NUMBERS))

    def dimension(self, text):
        return self.replace(text, r"(?<=[<x])(?:\d+|\?)(?=x)", lambda _: (
            self.rng.choice(NUMBERS[:14] + ["?"])))

    def type(self, text):
        return self.replace(
            text, r"(?:tensor|!q\.tensor|!q\.kv|!model\.dispatched)"
            r"<[^<>]*(?:<[^<>]*>[^<>]*)*>|\b(?:f32|bf16|f16|i32|index)\b",
            lambda _: self.rng.choice(self.types))

    def operation(self, text):
        return self.replace(text, r"\b(?:q|model|kernel|arith|scf)\.\w+",
                            lambda _: self.rng.choice(self.ops))

    def attribute(self, text):
        """Takes a field of a dictionary away, or renames it."""
        pattern = r"\b\w+ = [^,{}<>\[\]]+(?:, )?"
        if self.rng.random() < 0.7:
            return self.replace(text, pattern, lambda _: "")
        return self.replace(text, r"\b\w+(?= = )",
                            lambda _: self.rng.choice(self.words))

    def token(self, text):
        tokens = TOKEN.findall(text)
        if len(tokens) < 4:
            return text
        at, to = (self.rng.randrange(len(tokens)) for _ in range(2))
        kind = self.rng.randrange(5)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[to])
        elif kind == 2:
            tokens[at], tokens[to] = tokens[to], tokens[at]
        elif kind == 3:
            tokens[at] = self.rng.choice(self.words)
        else:
            values = [i for i, t in enumerate(tokens) if t.startswith("%")]
            if values:
                tokens[self.rng.choice(values)] = tokens[
                    self.rng.choice(values)]
        return "".join(tokens)

    def line(self, text):
        lines = text.splitlines()
        at, to = (self.rng.randrange(len(lines)) for _ in range(2))
        kind = self.rng.randrange(4)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[to])
        elif kind == 2:
            lines[at], lines[to] = lines[to], lines[at]
        else:
            lines.insert(at, self.rng.choice(self.lines))
        return "\n".join(lines)

    def bytes(self, text):
        data = bytearray(text.encode())
        at = self.rng.randrange(len(data))
        kind = self.rng.randrange(4)
        if kind == 0:
            data[at] = self.rng.randrange(1, 256)
        elif kind == 1:
            del data[at:at + self.rng.choice((1, 2, 8, 40))]
        elif kind == 2:
            data[at:at] = data[at:at + self.rng.choice((1, 4, 40, 400))]
        else:
            return data[:at].decode(errors="replace")
        return data.decode(errors="replace")


def choose_flags(rng):
    kind = rng.randrange(10)
    if kind < 3:
        return ["--verify-roundtrip"] if rng.random() < 0.3 else []
    if kind < 6:  # one pass alone
        return ["--octet-" + rng.choice(PHASES)]
    if kind < 9:  # some in their order
        first = rng.randrange(len(PHASES))
        last = rng.randrange(first, len(PHASES))
        return ["--octet-" + name for name in PHASES[first:last + 1]]
    return [rng.choice(OTHERS), "--octet-" + rng.choice(PHASES)]


class Runner:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def fails(self, flags, parts, seconds=20):
        """How octet-opt fails on these parts, or nothing."""
        command = [str(self.program), "--split-input-file",
                   "--mlir-disable-threading", *flags, "-", "-o", os.devnull]
        try:
            run = subprocess.run(command, input=SPLIT.join(parts).encode(),
                                 stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, timeout=seconds)
        except subprocess.TimeoutExpired:
            return "runs longer than %d s" % seconds
        if run.returncode in (0, 1):
            return None
        tail = run.stderr.decode(errors="replace").strip().splitlines()
        why = [line for line in tail if "Assertion" in line or "LLVM ERROR" in
               line or "UNREACHABLE" in line]
        return "exit status %d %s" % (run.returncode, " ".join(why[:1]))

    def isolate(self, flags, parts):
        """The one part that fails, or all if only all of them do."""
        for part in parts:
            if self.fails(flags, [part]):
                return [part]
        return parts


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=Path, help="octet-opt")
    parser.add_argument("--seconds", type=float, default=30,
                        help="for mutants; OCTET_FUZZ_SECONDS wins (30)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=40)
    parser.add_argument("--most", type=int, default=5,
                        help="failures to look for (5)")
    parser.add_argument("--folder", type=Path, default=Path("ir"))
    parser.add_argument("--corpus", type=Path, action="append", default=[],
                        help="a folder of further .mlir files")
    o = parser.parse_args()
    seconds = float(os.environ.get("OCTET_FUZZ_SECONDS") or o.seconds)
    rng = random.Random(int(os.environ.get("OCTET_FUZZ_SEED") or o.seed))
    o.folder.mkdir(parents=True, exist_ok=True)
    for old in o.folder.glob("fail-*.mlir"):
        old.unlink()
    runner = Runner(o.program.resolve(), o.folder)

    found = []
    # What once failed, first: each with the flags in its first line.
    regressions = sorted((HERE / "corpus" / "ir").glob("*.mlir"))
    for path in regressions:
        text = path.read_text()
        flags = text.splitlines()[0].removeprefix("// FLAGS:").split()
        if why := runner.fails(flags, text.split(SPLIT)):
            found.append((why, flags, [text], path.name))
    paths = [path for folder in [HERE.parent, *o.corpus]
             for path in sorted(folder.rglob("*.mlir"))
             if "fuzz" not in path.relative_to(folder).parts]
    mutator = Mutator(read_chunks(paths), rng)
    print(f"{len(regressions)} inputs that once failed, "
          f"{len(mutator.chunks)} valid ones", flush=True)

    end, mutants = time.monotonic() + seconds, 0
    with ThreadPoolExecutor(o.jobs) as pool:
        while time.monotonic() < end and len(found) < o.most:
            batches = []
            for _ in range(o.jobs):
                flags = choose_flags(rng)
                parts = [mutator.mutate(rng.choice(mutator.chunks))
                         for _ in range(o.batch)]
                parts = [part for part in parts if not UPSTREAM.search(part)]
                batches.append((flags, parts))
            mutants += o.jobs * o.batch
            for (flags, parts), why in zip(batches, pool.map(
                    lambda batch: runner.fails(*batch), batches)):
                if why:
                    found.append((why, flags, runner.isolate(flags, parts), ""))
    print(f"{mutants} mutants")
    for i, (why, flags, parts, name) in enumerate(found):
        path = o.folder / f"fail-{i}.mlir"
        path.write_text("// FLAGS: " + " ".join(flags) + "\n" +
                        SPLIT.join(parts) + "\n")
        print(f"{name or path}: {why}; to run it again: {o.program} "
              f"--split-input-file {' '.join(flags)} {path}")
    if found:
        print("an input that failed belongs into test/fuzz/corpus/ir with the "
              "fix")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
