#!/usr/bin/env python3
# Seeds and dictionaries of the fuzz targets.
#
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the seeds of a fuzz target from the generators of test/Inputs.

    make_corpus.py TARGET FOLDER

The head of each Fuzz*.cpp says how an input is laid out.
"""

import json
import re
import struct
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
INPUTS = HERE.parent / "Inputs"
sys.path.insert(0, str(INPUTS))
import make_checkpoint_inputs  # noqa: E402
import make_gguf  # noqa: E402
import make_model  # noqa: E402
import make_tokenizer  # noqa: E402


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


# ---- config ----------------------------------------------------------------

CONFIGS = [
    "--arch llama --format bf16 --rope llama3",
    "--arch llama --format fp8-block --rope yarn --bias",
    "--arch mistral --format fp8-tensor-dynamic --sliding-window 128",
    "--arch mistral --format fp8-tensor-static --kv-scales",
    "--arch qwen2 --format ct-channel --sliding-window 64 --max-window-layers 1",
    "--arch qwen2 --format ct-static --ignore model.layers.0.mlp.down_proj",
    "--arch qwen3 --format fp8-block --scale-fmt ue8m0 --rope yarn --rope-style parameters",
    "--arch qwen3 --format ct-token-tensor --rope linear --kv-scales",
    "--arch llama --format f16 --tied --rope llama3 --rope-style parameters",
]
PATTERNS = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
    "group_0": {"targets": [r"re:.*self_attn\.(q|k|v)_proj$"], "weights": {
        "num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False},
        "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}},
    "group_1": {"targets": ["Linear", "model.layers.0.mlp.down_proj"], "weights": {
        "num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True, "dynamic": False},
        "input_activations": None}},
    "ignore": ["re:(a+)+b", "lm_head"]}


COMMON = {"hidden_act": "silu", "hidden_size": 256, "intermediate_size": 384, "max_position_embeddings": 4096,
          "num_attention_heads": 4, "num_hidden_layers": 2, "rms_norm_eps": 1e-6, "rope_theta": 10000,
          "torch_dtype": "bfloat16", "tie_word_embeddings": False, "vocab_size": 512, "moe_intermediate_size": 128,
          "num_experts_per_tok": 2, "norm_topk_prob": True}
LATENT = {"q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
          "num_key_value_heads": 4, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 2, "topk_group": 1,
          "n_routed_experts": 8, "n_shared_experts": 1, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
          "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "attention_bias": False}
INDEXER = {"index_head_dim": 32, "index_n_heads": 2, "index_topk": 64}
SPARSE = {
    "DeepseekV3ForCausalLM": LATENT,
    "DeepseekV32ForCausalLM": LATENT | INDEXER,
    "GlmMoeDsaForCausalLM": LATENT | INDEXER,
    "Glm4MoeForCausalLM": {"num_key_value_heads": 2, "head_dim": 64, "n_routed_experts": 8, "n_shared_experts": 1,
                           "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "use_qk_norm": True,
                           "partial_rotary_factor": 0.5, "num_nextn_predict_layers": 1, "routed_scaling_factor": 1.0},
    "Qwen3MoeForCausalLM": {"num_key_value_heads": 2, "head_dim": 64, "num_experts": 8, "decoder_sparse_step": 1,
                            "mlp_only_layers": [0]},
    "MixtralForCausalLM": {"num_key_value_heads": 2, "num_local_experts": 8, "sliding_window": None},
    "GptOssForCausalLM": {"num_key_value_heads": 2, "head_dim": 64, "num_local_experts": 8, "experts_per_token": 2,
                          "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"],
                          "swiglu_limit": 7.0, "attention_bias": True, "rope_scaling": {
                              "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                              "truncate": False, "original_max_position_embeddings": 4096}},
}
METHODS = [
    {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic", "scale_fmt": "ue8m0"},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True,
     "modules_to_not_convert": None},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False,
     "dynamic": {"-:.*gate.*": {}, "+:.*down.*": {"bits": 8}}},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"], "group_size": 16},
    {"quant_method": "w8a8_fp8"},
    {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0, "modules_to_not_convert": ["lm_head"]},
]


def config_seeds():
    for number, (architecture, fields) in enumerate(SPARSE.items()):
        yield f"sparse-{number}", dump({"architectures": [architecture]} | COMMON | fields | {
            "quantization_config": METHODS[number % len(METHODS)]})
        yield f"sparse-plain-{number}", dump({"architectures": [architecture]} | COMMON | fields)
    for number, options in enumerate(CONFIGS):
        config = make_model.make_config(make_model.parse(["x", *options.split()]))
        yield f"model-{number}", dump(config)
    base = make_model.make_config(make_model.parse(["x", "--format", "bf16"]))
    yield "patterns", dump(base | {"quantization_config": PATTERNS})
    yield "older-place", dump(base | {"compression_config": PATTERNS})
    yield "text-config", dump({"text_config": {"quantization_config": {"quant_method": "fp8"}}})
    yield "modelopt", dump(base) + b"\0" + dump(
        {"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head", "*.gate"],
                          "kv_cache_quant_algo": "FP8"}})
    for method in METHODS:
        yield "method-" + method["quant_method"], dump(base | {"quantization_config": method})


# ---- safetensors -----------------------------------------------------------

def names_of_target():
    source = (HERE / "FuzzSafetensors.cpp").read_text()
    return re.findall(r'"([^"]+)"', re.search(r"kNames = \{(.*?)\};", source, re.S)[1])


SAFETENSORS_NAMES = names_of_target()


def folder_bytes(folder):
    """The files of a folder, or None if the target knows another name."""
    out = b""
    for path in sorted(folder.iterdir()):
        if path.name not in SAFETENSORS_NAMES or not path.is_file() or path.stat().st_size > 60000:
            return None
        data = path.read_bytes()
        out += struct.pack("<BH", 1 + SAFETENSORS_NAMES.index(path.name), len(data)) + data
    return out or None


def safetensors_seeds():
    with tempfile.TemporaryDirectory() as name:
        for case, fill in sorted(make_checkpoint_inputs.CASES.items()):
            if "(large)" in (fill.__doc__ or ""):
                continue
            folder = Path(name) / case
            folder.mkdir()
            fill(folder)
            data = folder_bytes(folder)
            if data:
                yield f"folder-{case}", data
            file = folder / "model.safetensors"
            if file.is_file() and file.stat().st_size < 5000:
                yield f"file-{case}", b"\0" + file.read_bytes()
        for number, options in enumerate(("fp8-block", "bf16", "fp8-tensor-static")):
            folder = Path(name) / f"model-{number}"
            make_model.write_checkpoint(str(folder), make_model.parse([
                str(folder), "--format", options, "--hidden", "16", "--intermediate", "24", "--heads", "2",
                "--kv-heads", "1", "--head-dim", "8", "--vocab", "20", "--layers", "1", "--block", "8x8"]))
            for path in folder.iterdir():
                if path.name not in SAFETENSORS_NAMES:
                    path.unlink()
            data = folder_bytes(folder)
            if data:
                yield f"model-{number}", data


# ---- gguf ------------------------------------------------------------------

def gguf_seeds():
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file.gguf"

        def write(metadata, tensors, version=3):
            make_gguf.write_gguf(path, metadata, tensors, version)
            return path.read_bytes()

        text = {"general.architecture": ("str", "llama"),
                "tokenizer.ggml.model": ("str", "llama"),
                "tokenizer.ggml.tokens": ("[str]", ["<unk>", "<s>", "</s>", "<0x0A>", "\u2581a", "a"]),
                "tokenizer.ggml.scores": ("[f32]", [0, 0, 0, 0, -1, -2]),
                "tokenizer.ggml.token_type": ("[i32]", [2, 3, 3, 6, 1, 1]),
                "tokenizer.ggml.unknown_token_id": ("u32", 0),
                "tokenizer.ggml.bos_token_id": ("u32", 1),
                "tokenizer.ggml.add_space_prefix": ("bool", True)}
        yield "spm", write(text, {})
        types = {name: ("[" + name + "]", [1, 0]) for name in ("u8", "i64", "bool", "f64", "u16")}
        yield "lists", write(types, {}, version=2)
        for kind in make_gguf.TYPES:
            elements = make_gguf.TYPES[kind][1]
            data = make_gguf.random_data(make_gguf.random.Random(1), kind, 2 * max(elements, 4), 1.0)
            yield f"type-{kind.lower()}", write({}, {"t": (kind, [2, max(elements, 4)], data)})
        for arch in ("llama", "qwen2", "qwen3"):
            options = make_gguf.parse([
                "x", "--arch", arch, "--types", "F16,Q8_0,Q4_0", "--hidden", "32", "--intermediate", "32",
                "--layers", "1", "--heads", "2", "--kv-heads", "1", "--head-dim", "16", "--vocab", "267",
                "--rope", "llama3" if arch == "llama" else "default", "--tied"])
            metadata, tensors = make_gguf.make(options)
            yield arch, write(metadata, tensors)
            # Without the tokenizer there is less to read before the sizes.
            for key in [key for key in metadata if key.startswith("tokenizer.")]:
                del metadata[key]
            yield arch + "-bare", write(metadata, tensors)


# ---- tokenizer -------------------------------------------------------------

TEXTS = ["", "Hello, w\u00f6rld 1234!\n\n", "<s>a  b</s> <|im_start|>user\n", "\u0065\u0301 \u4f60\u597d \U0001f600",
         "\u2581\u2581the the   ing", "a\u0000b"]


def tokenizer_seeds():
    for number, family in enumerate(sorted(make_tokenizer.FAMILIES)):
        tokenizer = make_tokenizer.make(family, merges=8, string_merges=number % 3 == 0)
        yield family, dump(tokenizer) + b"\0" + TEXTS[number % 5].encode()
        # The same without most of its vocabulary: the components are what the
        # mutator should meet.
        model = tokenizer["model"]
        vocab = dict(list(model["vocab"].items())[:12])
        kept = {token["content"] for token in tokenizer["added_tokens"]} | set(vocab)
        model["vocab"] = {token: number for number, token in enumerate(
            list(vocab) + [t for t in model["vocab"] if t in kept and t not in vocab])}
        model["merges"] = []
        yield family + "-small", dump(tokenizer) + b"\0" + TEXTS[1].encode()
    # Each step doubles the text.
    twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    for component, steps in (("decoder", "decoders"), ("normalizer", "normalizers")):
        yield component + "-grows", dump({
            "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
            component: {"type": "Sequence", steps: [twice] * 40}}) + b"\0aab"
    for number, text in enumerate(TEXTS):
        yield f"text-{number}", b"\0" + text.encode()
    yield "text-bytes", b"\0" + bytes(range(256))


# ---- chat template ---------------------------------------------------------

MESSAGES = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "H\u00e4? \U0001f600"},
     {"role": "assistant", "content": "<think>\nhm\n</think>\n\nNo."}, {"role": "user", "content": "Why?"}],
    [{"role": "user", "content": [{"type": "text", "text": "x"}]},
     {"role": "assistant", "content": None, "tool_calls": [{"type": "function", "id": "a12345678", "function": {
         "name": "f", "arguments": {"a": 1, "b": [1.5, None, True]}}}]},
     {"role": "tool", "content": "3", "tool_call_id": "a12345678"}],
    [],
]


def chat_seeds():
    for path in sorted((INPUTS / "templates").iterdir()):
        text = path.read_text()
        if path.suffix == ".jinja":
            for number, messages in enumerate(MESSAGES[:2]):
                yield f"{path.stem}-{number}", dump(messages) + b"\0" + text.encode()
            continue
        # Lines of many constructs, some at a time.
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        names = ("{% set s = 'aB \u00e4' %}{% set l = [1, 2, 3] %}{% set d = {'a': 1, 'b': 'x'} %}"
                 "{% set n = 7 %}{% set f = 1.5 %}{% set e = [] %}{% set u = '\u00dfx' %}")
        for start in range(0, len(lines), 8):
            part = lines[start:start + 8]
            if path.stem == "expressions":
                part = ["{{ " + line + " }}" for line in part]
            yield f"{path.stem}-{start}", dump(MESSAGES[2]) + b"\0" + (names + "\n".join(part)).encode()


# ---- payload ---------------------------------------------------------------

INFO = {"octet": "0.1.0", "target": "cpu", "numerics": "cpu", "dtype": "bf16", "architecture": "LlamaForCausalLM",
        "checkpoint": "x", "hash": "0" * 32, "kind": "model", "tensors": [["a", "F32", [2, 3]], ["b", "F8_E4M3", []]],
        "vocab": 10, "hidden": 4, "layers": 1, "bos": 1, "eos": [1, 2],
        "kv": {"layers": 2, "kv_heads": 1, "head_dim": 8, "type": "fp8_e4m3"},
        "limits": {"max_context": 8, "max_seqs": 1, "max_step_tokens": 4}, "traces": ["rope"],
        "decisions": [{"module": "m", "method": "fp8", "weight": "", "activation": "", "kernel": "k"}],
        "memory": {"arena": 64, "weights": 64, "kv_per_token": 4}}


def payload_seeds():
    yield "info-model", b"I" + dump(INFO)
    yield "info-module", b"I" + dump({k: v for k, v in INFO.items() if k not in ("vocab", "kv")} | {
        "kind": "module", "module": {"path": "a.b", "in": 4, "out": 8}})

    def entry(name, page, size):
        return struct.pack("<16sQQ", name.encode(), 4096 * page, size)

    def input_of(flags, entries, *pages):
        return b"P" + bytes([flags, len(entries)]) + b"".join(entries) + b"".join(
            page.ljust(64, b"\0") for page in pages)
    chat = dump({"templates": {"default": "{{ 1 }}"}, "tokens": {}})
    pages = [b"runner", b"\x7fELF code", chat, dump({"eos_token_id": [1, 2], "temperature": 0.5})]
    entries = [entry("program", 1, 9), entry("chat_template", 2, len(chat)), entry("generation", 3, len(pages[3]))]
    yield "three", input_of(0, entries, *pages)
    yield "moved", input_of(1, entries, *pages)
    yield "damaged", input_of(2, entries[:1], *pages[:2])
    yield "overlap", input_of(0, [entry("program", 1, 5000), entry("b", 2, 9)], *pages)
    yield "twice", input_of(0, [entries[0], entries[0]], *pages)
    yield "far", input_of(0, [entry("program", 1 << 50, 9)], *pages)
    yield "empty", input_of(0, [entry("program", 1, 0)], *pages)
    trailer = struct.pack("<8sIIQQ", b"OCTETPLD", 1, 1, 0, 0)
    yield "trailer", b"F" + trailer
    yield "table", b"F" + entries[0] + trailer


class Target:
    def __init__(self, seeds, most, words=()):
        self.seeds, self.most, self.words = seeds, most, words


JINJA = ("{% for %} {% endfor %} {% if %} {% elif %} {% else %} {% endif %} {% set %} {% endset %} {% macro m(a) %} "
         "{% endmacro %} {% call %} {% endcall %} {% filter %} {% endfilter %} {% with %} {% endwith %} {% raw %} "
         "{% endraw %} {% generation %} {% break %} {% continue %} {{ }} {# #} {%- -%} {{- -}} namespace( range( dict( "
         "raise_exception( strftime_now( loop. loop.index loop.changed( loop.cycle( is defined is none is not | ~ // ** "
         "|tojson |join |map |select |selectattr |rejectattr |sort |groupby |batch |slice |unique |dictsort |items |length "
         "|trim |replace |upper |title |int |float |round |indent |wordwrap |format |list |first |last |reverse |default "
         ".split( .strip( .startswith( .items() .get( .append( .format( .rjust( .zfill( [::-1] [1:] messages").split(" ")
JSON_WORDS = ("true", "false", "null", "{}", "[]", "1e308", "-1", "9223372036854775807", "18446744073709551615", "\\u0000",
              "\\ud800", '""')
TOKENIZER_WORDS = ("ByteLevel Split Sequence Replace Prepend Strip Metaspace Whitespace WhitespaceSplit Digits Punctuation "
                   "Bert BertNormalizer NFC NFD NFKC NFKD Lowercase StripAccents Nmt Precompiled Fuse ByteFallback "
                   "TemplateProcessing RobertaProcessing Isolated Removed MergedWithPrevious MergedWithNext Contiguous "
                   "String Regex Random \\p{L} \\s+ (?!\\S) (?i: {1,3} [^\\r\\n] | * + ? ^ $ \\b").split(" ")
TARGETS = {
    "config": Target(config_seeds, 16384, JSON_WORDS + ("fp8", "static", "dynamic", "re:", "yarn", "llama3")),
    "safetensors": Target(safetensors_seeds, 65536, JSON_WORDS + ("F8_E4M3", "BF16", "data_offsets", "__metadata__")),
    "gguf": Target(gguf_seeds, 65536, ("GGUF", "\xff" * 8, "general.alignment", "tokenizer.ggml.tokens", "llama.")),
    "tokenizer": Target(tokenizer_seeds, 32768, (*JSON_WORDS, *TOKENIZER_WORDS)),
    "chat-template": Target(chat_seeds, 16384, JINJA),
    "payload": Target(payload_seeds, 16384, ("OCTETPLD", "program", "chat_template", "tokenizer.json")),
}


def seeds(target):
    return TARGETS[target].seeds()


def words(target):
    return [word.encode("latin-1") for word in TARGETS[target].words if word]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        print(__doc__, "TARGET is one of", *TARGETS, file=sys.stderr)
        return 2
    folder = Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds(sys.argv[1]):
        (folder / name).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
