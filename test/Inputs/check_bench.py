# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_bench.py FILE.json [KEY=VALUE…]: what `EXE bench --json` must hold.

Fails unless every figure is there, finite and positive where it must be, the
parts agree with each other, and each KEY, wherever it stands, has its VALUE.
"""
import json
import math
import sys

KEYS = {
    "machine": ["processor", "threads", "simd", "date"],
    "shape": ["batch", "prompt_len", "gen_len", "depth", "repeat"],
    "read_bandwidth": ["buffer_bytes", "before", "after", "best"],
    "arithmetic": ["kind", "flops_per_second"],
    "prefill": ["arithmetic_share"],
    "decode": ["bandwidth_share", "paired_share"],
    "first_token": ["seconds", "own_process", "draw_seconds"],
}
PHASE = ["runs", "tokens", "seconds", "tokens_per_second", "weight_bytes",
         "cache_bytes", "bytes_per_second", "flops", "flops_per_second",
         "profile"]


def fail(text):
    sys.exit(f"{sys.argv[1]}: {text}")


def walk(value, path=""):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from walk(part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from walk(part, f"{path}[{i}]")
    else:
        yield path, value


def near(a, b, what):
    if not math.isclose(a, b, rel_tol=1e-9):
        fail(f"{what}: {a} and {b}")


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    for section, keys in KEYS.items():
        for key in keys:
            if key not in report.get(section, {}):
                fail(f"no {section}.{key}")
    flat = dict(walk(report))
    for path, value in flat.items():
        if value is None:
            fail(f"{path} is null (not finite)")
        if isinstance(value, float) and not (math.isfinite(value)
                                             and value >= 0):
            fail(f"{path} is {value}")
    for path in ("read_bandwidth.before", "read_bandwidth.after",
                 "arithmetic.flops_per_second", "first_token.seconds",
                 "decode.bandwidth_share", "decode.paired_share",
                 "prefill.arithmetic_share"):
        if not flat[path] > 0:
            fail(f"{path} is {flat[path]}")
    best = report["read_bandwidth"]["best"]
    if best < max(report["read_bandwidth"]["before"],
                  report["read_bandwidth"]["after"]):
        fail("read_bandwidth.best is not the best")
    shape = report["shape"]
    for name, runs, tokens in (
            ("prefill", shape["repeat"], shape["batch"] * shape["prompt_len"]),
            ("decode", shape["repeat"] * shape["gen_len"], shape["batch"])):
        phase = report[name]
        for key in PHASE:
            if key not in phase:
                fail(f"no {name}.{key}")
        if (phase["runs"], phase["tokens"]) != (runs, tokens):
            fail(f"{name}: {phase['runs']} runs of {phase['tokens']} tokens, "
                 f"expected {runs} of {tokens}")
        seconds = phase["seconds"]
        if not 0 < seconds["min"] <= seconds["median"] <= seconds["max"]:
            fail(f"{name}.seconds: {seconds}")
        near(phase["tokens_per_second"], tokens / seconds["median"],
             f"{name}.tokens_per_second")
        near(phase["bytes_per_second"],
             (phase["weight_bytes"] + phase["cache_bytes"])
             / seconds["median"], f"{name}.bytes_per_second")
        operators = phase["profile"]["operators"]
        kinds = {o["kind"] for o in operators}
        if kinds != {"rows", "product", "attention"}:
            fail(f"{name}: operators of the kinds {sorted(kinds)}")
        near(sum(o["bytes"] for o in operators if o["kind"] == "product"),
             phase["weight_bytes"], f"{name}.weight_bytes")
        near(sum(o["flops"] for o in operators), phase["flops"],
             f"{name}.flops")
        near(sum(o["seconds"] for o in operators)
             + phase["profile"]["between_seconds"],
             phase["profile"]["seconds"], f"{name}.profile.seconds")
    near(report["decode"]["bandwidth_share"],
         report["decode"]["bytes_per_second"] / best, "bandwidth_share")
    near(report["prefill"]["arithmetic_share"],
         report["prefill"]["flops_per_second"]
         / report["arithmetic"]["flops_per_second"], "arithmetic_share")
    for wanted in sys.argv[2:]:
        key, value = wanted.split("=")
        found = [json.dumps(v).strip('"') for path, v in flat.items()
                 if path.rsplit(".", 1)[-1] == key]
        if value not in found:
            fail(f"{key} is {found}, expected {value}")


if __name__ == "__main__":
    main()
