#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a small tokenizer.json of a family, trained on a text of its own.

    make_tokenizer.py FAMILY OUT.json [--merges N] [--string-merges]

The families have the components of the checkpoints they are named after: the
same normalizer, pre-tokenizer, decoder, post-processor and added tokens. The
vocabulary is trained here, by counting pairs, so no package is needed.
"""
import argparse
import collections
import json
import re
import sys

CORPUS = """
The quick brown fox jumps over the lazy dog. It's what they'd say, isn't it? We'll see; I've
been there and you're not. In 2024 there were 1234567 of them, 3.14159 each, at 12:30 on 7/8.
Language models read tokens, not characters: the tokenizer decides what the model sees. The
answer to the question is that the weights of the model are read once for each token, and the
time of a token is the time to read them. International organisations, the government and the
people of the country have had a long history with each other, from which there is much to
learn. "Where," she asked, "does the water go?" - and the others did not know; nobody did.
Der schnelle braune Fuchs springt über den faulen Hund. Größe, Straße, Übermut und ähnliches.
Le garçon français a mangé une pâte à l'école où l'été était très chaud, n'est-ce pas?
El niño pequeño comió piñas mañana; ¿qué pasó después? ¡Nada! Ação, coração, não, também.
Съешь же ещё этих мягких французских булок, да выпей чаю. Привет, как дела? Хорошо.
敏捷的棕色狐狸跳过懒狗。今天天气很好，我们去公园吧。人工智能语言模型的词元化。中华人民共和国。
私は日本語を勉強しています。カタカナとひらがなと漢字。東京タワーへ行きました。ありがとう。
안녕하세요 세계. 한국어 형태소 분석은 어렵습니다. 감사합니다.
مرحبا بالعالم. اللغة العربية جميلة. ١٢٣٤ هذا نص عربي للتجربة.
नमस्ते दुनिया। हिन्दी भाषा में कुछ शब्द। १२३४ ये परीक्षण है।
สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง ขอบคุณครับ
Γειά σου Κόσμε. Η γρήγορη αλεπού. שלום עולם. זה טקסט בעברית.
😀😃😄 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 🚀🚀🚀 ¯\\_(ツ)_/¯ ™ © ½ ² ① Ⅷ
def main(argv):
    for i in range(0, 10):
        if i % 2 == 0 and not argv:
            print(f"value: {i:>4} -> {argv[i]!r}")
    return {"key": [1, 2, 3], "other": None}
