#!/usr/bin/env python3
#
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens a second of the CPU target, beside llama.cpp on the same shapes.

    tools/dev build --preset release octet
    python3 tools/bench_cpu.py [--llama PYTHON]

For each shape, format and number of threads: an executable is compiled from a
checkpoint without data and runs `bench --weights random`, which measures the
machine's read bandwidth and multiply-add peak in the same process. With --llama
(a Python that can import llama_cpp, PyPI's llama-cpp-python) llama.cpp measures
the same shape in turn with it, round after round: prompts of 512 tokens (pp) and
generation at batch 1 (tg). Prints a Markdown table of medians.

Formats are compared with llama.cpp's BF16, Q8_0 (the FP8 ones too: as many bytes)
and the same GGUF type. A busy machine slows both sides unequally: `share` is each
step of decode against a probe of as many bytes right after it.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Octet's format: options of make_shape.py, and llama.cpp's type to compare with.
FORMATS = {
    "bf16": (["--format", "bf16"], "BF16"),
    "fp8-block": (["--format", "fp8-block"], "Q8_0"),
    "fp8-channel": (["--format", "ct-channel"], "Q8_0"),
    "q8_0": (["--types", "Q8_0"], "Q8_0"),
    "q4_0": (["--types", "Q4_0"], "Q4_0"),
    "q4_1": (["--types", "Q4_1"], "Q4_1"),
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--octet", default=str(ROOT / "build/release/bin/octet"),
        help="the compiler (default: %(default)s)")
    add("--run", metavar="OCTET_RUN",
        help="runs programs with this octet-run; default: the runner in the executable")
    add("--llama", metavar="PYTHON", help="a Python with llama_cpp; default: Octet alone")
    add("--shapes", nargs="+", default=["llama-1.1b", "smollm2-135m"],
        help="of test/Inputs/make_shape.py (default: %(default)s)")
    add("--formats", nargs="+", choices=FORMATS, default=list(FORMATS), metavar="FORMAT",
        help="of " + ", ".join(FORMATS) + " (default: all)")
    add("--threads", nargs="+", type=int, default=[1, 2], help="(default: %(default)s)")
    add("--depths", nargs="+", type=int, default=[0, 1024],
        help="tokens in the cache before generation (default: %(default)s)")
    add("--prompt", type=int, default=512, help="tokens of a prompt (default: %(default)s)")
    add("--generate", type=int, default=64, help="tokens generated (default: %(default)s)")
    add("--rounds", type=int, default=3, help="times each is measured (default: %(default)s)")
    add("--json", metavar="FILE", help="also all figures, as one JSON object")
    add("--llama-worker", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- llama.cpp, in a process of its own -------------------------------------

def llama_worker(options):
    """Reads lines [threads, depth, prompt, generate], answers [pp, tg] in tokens a second."""
    import ctypes
    import time
    import llama_cpp as lc

    silent = lc.llama_log_callback(lambda level, text, data: None)  # lives as long as the loop
    lc.llama_log_set(silent, ctypes.c_void_p(0))
    lc.llama_backend_init()
    params = lc.llama_model_default_params()
    model = lc.llama_load_model_from_file(options.llama_worker.encode(), params)
    if not model:
        sys.exit("llama.cpp cannot read " + options.llama_worker)

    def decode(context, count, position):
        batch = lc.llama_batch_init(count, 0, 1)
        batch.n_tokens = count
        for i in range(count):
            batch.token[i] = 100 + i % 100
            batch.pos[i] = position + i
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = 0
            batch.logits[i] = i == count - 1
        status = lc.llama_decode(context, batch)
        lc.llama_batch_free(batch)
        if status:
            sys.exit(f"llama_decode: {status}")

    for line in sys.stdin:
        threads, depth, prompt, generate = json.loads(line)
        params = lc.llama_context_default_params()
        params.n_ctx = depth + prompt + generate + 64
        params.n_batch = params.n_ubatch = 512
        params.n_threads = params.n_threads_batch = threads
        speeds = []
        for count, step in ((prompt, 512), (generate, 1)):
            context = lc.llama_new_context_with_model(model, params)
            position = 0
            while position < depth:
                chunk = min(512, depth - position)
                decode(context, chunk, position)
                position += chunk
            decode(context, 1, position)  # allocates, reads the weights once
            position += 1
            start = time.perf_counter()
            for begin in range(0, count, step):
                decode(context, min(step, count - begin), position + begin)
            speeds.append(count / (time.perf_counter() - start))
            lc.llama_free(context)
        print(json.dumps(speeds), flush=True)


class Llama:
    def __init__(self, python, gguf):
        self.process = subprocess.Popen(
            [python, __file__, "--llama-worker", str(gguf)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, *task):
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("error: llama.cpp: the process ended; see above")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- Octet -------------------------------------------------------------------

def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def make_shape(out, shape, options):
    run([sys.executable, ROOT / "test/Inputs/make_shape.py", out, "--shape", shape, *options])
    return out


def octet_bench(program, threads, depth, options):
    command = [*([options.run] if options.run else []), program, "bench", "--weights", "random", "--json", "--repeat", 1,
               "--threads", threads, "--depth", depth,
               "--prompt-len", options.prompt, "--gen-len", options.generate]
    return json.loads(run([str(part) for part in command]))


def median(values):
    return statistics.median(values) if values else None


def measure(options, folder, shape, form):
    arguments, llama_type = FORMATS[form]
    suffix = ".gguf" if "--types" in arguments else ""
    checkpoint = make_shape(folder / f"{shape}-{form}{suffix}", shape, arguments)
    program = folder / f"{shape}-{form}.exe"
    run([options.octet, "compile", checkpoint, "-o", program, "--target", "cpu",
         "--dtype", "bf16", "--max-context", "2048",
         "--emit", "program" if options.run else "exe"])
    llama = None
    if options.llama:
        gguf = folder / f"{shape}-{llama_type}.gguf"
        if not gguf.exists():
            make_shape(gguf, shape, ["--types", llama_type])
        llama = Llama(options.llama, gguf)
    rows = []
    for threads in options.threads:
        for depth in options.depths:
            ours, theirs = [], []
            for _ in range(options.rounds):
                ours.append(octet_bench(program, threads, depth, options))
                if llama:
                    theirs.append(llama.measure(threads, depth, options.prompt, options.generate))
            rows.append(summary(shape, form, threads, depth, llama_type, ours, theirs))
            print(table_row(rows[-1]), flush=True)
    if llama:
        llama.close()
    return rows


def summary(shape, form, threads, depth, llama_type, ours, theirs):
    decode = [run["decode"] for run in ours]
    prefill = [run["prefill"] for run in ours]
    return {
        "shape": shape, "format": form, "threads": threads, "depth": depth,
        "weight_bytes": decode[0]["weight_bytes"],
        "read_bandwidth": median([run["read_bandwidth"]["best"] for run in ours]),
        "tg": median([d["tokens_per_second"] for d in decode]),
        "share": median([d["bandwidth_share"] for d in decode]),
        "paired_share": median([d["paired_share"] for d in decode]),
        "pp": median([p["tokens_per_second"] for p in prefill]),
        "arithmetic_share": median([p["arithmetic_share"] for p in prefill]),
        "llama_type": llama_type,
        "llama_pp": median([t[0] for t in theirs]),
        "llama_tg": median([t[1] for t in theirs]),
    }


# ---- the table -----------------------------------------------------------------

HEAD = """| shape | format | threads | depth | MB/token | tg tok/s | of reads, paired | of reads, best | llama.cpp tg | ratio | pp tok/s | of the dot peak | llama.cpp pp | ratio |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


def number(value, digits=0):
    return "" if value is None else f"{value:.{digits}f}"


def share(value):
    return "" if value is None else f"{100 * value:.0f} %"


def table_row(row):
    ratio = {k: row[k] / row["llama_" + k] if row["llama_" + k] else None for k in ("tg", "pp")}
    label = "" if row["llama_tg"] is None else f" ({row['llama_type']})"
    return "| " + " | ".join([
        row["shape"], row["format"], str(row["threads"]), str(row["depth"]),
        number(row["weight_bytes"] / 1e6), number(row["tg"], 1),
        share(row["paired_share"]), share(row["share"]),
        number(row["llama_tg"], 1) + label, number(ratio["tg"], 2),
        number(row["pp"]), share(row["arithmetic_share"]),
        number(row["llama_pp"]), number(ratio["pp"], 2)]) + " |"


def main():
    options = parse()
    if options.llama_worker:
        return llama_worker(options)
    if not os.access(options.octet, os.X_OK):
        sys.exit(f"error: {options.octet}: no compiler there; "
                 "build one with 'tools/dev build --preset release octet', or name one with --octet")
    rows = []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(prefix="octet-bench-") as folder:
        for shape in options.shapes:
            for form in options.formats:
                rows += measure(options, Path(folder), shape, form)
    if options.json:
        Path(options.json).write_text(json.dumps(
            {"date": datetime.date.today().isoformat(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
