//===- Nvrtc.cpp - CUDA C++ text to a cubin -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/Nvrtc.h"
#include "octet/CudaSource/CubinCache.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <cctype>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <unistd.h>

using namespace octet;
using namespace octet::cuda;

// The functions of nvrtc.h, which is not needed: the ABI has not changed since
// CUDA 8, GetCUBIN since 11.1.
namespace {
using Program = void *;
using Code = int; ///< nvrtcResult; 0 is success

struct Functions {
  Code (*version)(int *major, int *minor);
  const char *(*errorString)(Code);
  Code (*createProgram)(Program *, const char *source, const char *name,
                        int numHeaders, const char *const *headers,
                        const char *const *includeNames);
  Code (*destroyProgram)(Program *);
  Code (*compileProgram)(Program, int numOptions, const char *const *options);
  Code (*logSize)(Program, size_t *);
  Code (*log)(Program, char *);
  Code (*cubinSize)(Program, size_t *);
  Code (*cubin)(Program, char *);
  Code (*ptxSize)(Program, size_t *);
  Code (*ptx)(Program, char *);
};
} // namespace

struct Nvrtc::Library {
  void *handle = nullptr;
  Functions call = {};
  std::string path, version;
};

Nvrtc::Nvrtc(std::unique_ptr<Library> library) : library(std::move(library)) {}
Nvrtc::Nvrtc(Nvrtc &&) = default;
Nvrtc &Nvrtc::operator=(Nvrtc &&) = default;
// Stays open: NVRTC keeps threads and memory that do not survive dlclose.
Nvrtc::~Nvrtc() = default;

const std::string &Nvrtc::version() const { return library->version; }
const std::string &Nvrtc::path() const { return library->path; }

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

static constexpr char kLibrary[] = "libnvrtc.so.13";

static std::vector<std::string> getPlaces() {
  std::vector<std::string> places = {kLibrary};
#ifdef OCTET_NVRTC_LIBRARY
  places.push_back(OCTET_NVRTC_LIBRARY);
#endif
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *toolkit = std::getenv(variable); toolkit && *toolkit)
      places.push_back(std::string(toolkit) + "/lib64/" + kLibrary);
  if (std::string folder = getCacheFolder(); !folder.empty())
    places.push_back(folder + "/cuda-13.0/nvidia/cu13/lib/" + kLibrary);
  return places;
}

/// Fills `call`; \returns the name of a function that is not there, or nullptr.
static const char *findFunctions(void *handle, Functions &call) {
  const char *missing = nullptr;
  auto find = [&]<typename Function>(const char *name, Function &function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    if (!function)
      missing = name;
  };
  find("nvrtcVersion", call.version);
  find("nvrtcGetErrorString", call.errorString);
  find("nvrtcCreateProgram", call.createProgram);
  find("nvrtcDestroyProgram", call.destroyProgram);
  find("nvrtcCompileProgram", call.compileProgram);
  find("nvrtcGetProgramLogSize", call.logSize);
  find("nvrtcGetProgramLog", call.log);
  find("nvrtcGetCUBINSize", call.cubinSize);
  find("nvrtcGetCUBIN", call.cubin);
  find("nvrtcGetPTXSize", call.ptxSize);
  find("nvrtcGetPTX", call.ptx);
  return missing;
}

/// dlerror's text without the name that it begins with.
static std::string reasonOf(std::string text, const std::string &path) {
  if (text.starts_with(path + ": "))
    text.erase(0, path.size() + 2);
  return escapeName(text);
}

/// The loader looks for a name without a folder in its own folders alone; a
/// file of that name here is meant first.
static std::string nameForLoader(const std::string &path) {
  const bool isHere =
      path.find('/') == std::string::npos && ::access(path.c_str(), F_OK) == 0;
  return isHere ? "./" + path : path;
}