#include <vector>
int main(int argc, char **argv) { std::vector<int> v{1, 2, 3}; for (auto &x : v) x += 1; return 0; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; } // comment
SELECT name, COUNT(*) FROM users WHERE id >= 100 GROUP BY name ORDER BY 2 DESC;
<html><body class="main"><a href="https://example.com/path?q=1&r=2">link</a></body></html>
""" * 3

GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
             r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{SUFFIX}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{SUFFIX}"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def split(pattern, behavior="Isolated", invert=False):
    kind = {"Regex": pattern} if not pattern.startswith("=") else {"String": pattern[1:]}
    return {"type": "Split", "pattern": kind, "behavior": behavior, "invert": invert}


def byte_level(use_regex, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def sequence(key, *steps):
    return {"type": "Sequence", key: list(steps)}


def pre(*steps):
    return sequence("pretokenizers", *steps)


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def template(before, after=()):
    part = lambda token: {"SpecialToken": {"id": token, "type_id": 0}}
    return lambda ids: {
        "type": "TemplateProcessing",
        "single": [*map(part, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(part, after)],
        "pair": [*map(part, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(part, after),
                 {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in {*before, *after}}}


CHAT = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
LLAMA_DECODER = sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                         {"type": "Strip", "content": " ", "start": 1, "stop": 0})
LLAMA_NORMALIZER = sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁"))


def added(content, special=True, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special, **flags}


# What each family has besides a vocabulary. `inside` are added tokens that the
# vocabulary holds too, as SentencePiece's do.
FAMILIES = {
    "gpt2": dict(pre=byte_level(True), added=[added("<|endoftext|>")]),
    "gpt2-prefix": dict(pre=byte_level(True, prefix=True), added=[added("<|endoftext|>")]),
    "smollm": dict(pre=pre({"type": "Digits", "individual_digits": True}, byte_level(True)),
                   added=[*map(added, CHAT), added("<repo_name>")]),
    "llama3": dict(pre=pre(split(LLAMA3), byte_level(False)), ignore_merges=True,
                   added=[added("<|begin_of_text|>"), added("<|eot_id|>"), added("<|start_header_id|>")],
                   post=template(["<|begin_of_text|>"])),
    "qwen2": dict(pre=pre(split(QWEN2), byte_level(False)), normalizer={"type": "NFC"},
                  added=[*map(added, CHAT), added("<think>", special=False), added("</think>", special=False)]),
    "qwen35": dict(pre=pre(split(QWEN35), byte_level(False)), normalizer={"type": "NFC"},
                   added=[*map(added, CHAT)]),
    "deepseek3": dict(pre=pre(split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK3), byte_level(False)),
                      normalizer=sequence("normalizers"),
                      added=[added("<｜begin▁of▁sentence｜>"), added("<｜User｜>"), added("<｜Assistant｜>"),
                             added("<think>", special=False, normalized=True)],
                      post=template(["<｜begin▁of▁sentence｜>"])),
    "glm4": dict(pre=pre(split(LLAMA3), byte_level(False)), added=[added("[gMASK]"), added("<sop>"), added("<|user|>")],
                 post={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}),
    "tekken": dict(pre=pre(split(TEKKEN), byte_level(False)), ignore_merges=True,
                   added=[added("<s>"), added("[INST]"), added("[/INST]")], post=template(["<s>"])),
    "gpt4o": dict(pre=pre(split(GPT4O), byte_level(False)), added=[*map(added, CHAT)]),
    "llama2": dict(spm=True, normalizer=LLAMA_NORMALIZER, decoder=LLAMA_DECODER, fuse_unk=True,
                   post=template(["<s>"])),
    "llama2-eos": dict(spm=True, normalizer=LLAMA_NORMALIZER, decoder=LLAMA_DECODER, fuse_unk=True,
                       post=template(["<s>"], ["</s>"]), added=[added("<pad>", lstrip=True, rstrip=True)]),
    "mistral": dict(spm=True, fuse_unk=True, post=template(["<s>"]),
                    pre={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
                    decoder=LLAMA_DECODER, added=[added("[INST]"), added("[/INST]")]),
    "metaspace": dict(spm=True, pre={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
                      decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}),
    "metaspace-never": dict(spm=True, pre={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
                            decoder={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True}),
    "gemma": dict(spm=True, normalizer=replace(" ", "▁"), pre=split("= ", "MergedWithPrevious"), fuse_unk=True,
                  decoder=sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}),
                  post=template(["<s>"])),
    "no-bytes": dict(spm=True, byte_fallback=False, normalizer=LLAMA_NORMALIZER, decoder=LLAMA_DECODER),
    "no-bytes-fused": dict(spm=True, byte_fallback=False, normalizer=LLAMA_NORMALIZER, decoder=LLAMA_DECODER,
                           fuse_unk=True),
    # Nobody's, for the components that the others leave out.
    "mixed-nfd": dict(pre=pre({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True)),
                      normalizer=sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}),
                      added=[added("<Mask>", lstrip=True, normalized=True), added("Wort", special=False, single_word=True, normalized=True)]),
    "mixed-nfkc": dict(pre=pre({"type": "Whitespace"}, byte_level(False)),
                       normalizer=sequence("normalizers", {"type": "NFKC"}, {"type": "Strip", "strip_left": True, "strip_right": True}),
                       added=[added("foo", special=False, single_word=True), added("  ", special=False),
                              added("   ", special=False), added("<m>", rstrip=True)],
                       post={"type": "RobertaProcessing", "sep": ["</s>", -2], "cls": ["<s>", -1],
                             "trim_offsets": True, "add_prefix_space": True}),
    "mixed-nfkd": dict(pre=pre({"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": False},
                               split(r"[aeiou]+", "MergedWithNext"), byte_level(False)),
                       normalizer={"type": "NFKD"}),
    "mixed-split": dict(pre=pre(split(r"\d+|\b[A-Z]\w*", "Contiguous"), split(r"[^\S\n]+", "MergedWithPrevious"),
                                split(r"[\w']+", "Isolated", invert=True), {"type": "CharDelimiterSplit", "delimiter": "#"},
                                split(r"\p{Han}+|^\p{Lu}|\p{Alpha}(?<=x)|$", "Isolated"),
                                byte_level(False)),
                        normalizer={"type": "Replace", "pattern": {"Regex": r"\h\h:|[\t ]{2,}"}, "content": "~"}),
    "whitespace": dict(pre=pre({"type": "Whitespace"}, byte_level(False))),
    "bert": dict(pre=pre({"type": "BertPreTokenizer"}, byte_level(False)),
                 normalizer={"type": "ByteLevel"}, decoder={"type": "Fuse"}),
}


def byte_alphabet():
    """The character of each byte in byte-level vocabularies."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table, extra = {}, 0x100
    for byte in range(256):
        if byte in keep:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(extra)
            extra += 1
    return table


