#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Write a small checkpoint with random weights in a real on-disk format.

    make_model.py OUT --arch qwen3 --format fp8-block [--hidden 256 …] [--seed 1]

The folder holds config.json, generation_config.json and model.safetensors (or
shards with an index), with the names, dtypes and shapes that exporters of the
format write (FORMATS.md). Neighbouring block and channel scales differ by a
factor of two and more, so that a transposed or shifted scale shows in the
result. Activations keep a size of about one through the layers. Python's
standard library only; the same seed gives the same bytes.
"""
import argparse
import json
import math
import random
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import formats4  # noqa: E402
import formats8  # noqa: E402

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}
FORMATS = ["bf16", "f16", "fp8-block", "fp8-tensor-static",
           "fp8-tensor-dynamic", "ct-static", "ct-channel", "ct-token-tensor",
           *formats8.FORMATS, *formats4.FORMATS]
WIDTH = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
         "F8_E4M3FNUZ": 1, "I8": 1, "U8": 1, "I32": 4, "I64": 8}


# ---- numbers ---------------------------------------------------------------

def encode_e4m3(value):
    """The E4M3FN code of a number: nearest, ties to even, saturating (N1, N2)."""
    if value != value:
        return 0x7F
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    size = min(abs(value), 448.0)
    if size < 2.0 ** -6:  # subnormals: multiples of 2^-9; 8 is the first normal
        return sign | round(size * 512)
    fraction, exponent = math.frexp(size)  # size = fraction * 2^exponent
    mantissa = round(fraction * 16)        # 8 … 16, Python rounds ties to even
    if mantissa == 16:
        mantissa, exponent = 8, exponent + 1
    return sign | (exponent + 6) << 3 | mantissa - 8


def decode_e4m3(code):
    """The value of an E4M3FN code."""
    if code & 0x7F == 0x7F:
        return math.nan
    exponent, mantissa = code >> 3 & 15, code & 7
    size = (math.ldexp(8 + mantissa, exponent - 10) if exponent
            else math.ldexp(mantissa, -9))
    return -size if code & 0x80 else size


def encode_bf16(value):
    """Two bytes, nearest, ties to even."""
    bits, = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def encode(dtype, values):
    """The bytes of a few numbers; large tensors are drawn by `gaussian`."""
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "BF16":
        return b"".join(map(encode_bf16, values))
    raise ValueError(dtype)


def quantiles():
    """256 values that a uniform byte maps to for a standard normal variable."""
    def inverse(p):  # bisection of the distribution function, once
        low, high = -6.0, 6.0
        for _ in range(60):
            middle = (low + high) / 2
            if math.erf(middle / math.sqrt(2)) < 2 * p - 1:
                low = middle
            else:
                high = middle
        return low
    return [inverse((i + 0.5) / 256) for i in range(256)]


NORMAL = quantiles()
# Where the mantissa of a 16-bit float lies in its low byte.
LOW_MANTISSA = {"BF16": 0x7F, "F16": 0xFF}


def gaussian(rng, dtype, count, size):
    """`count` numbers of standard deviation `size`. Bytes are mapped by table
    and the lower mantissa bits are drawn, which is as fast as copying."""
    raw = rng.randbytes(count)
    if dtype == "F8_E4M3":
        return raw.translate(bytes(encode_e4m3(size * x) for x in NORMAL))
    pairs = [encode(dtype, [size * x]) for x in NORMAL]
    mask = LOW_MANTISSA[dtype]
    low = raw.translate(bytes(p[0] & ~mask & 0xFF for p in pairs))
    noise = rng.randbytes(count).translate(bytes(i & mask for i in range(256)))
    out = bytearray(2 * count)
    out[0::2] = (int.from_bytes(low, "little")
                 | int.from_bytes(noise, "little")).to_bytes(count, "little")
    out[1::2] = raw.translate(bytes(p[1] for p in pairs))
    return bytes(out)


# ---- config.json -----------------------------------------------------------

def rope_scaling(o):
    """The `rope_scaling` object of the kind asked for, or None."""
    if o.rope == "default":
        return None
    if o.rope == "linear":
        return {"rope_type": "linear", "factor": 4.0}
    if o.rope == "llama3":
        return {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    return {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "original_max_position_embeddings": 256}


def quantization_config(o):
    """The `quantization_config` object of the format, or None."""
    ignored = [*([] if o.quantized_head else ["lm_head"]), *o.ignore]
    if o.format in formats8.FORMATS:
        return formats8.quantization_config(o, ignored)
    if o.format in formats4.FORMATS:
        return formats4.quantization_config(o, ignored)
    if o.format.startswith("fp8"):
        config = {"quant_method": "fp8", "fmt": "e4m3",
                  "activation_scheme":
                      "static" if o.format == "fp8-tensor-static" else "dynamic",
                  "modules_to_not_convert": ignored}
        if o.format == "fp8-block":
            config["weight_block_size"] = list(o.block)
        if o.scale_fmt:
            config["scale_fmt"] = o.scale_fmt
        if o.kv_scales:
            config["kv_cache_quant_algo"] = "FP8"
        return config
    if not o.format.startswith("ct"):
        return None

    def args(strategy, dynamic):
        return {"num_bits": 8, "type": "float", "strategy": strategy,
                "symmetric": True, "dynamic": dynamic, "group_size": None,
                "block_structure": None, "actorder": None, "observer": None,
                "observer_kwargs": {}}
    weights = args("channel" if o.format == "ct-channel" else "tensor", False)
    inputs = (args("tensor", False) if o.format == "ct-static"
              else args("token", True))
    return {"quant_method": "compressed-tensors", "format": "float-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": {
                "targets": ["Linear"], "weights": weights,
                "input_activations": inputs, "output_activations": None}},
            "ignore": ignored,
            "kv_cache_scheme": args("tensor", False) if o.kv_scales else None}


def make_config(o):
    config = {
        "architectures": [ARCHITECTURES[o.arch]], "model_type": o.arch,
        "torch_dtype": "float16" if o.format == "f16" else "bfloat16",
        "vocab_size": o.vocab, "hidden_size": o.hidden,
        "intermediate_size": o.intermediate, "num_hidden_layers": o.layers,
        "num_attention_heads": o.heads, "num_key_value_heads": o.kv_heads,
        "head_dim": o.head_dim, "hidden_act": "silu",
        "bos_token_id": 1, "eos_token_id": 2, "use_cache": True,
        "tie_word_embeddings": o.tied,
        "rms_norm_eps": 1e-5 if o.arch == "llama" else 1e-6,
        "max_position_embeddings": o.max_position,
    }
    if o.rope_style == "parameters":
        config["rope_parameters"] = {"rope_theta": o.rope_theta, **(
            rope_scaling(o) or {"rope_type": "default"})}
    else:
        config["rope_theta"] = o.rope_theta
        config["rope_scaling"] = rope_scaling(o)
    if o.arch == "llama":
        config |= {"attention_bias": o.bias, "mlp_bias": o.bias}
    if o.arch == "qwen3":
        config["attention_bias"] = o.bias
    if o.arch == "mistral":
        config["sliding_window"] = o.sliding_window
    if o.arch in ("qwen2", "qwen3"):
        config |= {"use_sliding_window": o.sliding_window is not None,
                   "sliding_window": o.sliding_window,
                   "max_window_layers": o.max_window_layers}
    if quantization_config(o):
        config["quantization_config"] = quantization_config(o)
    return config


# ---- tensors ---------------------------------------------------------------

class Maker:
    def __init__(self, options):
        self.o, self.rng = options, random.Random(options.seed)
        self.plain = "F16" if options.format == "f16" else "BF16"
        self.tensors = {}  # name -> (dtype, shape, bytes)
        self.normal, self.encode_e4m3 = NORMAL, encode_e4m3
        self.encode = encode

    @staticmethod
    def log2(value):
        """The nearest exponent of a scale."""
        return round(math.log2(value))

    def add(self, name, dtype, shape, data):
        assert len(data) == math.prod(shape) * WIDTH[dtype], name
        self.tensors[name] = (dtype, shape, data)

    def vector(self, name, count, mean, size):
        values = [self.rng.gauss(mean, size) for _ in range(count)]
        self.add(name, self.plain, [count], encode(self.plain, values))

    def matrix(self, name, rows, columns, size):
        data = gaussian(self.rng, self.plain, rows * columns, size)
        self.add(name, self.plain, [rows, columns], data)

    def scales(self, name, shape, base, dtype):
        """A grid of scales about `base`; neighbours, across and down, differ
        by a factor between 2 and 8."""
        rows, columns = (shape + [1, 1])[:2]
        values = []
        for i in range(rows):
            for j in range(columns):
                factor = (2.0 if (i + j) % 2 else 0.5)
                if self.o.scale_fmt == "ue8m0":
                    value = factor * 2.0 ** round(math.log2(base))
                else:
                    value = factor * base * self.rng.uniform(0.71, 1.41)
                values.append(value)
        self.add(name, dtype, shape, encode(dtype, values))

    def linear(self, path, rows, columns, input_size, gain=1.0, bias=False):
        """One linear with its scales. `input_size` is about the largest input,
        which static scales are made for; some inputs saturate."""
        o, form = self.o, self.o.format
        if bias:
            self.vector(path + ".bias", rows, 0.0, 0.2)
        size = gain / math.sqrt(columns)
        if form in ("bf16", "f16") or path in o.ignore:
            self.matrix(path + ".weight", rows, columns, size)
            return
        if form in formats8.FORMATS:
            formats8.add_linear(self, path, rows, columns, input_size, size)
            return
        if form in formats4.FORMATS:
            formats4.add_linear(self, path, rows, columns, size)
            return
        code_size = 100.0  # a block's largest code is then about 288
        self.add(path + ".weight", "F8_E4M3", [rows, columns],
                 gaussian(self.rng, "F8_E4M3", rows * columns, code_size))
        base = size / code_size
        dtype = {"f32": "F32", "bf16": "BF16", None: (
            "BF16" if form.startswith("ct") else "F32")}[o.scale_dtype]
        if form == "fp8-block":
            n, k = o.block
            grid = [-(-rows // n), -(-columns // k)]
            self.scales(path + ".weight_scale_inv", grid, base, dtype)
        elif form == "ct-channel":
            self.scales(path + ".weight_scale", [rows, 1], base, dtype)
        else:
            one = [1] if form.startswith("ct") else []
            factor = self.rng.uniform(0.7, 1.4)
            self.add(path + ".weight_scale", dtype, one,
                     encode(dtype, [base * factor]))
            if form in ("fp8-tensor-static", "ct-static"):
                # Each shard of a fused module has its own (W9: the largest).
                scale = input_size / 448 * self.rng.uniform(0.6, 1.2)
                self.add(path + ".input_scale", dtype, one,
                         encode(dtype, [scale]))

    def layer(self, i):
        o, at = self.o, f"model.layers.{i}."
        q, kv = o.heads * o.head_dim, o.kv_heads * o.head_dim
        attention_bias = o.bias or o.arch == "qwen2"
        self.vector(at + "input_layernorm.weight", o.hidden, 1.0, 0.2)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            self.linear(at + f"self_attn.{name}_proj", rows, o.hidden, 4.0,
                        bias=attention_bias)
        self.linear(at + "self_attn.o_proj", o.hidden, q, 4.0, gain=1.2,
                    bias=o.bias and o.arch != "qwen2")
        if o.arch == "qwen3":
            self.vector(at + "self_attn.q_norm.weight", o.head_dim, 1.2, 0.2)
            self.vector(at + "self_attn.k_norm.weight", o.head_dim, 1.2, 0.2)
        if o.kv_scales:
            # The exporters' own places (W2).
            k, v = (("self_attn.k_scale", "self_attn.v_scale")
                    if o.format.startswith("ct") else
                    ("self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale"))
            for name in (k, v):
                self.add(at + name, "F32", [], struct.pack(
                    "<f", self.rng.uniform(3.0, 5.0) / 448))
        self.vector(at + "post_attention_layernorm.weight", o.hidden, 1.0, 0.2)
        mlp_bias = o.bias and o.arch == "llama"
        for name in ("gate", "up"):
            self.linear(at + f"mlp.{name}_proj", o.intermediate, o.hidden, 4.0,
                        gain=1.3, bias=mlp_bias)
        self.linear(at + "mlp.down_proj", o.hidden, o.intermediate, 16.0,
                    gain=1.2, bias=mlp_bias)

    def model(self):
        o = self.o
        # Tied: rows small enough that the logits stay of the size of a few.
        size = 3.0 / math.sqrt(o.hidden) if o.tied else 1.0
        self.matrix("model.embed_tokens.weight", o.vocab, o.hidden, size)
        for i in range(o.layers):
            self.layer(i)
        self.vector("model.norm.weight", o.hidden, 1.0, 0.2)
        if o.quantized_head:
            self.linear("lm_head", o.vocab, o.hidden, 4.0, gain=2.5)
        elif not o.tied:
            self.matrix("lm_head.weight", o.vocab, o.hidden,
                        2.5 / math.sqrt(o.hidden))
        return self.tensors


# ---- safetensors -----------------------------------------------------------

def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)


def write_model(out, tensors, shards):
    """One file, or `shards` files of about equal size with their index."""
    if shards == 1:
        write_safetensors(out / "model.safetensors", tensors)
        return
    total = sum(len(data) for _, _, data in tensors.values())
    parts, written = [{} for _ in range(shards)], 0
    for name, tensor in tensors.items():
        parts[min(written * shards // total, shards - 1)][name] = tensor
        written += len(tensor[2])
    index = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        write_safetensors(out / file, part)
        index |= dict.fromkeys(part, file)
    (out / "model.safetensors.index.json").write_text(json.dumps(
        {"metadata": {"total_size": total}, "weight_map": index}, indent=1))


def write_checkpoint(out, options):
    """Writes the folder `out`; `options` as the command line gives them."""
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(make_config(options), indent=1))
    (out / "generation_config.json").write_text(json.dumps(
        {"bos_token_id": 1, "eos_token_id": 2}, indent=1))
    write_model(out, Maker(options).model(), options.shards)


def parse(arguments=None):
    def block(text):
        n, k = text.lower().split("x")
        return int(n), int(k)
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("out", help="folder to write")
    add("--arch", choices=ARCHITECTURES, default="qwen3", help="default: qwen3")
    add("--format", choices=FORMATS, default="fp8-block",
        help="default: fp8-block")
    add("--hidden", type=int, default=256, help="default: 256")
    add("--intermediate", type=int, default=320,
        help="default: 320, two and a half blocks of 128")
    add("--layers", type=int, default=2, help="default: 2")
    add("--heads", type=int, default=4, help="query heads, default: 4")
    add("--kv-heads", type=int, default=2, help="default: 2")
    add("--head-dim", type=int, default=64, help="default: 64")
    add("--vocab", type=int, default=256, help="default: 256")
    add("--max-position", type=int, default=4096, help="default: 4096")
    add("--rope", choices=["default", "linear", "llama3", "yarn"],
        default="default", help="default: default")
    add("--rope-theta", type=float, default=10000.0, help="default: 10000")
    add("--rope-style", choices=["scaling", "parameters"], default="scaling",
        help="rope_scaling or the newer rope_parameters (C15), default: scaling")
    add("--sliding-window", type=int, help="tokens; default: none")
    add("--max-window-layers", type=int, default=0, help="qwen: layers below "
        "this one see everything, default: 0")
    add("--bias", action="store_true",
        help="biases where the architecture has a switch for them")
    add("--tied", action="store_true", help="lm_head is embed_tokens")
    add("--quantized-head", action="store_true",
        help="lm_head is quantised like every linear")
    add("--block", type=block, default=(128, 128), help="default: 128x128")
    add("--scale-fmt", choices=["ue8m0"], help="powers of two, and declared")
    add("--scale-dtype", choices=["f32", "bf16"],
        help="default: f32 for fp8, bf16 for compressed-tensors")
    add("--kv-scales", action="store_true", help="an FP8 KV cache is declared, "
        "with a scale for k and v in each layer")
    add("--ignore", action="append", default=[], metavar="MODULE",
        help="stored unquantised and on the ignore list; may be repeated")
    add("--shards", type=int, default=1, help="files, default: 1")
    add("--seed", type=int, default=1, help="default: 1")
    return parser.parse_args(arguments)


def self_test():
    """Encoding and decoding agree for each code, and halves go to even."""
    for code in range(256):
        value = decode_e4m3(code)
        assert encode_e4m3(value) & 0x7F == code & 0x7F, code
        assert value != value or encode_e4m3(value) == code, code
    for code in range(0, 0x7E):
        low, high = decode_e4m3(code), decode_e4m3(code + 1)
        middle = (low + high) / 2
        assert encode_e4m3(middle) == code + code % 2, code
        assert encode_e4m3(math.nextafter(middle, 0)) == code
        assert encode_e4m3(math.nextafter(middle, 999)) == code + 1
    assert encode_e4m3(1e9) == 0x7E and encode_e4m3(-1e9) == 0xFE


if __name__ == "__main__":
    self_test()
    options = parse()
    write_checkpoint(options.out, options)
    print(f"{options.out}: {options.arch} {options.format}, "
          f"seed {options.seed}", file=sys.stderr)
