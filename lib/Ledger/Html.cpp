//===- Html.cpp - A ledger as a page --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// One page without script, font or image from elsewhere. A section is open, the
// details of a boundary are closed. Names come from files: each goes through
// `escape`.
//
//===----------------------------------------------------------------------===//

#include "Format.h"
#include "HtmlStyle.h"
#include "octet/Diagnostics/Rules.h"
#include "octet/Support/Escape.h"
#include <set>

using namespace octet;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// What HTML takes for markup, in text and in attributes.
static std::string escapeMarkup(std::string_view text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    case '\'':
      result += "&#39;";
      break;
    default:
      result += c;
    }
  }
  return result;
}

/// Untrusted text: control characters shown, long ones cut, markup escaped.
static std::string escape(std::string_view text) {
  return escapeMarkup(escapeName(text));
}

/// `12,345`.
static std::string group(int64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3 + size_t(number < 0);)
    text.insert(at -= 3, ",");
  return text;
}

static std::string wrap(const char *tag, const char *kind,
                        const std::string &content) {
  return "<" + std::string(tag) + " class=\"" + kind + "\">" + content + "</" +
         tag + ">";
}

/// The colour of a dtype.
static const char *findColour(const std::string &dtype) {
  if (dtype == "BF16" || dtype == "F16")
    return "bf";
  if (dtype == "F32")
    return "f32";
  if (dtype == "I32" || dtype == "U32")
    return "int";
  return "f8"; // of 8 bits or less
}

static std::string formatChips(const std::vector<LedgerPart> &parts) {
  std::string text;
  for (const LedgerPart &part : parts) {
    std::string name = part.name.empty() || part.name.size() > 40
                           ? std::string()
                           : " " + escape(part.name);
    text +=
        wrap("span", (std::string("chip ") + findColour(part.dtype)).c_str(),
             escape(formatCodes(part)) + name);
    if (part.scales)
      text +=
          wrap("span",
               (std::string("chip ") + findColour(part.scales->dtype)).c_str(),
               escape(formatScales(*part.scales)) + " scales");
  }
  return text;
}

