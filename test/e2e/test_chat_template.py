#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates render byte for byte as python's jinja2 does, set up as
transformers does it: an immutable sandbox, trim_blocks, lstrip_blocks, break and
continue, the tag `generation`, and tojson without HTML's escapes.

test/Inputs/templates has templates in the manner of each model family, written
for this test, and lists of expressions and statements. The program under test
is `chat-template` (test/unit), which renders what it reads on stdin."""
import datetime
import functools
import json
import random
import subprocess
import sys
import unittest
from pathlib import Path

from octet_test import BIN, SEED, main

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skipped: python's jinja2 is the oracle and cannot be imported; "
          "`pip install jinja2` has it")
    sys.exit(77)

DRIVER = BIN / "chat-template"
INPUTS = Path(__file__).resolve().parent.parent / "Inputs" / "templates"
# The driver's clock stands still here.
NOW = datetime.datetime(2024, 7, 26, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what the model says and prints it."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"],
                                       drop_needle=True)
        call = self.call_method("_render")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _render(self, context, caller):
        return caller()


def make_environment():
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])

    def to_json(x, ensure_ascii=False, indent=None, separators=None,
                sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    def refuse(message):
        raise jinja2.exceptions.TemplateError(message)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = NOW.strftime
    return environment


ENVIRONMENT = make_environment()
compile_template = functools.lru_cache(64)(ENVIRONMENT.from_string)


def expected(job):
    """jinja2's text, or None if it fails."""
    names = {"messages": job.get("messages"), "tools": job.get("tools"),
             "documents": None,
             "add_generation_prompt": job.get("add_generation_prompt", False)}
    names.update({k: job[k] for k in ("bos_token", "eos_token") if k in job})
    names.update(job.get("variables") or {})
    try:
        return compile_template(job["template"]).render(**names)
    except Exception:  # whatever Python refuses, the driver has to refuse
        return None


def render(jobs):
    """The driver's answers: {"text": …} or {"error": …}."""
    done = subprocess.run(
        [str(DRIVER)], capture_output=True, text=True, timeout=600,
        input="".join(json.dumps(job, ensure_ascii=False) + "\n"
                      for job in jobs))
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    answers = [json.loads(line) for line in done.stdout.split("\n") if line]
    assert len(answers) == len(jobs), (len(answers), len(jobs))
    return answers


# ---- conversations ----

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather \"now\" & here <b>",
        "parameters": {
            "type": "object", "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "Ort, z. B. Köln"},
                "items": {"type": "array", "items": {"type": "number"}},
                "unit": {"type": "string", "enum": ["°C", "°F"],
                         "default": None}}}}},
    {"type": "function", "function": {
        "name": "add", "description": "a + b", "strict": True,
        "parameters": {"type": "object", "properties": {}},
        "return": {"type": "number"}}},
]


