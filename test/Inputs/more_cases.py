#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run `octet check --json` on small checkpoints, most after public bug reports.

    more_cases.py octet FOLDER [-k SUBSTRING]     run each case in FOLDER
    more_cases.py --write FOLDER                  write FOLDER/NAME/case.json
    more_cases.py --list

A case is a checkpoint of make_check_inputs.py and what the rules that it names
demand of some compiles: that it is refused with a rule and some words, or
accepted with some decisions, words in its notes and words that no note has.
Prints a line for each compile that differs, and a last line `N passed, N
failed`. --write is for other tools that read case.json.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

CASES = {}  # name -> (title, rule, origin, function)


def case(rules, origin=""):
    """Registers a function that returns a Model and a list of compiles.

    rules: those that decide; origin: the report it restates, if there is one.
    """
    def register(function):
        name = function.__name__.replace("_", "-")
        assert name not in CASES, name
        CASES[name] = (function.__doc__.splitlines()[0], rules, origin, function)
        return function
    return register


def accept(layers=None, says=(), silent=(), target="sm_90", tp=1, ep=1, kv=None):
    """A compile that works. layers: module -> decision; None: not there."""
    return compile_options(target, tp, ep, kv), {
        "outcome": "accept", "warnings_mention": list(says), "warnings_lack": list(silent),
        "layers": {name: {"absent": True} if want is None else want
                   for name, want in (layers or {}).items()}}


def reject(rule, *words, target="sm_90", tp=1, ep=1, kv=None):
    """A compile that is refused with [RULE], all words in the error."""
    return compile_options(target, tp, ep, kv), {
        "outcome": "reject", "error_mentions": [f"[{rule}]", *words], "layers": {}}


def compile_options(target, tp, ep, kv):
    options = {"tp": tp, "ep": ep, "target": target}
    return options | ({"kv_cache_dtype": kv} if kv else {})


def differs(want, got, path):
    """Lines that say where `got` lacks what `want` has."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{path}: expected an object, got {got!r}"]
        return [line for key in want for line in differs(want[key], got.get(key), f"{path}.{key}")]
    if isinstance(want, float) and isinstance(got, (int, float)):
        return [] if abs(want - got) <= 1e-6 else [f"{path}: expected {want}, got {got}"]
    return [] if want == got else [f"{path}: expected {want!r}, got {got!r}"]


def find(layers, module):
    """A module's report, or that of its part of a fused one."""
    if module in layers:
        return layers[module]
    stem, _, leaf = module.rpartition(".")
    for name, report in layers.items():
        if name.rpartition(".")[0] == stem and leaf in report.get("shards", {}):
            return report | report["shards"][leaf]
    return None


def run(octet, folder, options, expect):
    """What differs from the expectation."""
    command = [octet, "check", str(folder), "--json", "--target", options["target"],
               "--tp", str(options["tp"]), "--ep", str(options["ep"])]
    if "kv_cache_dtype" in options:
        command += ["--kv-cache", options["kv_cache_dtype"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if expect["outcome"] == "reject":
        if done.returncode != 1:
            return [f"status {done.returncode}, expected 1: " + done.stderr[:300]]
        return [f"error lacks {word!r}: {done.stderr[:500]}" for word in expect["error_mentions"]
                if word.lower() not in done.stderr.lower()]
    if done.returncode != 0:
        return [f"status {done.returncode}: " + done.stderr[:500]]
    layers = json.loads(done.stdout)["layers"]
    problems = []
    for module, want in expect["layers"].items():
        got = find(layers, module)
        if want.get("absent"):
            problems += [f"{module}: should not exist"] if got else []
        else:
            problems += [f"{module}: not reported"] if got is None else differs(want, got, module)
    said = (done.stdout.partition('"warnings"')[2] + done.stderr).lower()
    problems += [f"no note mentions {word!r}: {done.stderr[:400]}"
                 for word in expect["warnings_mention"] if word.lower() not in said]
    problems += [f"a note mentions {word!r}: {done.stderr[:400]}"
                 for word in expect["warnings_lack"] if word.lower() in said]
    return problems


def to_json(name, model, trials):
    title, rules, origin, _ = CASES[name]
    tensors = {key: {"dtype": dtype, "shape": shape} | ({"value": value[0]} if value else {})
               for key, (dtype, shape, *value) in model.tensors.items()}
    (options, expect), *others = trials
    return {"title": title, "origin": origin, "tags": rules.split(), "config": model.config,
            "hf_quant_config": model.sidecar, "tensors": tensors, "compile": options,
            "expect": expect, "notes": rules,
            "variants": [{"compile": o, "expect": e} for o, e in others]}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("octet", nargs="?")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("-k", default="", metavar="SUBSTRING")
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    passed = failed = 0
    for name, (title, rules, origin, function) in CASES.items():
        if arguments.k not in name:
            continue
        if arguments.list:
            print(f"{name}: {title} ({rules}{', ' + origin if origin else ''})")
            continue
        model, trials = function()
        if arguments.write:
            at = arguments.write / name
            at.mkdir(parents=True, exist_ok=True)
            (at / "case.json").write_text(json.dumps(to_json(name, model, trials)))
            continue
        at = arguments.folder / name
        model.write(at)
        for number, (options, expect) in enumerate(trials):
            problems = run(arguments.octet, at, options, expect)
            passed, failed = passed + (not problems), failed + bool(problems)
            for line in problems:
                print(f"FAIL {name}#{number} ({rules}): {line}")
    if not arguments.list and not arguments.write:
        print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    # The tables register themselves with this module, not with a copy of it.
    sys.modules["more_cases"] = sys.modules["__main__"]
    import more_cases_config  # noqa: F401
    import more_cases_weights  # noqa: F401
    import more_cases_formats  # noqa: F401
    sys.exit(main())
