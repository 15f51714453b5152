//===- InstanceJson.h - Launches as JSON and as the ABI's structs -*- C++ -*-=//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a launch travels in the payload of a stand-alone kernel executable, which
// has no host program: as JSON, turned into octet_launch when it starts.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_INSTANCEJSON_H
#define OCTET_CUDASOURCE_INSTANCEJSON_H

#include "octet/CudaSource/Instance.h"
#include "octet/Support/Status.h"
#include "runtime/abi.h"
#include <deque>
#include <map>
#include <nlohmann/json_fwd.hpp>

namespace octet::cuda {

/// All of a launch but the sources; an instance is found by its entry.
nlohmann::json toJson(const KernelLaunch &launch);

/// The opposite; \returns an input error naming `subject` and the field that is
/// missing or of another type.
Result<KernelLaunch> launchFromJson(const nlohmann::json &json,
                                    const std::string &subject);

/// octet_launch of a KernelLaunch, with everything that it points to.
class AbiLaunch {
public:
  /// \param images  row of octet_program.images of each entry; all entries of
  ///                the launch have one.
  AbiLaunch(const KernelLaunch &launch,
            const std::map<std::string, int32_t> &images);
  AbiLaunch(const AbiLaunch &) = delete;
  AbiLaunch &operator=(const AbiLaunch &) = delete;

  const octet_launch &get() const { return launch; }

private:
  KernelLaunch source; ///< its strings
  std::deque<std::vector<octet_param>> params;
  std::deque<std::vector<octet_kernel>> kernels;
  std::vector<octet_variant> variants;
  octet_launch launch{};
};

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_INSTANCEJSON_H
