#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""GGUF files compiled and quantised, against an independent reader
(make_gguf.py) and arithmetic in Python; octet quantize that is interrupted or
cannot write."""
import array
import json
import resource
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from octet_test import BIN, TestCase, main, rel_l2

INPUTS = Path(__file__).resolve().parents[1] / "Inputs"
sys.path.insert(0, str(INPUTS))
import make_gguf  # noqa: E402
from make_model import decode_e4m3, encode_bf16, encode_e4m3  # noqa: E402

IDS = [1, 40, 77, 103, 12, 200, 9, 31]


def read(folder):
    """name -> (dtype, shape, bytes) of a folder with one file."""
    blob = (folder / "model.safetensors").read_bytes()
    size, = struct.unpack_from("<Q", blob)
    return {name: (entry["dtype"], entry["shape"],
                   blob[slice(*(8 + size + x for x in entry["data_offsets"]))])
            for name, entry in json.loads(blob[8:8 + size]).items()
            if name != "__metadata__"}


def single(x):
    """Rounded to float32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


CODES = {}


def quantise(values, rows, cols, bn, bk):
    """Codes and scales of bn x bk blocks, after N2 and N3. A quotient of two
    float32 values in double, rounded to float32, is their float32 quotient."""
    codes, scales = bytearray(rows * cols), array.array("f")
    for r0 in range(0, rows, bn):
        for c0 in range(0, cols, bk):
            runs = [(r * cols + c0, r * cols + min(c0 + bk, cols))
                    for r in range(r0, min(r0 + bn, rows))]
            amax = max(max(map(abs, values[a:b])) for a, b in runs)
            scale = single(max(amax, single(1e-10)) / 448)
            scales.append(scale)
            for a, b in runs:
                codes[a:b] = bytes(encode_e4m3(single(x / scale))
                                   for x in values[a:b])
    return bytes(codes), scales


