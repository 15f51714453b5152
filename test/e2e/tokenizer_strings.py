# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts that tokenizers disagree on: bytes, a good part of them not UTF-8."""
import random

RANGES = {
    "ascii": [(0x20, 0x7E)],
    "control": [(1, 0x1F), (0x7F, 0x9F)],
    "latin": [(0xA0, 0x24F), (0x1E00, 0x1EFF)],
    "greek": [(0x370, 0x3FF), (0x1F00, 0x1FFF)],
    "cyrillic": [(0x400, 0x52F)],
    "hebrew": [(0x591, 0x5F4), (0xFB1D, 0xFB4F)],
    # Without U+061D, which Punctuation there is too old to know.
    "arabic": [(0x600, 0x61C), (0x61E, 0x6FF), (0xFB50, 0xFDFF)],
    "devanagari": [(0x900, 0x97F)],
    "tamil": [(0xB80, 0xBFF)],
    "thai": [(0xE00, 0xE5B)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x3130, 0x318F)],
    "kana": [(0x3040, 0x30FF)],
    "cjk": [(0x4E00, 0x9FA5), (0x3000, 0x303F), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)],
    "wide": [(0xFF00, 0xFFEF)],
    "marks": [(0x300, 0x36F), (0x1DC0, 0x1DFF), (0x20D0, 0x20F0)],
    "spaces": [(0x2000, 0x206F), (0x1680, 0x1680), (0x180E, 0x180E), (0x85, 0x85), (0xA0, 0xA0), (0xFEFF, 0xFEFF)],
    "symbols": [(0x2100, 0x2426), (0x2460, 0x27BF), (0x2900, 0x2BFF)],
    "maths": [(0x1D400, 0x1D7FF)],
    "emoji": [(0x1F300, 0x1F64F), (0x1F680, 0x1F6D2), (0x1F900, 0x1F9FF), (0x1F1E6, 0x1F1FF),
              (0xFE0F, 0xFE0F), (0x200D, 0x200D), (0x1F3FB, 0x1F3FF)],
    "private": [(0xE000, 0xF8FF), (0xFFF0, 0xFFFD)],
}

WORDS = """the The THE of and water people international government it's IT'S we'll you'RE 's 'll
don't über Straße naïve café garçon 日本語 東京 中文 你好 안녕 привет мир สวัสดี नमस्ते مرحبا שלום
x = = == != -> :: #include <vector> std::vector<int> def main(): return {} [] () "quoted" `code`
https://example.com/a?b=1&c=%20 C:\\dir\\file.txt e.g. U.S.A. 3.14 1,000,000 12345678 2024-01-31
0x1F <0x0A> <s> </s> <unk> ▁ ▁the Ġthe Ċ ½ Ⅷ ² ① İstanbul ſ K ß ŉ ﬁ e\u0301 o\u0308 \u0344 क्षि ಕೊ
👩‍👩‍👧‍👦 👍🏽 🇩🇪 ❤️ ☺️ 🚀 foo foobar Wort Wörter snake_case camelCase HTTPServer iPhone7 aaaa""".split()
BLANKS = [" ", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\u00a0", "\u3000", "", ""]
BROKEN = [b"\xff", b"\xc3", b"\xe4\xbd", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80",
          b"\x80", b"\xf0\x80\x80", b"\xe0\x80", b"\xf5", b"\xf0\x9f\x41"]


def make_strings(count, seed, extra=(), zero=False):
    """`count` texts. `extra` are words to mix in, such as added tokens; zero
    bytes are among them if `zero`."""
    r = random.Random(seed)
    words = WORDS + [*extra] * 3

    def chars(kind, most):
        ranges = RANGES[kind]
        return "".join(chr(r.randint(*r.choice(ranges))) for _ in range(r.randint(1, most)))

    def piece():
        choice = r.random()
        if choice < 0.55:
            word = r.choice(words)
            return word if r.random() < 0.8 else r.choice([word.upper(), word.lower(), word.title(), word[:-1]])
        if choice < 0.85:
            return chars(r.choice([*RANGES]), 6)
        if choice < 0.95:
            return str(r.randint(0, 10 ** r.randint(1, 12)))
        return r.choice("abc !.,-\n'") * r.randint(2, 20)

    texts = []
    for _ in range(count):
        parts = []
        for _ in range(r.choice([0, 1, 2, 3, 5, 8, 20])):
            parts += [piece().encode(), r.choice(BLANKS).encode()]
            if r.random() < 0.03:
                parts.append(r.choice(BROKEN))
        text = b"".join(parts)
        if text and r.random() < 0.05:
            text = text[:r.randint(0, len(text))]  # Often inside a character.
        texts.append(text if zero else text.replace(b"\0", b""))
    return texts
