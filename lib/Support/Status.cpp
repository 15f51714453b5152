//===- Status.cpp - Errors as values --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Status.h"

using namespace octet;

std::string ErrorInfo::format() const {
  std::string text = "error: ";
  if (!subject.empty())
    text += subject + ": ";
  text += message;
  if (!rule.empty())
    text += " [" + rule + "]";
  text += '\n';
  // Two blanks, so that the notes' text lines up with the error's.
  for (const std::string &note : notes)
    text += "note:  " + note + '\n';
  return text;
}

static Status makeError(ErrorKind kind, std::string subject,
                        std::string message, std::string rule = "") {
  ErrorInfo info;
  info.kind = kind;
  info.subject = std::move(subject);
  info.message = std::move(message);
  info.rule = std::move(rule);
  return Status(std::move(info));
}

Status octet::inputError(std::string subject, std::string message,
                         std::string rule) {
  return makeError(ErrorKind::Input, std::move(subject), std::move(message),
                   std::move(rule));
}

Status octet::usageError(std::string subject, std::string message) {
  return makeError(ErrorKind::Usage, std::move(subject), std::move(message));
}

Status octet::machineError(std::string subject, std::string message) {
  return makeError(ErrorKind::Machine, std::move(subject), std::move(message));
}

Status octet::internalError(std::string subject, std::string message) {
  return makeError(ErrorKind::Internal, std::move(subject),
                   "internal error: " + std::move(message));
}
