#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Print parts of what `octet ledger --json` says, a line each.

    octet ledger CKPT --json | show_ledger.py QUERY...

A QUERY is `LAYER:OPERATOR:END-OF-MODULE` for boundaries, where LAYER is a
number or `embedding`, `head`, `draft`, and an empty field matches all;
`weight:SLOT` for what is loaded, `totals:KEY` of the model, `totals@LAYER:KEY`
of a token in a layer, `fact:NAME`, or `layers` for the sections. A query that
matches nothing is an error.
"""
import json
import sys


def shape(dtype, sides):
    return dtype + (f"[{'x'.join(map(str, sides))}]" if sides else "")


def value(part):
    text = shape(part["dtype"], part["shape"])
    if "scales" in part:
        s = part["scales"]
        text += f" {s['granularity']} {shape(s['dtype'], s['shape'])}"
        text += f" {s['count']} of {s['bytes']} B"
        text += " power-of-two" * s["power_of_two"] + " static" * s["static"]
    return text


def error(e):
    text = f"{e['format']} at most {e['at_most']:.6g} rms {e['rms']:.4g}"
    if e["of"] == "largest":
        text += " of largest"
    if "absolute" in e:
        text += f" below 1/{1 / e['normal_from']:.6g}: 1/{1 / e['absolute']:.6g}"
    return text


def boundary(b):
    text = (f"{' '.join(b['rules'])} | {b['op']} | {b['module']} | "
            f"{' + '.join(map(value, b['in']))} -> "
            f"{' + '.join(map(value, b['out']))} | {b['arithmetic']} | "
            f"{b['bytes']} B")
    for w in b.get("weights", []):
        text += f" | weight {value(w)}: {w['code_bytes']} B"
    if "error" in b:
        text += f" | {error(b['error'])}"
    if "sum_bound" in b:
        text += f" | sum {b['sum_bound'] * 2**24:.6g} x 2^-24"
    for flag in ("cache", "moved"):
        text += f" | {flag}" * b.get(flag, False)
    return "".join([text] + [f" | {note}" for note in b.get("notes", [])])


def weight(w):
    text = f"{w['count']} x {w['slot']} {value(w['weight'])}: {w['weight']['bytes']} B"
    text += f" <- {', '.join(w['tensors'])}" * bool(w["tensors"])
    for step in w["rewrites"]:
        text += f" | {' '.join(step['rules'])} {step['what']}"
        text += f" ({error(step['error'])})" if "error" in step else ""
    return text


def is_in(section, where):
    if where.isdigit():
        return any(a <= int(where) <= b for a, b in section.get("layers", []))
    return not where or where == section["kind"]


def find(ledger, query):
    head, _, rest = query.partition(":")
    if head == "layers":
        return [f"{s['kind']} {s.get('layers', [])} {s['title']}"
                for s in ledger["sections"]]
    if head == "fact":
        return [f"{rest}: {ledger['facts'][rest]}"] if rest in ledger["facts"] else []
    if head == "weight":
        return [weight(w) for w in ledger["weights"] if w["slot"] == rest]
    if head == "totals":
        return [f"{rest}: {json.dumps(ledger['totals'][rest])}"]
    if head.startswith("totals@"):
        return [f"{rest}: {json.dumps(s['totals'][rest])}"
                for s in ledger["sections"] if is_in(s, head[7:])]
    op, _, module = rest.partition(":")
    return [boundary(b) for s in ledger["sections"] if is_in(s, head)
            for b in s["boundaries"]
            if op in ("", b["op"]) and b["module"].endswith(module)]


ledger = json.load(sys.stdin)
for query in sys.argv[1:]:
    lines = find(ledger, query)
    if not lines:
        sys.exit(f"show_ledger.py: nothing matches {query}")
    print("\n".join(lines))
