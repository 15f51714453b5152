#!/usr/bin/env python3
# Part of the Octet project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a page stands on its own.

    check_html.py FILE [--no-tag TAG ...]

Every tag is closed by its own, ids are unique, links lead to an id of the page,
nothing refers to or runs anything from elsewhere, no character is a control
character. Prints how many elements there are. --no-tag names elements that may
not occur: what a hostile name tries to be.
"""
import argparse
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "input", "br", "hr"}
KNOWN = VOID | set(
    "html head title style body h1 h2 dl dt dd ul ol li p a b i span div code "
    "details summary fieldset legend label".split())
REFERRING = {"src", "srcset", "action", "formaction", "poster", "data",
             "background", "xlink:href"}


class Page(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.faults = [], [], [], []
        self.count, self.style = 0, ""

    def handle_starttag(self, tag, attributes):
        self.count += 1
        if tag not in KNOWN:
            self.fault(f"element <{tag}>")
        for name, content in attributes:
            if name.startswith("on") or name in REFERRING:
                self.fault(f"attribute {name}={content}")
            if name == "id":
                self.ids.append(content)
            if name == "href":
                self.links.append(content)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.fault(f"</{tag}> closes something else")

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data

    def handle_comment(self, data):
        self.fault(f"comment {data!r}")

    def fault(self, what):
        self.faults.append(f"line {self.getpos()[0]}: {what}")


parser = argparse.ArgumentParser()
parser.add_argument("file", type=Path)
parser.add_argument("--no-tag", action="append", default=[])
arguments = parser.parse_args()
text = arguments.file.read_bytes().decode()  # UTF-8, or a traceback
page = Page()
page.feed(text)
page.close()
faults = page.faults
if not text.startswith("<!DOCTYPE html>\n<html lang="):
    faults.append("no DOCTYPE and language at the start")
if page.open:
    faults.append(f"not closed: {page.open}")
faults += [f"id {i} twice" for i in set(page.ids) if page.ids.count(i) > 1]
faults += [f"link to {link}" for link in page.links
           if link[:1] != "#" or link[1:] not in page.ids]
if re.search(r"url\(|@import|https?:|//", page.style):
    faults.append("the style sheet refers to something")
if re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text):
    faults.append("a control character")
faults += [f"<{tag}> in the text" for tag in arguments.no_tag
           if f"<{tag}" in text.lower()]
if faults:
    sys.exit("\n".join([f"{arguments.file}:"] + faults))
print(f"{page.count} elements, {len(page.ids)} ids, {len(page.links)} links")
