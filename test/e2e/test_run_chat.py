#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From a checkpoint with tokenizer and chat template to an executable that
takes conversations."""
import json
import subprocess
import sys
from pathlib import Path

from octet_test import BIN, SEED, TestCase, main

INPUTS = Path(__file__).resolve().parent.parent / "Inputs"
MODEL = ["--seed", SEED, "--hidden", 128, "--intermediate", 192,
         "--head-dim", 32, "--layers", 1, "--vocab", 64]


class RunChat(TestCase):
    def checkpoint(self, name, config=None, template=None):
        folder = self.make(name, *MODEL)
        subprocess.run([sys.executable, INPUTS / "make_tiny_tokenizer.py",
                        folder / "tokenizer.json"], check=True)
        if config is not None:
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
        if template is not None:
            (folder / "chat_template.jinja").write_text(template)
        return folder

    def run_json(self, exe, *options):
        done = self.call(exe, "run", "--json", "--max-tokens", 4, *options)
        return json.loads(done.stdout)

    def prompt_of(self, exe, text):
        return json.loads(self.call(exe, "tokenize", "--json", "--no-special",
                                    input=text).stdout)["ids"]

    def test_template_of_the_config(self):
        template = (INPUTS / "templates" / "tiny.jinja").read_text()
        exe = self.compile(self.checkpoint("config", {
            "bos_token": {"content": "<bos>"}, "eos_token": "<eos>",
            "chat_template": template}), "config.exe")
        answer = self.run_json(exe, "--chat", " the thing ")
        self.assertEqual(answer["prompt_ids"],
                         self.prompt_of(exe, "<bos>user the thing<eos>bot"))
        self.assertEqual(len(answer["ids"]), 4)
        messages = self.dir / "messages.json"
        messages.write_text(json.dumps({
            "messages": [{"role": "user", "content": "a"},
                         {"role": "bot", "content": "b"},
                         {"role": "user", "content": "c"}], "word": "in"}))
        answer = self.run_json(exe, "--messages", messages)
        self.assertEqual(answer["prompt_ids"], self.prompt_of(
            exe, "<bos>in user a<eos>bot b<eos>user c<eos>bot"))

    def test_template_of_its_own_file(self):
        exe = self.compile(self.checkpoint(
            "file", {"bos_token": "<bos>", "chat_template": "old"},
            "{{ bos_token }}{{ messages[0].content }}"), "file.exe")
        self.assertEqual(self.run_json(exe, "--chat", "the")["prompt_ids"],
                         self.prompt_of(exe, "<bos>the"))

    def test_without_template(self):
        exe = self.compile(self.checkpoint("without"), "without.exe")
        done = self.call(exe, "run", "--chat", "a", status=1)
        self.error_of(done, "carries no chat template")

    def test_a_template_that_cannot_be_read(self):
        folder = self.checkpoint("broken", {"chat_template": 3})
        exe = self.dir / "broken.exe"
        done = self.call(BIN / "octet", "compile", folder, "-o", exe,
                         "--target", "cpu")
        self.assertIn("chat_template is neither a template nor a list of "
                      "them", done.stderr)
        self.assertEqual(
            len(self.run_json(exe, "--prompt", "the")["ids"]), 4)


if __name__ == "__main__":
    main()
