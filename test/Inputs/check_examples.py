#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the errors that `octet explain` shows are errors that Octet prints.

    check_examples.py FOLDER [RULE ...]

The message of each example has to have the wording of one that was printed:
numbers, names in quotes, paths and types may differ, `...` stands for any text.
Printed are those of SCENARIOS, which run here, and those that lit expects of
octet-opt in the *.mlir files. A rule whose example needs a program that runs is
in NEEDS_A_RUN. FOLDER is for checkpoints.
"""
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FP8 = ["make_model.py", "--arch", "qwen3", "--format", "fp8-block"]
CHECK = ["octet", "check", "CKPT"]
COMPILE = ["octet", "compile", "CKPT", "--target", "cpu", "--compile-to",
           "verify-precision-policy", "-o", "-"]
Q = "model.layers.0.self_attn.q_proj."


def model(kind, *options):
    return ["make_model.py", "--arch", "llama", "--format", kind, *options]


def sparse(arch, *options):
    return ["make_sparse.py", "--arch", arch, *options]


def quant(**fields):
    """Sets fields of quantization_config; None takes one away."""
    def edit(config, tensors):
        own = config["quantization_config"]
        for key, value in fields.items():
            own.pop(key, None)
            if value is not None:
                own[key] = value
    return edit


def config(**fields):
    return lambda config, tensors: config.update(fields)


def tensor(name, dtype, *shape):
    """Puts a tensor in, or another in its place; without dtype takes it away."""
    def edit(config, tensors):
        tensors.pop(name, None)
        if dtype:
            tensors[name] = (dtype, list(shape))
    return edit


# rule: generator, edits, command
SCENARIOS = {
    "N1": (FP8, [quant(fmt="e3m4")], CHECK),
    "C1": (FP8, [config(quantization_config="fp8")], CHECK),
    "C2": (FP8, [quant(quant_method="fp9")], CHECK),
    "C3": (FP8, [], CHECK + ["--quantization", "w8a8_fp8"]),
    "C4": (FP8, [quant(weight_block_size=[128, 0])], CHECK),
    "C5": (FP8, [quant(activation_scheme="static")], CHECK),
    "C6": (model("mxfp8"), [quant(weight_block_size=[128, 128])], CHECK),
    "C7": (FP8, [quant(modules_to_not_convert=["model.layers.0.mlp.gat"])],
           CHECK),
    "C8": (FP8, [quant(modules_to_not_convert=[Q[:-1].replace("q_", "v_")])],
           CHECK),
    "C9": (model("w8a8-fp8"), [], CHECK + ["--target", "sm_80"]),
    "C10": (model("gptq"), [quant(group_size=96, sym=True)],
            CHECK + ["--quantization", "gptq_marlin"]),
    "C12": (sparse("gpt-oss"), [tensor(Q + "weight", "U8", 256, 128),
                                tensor(Q + "weight_scale", "U8", 256, 8)],
            CHECK),
    "C13": (FP8, [lambda c, t: c.pop("quantization_config")], CHECK),
    "C14": (FP8, [config(quantization_config={"quant_algo": "FP8X"})], CHECK),
    "C15": (FP8, [config(rope_theta=10000, rope_parameters={
        "rope_type": "default", "rope_theta": 1000000})], CHECK),
    "W1": (FP8, [tensor(Q + "weight_scale_inv", "F32", 2, 1)], CHECK),
    "W2": (FP8, [tensor(Q + "weight_scale", "F32", 1)], CHECK),
    "W3": (FP8, [], CHECK + ["--tp", "2"]),
    "W3b": (FP8, [], CHECK + ["--tp", "3"]),
    "W3c": (sparse("qwen3-moe"), [], CHECK + ["--tp", "4", "--ep", "3"]),
    "W6": (FP8, [tensor(Q + "weight_scale_inv", None)], CHECK),
    "W10": (model("bf16"), [config(quantization_config={
        "quant_method": "fp8", "activation_scheme": "static",
        "is_checkpoint_fp8_serialized": False})], CHECK),
    "W13": (sparse("deepseek-v3"),
            [tensor("model.layers.1.mlp.gate.weight", "F8_E4M3", 8, 256),
             tensor("model.layers.1.mlp.gate.weight_scale_inv", "F32", 1, 2)],
            CHECK),
    "W14": (sparse("deepseek-v3"), [], COMPILE + ["--mtp", "2"]),
    "W15": (FP8, [tensor("lm_head.weight", None)], COMPILE),
    "B2": (FP8 + ["--block", "128x64"], [], [
        "octet", "compile", "CKPT", "--target", "sm_90a", "--remarks",
        "--compile-to", "select-kernels", "-o", "-"]),
    "B4": (FP8, [], CHECK + ["--target", "sm_80"]),
    "B6": (model("mxfp8"), [], CHECK + ["--target", "sm_90a"]),
    "P7a": (FP8, [], COMPILE + ["--kv-cache", "fp8_ds_mla"]),
    "P7b": (FP8 + ["--layers", "4"],
            [tensor(f"model.layers.{i}.self_attn.{x}_scale", "F32", *[])
             for i in (0, 1) for x in "kv"],
            COMPILE + ["--kv-cache", "bf16", "--remarks"]),
}

# What only a running program says, and where that is tested.
NEEDS_A_RUN = {"N4", "N8", "P8"}


def rewrite(folder, edits):
    """Edits config.json and headers; the data become a hole."""
    path = folder / "config.json"
    text = json.loads(path.read_text())
    file = folder / "model.safetensors"
    raw = file.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {name: (t["dtype"], t["shape"]) for name, t in header.items()}
    for edit in edits:
        edit(text, tensors)
    path.write_text(json.dumps(text))
    width = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "F8_E4M3": 1, "U8": 1,
             "I8": 1}
    header, offset = {}, 0
    for name, (dtype, shape) in tensors.items():
        count = width[dtype]
        for side in shape:
            count *= side
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + offset)


def run(folder, rule):
    """The lines that a scenario prints."""
    maker, edits, command = SCENARIOS[rule]
    place = folder / rule
    subprocess.run([sys.executable, HERE / maker[0], place, *maker[1:]],
                   check=True, capture_output=True)
    if edits:
        rewrite(place, edits)
    done = subprocess.run([str(place) if word == "CKPT" else word
                           for word in command], capture_output=True, text=True)
    return done.stderr.replace(f"{place}/", "").splitlines()


def list_expected():
    """What lit expects of octet-opt, by rule."""
    texts = {}
    for path in (HERE.parent).glob("*/**/*.mlir"):
        for text in re.findall(r"expected-(?:error|warning|remark)\s*@?\S*\s*"
                               r"\{\{(.*)\}\}\s*$", path.read_text(), re.M):
            for rule in re.findall(r"\[([A-Z]\d+[a-z]?)\]$", text):
                texts.setdefault(rule, []).append(text)
    return texts


def get_wording(text):
    """Without what a case fills in: '…', types, paths, numbers."""
    text = re.sub(r"'[^']*'", "'_'", text)
    nested = r"<[^<>]*(?:<[^<>]*(?:<[^<>]*>[^<>]*)*>[^<>]*)*>"
    text = re.sub(r"[!#]?[a-z][\w.]*" + nested, "T", text)
    text = re.sub(r"\b[\w{}]+(?:\.[\w{}*]+)+", "_", text)
    text = re.sub(r"'_'(?:(?:,| and| or) '_')+", "'_'", text)
    text = text.replace("'_', ...", "'_'")
    text = re.sub(r"\[\d+(?:, ?\d+)*\]", "[#]", text)
    text = re.sub(r"\d+(?:[x.]\d+)*(?:(?:,| and| or| to) \d+)*", "#", text)
    return re.sub(r"\b(matri|layer|tensor|rank|row)s?\b", r"\1", text)


def split_subject(text):
    """With and without `SUBJECT: `."""
    yield text
    subject, colon, rest = text.partition(": ")
    if colon and " [" not in subject:
        yield rest


def is_printed(example, texts):
    patterns = [re.escape(get_wording(part)).replace(r"\.\.\.", ".*")
                for part in split_subject(example)]
    return any(re.fullmatch(pattern, get_wording(part))
               for text in texts for part in split_subject(text)
               for pattern in patterns)


folder, only = Path(sys.argv[1]), set(sys.argv[2:])
rules = json.loads(subprocess.run(["octet", "explain", "--json"], check=True,
                                  capture_output=True, text=True).stdout)
expected, faults, count = list_expected(), [], 0
for rule in rules:
    name = rule["rule"]
    if only and name not in only:
        continue
    shown = re.findall(r"^(?:error|warning|remark): (.*)$", rule["example"], re.M)
    if not shown:
        continue
    printed = [re.sub(r"^(error|warning|remark|note): +", "", line)
               for line in run(folder, name)] if name in SCENARIOS else []
    found = all(is_printed(one, expected.get(name, []) + printed)
                for one in shown)
    count += found
    if found == (name in NEEDS_A_RUN):
        faults += [f"{name}: " + ("is printed now, take it from NEEDS_A_RUN"
                                  if found else "nobody prints this:")]
        faults += [f"    {one}" for one in shown]
        faults += [f"  < {line}" for line in
                   printed[:4] + expected.get(name, [])[:4]] * (not found)
if faults:
    sys.exit("\n".join(faults))
print(f"{count} examples are printed")
