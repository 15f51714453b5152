#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong ends in one error, the right exit status, and nothing
half-written: wrong checkpoints and scales at run time, output that cannot be
written, prompts that do not fit, wrong usage."""
import contextlib
import json
import os
import shutil
import struct
import subprocess
import unittest

from octet_test import BIN, TestCase, draw_prompts, main, SEED

SMALL = ["--seed", SEED, "--hidden", 128, "--intermediate", 192,
         "--head-dim", 32, "--layers", 1, "--vocab", 64]
STATIC = ["--arch", "llama", "--format", "fp8-tensor-static", *SMALL]


def edit_tensor(folder, name, data):
    """Overwrites a tensor's first bytes in the folder's one file."""
    path = folder / "model.safetensors"
    with open(path, "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        begin, _ = json.loads(file.read(size))[name]["data_offsets"]
        file.seek(8 + size + begin)
        file.write(data)


class Failures(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        self = cls("test_help")  # any name will do, for make and compile
        cls.folder = self.make("good", *SMALL)
        cls.exe = self.compile(cls.folder, "good.exe", "--max-context", 32)
        cls.ids = cls.dir / "ids.json"
        cls.ids.write_text(json.dumps(draw_prompts([5], 64)))

    def listing(self):
        return sorted(str(p) for p in self.dir.rglob("*"))

    def check_logits_fail(self, exe, *parts, weights=None, ids=None, out=None):
        out = out or self.dir / "never.safetensors"
        before = self.listing()
        done = self.call(
            exe, "logits", "--ids-file", ids or self.ids, "-o", out,
            *(["--weights", weights] if weights else []), status=1)
        self.error_of(done, *parts)
        self.assertEqual(self.listing(), before)

    # ---- the wrong checkpoint ----

    def test_other_shape(self):
        other = self.make("wider", *SMALL, "--intermediate", 256)
        self.check_logits_fail(
            self.exe, "not the checkpoint that was compiled",
            "mlp.", "[192, 128]", "[256, 128]", weights=other)

    def test_other_dtype(self):
        other = self.make("bf16", *SMALL, "--format", "bf16")
        self.check_logits_fail(self.exe, "not the checkpoint", "BF16",
                               "F8_E4M3", weights=other)

    def test_one_layer_more(self):
        other = self.make("deeper", *SMALL, "--layers", 2)
        self.check_logits_fail(self.exe, "not the checkpoint",
                               "model.layers.1.", weights=other)

    def test_other_values_are_the_same_checkpoint(self):
        other = self.make("trained-on", *SMALL, "--seed", 7)
        self.logits(self.exe, draw_prompts([5], 64), "--weights", other)

    def test_no_folder(self):
        self.check_logits_fail(self.exe, "nowhere",
                               weights=self.dir / "nowhere")

    def test_truncated_weights(self):
        other = self.make("cut", *SMALL)
        path = other / "model.safetensors"
        os.truncate(path, path.stat().st_size - 1)
        self.check_logits_fail(self.exe, path, "data_offsets", weights=other)

    # ---- scales (W6) ----

    def check_scale(self, name, value, *parts):
        folder = self.make(f"scale{value}", *SMALL)
        tensor = f"model.layers.0.{name}.weight_scale_inv"
        edit_tensor(folder, tensor, struct.pack("<f", value))
        self.check_logits_fail(self.exe, tensor, "W6", *parts, weights=folder)

    def test_nan_scale(self):
        self.check_scale("self_attn.k_proj", float("nan"))

    def test_infinite_scale(self):
        self.check_scale("mlp.up_proj", float("inf"))

    def test_negative_scale(self):
        self.check_scale("mlp.down_proj", -0.5)

    def test_zero_scale_of_a_block_that_is_not(self):
        self.check_scale("self_attn.o_proj", 0.0)

    def test_input_scale(self):
        folder = self.make("static", *STATIC)
        exe = self.compile(folder, "static.exe")
        tensor = "model.layers.0.mlp.down_proj.input_scale"
        edit_tensor(folder, tensor, struct.pack("<f", float("nan")))
        self.check_logits_fail(exe, tensor, "W6")

    # ---- output ----

    def test_compile_into_no_folder(self):
        before = self.listing()
        done = self.call(BIN / "octet", "compile", self.folder, "-o",
                         self.dir / "no" / "folder", "--target", "cpu",
                         status=1)
        self.error_of(done, "no/folder", "cannot be written")
        self.assertEqual(self.listing(), before)

    def test_compile_onto_a_folder(self):
        before = self.listing()
        done = self.call(BIN / "octet", "compile", self.folder, "-o",
                         self.folder, "--target", "cpu", status=2)
        self.error_of(done, self.folder, "is the input")
        self.assertEqual(self.listing(), before)
        (self.dir / "other").mkdir()
        done = self.call(BIN / "octet", "compile", self.folder, "-o",
                         self.dir / "other", "--target", "cpu", status=1)
        self.error_of(done, self.dir / "other", "cannot be written")
        (self.dir / "other").rmdir()

    def test_full_device(self):
        for command in (
                [BIN / "octet", "compile", self.folder, "--target", "cpu",
                 "-o", "/dev/full"],
                [BIN / "octet", "compile", self.folder, "--target", "cpu",
                 "--emit", "llvm", "-o", "/dev/full"],
                [self.exe, "logits", "--ids-file", self.ids, "-o",
                 "/dev/full"]):
            with self.subTest(command[1]):
                self.error_of(self.call(*command, status=1), "/dev/full",
                              "No space left")

    def test_full_stdout(self):
        for command in ([BIN / "octet", "compile", self.folder, "--target",
                         "cpu", "--emit", "ir"],
                        [BIN / "octet", "info", self.folder],
                        [self.exe, "info"],
                        [self.exe, "run", "--prompt-ids", "3,4", "--json"]):
            with self.subTest(command[1]), open("/dev/full", "w") as full:
                done = subprocess.run([str(c) for c in command], stdout=full,
                                      stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("error: ", done.stderr)
                self.assertRegex(done.stderr, "cannot be written|No space left")

    @contextlib.contextmanager
    def small_disk(self, size):
        place = self.dir / "disk"
        place.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}",
                               "tmpfs", place], capture_output=True, text=True)
        if done.returncode:
            self.skipTest(f"no tmpfs here: {done.stderr.strip()}")
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)

    @unittest.skipUnless(os.geteuid() == 0, "mounting needs root")
    def test_full_disk(self):
        with self.small_disk("512k") as place:
            old = place / "exe"
            old.write_text("what was here before")
            done = self.call(BIN / "octet", "compile", self.folder, "-o", old,
                             "--target", "cpu", status=1)
            self.error_of(done, old, "No space left")
            self.assertEqual(old.read_text(), "what was here before")
            self.assertEqual(list(place.iterdir()), [old])
            # 1,200 rows of 64 logits and 4 · 128 hidden values are 2.7 MB.
            ids = self.dir / "many.json"
            ids.write_text(json.dumps(draw_prompts([30] * 40, 64)))
            done = self.call(self.exe, "logits", "--ids-file", ids, "--trace",
                             "hidden", "-o", place / "out", status=1)
            self.error_of(done, place / "out", "No space left")
            self.assertEqual(list(place.iterdir()), [old])

    def test_failed_compile_keeps_the_old_file(self):
        broken = self.make("broken", *SMALL)
        config = json.loads((broken / "config.json").read_text())
        config["hidden_size"] = 129
        (broken / "config.json").write_text(json.dumps(config))
        old = self.dir / "kept"
        old.write_text("what was here before")
        done = self.call(BIN / "octet", "compile", broken, "-o", old,
                         "--target", "cpu", "--dump-ir", self.dir / "kept.ir",
                         status=1)
        self.error_of(done, "129", "128")
        self.assertEqual(old.read_text(), "what was here before")

    # ---- prompts ----

    def test_prompt_longer_than_the_context(self):
        ids = self.dir / "long.json"
        ids.write_text(json.dumps(draw_prompts([33], 64)))
        self.check_logits_fail(self.exe, "33", "32", ids=ids)
        done = self.call(self.exe, "run", "--json", "--prompt-ids",
                         ",".join(["3"] * 33), status=1)
        self.error_of(done, "33", "32")

    def test_ids_outside_the_vocabulary(self):
        for wrong in ("64", "-1", "99999999999"):
            with self.subTest(wrong):
                done = self.call(self.exe, "run", "--prompt-ids", f"3,{wrong}",
                                 "--json", status=1)
                self.error_of(done, wrong)

    def test_no_ids(self):
        for wrong in ("", "3,,4", "3 4", "x"):
            with self.subTest(wrong):
                done = subprocess.run(
                    [self.exe, "run", f"--prompt-ids={wrong}", "--json"],
                    capture_output=True, text=True)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.error_of(done)

    def test_ids_file_that_is_none(self):
        for text in ("", "{", "[]", '{"p": "x"}', '{"p": [1.5]}', '{"p": []}',
                     "[" * 200000, '{"p.force": [3]}'):
            with self.subTest(text[:20]):
                ids = self.dir / "wrong.json"
                ids.write_text(text)
                self.check_logits_fail(self.exe, ids, ids=ids)

    # ---- the program ----

    def test_damaged_program(self):
        data = self.exe.read_bytes()
        for name, changed in (
                ("cut", data[:-1]),
                ("flipped", data[:-3000] + bytes([data[-3000] ^ 1])
                 + data[-2999:])):
            with self.subTest(name):
                path = self.dir / f"damaged-{name}"
                path.write_bytes(changed)
                done = subprocess.run(
                    [BIN / "octet-run", path, "info"], capture_output=True,
                    text=True)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.error_of(done, path)

    def test_moved_executable(self):
        """It keeps its default checkpoint wherever it lies."""
        moved = self.dir / "elsewhere" / "exe"
        moved.parent.mkdir()
        shutil.copy(self.exe, moved)
        self.call(moved, "run", "--prompt-ids", "3,4", "--max-tokens", 2)
        self.assertTrue(os.access(self.exe, os.X_OK))

    # ---- usage ----

    def test_usage(self):
        for command in ([BIN / "octet"], [BIN / "octet", "frob"],
                        [BIN / "octet", "compile"],
                        [BIN / "octet", "compile", self.folder],
                        [BIN / "octet", "compile", self.folder, "-o", "x",
                         "--dtype", "f64"],
                        [BIN / "octet", "compile", self.folder, "-o", "x",
                         "--compile-to", "lunch"],
                        [self.exe], [self.exe, "frob"], [self.exe, "logits"],
                        [self.exe, "run", "--prompt-ids", "3", "--chunk", "0"],
                        [self.exe, "run", "--prompt-ids", "3", "--simd", "x"]):
            with self.subTest(" ".join(map(str, command[1:]))):
                done = self.call(*command, status=2)
                self.assertEqual(done.stdout, "")
                self.assertIn("error: ", done.stderr)

    def test_help(self):
        for command in ([BIN / "octet"], [BIN / "octet", "compile"],
                        [BIN / "octet", "info"], [self.exe],
                        [self.exe, "run"], [self.exe, "logits"],
                        [self.exe, "eval"], [self.exe, "score"]):
            with self.subTest(" ".join(map(str, command))):
                done = self.call(*command, "--help")
                self.assertIn("--help", done.stdout)
                self.assertEqual(done.stderr, "")


if __name__ == "__main__":
    main()
