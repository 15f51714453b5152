# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Continues a prompt with liboctet.so, by ctypes alone: the text as it comes, or
with --json what `PROGRAM run --json --logprobs 0` prints."""
import argparse
import ctypes
import json
import shutil
import sys
from ctypes import (POINTER, byref, c_char_p, c_float, c_int32, c_int64,
                    c_size_t, c_uint64, c_void_p)
from pathlib import Path


# The structs of octet.h, field by field.
class Limits(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("vocab", c_int64),
                ("max_context", c_int64), ("max_sequences", c_int64),
                ("max_step_tokens", c_int64), ("page_tokens", c_int64),
                ("module_in", c_int64), ("module_out", c_int64)]


class ModelOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("weights", c_char_p), ("simd", c_char_p),
                ("threads", c_int32), ("reserved", c_int32)]


class SamplerOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("top_k", c_int64),
                ("temperature", c_float), ("top_p", c_float),
                ("min_p", c_float), ("reserved", c_int32)]


class Entry(ctypes.Structure):
    _fields_ = [("sequence", c_void_p), ("tokens", c_int64),
                ("outputs", c_int64)]


# Functions that can fail, without the error that all of them take last.
FALLIBLE = {
    "octet_file_open": [c_char_p, POINTER(c_void_p)],
    "octet_tokenizer_create": [c_void_p, POINTER(c_void_p)],
    "octet_tokenizer_encode": [c_void_p, c_char_p, c_size_t, c_int32,
                               POINTER(POINTER(c_int32)), POINTER(c_size_t)],
    "octet_decoder_create": [c_void_p, c_int32, POINTER(c_void_p)],
    "octet_decoder_push": [c_void_p, c_int32, POINTER(c_void_p),
                           POINTER(c_size_t)],
    "octet_decoder_finish": [c_void_p, POINTER(c_void_p), POINTER(c_size_t)],
    "octet_model_load": [c_void_p, POINTER(ModelOptions), POINTER(c_void_p)],
    "octet_model_limits": [c_void_p, POINTER(Limits)],
    "octet_seq_create": [c_void_p, POINTER(c_void_p)],
    "octet_seq_append": [c_void_p, POINTER(c_int32), c_size_t],
    "octet_step": [c_void_p, POINTER(Entry), c_size_t, POINTER(c_float),
                   c_int64],
    "octet_sample": [POINTER(c_float), c_int64, POINTER(SamplerOptions),
                     c_uint64, c_uint64, POINTER(c_int32), c_size_t,
                     POINTER(c_int32)],
    "octet_log_probs": [POINTER(c_float), c_int64, POINTER(c_int32), c_size_t,
                        POINTER(c_float)],
}
OTHERS = {
    "octet_api_version": (c_int32, []),
    "octet_error_text": (c_char_p, [c_void_p]),
    "octet_error_free": (None, [c_void_p]),
    "octet_free": (None, [c_void_p]),
    "octet_file_has_tokenizer": (c_int32, [c_void_p]),
    "octet_file_close": (None, [c_void_p]),
    "octet_limits_init": (None, [POINTER(Limits), c_size_t]),
    "octet_model_options_init": (None, [POINTER(ModelOptions), c_size_t]),
    "octet_sampler_options_init": (None, [POINTER(SamplerOptions), c_size_t]),
    "octet_model_eos": (c_size_t, [c_void_p, POINTER(POINTER(c_int32))]),
    "octet_seq_pending": (c_int64, [c_void_p]),
    "octet_tokenizer_free": (None, [c_void_p]),
    "octet_decoder_free": (None, [c_void_p]),
    "octet_seq_free": (None, [c_void_p]),
    "octet_model_free": (None, [c_void_p]),
}


class OctetError(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Octet:
    """The functions of the library without `octet_`; an error is raised."""

    def __init__(self, path):
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in OTHERS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("octet_"), function)
        for name, arguments in FALLIBLE.items():
            function = getattr(library, name)
            function.restype = c_int32
            function.argtypes = [*arguments, POINTER(c_void_p)]
            setattr(self, name.removeprefix("octet_"), self.checked(function))
        if self.api_version() != 1:
            sys.exit(f"error: {path}: API version {self.api_version()}, this "
                     "program is written for 1")

    def checked(self, function):
        def call(*arguments):
            error = c_void_p()
            status = function(*arguments, byref(error))
            if status:
                text = self.error_text(error).decode()
                self.error_free(error)
                raise OctetError(status, text)
        return call

    def make(self, function, *arguments):
        """The handle that a function gives through its last argument."""
        handle = c_void_p()
        function(*arguments, byref(handle))
        return handle

    def options(self, kind, init):
        options = kind()
        init(byref(options), ctypes.sizeof(kind))
        return options


class Text:
    """A tokenizer, and the decoder of what follows a prompt."""

    def __init__(self, octet, file):
        self.octet = octet
        self.tokenizer = octet.make(octet.tokenizer_create, file)
        self.decoder = octet.make(octet.decoder_create, self.tokenizer, 1)

    def encode(self, text):
        ids, count = POINTER(c_int32)(), c_size_t()
        data = text.encode()
        self.octet.tokenizer_encode(self.tokenizer, data, len(data), 1,
                                    byref(ids), byref(count))
        result = ids[:count.value]
        self.octet.free(ctypes.cast(ids, c_void_p))
        return result

    def piece(self, function, *arguments):
        text, size = c_void_p(), c_size_t()
        function(self.decoder, *arguments, byref(text), byref(size))
        return ctypes.string_at(text, size.value).decode()

    def push(self, token):
        return self.piece(self.octet.decoder_push, token)

    def finish(self):
        return self.piece(self.octet.decoder_finish)

    def free(self):
        self.octet.decoder_free(self.decoder)
        self.octet.tokenizer_free(self.tokenizer)


def generate(octet, model, prompt, max_tokens, sampler):
    """Yields (id, log-probability, why it is the last or None)."""
    limits = octet.options(Limits, octet.limits_init)
    octet.model_limits(model, byref(limits))
    logits = (c_float * limits.vocab)()
    eos = POINTER(c_int32)()
    ends = eos[:octet.model_eos(model, byref(eos))]
    seq = octet.make(octet.seq_create, model)
    try:
        octet.seq_append(seq, (c_int32 * len(prompt))(*prompt), len(prompt))
        for number in range(max_tokens):
            # A prompt runs in chunks; logits are wanted of its last token.
            while pending := octet.seq_pending(seq):
                count = min(pending, limits.max_step_tokens)
                entry = Entry(seq, count, count == pending)
                octet.step(model, byref(entry), 1, logits, len(logits))
            token, log_prob = c_int32(), c_float()
            octet.sample(logits, limits.vocab, byref(sampler), 0, number, None,
                         0, byref(token))
            octet.log_probs(logits, limits.vocab, byref(token), 1,
                            byref(log_prob))
            full = len(prompt) + number + 1 >= limits.max_context
            why = ("eos" if token.value in ends else
                   "length" if full or number + 1 == max_tokens else None)
            yield token.value, log_prob.value, why
            if why:
                return
            octet.seq_append(seq, byref(token), 1)
    finally:
        octet.seq_free(seq)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="an executable of `octet compile`")
    parser.add_argument("prompt", help="a text, or ids such as 1,2,3")
    parser.add_argument("--library", type=Path,
                        help="liboctet.so; default: beside `octet` of PATH")
    parser.add_argument("--weights", help="default: the folder compiled")
    parser.add_argument("--max-tokens", type=int, default=16)
    parser.add_argument("--temperature", type=float, default=0)
    parser.add_argument("--top-p", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.library:
        tool = shutil.which("octet")
        if not tool:
            parser.error("no `octet` in PATH; --library says where it is")
        arguments.library = Path(tool).parent.parent / "lib" / "liboctet.so"
    return arguments


def main():
    arguments = parse_arguments()
    octet = Octet(arguments.library)
    file = octet.make(octet.file_open, arguments.program.encode())
    text = Text(octet, file) if octet.file_has_tokenizer(file) else None
    options = octet.options(ModelOptions, octet.model_options_init)
    if arguments.weights:
        options.weights = arguments.weights.encode()
    model = octet.make(octet.model_load, file, byref(options))
    octet.file_close(file)
    sampler = octet.options(SamplerOptions, octet.sampler_options_init)
    sampler.temperature = arguments.temperature
    sampler.top_p = arguments.top_p
    sampler.seed = arguments.seed

    parts = arguments.prompt.split(",")
    if all(part.isdigit() for part in parts):
        prompt = [int(part) for part in parts]
    elif text:
        prompt = text.encode(arguments.prompt)
    else:
        sys.exit("error: this program carries no tokenizer; ids would do")
    for token in prompt if text else []:
        text.push(token)  # Decides whether what follows begins with a space.

    ids, log_probs, answer, finish = [], [], "", "length"
    for token, log_prob, why in generate(octet, model, prompt,
                                         arguments.max_tokens, sampler):
        ids.append(token)
        log_probs.append(log_prob)
        finish = why or finish
        piece = text.push(token) if text and why != "eos" else ""
        answer += piece
        if not arguments.json:
            print(piece if text else token, end="" if text else " ",
                  flush=True)
    rest = text.finish() if text else ""
    if arguments.json:
        line = {"prompt_ids": prompt, "ids": ids, "finish": finish}
        if text:
            line["text"] = answer + rest
        print(json.dumps(line | {"logprobs": log_probs}, ensure_ascii=False))
    else:
        print(rest if text else f"[{finish}]")
    if text:
        text.free()
    octet.model_free(model)


if __name__ == "__main__":
    try:
        main()
    except OctetError as error:
        print(error, end="", file=sys.stderr)
        sys.exit(error.status if error.status in (2, 3) else 1)