class Gguf(TestCase):
    def make_gguf(self, name, *arguments):
        file = self.dir / f"{name}.gguf"
        options = make_gguf.parse([str(file), *map(str, arguments)])
        make_gguf.write_gguf(file, *make_gguf.make(options))
        return file

    def logits(self, exe, name, weights=None):
        ids, out = self.dir / "ids.json", self.dir / f"{name}.safetensors"
        ids.write_text(json.dumps({"p": IDS}))
        self.call(exe, "logits", "--ids-file", ids, "-o", out,
                  *(["--weights", weights] if weights else []))
        blob = out.read_bytes()
        size, = struct.unpack_from("<Q", blob)
        header = json.loads(blob[8:8 + size])
        begin, end = header["p.logits"]["data_offsets"]
        return array.array("f", blob[8 + size + begin:8 + size + end])

    def check_compiled(self, name, *arguments, exact=True):
        """A GGUF file and the same model in float32: equal to the last bit, but
        where codes of 4 bits are summed before they are scaled."""
        file = self.make_gguf(name, *arguments)
        folder = self.dir / name
        make_gguf.write_folder(folder, *make_gguf.convert(file))
        a = self.compile(file, name + ".gguf.exe", "--dtype", "f32")
        b = self.compile(folder, name + ".exe", "--dtype", "f32")
        a = self.logits(self.dir / (name + ".gguf.exe"), name + ".a")
        b = self.logits(self.dir / (name + ".exe"), name + ".b")
        self.assertEqual(len(a), len(IDS) * 272)
        self.assertGreater(max(a) - min(a), 1.0)
        if exact:
            self.assertEqual(a, b)
        else:
            self.assertNotEqual(a, b)
            self.assertLess(rel_l2(a, b), 1e-5)

    def test_llama_of_every_type(self):
        self.check_compiled("llama", exact=False)

    def test_packed_types_alone(self):
        """The embedding and lm_head are of the type too."""
        for kind in ("Q8_0", "Q4_0", "Q4_1"):
            self.check_compiled(kind.lower(), "--types", kind, "--layers", 1,
                                exact=kind == "Q8_0")

    def test_llama_rope_factors(self):
        self.check_compiled("llama3", "--rope", "llama3", "--tied",
                            "--types", "Q4_0,Q8_0", "--head-dim", 128,
                            exact=False)

    def test_qwen2_with_biases(self):
        self.check_compiled("qwen2", "--arch", "qwen2", "--types", "Q4_K,Q6_K")

    def test_qwen3_with_norms(self):
        self.check_compiled("qwen3", "--arch", "qwen3", "--types", "Q5_0,Q5_1")

    def test_compiled_in_bf16(self):
        file = self.make_gguf("bf16", "--types", "Q4_1,Q8_0")
        self.compile(file, "bf16.exe")
        done = self.call(self.dir / "bf16.exe", "run", "--prompt-ids", "1,2,3",
                         "--max-tokens", 4, "--ignore-eos", "--json")
        self.assertIn("ids", done.stdout)

    def kernels(self, exe):
        """Kernel and weight of each product."""
        info = json.loads(self.call(self.dir / exe, "info", "--json").stdout)
        return {(d["kernel"], d["weight"].split(",")[0])
                for d in info["decisions"] if d["method"] != "attention"}

    def test_stays_packed(self):
        """Q8_0 is multiplied as it is, Q4_0 and Q4_1 as tiles, and others are
        unpacked while loading; a shard of another type stays apart."""
        file = self.make_gguf("kinds", "--types", "Q4_0,Q4_1,Q8_0,Q6_K",
                              "--layers", 1)
        self.compile(file, "kinds.exe")
        self.assertEqual(self.kernels("kinds.exe"),
                         {("cpu.tiled_gemm", "i4 group<32>"),
                          ("cpu.gguf_gemm", "Q8_0"), ("cpu.gemm", "f32")})
        # A method that the user names makes codes of its own (C3, W10).
        self.compile(file, "fp8.exe", "--quantization", "fp8")
        self.assertIn(("cpu.fp8_channel_gemm", "f8E4M3FN per_channel"),
                      self.kernels("fp8.exe"))
        self.compile(file, "gguf.exe", "--quantization", "gguf")
        self.assertEqual(self.kernels("gguf.exe"), self.kernels("kinds.exe"))

    def bf16_twin(self, name, types):
        """Logits of a packed file in BF16, and of a folder that holds its
        weights rounded to BF16 (B4)."""
        file = self.make_gguf(name, "--types", types)
        config, tensors = make_gguf.convert(file)
        rounded = {
            key: ("BF16", shape,
                  b"".join(map(encode_bf16, array.array("f", data))))
            if len(shape) == 2 else (dtype, shape, data)
            for key, (dtype, shape, data) in tensors.items()}
        make_gguf.write_folder(self.dir / name, config, rounded)
        self.compile(file, name + ".gguf.exe", "--dtype", "bf16")
        self.compile(self.dir / name, name + ".exe", "--dtype", "bf16")
        return (self.logits(self.dir / (name + ".gguf.exe"), name + ".a"),
                self.logits(self.dir / (name + ".exe"), name + ".b"))

    def test_bf16_is_that_of_rounded_weights(self):
        a, b = self.bf16_twin("bf16-q8", "Q8_0")
        self.assertEqual(a, b)
        # Numbers of 4 bits are not rounded to BF16, nor are their scales: off by
        # the rounding of the twin's weights, 2^-9 of each.
        a, b = self.bf16_twin("bf16-q4", "Q4_0,Q4_1")
        error = sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5
        self.assertLess(error, 2 ** -6 * sum(y * y for y in b) ** 0.5)

    def test_bad_scale(self):
        """A scale that is no number is an error that names its place in the
        file, where rows of q lie in another order (W6, W16)."""
        options = make_gguf.parse([str(self.dir / "nan.gguf"), "--types",
                                   "Q4_1", "--layers", "1"])
        metadata, tensors = make_gguf.make(options)
        dtype, shape, data = tensors["blk.0.attn_q.weight"]
        at = (5 * shape[1] // 32 + 3) * 20 + 2
        data = data[:at] + struct.pack("<e", float("inf")) + data[at + 2:]
        tensors["blk.0.attn_q.weight"] = dtype, shape, data
        file = self.dir / "nan.gguf"
        make_gguf.write_gguf(file, metadata, tensors)
        self.compile(file, "nan.exe")
        done = self.call(self.dir / "nan.exe", "run", "--prompt-ids", "1",
                         status=1)
        self.assertIn("tensor 'model.layers.0.self_attn.q_proj.weight': minimum "
                      "of row 5, block 3 is infinite; it has to be finite [W6]",
                      done.stderr)

    def test_other_packing(self):
        """Files that differ only in a tensor's type are told apart."""
        a = self.make_gguf("a", "--types", "Q4_0", "--layers", 1)
        b = self.make_gguf("b", "--types", "Q4_1", "--layers", 1)
        self.compile(a, "a.exe")
        done = self.call(self.dir / "a.exe", "run", "--weights", b,
                         "--prompt-ids", "1", status=1)
        self.assertIn("is Q4_1 [", done.stderr)
        self.assertIn(", expected Q4_0 [", done.stderr)

    def check_quantised(self, kind, bn, bk, scale, shape, config):
        """Codes and scales are those of Python; the result runs like the same
        numbers in float32."""
        file = self.make_gguf(kind, "--intermediate", 320, "--vocab", 270,
                              "--layers", 1, "--tied")
        out = self.dir / kind
        self.call(BIN / "octet", "quantize", file, "-o", out, "--to", kind)
        expected_config, expected = make_gguf.convert(file)
        written = read(out)
        plain = {}
        for name, (_, sides, data) in expected.items():
            values = array.array("f", data)
            plain[name] = ("F32", sides, data)
            if not name.endswith("_proj.weight"):
                dtype, _, stored = written.pop(name)
                self.assertEqual(
                    stored, {"F32": data,
                             "BF16": b"".join(map(encode_bf16, values))}[dtype])
                if dtype == "BF16":
                    wide = bytearray(2 * len(stored))
                    wide[2::4], wide[3::4] = stored[0::2], stored[1::2]
                    plain[name] = ("F32", sides, bytes(wide))
                continue
            n, k = sides
            b_n, b_k = bn or n, bk or k
            codes, scales = quantise(values, n, k, b_n, b_k)
            self.assertEqual(written.pop(name), ("F8_E4M3", sides, codes), name)
            self.assertEqual(
                written.pop(name[:-len("weight")] + scale),
                ("F32", shape(n, k), scales.tobytes()), name)
            columns = -(-k // b_k)
            plain[name] = ("F32", sides, array.array("f", (
                decode_e4m3(code) * scales[i // k // b_n * columns
                                           + i % k // b_k]
                for i, code in enumerate(codes))).tobytes())
        self.assertEqual(written, {})
        stored = json.loads((out / "config.json").read_text())
        quantisation = stored.pop("quantization_config")
        self.assertLessEqual(config.items(), quantisation.items())
        for key, value in expected_config.items():
            self.assertEqual(stored.get(key), value, key)

        make_gguf.write_folder(self.dir / f"{kind}-plain", expected_config, plain)
        self.compile(self.dir / f"{kind}-plain", f"{kind}-plain.exe",
                     "--dtype", "f32")
        self.compile(out, f"{kind}.exe", "--dtype", "f32",
                     "--activation-quant", "off")
        a = self.logits(self.dir / f"{kind}.exe", kind)
        b = self.logits(self.dir / f"{kind}-plain.exe", kind + "-plain")
        error = sum((x - y) ** 2 for x, y in zip(a, b)) ** 0.5
        size = sum(y * y for y in b) ** 0.5
        # Only the order of the sums differs: a few units of 2^-24.
        self.assertLess(error, 1e-5 * size)

    def test_fp8_block(self):
        self.check_quantised(
            "fp8-block", 128, 128, "weight_scale_inv",
            lambda n, k: [-(-n // 128), -(-k // 128)],
            {"quant_method": "fp8", "weight_block_size": [128, 128],
             "activation_scheme": "dynamic",
             "modules_to_not_convert": ["lm_head"]})

    def test_fp8_channel(self):
        self.check_quantised(
            "fp8-channel", 1, None, "weight_scale", lambda n, k: [n, 1],
            {"quant_method": "compressed-tensors", "format": "float-quantized",
             "ignore": ["lm_head"]})

    def test_fp8_tensor(self):
        self.check_quantised(
            "fp8-tensor", None, None, "weight_scale", lambda n, k: [],
            {"quant_method": "fp8", "activation_scheme": "dynamic"})

    def test_other_formats_run(self):
        file = self.make_gguf("formats", "--types", "Q8_0", "--layers", 1)
        for to, form in (("fp8-block", "compressed-tensors"),
                         ("fp8-tensor", "compressed-tensors"),
                         ("fp8-channel", "fp8")):
            out = self.dir / f"{to}-{form}"
            self.call(BIN / "octet", "quantize", file, "-o", out, "--to", to,
                      "--format", form)
            self.compile(out, "formats.exe")
            self.call(self.dir / "formats.exe", "run", "--prompt-ids", "1,2",
                      "--max-tokens", 2, "--json")

    def test_tokenizer_files(self):
        file = self.make_gguf("tokenizer", "--types", "Q8_0", "--layers", 1)
        out = self.dir / "tokenizer"
        self.call(BIN / "octet", "quantize", file, "-o", out, "--to", "fp8-block")
        tokenizer = json.loads((out / "tokenizer.json").read_text())
        self.assertEqual(tokenizer["model"]["type"], "BPE")
        self.assertEqual(len(tokenizer["model"]["vocab"]), 272)
        self.assertEqual([t["content"] for t in tokenizer["added_tokens"]],
                         ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        config = json.loads((out / "tokenizer_config.json").read_text())
        self.assertEqual(config["bos_token"], "<|im_start|>")
        self.assertEqual(config["eos_token"], "<|im_end|>")
        self.assertIn("<|im_start|>", config["chat_template"])
        self.assertTrue(config["added_tokens_decoder"]["2"]["special"])
        self.assertEqual(json.loads((out / "generation_config.json").read_text()),
                         {"bos_token_id": 1, "eos_token_id": 2})


class Quantize(TestCase):
    """From safetensors, and what is left behind."""

    def left(self, name):
        return sorted(p.name for p in self.dir.iterdir()
                      if p.name.startswith(name))

    def test_shards(self):
        source = self.make("source", "--format", "bf16", "--layers", 3,
                           "--hidden", 512, "--intermediate", 1024)
        out = self.dir / "sharded"
        self.call(BIN / "octet", "quantize", source, "-o", out, "--to",
                  "fp8-block", "--shard-gib", 0.001)
        files = sorted(p.name for p in out.glob("*.safetensors"))
        self.assertGreater(len(files), 2)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(sorted(set(index["weight_map"].values())), files)
        self.compile(out, "sharded.exe")
        self.call(self.dir / "sharded.exe", "run", "--prompt-ids", "1,2",
                  "--max-tokens", 2, "--json")
        self.assertEqual((out / "generation_config.json").read_text(),
                         (source / "generation_config.json").read_text())

    def test_interrupted(self):
        source = self.make("large", "--format", "bf16", "--layers", 8,
                           "--hidden", 1024, "--intermediate", 4096)
        for number in (signal.SIGINT, signal.SIGTERM):
            out = self.dir / f"stopped{number}"
            process = subprocess.Popen(
                [BIN / "octet", "quantize", source, "-o", out, "--to",
                 "fp8-block", "--threads", "1"],
                stderr=subprocess.PIPE, text=True)
            while not self.left(f"stopped{number}") and process.poll() is None:
                time.sleep(0.001)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number, errors)
            self.assertIn("interrupted; nothing is left behind", errors)
            self.assertEqual(self.left(f"stopped{number}"), [])

    def test_cannot_write(self):
        """A limit on the size of files stands for a full disk."""
        source = self.make("small", "--format", "bf16")
        out = self.dir / "full"
        done = self.call(
            BIN / "octet", "quantize", source, "-o", out, "--to", "fp8-block",
            status=1, restore_signals=False,  # Python ignores SIGXFSZ
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                  (100_000, 100_000)))
        self.assertIn("model.safetensors: cannot be written: File too large",
                      done.stderr)
        self.assertEqual(self.left("full"), [])

    def test_full_disk(self):
        """A real one: a file system of its own, where that can be made."""
        script = ('mount -t tmpfs -o size=1500k none "$1" || exit 77; '
                  'cp -r "$2" "$1/in"; '
                  '"$3" quantize "$1/in" -o "$1/out" --to fp8-tensor; '
                  'echo status $?; ls -A "$1"')
        source = self.make("disk", "--format", "bf16", "--layers", 1)
        place = self.dir / "disk-mount"
        place.mkdir()
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", place, source,
             BIN / "octet"], text=True, capture_output=True)
        if "status" not in done.stdout:
            self.skipTest("no file system can be mounted: " + done.stderr)
        self.assertEqual(done.stdout, "status 1\nin\n", done.stderr)
        self.assertIn(" bytes, ", done.stderr)

    def test_memory_is_bounded(self):
        """Many layers take no more memory than one."""
        source = self.make("many", "--format", "bf16", "--layers", 8,
                           "--hidden", 1024, "--intermediate", 4096)
        size = (source / "model.safetensors").stat().st_size
        self.assertGreater(size, 200 << 20)
        self.call(sys.executable, INPUTS / "run_limited.py", "--seconds", 300,
                  "--mib", 110, BIN / "octet", "quantize", source, "-o",
                  self.dir / "many-out", "--to", "fp8-block", "--threads", 2)


if __name__ == "__main__":
    main()
