//===- HtmlStyle.cpp - The look of a ledger's page ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HtmlStyle.h"

// Colours are pairs for light and dark; the radio buttons at the top of the
// page override what the system asks for. A boundary is a grid row that becomes
// a card where the screen is narrow. What is closed is open in print.
const char *const octet::kLedgerStyle = R"css(
:root {
  color-scheme: light dark;
  --page: light-dark(#fcfcfb, #16181b); --card: light-dark(#ffffff, #1e2125);
  --ink: light-dark(#1c2024, #e4e6e8); --dim: light-dark(#5d666f, #9aa3ab);
  --line: light-dark(#dfe3e6, #343a40); --link: light-dark(#0b62b8, #7db8f5);
  --bf: light-dark(#d9e8fb, #1f3c5f); --bf-ink: light-dark(#123e73, #c2dcfb);
  --f8: light-dark(#fde3cf, #5c3413); --f8-ink: light-dark(#7a3503, #ffd2ad);
  --f32: light-dark(#d8f0dd, #1d4a2a); --f32-ink: light-dark(#14532a, #bdebc9);
  --int: light-dark(#e8defa, #3f2f66); --int-ink: light-dark(#46248a, #dccbff);
}
:root:has(#light:checked) { color-scheme: light; }
:root:has(#dark:checked) { color-scheme: dark; }
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif;
  overflow-wrap: anywhere;
}
h1 {
  font-size: 1.5rem; margin: .2rem 0 .6rem; overflow-wrap: break-word;
}
h2 { font-size: 1.1rem; margin: 0; display: inline; }
a { color: var(--link); }
code, .chip, .num { font-family: ui-monospace, Menlo, Consolas, monospace; }
code, .chip { font-size: .86em; }
.theme {
  float: right; border: 1px solid var(--line); border-radius: .5rem;
  padding: .1rem .6rem; margin: 0 0 .5rem 1rem; font-size: .85rem;
}
.theme label { margin-right: .4rem; }
.facts {
  display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem;
  margin: 0 0 1rem; font-size: .92rem;
}
.facts dt { color: var(--dim); }
.facts dd { margin: 0; }
.cards {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr));
  gap: .6rem; margin: 0 0 1rem; padding: 0; list-style: none;
}
.cards li {
  background: var(--card); border: 1px solid var(--line);
  border-radius: .5rem; padding: .5rem .7rem;
}
.cards b { display: block; font-size: 1.15rem; }
.cards span { color: var(--dim); font-size: .85rem; }
.legend { margin: 0 0 1rem; font-size: .9rem; }
.section {
  background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; margin: 0 0 1rem; padding: .6rem .8rem;
}
summary { cursor: pointer; }
.layers { color: var(--dim); font-size: .9rem; }
.strip { display: flex; height: .7rem; gap: 1px; margin: .6rem 0; }
.strip i { flex: 1 1 0; border-radius: 1px; }
.way { list-style: none; margin: 0; padding: 0; }
.way > li.head {
  border: 0; color: var(--dim); font-size: .82rem; padding-bottom: 0;
}
.way > li.head .num { font-family: inherit; font-size: inherit; }
.way > li {
  display: grid; gap: .1rem .8rem; padding: .45rem 0;
  grid-template-columns: 4.2rem minmax(9rem, 15rem) 1fr 7rem 6.5rem;
  border-top: 1px solid var(--line); break-inside: avoid;
}
.rules a { margin-right: .3rem; font-size: .85rem; }
.module, .how, .small { color: var(--dim); font-size: .86rem; display: block; }
.chip {
  display: inline-block; padding: 0 .35rem; border-radius: .3rem;
  margin: .05rem .1rem .05rem 0; background: var(--line);
}
.bf { background: var(--bf); color: var(--bf-ink); }
.f8 { background: var(--f8); color: var(--f8-ink); }
.f32 { background: var(--f32); color: var(--f32-ink); }
.int { background: var(--int); color: var(--int-ink); }
.num { text-align: right; font-size: .88rem; white-space: nowrap; }
.more { grid-column: 2 / -1; font-size: .88rem; }
.more summary { color: var(--link); }
.more ul { margin: .2rem 0; padding-left: 1.1rem; }
.sums {
  border-top: 2px solid var(--line); margin: 0; padding-top: .5rem;
  font-size: .9rem;
}
.rulelist dt { font-weight: 600; margin-top: .6rem; }
.rulelist dd { margin: 0; }
@media screen and (max-width: 50rem) {
  .way > li { grid-template-columns: 1fr auto; }
  .rules { grid-column: 1; grid-row: 1; }
  .num { grid-column: 2; text-align: right; }
  .bytes { grid-row: 1; }
  .error { grid-row: 2; }
  .op { grid-column: 1; grid-row: 2; }
  .values, .more { grid-column: 1 / -1; }
  .way > li.head { display: none; }
  .facts { grid-template-columns: minmax(6rem, max-content) 1fr; }
  .cards { grid-template-columns: 1fr 1fr; }
  .strip { gap: 0; }
}
@media print {
  :root, :root:has(#dark:checked) { color-scheme: light; }
  body { font-size: 9pt; max-width: none; padding: 0; }
  .theme { display: none; }
  .chip, .strip i { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .section { border: 0; padding: 0; }
  body, .section, .cards li { background: none; }
  .way > li {
    grid-template-columns: 3.4rem 11rem 1fr 5.5rem 6.5rem; padding: .2rem 0;
  }
  .strip { display: none; }
  summary { list-style: none; }
  .more summary { display: none; }
  .more ul { margin: 0; }
  details::details-content { content-visibility: visible; display: block; }
}
)css";
