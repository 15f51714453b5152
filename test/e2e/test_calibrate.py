#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`octet quantize --to fp8-tensor --calibrate`: static scales from prompts.

The scales are those of reference.py's largest inputs, in both formats; what is
written compiles, and its logits are near those with dynamic scales. With
--calibrate-dtype f32 a scale differs from the float64 reference by the rounding of
float32 sums, 1e-6 for these widths; 1e-5 is asked for. In bfloat16 a value
carries some twenty roundings of 2^-9: 2e-2.
"""
import json
import signal
import struct
import subprocess
import sys
import time

from octet_test import BIN, TestCase, draw_prompts, load, main, rel_l2, SEED
import make_gguf
import make_model
import reference

SHAPE = ["--hidden", 128, "--intermediate", 192, "--heads", 4, "--kv-heads", 1,
         "--head-dim", 32]
FUSED = [("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
         ("mlp.gate_proj", "mlp.up_proj")]


def read_tensors(folder):
    """name -> (dtype, shape, bytes)."""
    return reference.read_safetensors(folder / "model.safetensors")


class Calibrate(TestCase):
    def write_prompts(self, prompts, name="prompts.jsonl"):
        path = self.dir / name
        path.write_text("".join(json.dumps({"prompt_ids": ids}) + "\n\n"
                                for ids in prompts))
        return path

    def quantize(self, source, name, prompts, *options, status=0):
        out = self.dir / name
        done = self.call(BIN / "octet", "quantize", source, "-o", out, "--to",
                         "fp8-tensor", "--calibrate", prompts, *options,
                         status=status)
        return out, done

    def refused(self, source, prompts, *parts, options=(), status=1):
        before = sorted(self.dir.iterdir())
        _, done = self.quantize(source, "refused", prompts, *options,
                                status=status)
        self.error_of(done, *parts)
        self.assertEqual(sorted(self.dir.iterdir()), before)
        return done

    def scales(self, folder):
        """path -> input_scale, and their shape."""
        found, shapes = {}, set()
        for name, (dtype, shape, data) in read_tensors(folder).items():
            if name.endswith(".input_scale"):
                self.assertEqual(dtype, "F32")
                found[name.removesuffix(".input_scale")], = struct.unpack("<f", data)
                shapes.add(tuple(shape))
        shape, = shapes
        return found, list(shape)

    def largest(self, folder, prompts):
        """path -> the largest input of the reference on these prompts."""
        model = reference.Model(folder)
        for ids in prompts:
            model.run(ids)
        return {f"model.layers.{i}.{part}.{name}": layer[name].largest
                for i, layer in enumerate(model.layers)
                for part, names in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down")))
                for name in (n + "_proj" for n in names)}

    def compare(self, scales, largest, limit):
        self.assertEqual(set(scales), set(largest))
        for path, amax in largest.items():
            self.assertLess(abs(scales[path] * 448 / amax - 1), limit, path)

    def test_scales(self):
        prompts = list(draw_prompts([9, 1, 14]).values())
        file = self.write_prompts(prompts)
        for arch, form in (("qwen3", "fp8"), ("llama", "compressed-tensors")):
            source = self.make(arch, "--arch", arch, "--format", "bf16",
                               "--bias", "--seed", SEED, *SHAPE)
            want = self.largest(source, prompts)
            out, done = self.quantize(source, f"{arch}-out", file, "--format",
                                      form, "--calibrate-dtype", "f32")
            self.assertIn("calibrated on 24 tokens of 3 prompts\n", done.stderr)
            scales, shape = self.scales(out)
            self.assertEqual(shape, [] if form == "fp8" else [1])
            self.compare(scales, want, 1e-5)
            # One input, one scale (W9).
            for shards in FUSED:
                self.assertEqual(len({scales["model.layers.1." + s] for s in shards}), 1)
            self.check_config(out, form)
            rounded, _ = self.quantize(source, f"{arch}-bf16", file, "--format", form)
            self.compare(self.scales(rounded)[0], want, 2e-2)
            self.check_logits(source, out, form, prompts)

    def check_config(self, folder, form):
        config = json.loads((folder / "config.json").read_text())["quantization_config"]
        if form == "fp8":
            self.assertEqual(config["activation_scheme"], "static")
            return
        inputs = config["config_groups"]["group_0"]["input_activations"]
        self.assertEqual((inputs["strategy"], inputs["dynamic"]), ("tensor", False))

    def check_logits(self, source, static, form, prompts):
        dynamic = self.dir / (static.name + "-dynamic")
        self.call(BIN / "octet", "quantize", source, "-o", dynamic, "--to",
                  "fp8-tensor", "--format", form)
        # The weights do not depend on the calibration.
        tensors = read_tensors(static)
        for name, tensor in read_tensors(dynamic).items():
            self.assertEqual(tensors[name], tensor, name)
        named = {f"p{i}": ids for i, ids in enumerate(prompts)}
        got = {}
        for folder in (source, dynamic, static):
            exe = self.compile(folder, folder.name + ".exe", "--dtype", "f32")
            got[folder] = load(self.logits(exe, named, out=folder.name + ".st"))
        plain = reference.Model(static)
        for prompt, ids in named.items():
            name = prompt + ".logits"
            # Two quantisations of one model: each is off by some 2 to 10 % (N5).
            for other in (source, dynamic):
                error = rel_l2(got[static][name][1], got[other][name][1])
                self.assertLess(error, 0.15, f"{static.name} {prompt} {other.name}")
            flat = [x for row in plain.run(ids)["logits"] for x in row]
            self.assertLess(rel_l2(got[static][name][1], flat), 0.05, prompt)

    def test_tokens(self):
        """Pieces of 2048 tokens from position 0, and no token after the last."""
        source = self.make("short", "--format", "bf16", "--layers", 1, *SHAPE)
        long, = draw_prompts([2100]).values()
        whole, done = self.quantize(source, "whole", self.write_prompts([long]))
        self.assertIn("calibrated on 2100 tokens of 1 prompt\n", done.stderr)
        parts, _ = self.quantize(source, "parts",
                                 self.write_prompts([long[:2048], long[2048:]]))
        self.assertEqual(self.scales(whole), self.scales(parts))
        first, _ = self.quantize(source, "first", self.write_prompts([long[:7]]))
        cut, done = self.quantize(source, "cut", self.write_prompts([long, long]),
                                  "--calibrate-tokens", 7)
        self.assertIn("calibrated on 7 tokens of 1 prompt; --calibrate-tokens "
                      "left out the rest\n", done.stderr)
        self.assertEqual(self.scales(first), self.scales(cut))
        self.assertNotEqual(self.scales(first), self.scales(whole))

    def test_text(self):
        """A plain text, the same as a prompt, and its ids, give one result."""
        source = self.make("text", "--format", "bf16", "--layers", 1, *SHAPE)
        self.call(sys.executable, make_model.__file__.replace(
            "make_model", "make_tiny_tokenizer"), source / "tokenizer.json")
        text = "the end of\nthe thing, and then nothing.\n"
        exe = self.compile(source, "text.exe")
        ids = json.loads(self.call(exe, "tokenize", "--json",
                                   input=text).stdout)["ids"]
        plain = self.dir / "plain.txt"
        plain.write_text(text)
        lines = self.dir / "lines.jsonl"
        lines.write_text(json.dumps({"prompt": text, "other": 1}))
        found = [self.scales(self.quantize(source, f"text{i}", file)[0])
                 for i, file in enumerate(
                     (plain, lines, self.write_prompts([ids])))]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_gguf(self):
        """Tensors have other names and types there, modules the same."""
        source = self.dir / "model.gguf"
        self.call(sys.executable, make_gguf.__file__, source, "--layers", 1,
                  "--types", "Q4_1,Q8_0", "--tied")
        out, _ = self.quantize(source, "gguf", self.write_prompts([[5, 6, 7, 8]]))
        self.assertEqual(len(self.scales(out)[0]), 7)
        exe = self.compile(out, "gguf.exe")
        self.call(exe, "run", "--prompt-ids", "5,6,7", "--max-tokens", 2, "--json")

    def test_bad_prompts(self):
        source = self.make("source", "--format", "bf16", "--layers", 1, *SHAPE)
        self.refused(source, self.dir / "none.jsonl", "none.jsonl: ")
        file = self.dir / "bad.jsonl"
        for text, part in (
                (" \n\n", "bad.jsonl: is empty; lines "),
                ('{"prompt_ids": []}', "bad.jsonl:1: no token ids"),
                ('{"prompt_ids": [1]}\n{"prompt_ids": [1, 256]}',
                 "bad.jsonl:2: token 1 is id 256, the vocabulary has ids 0 to 255"),
                ('{"prompt_ids": [1]}\nhello', "bad.jsonl:2: "),
                ('{"text": "a"}', "bad.jsonl:1: not an object {"),
                ("hello", "bad.jsonl: is text, and the checkpoint has no tokenizer")):
            file.write_text(text)
            self.refused(source, file, part)

    def test_usage(self):
        source = self.make("usage", "--format", "bf16", "--layers", 1, *SHAPE)
        file = self.write_prompts([[1]])
        for kind in ("fp8-block", "fp8-channel"):
            done = self.call(BIN / "octet", "quantize", source, "-o",
                             self.dir / "no", "--to", kind, "--calibrate", file,
                             status=2)
            self.error_of(done, "error: --calibrate: is for --to fp8-tensor;")
        for option in (["--calibrate-tokens", "5"], ["--calibrate-dtype", "f32"]):
            done = self.call(BIN / "octet", "quantize", source, "-o",
                             self.dir / "no", "--to", "fp8-tensor", *option,
                             status=2)
            self.error_of(done, f"error: {option[0]}: is for --calibrate")

    def edited(self, name, change):
        """A checkpoint whose tensors `change` may edit."""
        source = self.make(name, "--format", "bf16", "--layers", 2, *SHAPE)
        tensors = read_tensors(source)
        change(tensors)
        make_model.write_safetensors(source / "model.safetensors", tensors)
        return source

    def test_no_scale(self):
        """Inputs of which no scale can be made (W6)."""
        file = self.write_prompts([[5, 6, 7]])
        at = "model.layers.1."

        def fill(name, pattern):
            def change(tensors):
                dtype, shape, data = tensors[name]
                tensors[name] = dtype, shape, pattern * (len(data) // 2)
            return change

        zero = self.edited("zero", fill(at + "self_attn.v_proj.weight", b"\0\0"))
        done = self.refused(
            zero, file, f"error: {at}self_attn.o_proj: its input was only zeros "
            "in the calibration; ", "--ignore leaves the module as it is", "[W6]")
        self.assertNotIn("note: ", done.stderr)
        out, _ = self.quantize(zero, "ignored", file, "--ignore", "o_proj")
        self.assertNotIn(at + "self_attn.o_proj", self.scales(out)[0])
        nan = self.edited("nan", fill(at + "input_layernorm.weight", b"\xc0\x7f"))
        self.refused(nan, file, f"error: {at}mlp.down_proj: its input was NaN in "
                     "the calibration; ",
                     f"note:  {at}self_attn.q_proj: its input was NaN")
        infinite = self.edited(
            "infinite", fill(at + "post_attention_layernorm.weight", b"\x80\x7f"))
        self.refused(infinite, file, f"error: {at}mlp.down_proj: its input was NaN",
                     f"note:  {at}mlp.gate_proj: its input was infinite")

        def extra(tensors):
            for i in range(12):
                tensors[f"{at}extra{i}_proj.weight"] = tensors[
                    at + "self_attn.o_proj.weight"]
        unseen = self.edited("unseen", extra)
        self.refused(unseen, file, f"error: {at}extra0_proj: no prompt of the "
                     "calibration reached it; ", f"note:  {at}extra1_proj: no "
                     "prompt", "note:  and 2 more")

    def test_interrupted(self):
        source = self.make("stop", "--format", "bf16", "--layers", 4,
                           "--hidden", 512, "--intermediate", 1024)
        file = self.write_prompts([ids for ids in draw_prompts([2048] * 64).values()])
        before = sorted(self.dir.iterdir())
        # While it compiles, and while it runs the prompts, of which there are enough
        # for many seconds on any machine.
        for number, seconds in ((signal.SIGINT, 0.2), (signal.SIGTERM, 1.5)):
            process = subprocess.Popen(
                [BIN / "octet", "quantize", source, "-o", self.dir / "stopped",
                 "--to", "fp8-tensor", "--calibrate", file, "--calibrate-tokens",
                 "1000000", "--threads", "1"], stderr=subprocess.PIPE, text=True)
            while sorted(self.dir.iterdir()) == before and process.poll() is None:
                time.sleep(0.001)
            time.sleep(seconds)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            self.assertEqual(process.returncode, -number, errors)
            self.assertIn("interrupted; nothing is left behind", errors)
            self.assertEqual(sorted(self.dir.iterdir()), before)


if __name__ == "__main__":
    main()
