#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dense decoder models in plain Python and float64, from a checkpoint folder.

    reference.py CKPT --ids-file IDS.json -o OUT.safetensors [--decode N]
                 [--activation-quant off] [--quantization fp8]

An implementation of its own, to hold `EXE logits` against, with the same files
in and out: no line of it is shared with the compiler. Weights are dequantised
(N2, W1); inputs of quantised linears are quantised as SPEC P3 says, with float32
scales; everything else is float64. Llama, Mistral, Qwen2 and Qwen3; BF16, F16,
`fp8` and compressed-tensors FP8. Python's standard library only, so for small
models.

Rounding to E4M3 is a step function: whoever sums in another order lands now and
then on the other side of a step. So the model also keeps, for each token, the
smallest distance of any quantised value to a step, relative to the token's
vector (`margin`), and a caller compares up to the first token that is close.
"""
import argparse
import array
import json
import math
import struct
import sys
from operator import mul
from pathlib import Path


# ---- files -----------------------------------------------------------------

def decode_e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return math.nan
    value = (1 + mantissa / 8) * 2.0 ** (exponent - 7) if exponent else mantissa / 512
    return -value if code >= 128 else value


E4M3 = [decode_e4m3(code) for code in range(256)]


def decode(dtype, data):
    """The values of a tensor's bytes."""
    if dtype == "F8_E4M3":
        return [E4M3[code] for code in data]
    if dtype == "BF16":
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        return list(array.array("f", bytes(wide)))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    return list(array.array({"F32": "f", "I64": "q", "U8": "B"}[dtype], data))


def read_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    blob = Path(path).read_bytes()
    size, = struct.unpack("<Q", blob[:8])
    return {name: (entry["dtype"], entry["shape"],
                   blob[8 + size + entry["data_offsets"][0]:
                        8 + size + entry["data_offsets"][1]])
            for name, entry in json.loads(blob[8:8 + size]).items()
            if name != "__metadata__"}


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, list of numbers)."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = array.array({"F32": "f", "I64": "q"}[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


# ---- numbers ---------------------------------------------------------------

def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def round_e4m3(x):
    """The E4M3 value nearest to x, and the distance from x to the nearest
    point at which that changes."""
    size = abs(x)
    if size >= 448.0:
        return math.copysign(448.0, x), math.inf  # nothing changes above 432
    step = 2.0 ** (max(math.frexp(size)[1] - 1, -6) - 3) if size else 2.0 ** -9
    parts = size / step
    return math.copysign(round(parts) * step, x), step * abs(abs(parts - math.floor(parts)) - 0.5)


def quantize(row, scale, margin):
    """e4m3(x / s) · s, and the smaller of `margin` and the least distance to a
    step in units of x."""
    out = []
    for x in row:
        value, distance = round_e4m3(f32(f32(x) / scale))
        out.append(value * scale)
        margin = min(margin, distance * scale)
    return out, margin


def dynamic_scale(row, power_of_two):
    """N3, N4."""
    scale = f32(max(max(map(abs, row)), 1e-10) / 448)
    if power_of_two:
        fraction, exponent = math.frexp(scale)
        scale = 2.0 ** (exponent - 1 if fraction == 0.5 else exponent)
    return scale


def dot(a, b):
    return sum(map(mul, a, b))


class Linear:
    """y = x W^T + b, W a list of rows, with what is done to x first."""

    def __init__(self, weight, bias=None, scheme=None, scale=None, group=0,
                 power_of_two=False):
        self.weight, self.bias = weight, bias
        self.scheme = scheme  # None, "static", "token", "group"
        self.scale, self.group, self.power_of_two = scale, group, power_of_two
        self.largest = 0.0  # of its inputs, before anything is done to them

    def input(self, row, model):
        if self.scheme is None:
            return row
        margin = math.inf
        if self.scheme == "static":
            out, margin = quantize(row, self.scale, margin)
        else:
            width = self.group if self.scheme == "group" else len(row)
            out = []
            for begin in range(0, len(row), width):
                part = row[begin:begin + width]
                part, margin = quantize(
                    part, dynamic_scale(part, self.power_of_two), margin)
                out += part
        size = math.sqrt(dot(row, row) / len(row))
        model.note_margin(margin / size if size else margin)
        return out

    def __call__(self, row, model):
        self.largest = max(self.largest, *map(abs, row))
        x = self.input(row, model)
        y = [dot(x, w) for w in self.weight]
        return [a + b for a, b in zip(y, self.bias)] if self.bias else y


# ---- the checkpoint --------------------------------------------------------

