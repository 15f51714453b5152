#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write small GGUF files with random weights, and read GGUF files.

    make_gguf.py OUT.gguf [--arch llama --types Q4_0,Q6_K …] [--seed 1]
    make_gguf.py --dequantise IN.gguf OUT

The first writes a model whose matrices take the types of --types in turn. The
second is an independent reader: it writes the same model as a folder with
config.json and model.safetensors in float32, rows of q and k in the order of a
folder (W16). No line of it is shared with lib/Checkpoint. Python's standard
library only; the same seed gives the same bytes.
"""
import argparse
import array
import json
import math
import random
import struct
import sys
from pathlib import Path

# number, elements and bytes of a block
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18),
         "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22), "Q5_1": (7, 32, 24),
         "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210),
         "BF16": (30, 1, 2)}
ARCHITECTURES = {"llama": ("LlamaForCausalLM", True),
                 "qwen2": ("Qwen2ForCausalLM", False),
                 "qwen3": ("Qwen3ForCausalLM", False)}
ALIGNMENT = 32


# ---- blocks to numbers -----------------------------------------------------

def f16(data, at):
    return struct.unpack_from("<e", data, at)[0]


def nibbles(data):
    """Codes 0-15 of 16 bytes: first all low halves, then all high ones."""
    return [b & 15 for b in data] + [b >> 4 for b in data]


def fifths(data):
    word = int.from_bytes(data, "little")
    return [(word >> i & 1) * 16 for i in range(32)]


def block_q4_0(b):
    return [f16(b, 0) * (q - 8) for q in nibbles(b[2:])]


def block_q4_1(b):
    return [f16(b, 0) * q + f16(b, 2) for q in nibbles(b[4:])]


def block_q5_0(b):
    return [f16(b, 0) * (q + h - 16)
            for q, h in zip(nibbles(b[6:]), fifths(b[2:6]))]


def block_q5_1(b):
    return [f16(b, 0) * (q + h) + f16(b, 2)
            for q, h in zip(nibbles(b[8:]), fifths(b[4:8]))]


def block_q8_0(b):
    return [f16(b, 0) * q for q in struct.unpack_from("<32b", b, 2)]


def block_q4_k(b):
    d, m, packed, quants = f16(b, 0), f16(b, 2), b[4:16], b[16:]
    scales = [x & 63 for x in packed[:4]]
    minima = [x & 63 for x in packed[4:8]]
    for i in range(4):
        scales.append(packed[8 + i] & 15 | packed[i] >> 6 << 4)
        minima.append(packed[8 + i] >> 4 | packed[4 + i] >> 6 << 4)
    out = []
    for pair in range(4):
        run = quants[32 * pair:32 * pair + 32]
        for part, codes in enumerate(([x & 15 for x in run],
                                      [x >> 4 for x in run])):
            s, t = scales[2 * pair + part], minima[2 * pair + part]
            out += [d * s * q - m * t for q in codes]
    return out


def block_q6_k(b):
    low, high = b[:128], b[128:192]
    scales, d = struct.unpack_from("<16b", b, 192), f16(b, 208)
    out = []
    for i in range(256):
        half, run, at = i // 128, i // 32 % 4, i % 32
        byte = low[64 * half + 32 * (run & 1) + at]
        code = (byte >> 4 if run >= 2 else byte & 15)
        code |= (high[32 * half + at] >> 2 * run & 3) << 4
        out.append(d * scales[i // 16] * (code - 32))
    return out


BLOCKS = {"Q4_0": block_q4_0, "Q4_1": block_q4_1, "Q5_0": block_q5_0,
          "Q5_1": block_q5_1, "Q8_0": block_q8_0, "Q4_K": block_q4_k,
          "Q6_K": block_q6_k}


def dequantise(name, data):
    """float32 values, an array."""
    if name == "F32":
        return array.array("f", data)
    if name == "F16":
        return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))
    if name == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return array.array("f", bytes(wide))
    size, out = TYPES[name][2], array.array("f")
    for at in range(0, len(data), size):
        out.extend(BLOCKS[name](data[at:at + size]))
    return out


# ---- numbers to blocks: random codes, scales of the wanted size -------------

def random_block(rng, name, size):
    """Values of about the standard deviation `size`, mean about 0."""
    def half(x):
        return struct.pack("<e", x * rng.uniform(0.7, 1.4))
    if name == "Q4_0":
        return half(size / 4.6) + rng.randbytes(16)
    if name == "Q4_1":
        d = size / 4.6 * rng.uniform(0.7, 1.4)
        return struct.pack("<ee", d, -7.5 * d) + rng.randbytes(16)
    if name == "Q5_0":
        return half(size / 9.2) + rng.randbytes(20)
    if name == "Q5_1":
        d = size / 9.2 * rng.uniform(0.7, 1.4)
        return struct.pack("<ee", d, -15.5 * d) + rng.randbytes(20)
    if name == "Q8_0":
        return half(size / 74) + rng.randbytes(32)
    if name == "Q4_K":
        d = size / 250 * rng.uniform(0.7, 1.4)
        return struct.pack("<ee", d, 7.5 * d) + rng.randbytes(140)
    if name == "Q6_K":
        return rng.randbytes(208) + half(size / 1369)
    raise ValueError(name)


def random_data(rng, name, count, size):
    if name == "F32":
        return struct.pack(f"<{count}f",
                           *(rng.gauss(0, size) for _ in range(count)))
    if name == "F16":
        return struct.pack(f"<{count}e",
                           *(rng.gauss(0, size) for _ in range(count)))
    if name == "BF16":
        wide = random_data(rng, "F32", count, size)
        return b"".join(wide[i + 2:i + 4] for i in range(0, len(wide), 4))
    elements = TYPES[name][1]
    return b"".join(random_block(rng, name, size)
                    for _ in range(count // elements))


# ---- writing ---------------------------------------------------------------

def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


SCALARS = {"u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"),
           "u32": (4, "I"), "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?"),
           "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d")}


def value(kind, x):
    """The type and the bytes of a metadata value; kind `[i32]` is a list."""
    if kind == "str":
        return struct.pack("<I", 8) + text(x)
    if kind[0] == "[":
        inner = kind[1:-1]
        head = struct.pack("<IIQ", 9, 8 if inner == "str" else
                           SCALARS[inner][0], len(x))
        if inner == "str":
            return head + b"".join(map(text, x))
        return head + struct.pack(f"<{len(x)}{SCALARS[inner][1]}", *x)
    number, code = SCALARS[kind]
    return struct.pack("<I" + code, number, x)


def write_gguf(path, metadata, tensors, version=3):
    """metadata: key -> (kind, value); tensors: name -> (type, shape, bytes),
    shape as a folder has it."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(tensors),
                                          len(metadata)))
    for key, (kind, x) in metadata.items():
        out += text(key) + value(kind, x)
    offset = 0
    for name, (dtype, shape, data) in tensors.items():
        out += text(name) + struct.pack("<I", len(shape))
        out += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", TYPES[dtype][0], offset)
        offset += len(data) + -len(data) % ALIGNMENT
    out += bytes(-len(out) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(out)
        for _, _, data in tensors.values():
            end = file.tell() + len(data) + -len(data) % ALIGNMENT
            if isinstance(data, (bytes, bytearray)):
                file.write(data)
            file.seek(end)  # what is not there is a hole (make_shape.py)
        file.truncate()


def byte_characters():
    """The 256 characters of byte-level BPE, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b if b in plain else next(other)) for b in range(256)]


def tokenizer(vocab):
    """A byte-level BPE of `vocab` tokens, with a chat template."""
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    types = [3, 3, 3]
    tokens += byte_characters()
    merges = []
    for left, right in (("t", "h"), ("th", "e"), ("i", "n"), ("\u0120", "the"),
                        ("in", "g"), ("e", "r"), ("o", "u"), ("a", "n")):
        merges.append(f"{left} {right}")
        tokens.append(left + right)
    types += [1] * (len(tokens) - 3)
    while len(tokens) < vocab:
        tokens.append(f"<unused_{len(tokens)}>")
        types.append(5)
    template = ("{% for message in messages %}{{'<|im_start|>' + message['role']"
                " + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
                "{% endfor %}{% if add_generation_prompt %}"
                "{{ '<|im_start|>assistant\\n' }}{% endif %}")
    return {"tokenizer.ggml.model": ("str", "gpt2"),
            "tokenizer.ggml.pre": ("str", "smollm"),
            "tokenizer.ggml.tokens": ("[str]", tokens[:vocab]),
            "tokenizer.ggml.token_type": ("[i32]", types[:vocab]),
            "tokenizer.ggml.merges": ("[str]", merges),
            "tokenizer.ggml.bos_token_id": ("u32", 1),
            "tokenizer.ggml.eos_token_id": ("u32", 2),
            "tokenizer.ggml.add_bos_token": ("bool", False),
            "tokenizer.chat_template": ("str", template)}


def llama3_factors(dim, theta):
    """rope_freqs.weight as the converter of Llama 3.1 writes it."""
    out = []
    for i in range(dim // 2):
        wave = 2 * math.pi * theta ** (2 * i / dim)
        if wave < 8192 / 4:
            out.append(1.0)
        elif wave > 8192:
            out.append(8.0)
        else:
            smooth = (8192 / wave - 1) / (4 - 1)
            out.append(1 / ((1 - smooth) / 8 + smooth))
    return struct.pack(f"<{len(out)}f", *out)


def make(o):
    """(metadata, tensors) of a random model."""
    rng, types = random.Random(o.seed), o.types.split(",")
    a = o.arch + "."
    metadata = {
        "general.architecture": ("str", o.arch),
        "general.name": ("str", "random"),
        a + "block_count": ("u32", o.layers),
        a + "context_length": ("u32", 4096),
        a + "embedding_length": ("u32", o.hidden),
        a + "feed_forward_length": ("u32", o.intermediate),
        a + "attention.head_count": ("u32", o.heads),
        a + "attention.head_count_kv": ("u32", o.kv_heads),
        a + "attention.key_length": ("u32", o.head_dim),
        a + "attention.value_length": ("u32", o.head_dim),
        a + "attention.layer_norm_rms_epsilon": ("f32", 1e-5),
        a + "rope.freq_base": ("f32", 100000.0),
        a + "rope.dimension_count": ("u32", o.head_dim),
        **tokenizer(o.vocab)}
    tensors, turn = {}, iter(range(10 ** 9))

    def matrix(name, rows, columns, size, dtype=None):
        dtype = dtype or types[next(turn) % len(types)]
        if columns % TYPES[dtype][1]:
            dtype = "Q8_0" if columns % 32 == 0 else "F16"
        tensors[name] = (dtype, [rows, columns],
                         random_data(rng, dtype, rows * columns, size))

    def vector(name, count, mean, size):
        tensors[name] = ("F32", [count], struct.pack(
            f"<{count}f", *(rng.gauss(mean, size) for _ in range(count))))

    matrix("token_embd.weight", o.vocab, o.hidden,
           3 / math.sqrt(o.hidden) if o.tied else 1.0)
    if o.rope == "llama3":
        tensors["rope_freqs.weight"] = (
            "F32", [o.head_dim // 2], llama3_factors(o.head_dim, 100000.0))
    q, kv = o.heads * o.head_dim, o.kv_heads * o.head_dim
    for i in range(o.layers):
        at = f"blk.{i}."
        vector(at + "attn_norm.weight", o.hidden, 1.0, 0.2)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            matrix(at + f"attn_{name}.weight", rows, o.hidden,
                   1 / math.sqrt(o.hidden))
            if o.arch == "qwen2":
                vector(at + f"attn_{name}.bias", rows, 0.0, 0.2)
        if o.arch == "qwen3":
            vector(at + "attn_q_norm.weight", o.head_dim, 1.2, 0.2)
            vector(at + "attn_k_norm.weight", o.head_dim, 1.2, 0.2)
        matrix(at + "attn_output.weight", o.hidden, q, 1.2 / math.sqrt(q))
        vector(at + "ffn_norm.weight", o.hidden, 1.0, 0.2)
        for name in ("gate", "up"):
            matrix(at + f"ffn_{name}.weight", o.intermediate, o.hidden,
                   1.3 / math.sqrt(o.hidden))
        matrix(at + "ffn_down.weight", o.hidden, o.intermediate,
               1.2 / math.sqrt(o.intermediate))
    vector("output_norm.weight", o.hidden, 1.0, 0.2)
    if not o.tied:
        matrix("output.weight", o.vocab, o.hidden, 2.5 / math.sqrt(o.hidden))
    return metadata, tensors


# ---- reading ---------------------------------------------------------------

class Reader:
    def __init__(self, path):
        self.data, self.at = Path(path).read_bytes(), 4
        assert self.data[:4] == b"GGUF"
        self.take("I")
        tensors, entries = self.take("Q"), self.take("Q")
        self.metadata = {self.text(): self.value(self.take("I"))
                         for _ in range(entries)}
        names = {row[0]: name for name, row in TYPES.items()}
        table = []
        for _ in range(tensors):
            name = self.text()
            shape = [self.take("Q") for _ in range(self.take("I"))][::-1]
            table.append((name, names[self.take("I")], shape, self.take("Q")))
        begin = self.at + -self.at % self.metadata.get("general.alignment", 32)
        self.tensors = {}
        for name, dtype, shape, offset in table:
            _, elements, size = TYPES[dtype]
            count = math.prod(shape) // elements * size
            at = begin + offset
            self.tensors[name] = (dtype, shape, self.data[at:at + count])

    def take(self, code):
        x, = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return x

    def text(self):
        size = self.take("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, count = self.take("I"), self.take("Q")
            return [self.value(kind) for _ in range(count)]
        return self.take({n: c for n, c in SCALARS.values()}[kind])


def folder_name(name):
    outer = {"token_embd": "model.embed_tokens", "output_norm": "model.norm",
             "output": "lm_head"}
    inner = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "attn_q_norm":
             "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
             "ffn_norm": "post_attention_layernorm", "ffn_gate":
             "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down":
             "mlp.down_proj"}
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{inner[parts[2]]}.{parts[3]}"
    return f"{outer[parts[0]]}.{parts[1]}"


def unpermute(values, rows, head):
    """Pairs of neighbours to halves: [heads, d/2, 2] to [heads, 2, d/2]."""
    width, out = len(values) // rows, array.array("f")
    for h in range(rows // head):
        for j in range(2):
            for i in range(head // 2):
                row = h * head + 2 * i + j
                out.extend(values[row * width:(row + 1) * width])
    return out


def float32(x):
    """The shortest decimal that is this float32: 1e-05, not 9.99…e-06."""
    for digits in range(1, 10):
        short = float(f"{x:.{digits}g}")
        if struct.pack("<f", short) == struct.pack("<f", x):
            return short
    return x


def convert(path):
    """(config, tensors) of a folder: name -> ("F32", shape, bytes)."""
    file = Reader(path)
    m = file.metadata
    arch = m["general.architecture"]
    name, permuted = ARCHITECTURES[arch]
    heads, hidden = m[arch + ".attention.head_count"], m[arch + ".embedding_length"]
    head = m.get(arch + ".attention.key_length", hidden // heads)
    tensors = {}
    for stored, (dtype, shape, data) in file.tensors.items():
        if stored == "rope_freqs.weight":
            continue
        values = dequantise(dtype, data)
        if permuted and stored.split(".")[-2] in ("attn_q", "attn_k"):
            values = unpermute(values, shape[0], head)
        tensors[folder_name(stored)] = ("F32", shape, values.tobytes())
    config = {
        "architectures": [name], "model_type": arch, "torch_dtype": "bfloat16",
        "hidden_act": "silu", "hidden_size": hidden, "head_dim": head,
        "vocab_size": tensors["model.embed_tokens.weight"][1][0],
        "intermediate_size": m[arch + ".feed_forward_length"],
        "num_hidden_layers": m[arch + ".block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": m.get(arch + ".attention.head_count_kv", heads),
        "max_position_embeddings": m[arch + ".context_length"],
        "rms_norm_eps": float32(m[arch + ".attention.layer_norm_rms_epsilon"]),
        "rope_theta": m.get(arch + ".rope.freq_base", 10000.0),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "bos_token_id": m.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": m.get("tokenizer.ggml.eos_token_id")}
    if "rope_freqs.weight" in file.tensors:
        config["rope_scaling"] = {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    return config, tensors


def write_folder(out, config, tensors):
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config, indent=1))
    header, offset = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        for _, _, data in tensors.values():
            file.write(data)


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", help="file to write, or to read with --dequantise")
    add("folder", nargs="?", help="folder to write with --dequantise")
    add("--dequantise", action="store_true")
    add("--arch", choices=ARCHITECTURES, default="llama", help="default: llama")
    add("--types", default="Q4_0,Q4_1,Q5_0,Q5_1,Q8_0,Q4_K,Q6_K,F16,BF16,F32",
        help="of the matrices, in turn; default: all")
    add("--hidden", type=int, default=256, help="default: 256")
    add("--intermediate", type=int, default=512, help="default: 512")
    add("--layers", type=int, default=2, help="default: 2")
    add("--heads", type=int, default=4, help="default: 4")
    add("--kv-heads", type=int, default=2, help="default: 2")
    add("--head-dim", type=int, default=64, help="default: 64")
    add("--vocab", type=int, default=272, help="at least 267, default: 272")
    add("--rope", choices=["default", "llama3"], default="default")
    add("--tied", action="store_true", help="no output.weight")
    add("--seed", type=int, default=1, help="default: 1")
    return parser.parse_args(arguments)


def main():
    o = parse()
    if o.dequantise:
        write_folder(Path(o.folder), *convert(o.out))
    else:
        write_gguf(o.out, *make(o))
        print(f"{o.out}: {o.arch}, seed {o.seed}", file=sys.stderr)


if __name__ == "__main__":
    main()
