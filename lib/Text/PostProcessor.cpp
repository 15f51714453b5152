//===- PostProcessor.cpp - Special tokens around a text -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PostProcessor.h"
#include "Fields.h"
#include "Vocabulary.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"

using namespace octet;
using namespace octet::text;
using nlohmann::json;

static constexpr char kKnown[] = "Sequence, TemplateProcessing, ByteLevel, "
                                 "BertProcessing and RobertaProcessing";

Result<PostProcessor> PostProcessor::read(const json &component,
                                          const std::string &subject) {
  PostProcessor result;
  if (component.is_null())
    return result;
  const std::string where = subject + ": post_processor";
  OCTET_TRY_ASSIGN(std::vector<Component> components,
                   readComponents(component, "processors", where));
  for (const Component &each : components)
    OCTET_TRY(result.add(*each.fields, each.type, where));
  return result;
}

static Result<int32_t> readId(const json &value, const std::string &where) {
  if (!value.is_number_integer() || value < 0 || value >= kMaxId)
    return inputError(where, escapeName(dumpJson(value)) +
                                 " is not a token id; ids are 0 to " +
                                 std::to_string(kMaxId - 1));
  return value.get<int32_t>();
}

/// `"cls": ["<s>", 0]`.
static Result<int32_t> readPair(const json &component, const char *key,
                                const std::string &where) {
  OCTET_TRY_ASSIGN(const json *pair, listField(component, key, where));
  if (pair->size() != 2)
    return inputError(where, "field '" + std::string(key) + "' has " +
                                 std::to_string(pair->size()) +
                                 " entries; expected [token, id]");
  return readId((*pair)[1], where);
}

Status PostProcessor::add(const json &component, const std::string &type,
                          const std::string &where) {
  if (type == "ByteLevel")
    return Status::success(); // Only moves offsets.
  if (type == "TemplateProcessing")
    return addTemplate(component, where);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    OCTET_TRY_ASSIGN(int32_t cls, readPair(component, "cls", where));
    OCTET_TRY_ASSIGN(int32_t sep, readPair(component, "sep", where));
    steps.push_back({{cls}, {sep}});
    return Status::success();
  }
  return unsupportedType(where, type, kKnown);
}

Status PostProcessor::addTemplate(const json &component,
                                  const std::string &where) {
  OCTET_TRY_ASSIGN(const json *single, listField(component, "single", where));
  const json *specials = field(component, "special_tokens");
  Step step;
  bool seen = false;
  for (const json &entry : *single) {
    if (const json *sequence = field(entry, "Sequence")) {
      OCTET_TRY_ASSIGN(std::string id, stringField(*sequence, "id", where));
      if (id != "A" || seen)
        return inputError(where, "the template 'single' is " +
                                     escapeName(dumpJson(*single)) +
                                     "; it must have Sequence 'A' once and no "
                                     "other");
      seen = true;
      continue;
    }
    const json *special = field(entry, "SpecialToken");
    if (!special)
      return inputError(where, "the template 'single' has " +
                                   escapeName(dumpJson(entry)) +
                                   "; expected a Sequence or a SpecialToken");
    OCTET_TRY_ASSIGN(std::string name, stringField(*special, "id", where));
    const json *token = specials ? field(*specials, name.c_str()) : nullptr;
    if (!token)
      return inputError(where, "the template's token " + quoteName(name) +
                                   " is not in 'special_tokens'");
    OCTET_TRY_ASSIGN(const json *ids, listField(*token, "ids", where));
    for (const json &value : *ids) {
      OCTET_TRY_ASSIGN(int32_t id, readId(value, where));
      (seen ? step.after : step.before).push_back(id);
    }
  }
  if (!seen)
    return inputError(where, "the template 'single' has no Sequence 'A'");
  steps.push_back(std::move(step));
  return Status::success();
}

void PostProcessor::apply(std::vector<int32_t> &ids) const {
  for (const Step &step : steps) {
    ids.insert(ids.begin(), step.before.begin(), step.before.end());
    ids.insert(ids.end(), step.after.begin(), step.after.end());
  }
}

std::vector<int32_t> PostProcessor::added() const {
  std::vector<int32_t> ids;
  for (const Step &step : steps) {
    ids.insert(ids.end(), step.before.begin(), step.before.end());
    ids.insert(ids.end(), step.after.begin(), step.after.end());
  }
  return ids;
}