static std::string linkRules(const std::vector<std::string> &rules) {
  std::string text;
  for (const std::string &rule : rules) {
    const Rule *known = findRule(rule);
    if (!known) {
      text += escape(rule) + " ";
      continue;
    }
    text += "<a href=\"#" + escape(rule) + "\" title=\"" +
            escapeMarkup(known->title) + "\">" + escape(rule) + "</a>";
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

static std::string listDetails(const LedgerEntry &entry) {
  std::string items;
  auto add = [&](const std::string &text) { items += "<li>" + text + "</li>"; };
  for (const LedgerPart &part : entry.weights) {
    std::string text =
        escape(nameWeight(entry.module, part)) + " " +
        formatChips({LedgerPart{"", part.dtype, part.shape, part.elements,
                                part.codeBytes, part.scales}}) +
        " " + group(part.codeBytes) + " B";
    if (part.scales)
      text += " + " + group(part.scales->count) +
              (part.scales->count == 1 ? " scale, " : " scales, ") +
              escape(part.scales->granularity) + ", " +
              group(part.scales->bytes) + " B";
    add(text);
  }
  for (const LedgerPart &part : entry.out)
    if (part.scales && !part.scales->isStatic)
      add(group(part.codeBytes) + " B of codes and " +
          group(part.scales->count) +
          (part.scales->count == 1 ? " scale, " : " scales, ") +
          escape(part.scales->granularity) + ", " + group(part.scales->bytes) +
          " B" + (part.scales->powerOfTwo ? ", powers of two" : ""));
  if (entry.error && !formatErrorDetail(*entry.error).empty())
    add("error: " + formatErrorDetail(*entry.error));
  if (entry.sumBound > 0)
    add("the FP32 sum is wrong by at most " + formatPercent(entry.sumBound) +
        " of the sum of magnitudes");
  for (const std::string &note : entry.notes)
    add(escape(note));
  if (items.empty())
    return "";
  return "<details class=\"more\"><summary>details</summary><ul>" + items +
         "</ul></details>";
}

static std::string formatBoundary(const LedgerEntry &entry) {
  std::string values = formatChips(entry.in);
  if (!entry.out.empty())
    values += " → " + formatChips(entry.out);
  if (!entry.arithmetic.empty())
    values += wrap("span", "how", escape(entry.arithmetic));
  std::string error;
  if (entry.error)
    error = formatPercent(entry.error->relative) +
            wrap("span", "small", "rms " + formatPercent(entry.error->rms));
  std::string op = "<b>" + escape(entry.op) + "</b>";
  if (!entry.module.empty())
    op += wrap("code", "module", escape(shortenModule(entry.module)));
  return "<li>" + wrap("div", "rules", linkRules(entry.rules)) +
         wrap("div", "op", op) + wrap("div", "values", values) +
         wrap("div", "num bytes", group(sumBytes(entry.out)) + " B") +
         wrap("div", "num error", error) + listDetails(entry) + "</li>\n";
}

/// What the columns are, where the screen has room for columns.
static const char *const kColumns =
    "<li class=\"head\"><div>rules</div><div>operator</div><div>in → out</div>"
    "<div class=\"num\">bytes out</div><div class=\"num\">error at most"
    "</div></li>\n";

/// The dtypes in order, a cell a boundary.
static std::string formatStrip(const LedgerSection &section) {
  std::string cells;
  for (const LedgerEntry &entry : section.entries)
    if (!entry.out.empty())
      cells += std::string("<i class=\"") +
               findColour(entry.out.front().dtype) + "\" title=\"" +
               escape(entry.op + ": " + formatParts(entry.out)) + "\"></i>";
  return wrap("div", "strip", cells) + "\n";
}

static std::string formatSums(const LedgerTotals &totals) {
  std::string text = "A token: " + group(totals.roundings) +
                     " roundings to 8 bits or less, " + group(totals.switches) +
                     " changes of dtype, " + group(totals.writtenBytes) +
                     " B written";
  const char *before = " (";
  for (const auto &[dtype, bytes] : totals.written) {
    text += before + escape(dtype) + " " + group(bytes);
    before = ", ";
  }
  text += totals.written.empty() ? "" : ")";
  if (totals.cacheBytes)
    text += ", " + group(totals.cacheBytes) + " B cached";
  if (totals.movedBytes)
    text += ", " + group(totals.movedBytes) + " B to other ranks";
  text += ". Weights: " + group(totals.weightBytes) + " B";
  if (totals.weightScales)
    text += ", in them " + group(totals.weightScales) + " scales of " +
            group(totals.weightScaleBytes) + " B";
  return wrap("p", "sums", text + ".") + "\n";
}

static std::string formatSection(const LedgerSection &section) {
  std::string text = "<details class=\"section\" open><summary><h2>" +
                     escapeMarkup(escapePath(section.title)) + "</h2> " +
                     wrap("span", "layers", formatLayers(section)) +
                     "</summary>\n" + formatStrip(section) +
                     "<ol class=\"way\">\n" + kColumns;
  for (const LedgerEntry &entry : section.entries)
    text += formatBoundary(entry);
  return text + "</ol>\n" + formatSums(section.totals) + "</details>\n";
}

static std::string formatWeights(const Ledger &ledger) {
  if (ledger.weights.empty())
    return "";
  std::string text = "<details class=\"section\"><summary><h2>Loading</h2> " +
                     wrap("span", "layers",
                          group(int64_t(ledger.weights.size())) +
                              " weights, and what becomes of them") +
                     "</summary>\n<ol class=\"way\">\n";
  for (const LedgerWeight &weight : ledger.weights) {
    std::vector<std::string> rules;
    std::string steps, names;
    std::string error;
    for (const LedgerRewrite &step : weight.rewrites) {
      rules.insert(rules.end(), step.rules.begin(), step.rules.end());
      steps += wrap("span", "how", escape(step.what));
      if (step.error)
        error = formatPercent(step.error->relative) +
                wrap("span", "small", "rms " + formatPercent(step.error->rms));
    }
    for (const std::string &name : weight.tensors)
      names += "<li><code>" + escape(name) + "</code></li>";
    LedgerPart part = weight.part;
    part.name.clear();
    text += "<li>" + wrap("div", "rules", linkRules(rules)) +
            wrap("div", "op",
                 wrap("code", "slot", escape(weight.slot)) +
                     wrap("span", "small",
                          group(weight.count) +
                              (weight.count == 1 ? " time" : " times"))) +
            wrap("div", "values", formatChips({part}) + steps) +
            wrap("div", "num bytes", group(part.getBytes()) + " B") +
            wrap("div", "num error", error) +
            (names.empty() ? ""
                           : "<details class=\"more\"><summary>stored as"
                             "</summary><ul>" +
                                 names + "</ul></details>") +
            "</li>\n";
  }
  return text + "</ol>\n</details>\n";
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

static std::string formatRules(const Ledger &ledger) {
  std::set<std::string> cited;
  for (const LedgerSection &section : ledger.sections)
    for (const LedgerEntry &entry : section.entries)
      cited.insert(entry.rules.begin(), entry.rules.end());
  for (const LedgerWeight &weight : ledger.weights)
    for (const LedgerRewrite &step : weight.rewrites)
      cited.insert(step.rules.begin(), step.rules.end());
  std::string text;
  for (const RuleSection &section : getRuleSections())
    for (const Rule &rule : section.rules)
      if (cited.contains(std::string(rule.id)))
        text += "<dt id=\"" + std::string(rule.id) + "\">" +
                std::string(rule.id) + ": " + escapeMarkup(rule.title) +
                "</dt><dd>" + escapeMarkup(rule.statement) + "</dd>\n";
  if (text.empty())
    return "";
  return "<details class=\"section\"><summary><h2>Rules</h2></summary>\n"
         "<dl class=\"rulelist\">\n" +
         text + "</dl>\n</details>\n";
}

static std::string formatCards(const Ledger &ledger) {
  std::string text = "<ul class=\"cards\">\n";
  auto add = [&](const std::string &value, const std::string &what) {
    text += "<li><b>" + value + "</b><span>" + what + "</span></li>\n";
  };
  std::string dtypes;
  for (const auto &[dtype, bytes] : ledger.weightBytes)
    dtypes +=
        (dtypes.empty() ? "" : ", ") + escape(dtype) + " " + formatBytes(bytes);
  add(formatBytes(ledger.totalWeightBytes), "of weights: " + dtypes);
  if (ledger.weightScales)
    add(group(ledger.weightScales),
        "scales of weights, " + formatBytes(ledger.weightScaleBytes));
  add(group(ledger.cacheBytes) + " B",
      "of cache a token, " + formatBytes(ledger.getCacheBytes()) + " for " +
          group(ledger.maxContext) + " tokens");
  add(group(ledger.roundings),
      "roundings of a token to 8 bits or less, all layers");
  return text + "</ul>\n";
}

static const char *const kTheme =
    "<fieldset class=\"theme\"><legend>colours</legend>"
    "<label><input type=\"radio\" name=\"theme\" id=\"auto\" checked> "
    "auto</label>"
    "<label><input type=\"radio\" name=\"theme\" id=\"light\"> light</label>"
    "<label><input type=\"radio\" name=\"theme\" id=\"dark\"> dark</label>"
    "</fieldset>\n";

static const char *const kLegend =
    "<p class=\"legend\"><span class=\"chip bf\">BF16, F16</span>"
    "<span class=\"chip f8\">8 bits or less</span>"
    "<span class=\"chip f32\">F32</span>"
    "<span class=\"chip int\">integers</span> "
    "Shapes and bytes are those of one token; an error is the most that one "
    "rounding changes a value, and what it does on average (rms).</p>\n";

std::string octet::formatLedgerHtml(const Ledger &ledger) {
  std::string name = "model", facts;
  for (const auto &[key, value] : ledger.facts) {
    if (key == "architecture")
      name = value;
    facts += "<dt>" + escape(key) + "</dt><dd>" +
             escapeMarkup(escapePath(value)) + "</dd>\n";
  }
  std::string text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                     "<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, "
                     "initial-scale=1\">\n<title>Precision ledger of " +
                     escape(name) + "</title>\n<style>" + kLedgerStyle +
                     "</style>\n</head>\n<body>\n" + kTheme +
                     "<h1>Precision ledger of " + escape(name) +
                     "</h1>\n<dl class=\"facts\">\n" + facts + "</dl>\n" +
                     formatCards(ledger) + kLegend;
  for (const LedgerSection &section : ledger.sections)
    text += formatSection(section);
  return text + formatWeights(ledger) + formatRules(ledger) +
         "</body>\n</html>\n";
}