class Checkpoint:
    """`numerics`, `requant_max`, `keep_scales` and `mxfp8_as` are what the flags
    of `octet compile` are called; reference8.py reads them."""

    def __init__(self, folder, activation_quant=True, quantization=None, *,
                 numerics="cpu", requant_max=False, keep_scales=False,
                 mxfp8_as=None):
        folder = Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {}
        for file in sorted(folder.glob("model*.safetensors")):
            self.tensors |= read_safetensors(file)
        self.quant = self.config.get("quantization_config") or {}
        self.activation_quant = activation_quant
        self.quantize_weights = quantization == "fp8" and not self.quant
        self.numerics, self.requant_max = numerics, requant_max
        self.keep_scales, self.mxfp8_as = keep_scales, mxfp8_as

    def values(self, name):
        dtype, _, data = self.tensors[name]
        return decode(dtype, data)

    def rows(self, name):
        _, (count, width), _ = self.tensors[name]
        values = self.values(name)
        return [values[i * width:(i + 1) * width] for i in range(count)]

    def scalar(self, name):
        return self.values(name)[0]

    def ct_inputs(self):
        group, = self.quant["config_groups"].values()
        return group["input_activations"]

    def linear(self, path, shards):
        """The linear at `path`; `shards` are the paths that share its input
        in a fused module, whose static scales are joined by maximum (W9)."""
        bias = (self.values(path + ".bias")
                if path + ".bias" in self.tensors else None)
        import reference4
        if reference4.codes_name(path, self.tensors):
            return reference4.read_linear(self, path, shards, bias)
        if self.is_of_reference8(path):
            import reference8
            return reference8.read_linear(self, path, shards, bias)
        weight = self.rows(path + ".weight")
        if self.tensors[path + ".weight"][0] != "F8_E4M3":
            if self.quantize_weights:
                return self.per_channel(weight, bias)
            return Linear(weight, bias)
        block = self.quant.get("weight_block_size")
        name = next(path + suffix for suffix in
                    (".weight_scale_inv", ".weight_scale")
                    if path + suffix in self.tensors)
        scales = self.values(name)
        if block:
            n, k = block
            across = -(-len(weight[0]) // k)
            weight = [[w * scales[i // n * across + j // k]
                       for j, w in enumerate(row)]
                      for i, row in enumerate(weight)]
        else:
            weight = [[w * scales[i if len(scales) > 1 else 0] for w in row]
                      for i, row in enumerate(weight)]
        if not self.activation_quant:
            return Linear(weight, bias)
        if block:
            return Linear(weight, bias, "group", group=block[1],
                          power_of_two=self.quant.get("scale_fmt") == "ue8m0")
        if self.quant["quant_method"] == "compressed-tensors":
            static = self.ct_inputs()["dynamic"] is False
        else:
            static = self.quant["activation_scheme"] == "static"
        if not static:
            return Linear(weight, bias, "token")
        scale = max(self.scalar(s + ".input_scale") for s in shards
                    if s + ".input_scale" in self.tensors)
        return Linear(weight, bias, "static", scale=scale)

    def is_of_reference8(self, path):
        """A format or a rewrite that is not read here."""
        dtype = self.tensors[path + ".weight"][0]
        if dtype in ("BF16", "F16", "F32"):
            return self.quantize_weights and self.requant_max
        method = self.quant.get("quant_method")
        return (self.numerics != "cpu" or self.requant_max or dtype != "F8_E4M3"
                or method not in ("fp8", "compressed-tensors"))

    def per_channel(self, weight, bias):
        """W10: an unquantised weight to E4M3 with a scale for each row."""
        out = [quantize(row, dynamic_scale(row, False), 0)[0] for row in weight]
        return Linear(out, bias, "token" if self.activation_quant else None)

    def kv_scales(self, layer):
        """The two scales of an FP8 cache (P8), or None for a plain one."""
        q = self.quant
        declared = q.get("kv_cache_quant_algo") or q.get("kv_cache_scheme")
        if not declared:
            return None
        found = []
        for letter in "kv":
            at = f"model.layers.{layer}.self_attn."
            found.append(next((self.scalar(name) for name in (
                f"{at}{letter}_scale", f"{at}{letter}_proj.{letter}_scale",
                f"{at}kv_scale") if name in self.tensors), 0.0))
        k, v = found
        if k <= 0 and v <= 0:
            return 1.0, 1.0
        return (k if k > 0 else v), (v if v > 0 else k)


# ---- the model -------------------------------------------------------------

def rope_frequencies(config, dim):
    """Inverse frequencies and the factor on cos and sin."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = scaling.get("rope_theta") or config.get("rope_theta", 10000.0)
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    if kind == "default":
        return plain, 1.0
    factor = scaling["factor"]
    if kind == "linear":
        return [f / factor for f in plain], 1.0
    if kind == "llama3":
        old = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        out = []
        for f in plain:
            length = 2 * math.pi / f
            if length < old / high:
                out.append(f)
            elif length > old / low:
                out.append(f / factor)
            else:
                smooth = (old / length - low) / (high - low)
                out.append((1 - smooth) * f / factor + smooth * f)
        return out, 1.0
    if kind != "yarn":
        raise ValueError(f"rope type {kind}")
    old = scaling.get("original_max_position_embeddings") or config["max_position_embeddings"]

    def mscale(m=1.0):
        return 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0
    attention = scaling.get("attention_factor")
    if attention is None:
        m, all_dim = scaling.get("mscale"), scaling.get("mscale_all_dim")
        attention = mscale(m) / mscale(all_dim) if m and all_dim else mscale()

    def turns_at(turns):
        return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low = turns_at(scaling.get("beta_fast") or 32)
    high = turns_at(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    out = []
    for i, f in enumerate(plain):
        ramp = min(max((i - low) / (high - low), 0), 1)
        out.append(f / factor * ramp + f * (1 - ramp))
    return out, attention


class Model:
    def __init__(self, folder, activation_quant=True, quantization=None,
                 **flags):
        ckpt = Checkpoint(folder, activation_quant, quantization, **flags)
        c = self.config = ckpt.config
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.dim = c.get("head_dim") or c["hidden_size"] // self.heads
        self.eps = c["rms_norm_eps"]
        self.frequencies, self.rope_factor = rope_frequencies(c, self.dim)
        self.embed = ckpt.rows("model.embed_tokens.weight")
        self.norm = ckpt.values("model.norm.weight")
        self.head = self.read_head(ckpt)
        self.layers = [self.read_layer(ckpt, i)
                       for i in range(c["num_hidden_layers"])]
        self.margin = math.inf

    def read_head(self, ckpt):
        if self.config.get("tie_word_embeddings"):
            return Linear(self.embed)
        if ckpt.tensors["lm_head.weight"][0] in ("BF16", "F16", "F32"):
            return Linear(ckpt.rows("lm_head.weight"))  # also where W10 holds
        return ckpt.linear("lm_head", ["lm_head"])

    def read_layer(self, ckpt, i):
        at = f"model.layers.{i}."
        groups = [["self_attn." + n for n in ("q_proj", "k_proj", "v_proj")],
                  ["self_attn.o_proj"],
                  ["mlp.gate_proj", "mlp.up_proj"], ["mlp.down_proj"]]
        layer = {}
        for group in groups:
            for path in group:
                layer[path.split(".")[1]] = ckpt.linear(
                    at + path, [at + p for p in group])
        for name in ("input_layernorm", "post_attention_layernorm",
                     "self_attn.q_norm", "self_attn.k_norm"):
            if at + name + ".weight" in ckpt.tensors:
                layer[name] = ckpt.values(at + name + ".weight")
        layer["window"] = self.window(i)
        layer["kv_scales"] = ckpt.kv_scales(i)
        return layer

    def window(self, i):
        """How many keys a query of layer i sees, the own one included."""
        c = self.config
        if c["model_type"] == "mistral":
            return c.get("sliding_window")
        if c.get("layer_types"):
            sliding = c["layer_types"][i] == "sliding_attention"
        else:
            sliding = (c.get("use_sliding_window")
                       and i >= c.get("max_window_layers", 0))
        return c.get("sliding_window") if sliding else None

    def note_margin(self, margin):
        self.margin = min(self.margin, margin)

    def rms_norm(self, row, weight):
        scale = 1 / math.sqrt(dot(row, row) / len(row) + self.eps)
        return [x * scale * w for x, w in zip(row, weight)]

    def rotate(self, head, position):
        half = self.dim // 2
        out = list(head)
        for i, frequency in enumerate(self.frequencies):
            # The table is float32 everywhere; the angle is its product there.
            angle = f32(position * f32(frequency))
            c = math.cos(angle) * self.rope_factor
            s = math.sin(angle) * self.rope_factor
            a, b = head[i], head[i + half]
            out[i], out[i + half] = a * c - b * s, b * c + a * s
        return out

    def attention(self, layer, x, position, cache):
        """One token through attention; `cache` holds (k heads, v heads)."""
        def split(row):
            return [row[i:i + self.dim] for i in range(0, len(row), self.dim)]
        q, k, v = (split(layer[n](x, self)) for n in ("q_proj", "k_proj", "v_proj"))
        if "self_attn.q_norm" in layer:
            q = [self.rms_norm(h, layer["self_attn.q_norm"]) for h in q]
            k = [self.rms_norm(h, layer["self_attn.k_norm"]) for h in k]
        q = [self.rotate(h, position) for h in q]
        k = [self.rotate(h, position) for h in k]
        if layer["kv_scales"]:
            stored = []
            for heads, scale in zip((k, v), layer["kv_scales"]):
                heads = [quantize(h, scale, math.inf) for h in heads]
                flat = [x for h, _ in heads for x in h]
                size = math.sqrt(dot(flat, flat) / len(flat)) or 1.0
                self.note_margin(min(m for _, m in heads) / size)
                stored.append([h for h, _ in heads])
            k, v = stored
        cache.append((k, v))
        first = max(0, len(cache) - layer["window"]) if layer["window"] else 0
        out, group = [], self.heads // self.kv_heads
        for h, query in enumerate(q):
            seen = cache[first:]
            scores = [dot(query, keys[h // group]) / math.sqrt(self.dim)
                      for keys, _ in seen]
            top = max(scores)
            weights = [math.exp(s - top) for s in scores]
            total = sum(weights)
            columns = zip(*(values[h // group] for _, values in seen))
            out += [dot(weights, column) / total for column in columns]
        return layer["o_proj"](out, self)

    def step(self, token, caches, trace=None):
        """The logits after one more token; `caches` has a list per layer."""
        position = len(caches[0])
        h = self.embed[token]
        if trace is not None:
            trace.append([h])
        for layer, cache in zip(self.layers, caches):
            x = self.rms_norm(h, layer["input_layernorm"])
            h = [a + b for a, b in
                 zip(h, self.attention(layer, x, position, cache))]
            x = self.rms_norm(h, layer["post_attention_layernorm"])
            gate, up = layer["gate_proj"](x, self), layer["up_proj"](x, self)
            y = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            h = [a + b for a, b in zip(h, layer["down_proj"](y, self))]
            if trace is not None:
                trace[-1].append(h)
        n = self.rms_norm(h, self.norm)
        if trace is not None:
            trace[-1].append(n)
        return self.head(n, self)

    def run(self, ids, decode=0):
        """logits [S][V], hidden [S][layers + 2][H], greedy ids, their logits,
        and the smallest margin up to and with each row (prompt, then decode)."""
        caches = [[] for _ in self.layers]
        self.margin = math.inf
        logits, hidden, margins = [], [], []
        for token in ids:
            logits.append(self.step(token, caches, hidden))
            margins.append(self.margin)
        greedy, decoded, last = [], [], logits[-1]
        for i in range(decode):
            greedy.append(max(range(len(last)), key=last.__getitem__))
            decoded.append(last)
            if i + 1 < decode:
                last = self.step(greedy[-1], caches)
                margins.append(self.margin)
        return {"logits": logits, "hidden": hidden, "greedy": greedy,
                "decode_logits": decoded, "margins": margins}


def tensors_of(prompt, result):
    """The tensors of one prompt under the names that `EXE logits` uses."""
    def table(rows):
        return ("F32", [len(rows), len(rows[0])], [x for row in rows for x in row])
    out = {f"{prompt}.logits": table(result["logits"])}
    count = len(result["hidden"][0])
    for i in range(count):
        name = "hidden_norm" if i == count - 1 else f"hidden.{i}"
        out[f"{prompt}.{name}"] = table([row[i] for row in result["hidden"]])
    if result["greedy"]:
        out[f"{prompt}.greedy"] = ("I64", [len(result["greedy"])], result["greedy"])
        out[f"{prompt}.decode_logits"] = table(result["decode_logits"])
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--ids-file", required=True)
    parser.add_argument("-o", required=True)
    parser.add_argument("--decode", type=int, default=0)
    parser.add_argument("--activation-quant", choices=["auto", "off"], default="auto")
    parser.add_argument("--quantization", choices=["fp8"])
    o = parser.parse_args()
    model = Model(o.checkpoint, o.activation_quant == "auto", o.quantization)
    tensors = {}
    for prompt, ids in json.loads(Path(o.ids_file).read_text()).items():
        result = model.run(ids, o.decode)
        tensors |= tensors_of(prompt, result)
        print(f"{prompt}: smallest margin {result['margins'][-1]:.1e}", file=sys.stderr)
    write_safetensors(o.o, tensors)


if __name__ == "__main__":
    main()