Result<Nvrtc> Nvrtc::open(const std::string &path, const std::string &hint) {
  const std::string given = nameForLoader(path);
  std::vector<std::string> places =
      path.empty() ? getPlaces() : std::vector<std::string>{given};
  auto library = std::make_unique<Library>();
  std::string looked, reason;
  for (const std::string &place : places) {
    library->handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library->handle) {
      library->path = place;
      break;
    }
    reason = ::dlerror();
    looked += (looked.empty() ? "" : ", ") + escapePath(place);
  }
  if (!library->handle)
    return path.empty()
               ? machineError(kLibrary,
                              "NVRTC of CUDA 13 compiles kernels and is not "
                              "there: looked for " +
                                  looked + "; " + hint)
               : machineError(escapePath(path), "cannot be opened as NVRTC: " +
                                                    reasonOf(reason, given));
  const std::string subject = escapePath(library->path);
  if (const char *missing = findFunctions(library->handle, library->call))
    return machineError(subject, std::string("has no function ") + missing +
                                     "; NVRTC of CUDA 13 is needed");
  int major = 0, minor = 0;
  if (library->call.version(&major, &minor) != 0 || major < 13)
    return machineError(subject, "is NVRTC " + std::to_string(major) + "." +
                                     std::to_string(minor) +
                                     "; 13.0 or newer is needed");
  library->version = std::to_string(major) + "." + std::to_string(minor);
  return Nvrtc(std::move(library));
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

std::vector<std::string> octet::cuda::getNvrtcOptions(std::string_view target) {
  // Nothing is read from the folder that happens to be the current one.
  return {"--gpu-architecture=" + std::string(target), "--std=c++20",
          "--no-source-include", "--disable-warnings"};
}

/// A target without suffix: its PTX runs on newer devices.
static bool isPortable(std::string_view target) {
  return !target.empty() &&
         std::isdigit(static_cast<unsigned char>(target.back()));
}

std::string octet::cuda::keepSource(std::string_view name,
                                    std::string_view source) {
  std::error_code ec;
  std::filesystem::path folder = std::filesystem::temp_directory_path(ec);
  if (ec)
    return "";
  std::string path = (folder / ("octet-" + std::to_string(::getpid()) + "-" +
                                std::string(name) + ".cu"))
                         .string();
  std::span<const std::byte> piece(
      reinterpret_cast<const std::byte *>(source.data()), source.size());
  return writeFile(path, {&piece, 1}).ok() ? path : "";
}

Result<CompiledKernel> Nvrtc::compile(std::string_view name,
                                      std::string_view source,
                                      std::string_view target) const {
  const Functions &call = library->call;
  std::vector<Template> templates = findIncluded(source);
  // The table's texts end with a NUL.
  std::vector<const char *> texts, names;
  for (const Template &each : templates) {
    texts.push_back(each.text.data());
    names.push_back(each.name.data());
  }
  std::vector<std::string> options = getNvrtcOptions(target);
  std::vector<const char *> pointers;
  for (const std::string &option : options)
    pointers.push_back(option.c_str());

  Program program = nullptr;
  const std::string text(source), file = std::string(name) + ".cu";
  Code code = call.createProgram(&program, text.c_str(), file.c_str(),
                                 int(texts.size()), texts.data(), names.data());
  if (code == 0)
    code = call.compileProgram(program, int(pointers.size()), pointers.data());
  CompiledKernel kernel;
  auto get = [&](auto sizeOf, auto read, std::string &out) {
    size_t size = 0;
    if (code == 0)
      code = sizeOf(program, &size);
    out.resize(size);
    if (code == 0 && size > 0)
      code = read(program, out.data());
  };
  std::string log;
  size_t logSize = 0;
  if (code != 0 && program && call.logSize(program, &logSize) == 0 &&
      logSize > 1) {
    log.resize(logSize);
    if (call.log(program, log.data()) != 0)
      log.clear();
    log.resize(std::min(log.find('\0'), log.size()));
  }
  get(call.cubinSize, call.cubin, kernel.cubin);
  if (isPortable(target)) {
    get(call.ptxSize, call.ptx, kernel.ptx);
    while (!kernel.ptx.empty() && kernel.ptx.back() == '\0')
      kernel.ptx.pop_back();
  }
  if (program)
    call.destroyProgram(&program);
  if (code == 0)
    return kernel;

  Status failed =
      internalError(std::string(name),
                    "NVRTC " + library->version + " does not compile it for " +
                        std::string(target) + ": " + call.errorString(code));
  // One note a line of the log.
  for (size_t at = 0; at < log.size();) {
    size_t end = std::min(log.find('\n', at), log.size());
    if (end > at)
      failed.note(log.substr(at, end - at));
    at = end + 1;
  }
  return failed.takeInfo();
}
