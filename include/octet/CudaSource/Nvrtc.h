//===- Nvrtc.h - CUDA C++ text to a cubin -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVRTC is opened when the first kernel is compiled, so that everything else
// works without it. It gets the templates of runtime/kernels/cuda as headers in
// memory and needs no file of a toolkit. Nothing here includes LLVM: an
// executable compiles with it for a device that it has no cubin for.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_NVRTC_H
#define OCTET_CUDASOURCE_NVRTC_H

#include "octet/Support/Status.h"
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet::cuda {

/// A file of runtime/kernels/cuda; `name` is relative to that folder.
struct Template {
  std::string_view name;
  std::string_view text;
};

/// All of them, by name.
std::span<const Template> getTemplates();

/// The templates that `source` includes, directly or not, by name. What it
/// includes and is no template is left to NVRTC to complain about.
std::vector<Template> findIncluded(std::string_view source);

/// What becomes of one source.
struct CompiledKernel {
  std::string cubin;
  /// For newer devices; empty for targets with a suffix (`sm_90a`), whose PTX
  /// runs nowhere else.
  std::string ptx;
};

/// The compiler's options for a target, `sm_90a`.
std::vector<std::string> getNvrtcOptions(std::string_view target);

/// Writes a source that does not compile to the folder for temporary files.
/// \returns where; empty if it cannot be written.
std::string keepSource(std::string_view name, std::string_view source);

class Nvrtc {
public:
  /// Opens the library: `path` if it is not empty, else libnvrtc.so.13 as the
  /// loader finds it, of the toolkit that the build found, of CUDA_HOME or
  /// CUDA_PATH, or of the wheel that `tools/dev setup` installs.
  /// \param hint  what provides it, for the error.
  /// \returns a machine error that says where was looked.
  static Result<Nvrtc>
  open(const std::string &path = "",
       const std::string &hint = "an installed toolkit, 'tools/dev setup' or "
                                 "--nvrtc FILE provides it");

  Nvrtc(Nvrtc &&);
  Nvrtc &operator=(Nvrtc &&);
  ~Nvrtc();

  /// "13.0".
  const std::string &version() const;
  /// The file that was opened.
  const std::string &path() const;

  /// Compiles one source. May be called by several threads at once.
  /// \param name  of the kernel, for the log.
  /// \returns an internal error with NVRTC's log.
  Result<CompiledKernel> compile(std::string_view name, std::string_view source,
                                 std::string_view target) const;

private:
  struct Library;
  explicit Nvrtc(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library;
};

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_NVRTC_H