def call(name="get_weather", arguments=None, ident="abcdefghi"):
    arguments = {"city": "Köln \"x\"", "days": 3} if arguments is None \
        else arguments
    return {"id": ident, "type": "function",
            "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


SYSTEM = {"role": "system", "content": " You are terse.\n"}
RESULT = {"role": "tool", "content": "{\"t\": 21.5}",
          "tool_call_id": "abcdefghi"}

CONVERSATIONS = [
    [],
    [user("Hi")],
    [user("")],
    [user("  spaces \n\n around\t\n")],
    [SYSTEM, user("Hi")],
    [SYSTEM],
    [SYSTEM, SYSTEM, user("two systems")],
    [user("a"), assistant("b"), user("c")],
    [SYSTEM, user("a"), assistant("b"), user("c"), assistant("d")],
    [user("a"), user("b")],
    [assistant("first")],
    [user("日本語 🎉 e\u0301 \u200b \u2028 עברית"), assistant("한국어 ﬁ ß İ")],
    [user("<|im_end|> [INST] {{ x }} {% if %} </s>")],
    [user("tab\tquote\"back\\slash\x01\x7f'"), assistant("\r\nwindows\r\n")],
    [user("x" * 20000), assistant("long " * 3000), user("Σίσυφος ΣΑΣ")],
    [user("2+2?"), assistant("<think>\nfour\n</think>\n\n4"), user("sure?")],
    [user("2+2?"), assistant("<think>\n\n</think>\n\n4")],
    [user("2+2?"), assistant("no end </think>"), user("a")],
    [user("q"), assistant("a", reasoning_content="  because \n")],
    [user("q"), assistant("a", reasoning_content="old"), user("r"),
     assistant("b", reasoning_content="new")],
    [user("weather?"), assistant(None, tool_calls=[call()]), RESULT],
    [user("weather?"), assistant("", tool_calls=[call()]), RESULT,
     assistant("21.5 °C")],
    [SYSTEM, user("both?"), assistant("look", tool_calls=[
        call(), call("add", {"a": 1, "b": [2.0, None, True, {"k": "v"}]})]),
     RESULT, RESULT, assistant("done"), user("thanks")],
    [user("w"), assistant(None, tool_calls=[call(arguments="{\"a\": 1}")]),
     RESULT],
    [user("w"), assistant(None, tool_calls=[call(ident="short")]), RESULT],
    [user("w"), assistant(None, tool_calls=[call(arguments={})])],
    [user("w"), assistant("x", tool_calls=[])],
    [user("w"), assistant("x", tool_calls=None)],
    [user("w"), assistant(None, tool_calls=[
        {"name": "bare", "arguments": {"x": "y"}}])],
    [user("w"), {"role": "tool", "content": {"content": [1, 2]},
                 "tool_call_id": "abcdefghi"}],
    [user("w"), {"role": "tool", "content": [{"output": "o"}, "plain"]}],
    [user([{"type": "text", "text": "part one"},
           {"type": "image"}, {"type": "text", "text": "part two"}])],
    [user(None)],
    [{"role": "user"}],
    [{"role": "critic", "content": "unknown role"}],
    [{"content": "no role"}],
    [user("n"), assistant("p", prefix=True)],
    [user({"a": 1e16, "b": 1e-7, "c": -0.0, "d": 12345678901234})],
    ["no dict"],
    [user("/nothink"), assistant("<think>a</think><think>b</think>c")],
    [user("<tool_response>fake</tool_response>"), assistant("ok"), user("x")],
]

SETTINGS = [
    {},
    {"add_generation_prompt": True},
    {"add_generation_prompt": True, "tools": TOOLS},
    {"tools": TOOLS[:1], "variables": {"enable_thinking": False,
                                       "tools_in_user_message": False}},
    {"add_generation_prompt": True,
     "variables": {"enable_thinking": False, "thinking": True,
                   "date_string": "01 Jan 2025", "clear_thinking": True,
                   "builtin_tools": ["code_interpreter", "get_weather"]}},
]

WORDS = ["yes", " ", "\n", "<think>", "</think>", "é", "日本", "🎉", "\"", "'",
         "\\", "{", "%}", "ΑΣ", "\t", "1.5", "a_b", "&<>", "\u00a0"]


def random_text(rng):
    return "".join(rng.choice(WORDS) for _ in range(rng.randrange(12)))


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {random_text(rng): random_value(rng, depth + 1)
                for _ in range(rng.randrange(4))}
    return [None, True, rng.randrange(-10**6, 10**12), random_text(rng),
            rng.uniform(-1e3, 1e3), 10.0 ** rng.randrange(-8, 20)][kind]


def random_conversation(rng):
    messages = [{"role": "system", "content": random_text(rng)}] \
        if rng.random() < 0.4 else []
    for _ in range(rng.randrange(1, 6)):
        messages.append(user(random_text(rng)))
        answer = assistant(random_text(rng))
        if rng.random() < 0.3:
            answer["reasoning_content"] = random_text(rng)
        if rng.random() < 0.4:
            answer["tool_calls"] = [
                call(rng.choice(["add", "get_weather"]),
                     {random_text(rng) or "k": random_value(rng)
                      for _ in range(rng.randrange(3))})
                for _ in range(rng.randrange(1, 3))]
        messages.append(answer)
        if "tool_calls" in answer:
            messages += [dict(RESULT, content=random_text(rng))
                         for _ in answer["tool_calls"]]
    return messages[:len(messages) - rng.randrange(2)]


VARIABLES = {
    "s": "Hello World", "u": "日本語 é 🎉 ﬁ ß", "e": "",
    "ws": "  \t a b  c\n\n", "n": 5, "neg": -7, "f": 2.5, "z": 0, "t": True,
    "x": None, "l": [3, 1, 2], "ls": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": [1, {"k": "v"}], "items": "I", "c": None},
    "el": [], "ed": {}, "m": [{"role": "user", "content": "hi"},
                              {"role": "assistant", "content": None},
                              {"role": "tool"}],
    "big": 1e16, "small": 1e-5, "nest": {"a": {"b": [{"c": "deep"}]}},
    "mix": [1, "1", 1.0, True, None, [], {}],
    "q": "it's \"q\" \\ \n\x07 \u200b é"}

STATEMENT_VARIABLES = {
    "l": [3, 1, 2], "d": {"a": 1, "b": 2}, "s": "abc", "e": [], "n": None,
    "x": "outer", "nest": [[1, 2], [3]],
    "msgs": [{"role": "system", "content": "S"},
             {"role": "user", "content": "U"},
             {"role": "assistant", "content": "A"}]}

# Jinja that no known template needs, and what Python can but 64 bits cannot:
# one clear error that names it.
UNSUPPORTED = [
    ("{% include 'a' %}", "the statement 'include' is not supported"),
    ("{% block a %}b{% endblock %}", "the statement 'block' is not supported"),
    ("{% do x %}", "the statement 'do' is not supported"),
    ("{% autoescape true %}{% endautoescape %}", "'autoescape' is not supp"),
    ("{% for i in l recursive %}{% endfor %}", "'recursive' loop"),
    ("{{ s|wordcount }}", "the filter 'wordcount' is not supported"),
    ("{{ l|batch(2)|list }}", "the filter 'batch' is not supported"),
    ("{{ s.casefold() }}", "the method 'casefold' of a string"),
    ("{{ s.encode() }}", "the method 'encode' of a string"),
    ("{{ l.append(1) }}", "unsafe: the sandbox forbids changes"),
    ("{{ d.update({}) }}", "unsafe: the sandbox forbids changes"),
    ("{{ lipsum() }}", "the function 'lipsum' is not supported"),
    ("{{ cycler(1) }}", "the function 'cycler' is not supported"),
    ("{{ s.__class__ }}", "the attribute '__class__' is not supported"),
    ("{{ x is nosuch }}", "the test 'nosuch' is not supported"),
    ("{{ (s|safe) + 'x' }}", "marked by 'safe' is not supported"),
    ("{{ d|items }}", "a value of type generator has no text"),
    ("{{ 2**63 }}", "does not fit 64 bits"),
    ("a\n\n{{ undefinedvar.foo }}", "line 3: 'undefinedvar' is undefined"),
    ("{{ raise_exception('bo\x1bom') }}",
     "the template refuses the conversation: bo\\x1bom"),
    ("{{ 'x' if }}", "expected an expression, found '}}'"),
    ("{% if x %}", "the template ends without '{% endif %}'"),
]

HOSTILE = [
    "{{ " + "(" * 100000 + "1" + ")" * 100000 + " }}",
    "{{ " + "[" * 100000 + "]" * 100000 + " }}",
    "{{ " + "{1:" * 100000 + "1" + "}" * 100000 + " }}",
    "{{ " + "f(" * 100000 + ")" * 100000 + " }}",
    "{{ x" + ".a" * 100000 + " }}",
    "{{ x" + "|f" * 100000 + " }}",
    "{{ 1" + "+1" * 100000 + " }}",
    "{{ " + "not " * 100000 + "x }}",
    "{{ " + "-" * 100000 + "1 }}",
    "{{ 1" + " if 1 else 1" * 50000 + " }}",
    "{% if x %}" * 50000,
    "{% set " + "(" * 100000 + "a" + ")" * 100000 + " = 1 %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f() %}{{ f() ~ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}"
    "{% endmacro %}{{ f(60) }}",
    "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99999) %}"
    "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}"
    "{% set ns.x = [ns.x] %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}aaaaaaaaaaaaaaaaaaa"
    "{% endfor %}{% endfor %}",
    "{{ 'a' * 999999999999 }}", "{{ [1] * 999999999999 }}",
    "{{ 'a'.center(999999999999) }}", "{{ '%99999999d' % 1 }}",
    "{{ '{:99999999}'.format(1) }}", "{{ strftime_now('%99999999Y') }}",
    "{{ ('a' * 9000000).replace('', 'b' * 9000000) }}",
    "{{ ('a' * 9000000).split('a') }}",
    "{{ 'a\n' * 9000000 | indent(99999) }}",
    "{{ range(-9223372036854775807, 9223372036854775807) }}",
    "{{ -9223372036854775807 - 9 }}", "{{ (-9223372036854775807-1) // -1 }}",
    "{{ l[::-9223372036854775807] }}{{ l[::0] }}", "{{ 1 % 0 }}",
    "{{ '\\ud800' }}", "{{ '\\x' }}", "{{ 'a\\", "{%", "{{", "{#", "{% raw %}x",
]

PIECES = ["{%", "%}", "{{", "}}", "{#", "#}", "-", "+", " if ", " else ", "~",
          " not ", " in ", " is ", "|", "trim", "[", "]", "(", ")", ".", "0",
          "1", "'", '"', "\n", " ", "endif", "==", "none", "loop.last", ",",
          ":", "x", "message"]


class ChatTemplate(unittest.TestCase):
    def compare(self, jobs, names):
        refused = 0
        for job, name, answer in zip(jobs, names, render(jobs)):
            want = expected(job)
            refused += want is None
            self.assertEqual(answer.get("text"), want,
                             f"\n{name}\n{job['template'][:300]}\n"
                             f"{answer.get('error', '')}")
            if want is None:
                self.assertRegex(answer["error"], r"\Aerror: [^\n]+\n\Z", name)
        print(f"{len(jobs)} renderings, {refused} of them refused by both",
              file=sys.stderr)
        return len(jobs) - refused

    def templates(self):
        paths = sorted(INPUTS.glob("*.jinja"))
        self.assertGreaterEqual(len(paths), 11)
        return {path.name: path.read_text() for path in paths}

    def test_conversations(self):
        rng = random.Random(SEED)
        conversations = CONVERSATIONS + [random_conversation(rng)
                                         for _ in range(60)]
        jobs, names = [], []
        for name, template in self.templates().items():
            for number, messages in enumerate(conversations):
                for setting in SETTINGS:
                    jobs.append({"template": template, "messages": messages,
                                 "bos_token": "<｜begin▁of▁sentence｜>",
                                 "eos_token": "</s>", **setting})
                    names.append(f"{name}, conversation {number}, "
                                 f"{sorted(setting)}")
        self.assertGreaterEqual(self.compare(jobs, names), 2000)

    def test_without_tokens(self):
        jobs = [{"template": template, "messages": CONVERSATIONS[7]}
                for template in self.templates().values()]
        self.compare(jobs, list(self.templates()))

    def test_expressions(self):
        lines = [line.replace("⏎", "\n") for line in
                 (INPUTS / "expressions.txt").read_text().splitlines()
                 if not line.startswith("#")]
        self.assertGreater(len(lines), 600)
        self.compare([{"template": "{{ " + line + " }}",
                       "variables": VARIABLES} for line in lines], lines)

    def test_statements(self):
        text = (INPUTS / "statements.txt").read_text().split("---\n", 1)[1]
        lines = text.split("\n")[:-1]
        templates = ["\n".join(lines[i:i + n]) + end
                     for i in range(len(lines)) for n in range(1, 6)
                     for end in ("", "\n")]
        templates += [t.replace("\n", "\r\n") for t in templates[::7]]
        templates += [t.replace("\n", "\r") for t in templates[::11]]
        templates = list(dict.fromkeys(templates))
        self.assertGreater(len(templates), 2000)
        self.compare([{"template": t, "variables": STATEMENT_VARIABLES}
                      for t in templates], templates)

    def test_unsupported(self):
        answers = render([{"template": template, "variables": VARIABLES}
                          for template, _ in UNSUPPORTED])
        for (template, words), answer in zip(UNSUPPORTED, answers):
            self.assertIn(words, answer.get("error", answer), template)
            self.assertIn("error: chat template: line ", answer["error"])

    def test_hostile(self):
        # Text or one error, in bounded time: never a crash.
        for template in HOSTILE:
            answer, = render([{"template": template, "variables": VARIABLES}])
            if "error" in answer:
                self.assertRegex(answer["error"], r"\Aerror: [^\n]+\n\Z")
                self.assertLess(len(answer["error"]), 1000)

    def test_broken(self):
        """Templates with pieces cut out, moved and put in."""
        rng = random.Random(SEED)
        jobs = []
        for template in self.templates().values():
            for _ in range(60):
                broken = template
                for _ in range(rng.choice([1, 1, 1, 2, 3])):
                    at = rng.randrange(len(broken))
                    kind = rng.randrange(4)
                    head, tail = broken[:at], broken[at:]
                    if kind == 0:
                        broken = head
                    elif kind == 1:
                        broken = head + tail[rng.randrange(1, 6):]
                    elif kind == 2:
                        broken = head + rng.choice(PIECES) + tail
                    else:
                        source = rng.randrange(len(broken))
                        broken = head + broken[
                            source:source + rng.randrange(1, 30)] + tail
                    broken = broken or " "
                jobs.append({"template": broken, "tools": TOOLS,
                             "messages": CONVERSATIONS[22], "bos_token": "B",
                             "eos_token": "E", "add_generation_prompt": True})
        self.compare(jobs, ["broken"] * len(jobs))


if __name__ == "__main__":
    if not DRIVER.exists():
        print(f"skipped: {DRIVER} is not built")
        sys.exit(77)
    main()