def train(words, merges):
    """Pairs by frequency, the first in order of symbols where equal."""
    words = [(list(word), count) for word, count in sorted(words.items())]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (symbols, count) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += count
            where[pair].add(i)
    result = []
    while len(result) < merges and pairs:
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        if pairs[best] < 2:
            break
        result.append(best)
        for i in sorted(where[best]):
            symbols, count = words[i]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= count
                if pairs[pair] <= 0:
                    del pairs[pair]
            at = 0
            while at + 1 < len(symbols):
                if (symbols[at], symbols[at + 1]) == best:
                    symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
                at += 1
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
                where[pair].add(i)
        pairs.pop(best, None)
    return result


def all_pairs(alphabet):
    """A merge for every two symbols: what is not merged was split before. Pairs
    of one ASCII and one other byte come first, since classes differ there."""
    keys = {c: b for b, c in alphabet.items()}
    pairs = [(a, b) for a in keys for b in keys]
    return sorted(pairs, key=lambda pair: (keys[pair[0]] < 128) == (keys[pair[1]] < 128))


def make(family, merges=1200, string_merges=False, pairs=False):
    """The dictionary of tokenizer.json. With `pairs` a byte-level family has
    all_pairs and nothing learned."""
    spec = FAMILIES[family]
    spm = spec.get("spm", False)
    fallback = spm and spec.get("byte_fallback", True)
    alphabet = byte_alphabet()
    words = collections.Counter(re.findall(r" ?[^\W\d_]+| ?\d+| ?[^\w\s]+|\s+", CORPUS))
    if spm:
        words = collections.Counter({w.replace(" ", "▁"): n for w, n in words.items()})
    else:
        words = collections.Counter(
            {"".join(alphabet[b] for b in w.encode()): n for w, n in words.items()})
    rules = all_pairs(alphabet) if pairs and not spm else train(words, merges)

    tokens = ["<unk>", "<s>", "</s>"] if spm else []
    if fallback:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += sorted(set("".join(words))) if spm else [alphabet[b] for b in range(256)]
    vocab = {}
    for token in [*tokens, *(a + b for a, b in rules)]:
        vocab.setdefault(token, len(vocab))
    extra = [added(t) for t in ("<unk>", "<s>", "</s>") if spm] + spec.get("added", [])
    if isinstance(spec.get("post"), dict) and spec["post"]["type"] == "RobertaProcessing":
        extra = [*extra, added("<s>"), added("</s>")]
    ids, listed = dict(vocab), []
    for token in extra:
        ids.setdefault(token["content"], len(ids))
        listed.append({"id": ids[token["content"]], **token})
    post = spec.get("post")
    if callable(post):
        post = post(ids)
    elif post and post["type"] == "RobertaProcessing":
        post = {**post, "sep": ["</s>", ids["</s>"]], "cls": ["<s>", ids["<s>"]]}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": sorted(listed, key=lambda token: token["id"]),
        "normalizer": spec.get("normalizer"), "pre_tokenizer": spec.get("pre"),
        "post_processor": post, "decoder": spec.get("decoder", byte_level(True)),
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>" if spm else None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": spec.get("fuse_unk", False), "byte_fallback": fallback,
                  "ignore_merges": spec.get("ignore_merges", False), "vocab": vocab,
                  "merges": [f"{a} {b}" if string_merges else [a, b] for a, b in rules]},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("output")
    parser.add_argument("--merges", type=int, default=1200, metavar="N", help="most merges to learn (1200)")
    parser.add_argument("--string-merges", action="store_true", help='write merges as "a b", as older files do')
    args = parser.parse_args()
    with open(args.output, "w", encoding="utf-8") as file:
        json.dump(make(args.family, args.merges, args.string_merges), file, ensure_ascii=False, indent=1)


if __name__ == "__main__":
    main()
