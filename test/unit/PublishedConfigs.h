//===- PublishedConfigs.h - configs/ of OCTET_SHARED_DIR --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_PUBLISHEDCONFIGS_H
#define OCTET_TEST_UNIT_PUBLISHEDCONFIGS_H

#include "octet/Modules/ModuleList.h"
#include <filesystem>
#include <map>

namespace octet {

/// OCTET_SHARED_DIR/configs, or nothing where there is none.
inline std::filesystem::path findPublishedConfigs() {
#ifdef OCTET_SHARED_DIR
  std::filesystem::path folder =
      std::filesystem::path(OCTET_SHARED_DIR) / "configs";
  if (std::filesystem::is_directory(folder))
    return folder;
#endif
  return {};
}

/// The file as JSON; null where there is no such file.
inline nlohmann::json readPublished(const std::filesystem::path &path) {
  if (!std::filesystem::exists(path))
    return nullptr;
  Result<nlohmann::json> read = readJsonFile(path.string());
  return read ? read.take() : nlohmann::json();
}

/// The decisions of one config, all modules.
struct Decisions {
  ModuleList list;
  std::optional<QuantConfig> config;
  std::vector<Declaration> declarations; ///< by module of the list

  /// The registry name, "unquantized" without a config.
  std::string getMethod() const {
    return config ? config->method : "unquantized";
  }
};

/// Reads config.json and its sidecar and decides each module, as a target of
/// `--target` would.
inline Result<Decisions> decide(const nlohmann::json &config,
                                const nlohmann::json &sidecar,
                                const Target &target, bool textPart = false) {
  Decisions result;
  OCTET_TRY_ASSIGN(result.list, listModules(config, textPart));
  OCTET_TRY_ASSIGN(std::optional<FoundConfig> found,
                   findQuantConfig(config, sidecar));
  OCTET_TRY_ASSIGN(result.config, readQuantConfig(found ? &*found : nullptr, "",
                                                  target, Purpose::Describe));
  result.declarations.resize(result.list.modules.size());
  if (!result.config)
    return result;
  for (NameList *names : result.config->getLists())
    names->addAliases(result.list.aliases);
  for (size_t i = 0; i < result.declarations.size(); ++i) {
    const ModuleEntry &module = result.list.modules[i];
    OCTET_TRY_ASSIGN(result.declarations[i],
                     declareKind(*result.config, module.getPath(0),
                                 module.fused, module.kind));
  }
  return result;
}

} // namespace octet

#endif // OCTET_TEST_UNIT_PUBLISHEDCONFIGS_H
