//===- Program.cpp - A compiled program in memory -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Program.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/cuda/Targets.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Info
//===----------------------------------------------------------------------===//

namespace {
/// Reads typed fields of the info object and keeps the first complaint.
class InfoReader {
public:
  InfoReader(const json &object, std::string subject, std::string where = "")
      : object(object), subject(std::move(subject)), where(std::move(where)) {}

  std::string text(const char *key, bool required = true) {
    const json *v = get(key, required);
    if (!v)
      return "";
    if (v->is_string())
      return v->get<std::string>();
    complain(key, "not a string");
    return "";
  }
  /// An integer in [low, high]; `otherwise` if absent and not required.
  int64_t integer(const char *key, int64_t low, int64_t high) {
    const json *v = get(key, true);
    return v ? toInteger(key, *v, low, high) : low;
  }
  /// One id, a list of ids, or nothing.
  std::vector<int64_t> ids(const char *key) {
    std::vector<int64_t> result;
    const json *v = get(key, false);
    if (!v || v->is_null())
      return result;
    if (!v->is_array())
      return {toInteger(key, *v, 0, INT32_MAX)};
    for (const json &id : *v)
      result.push_back(toInteger(key, id, 0, INT32_MAX));
    return result;
  }
  const json *get(const char *key, bool required) {
    auto it = object.find(key);
    if (it != object.end())
      return &*it;
    if (required)
      complain(key, "missing");
    return nullptr;
  }
  int64_t toInteger(const char *key, const json &v, int64_t low, int64_t high) {
    // Unsigned values above INT64_MAX would wrap in get<int64_t>.
    bool fits = v.is_number_unsigned()
                    ? v.get<uint64_t>() <= uint64_t(INT64_MAX)
                    : v.is_number_integer();
    if (fits && v.get<int64_t>() >= low && v.get<int64_t>() <= high)
      return v.get<int64_t>();
    complain(key, "not an integer from " + std::to_string(low) + " to " +
                      std::to_string(high));
    return low;
  }
  void complain(const char *key, std::string what) {
    if (status.ok())
      status = inputError(subject, "program info: '" + where + key + "' is " +
                                       std::move(what));
  }
  Status status;

private:
  const json &object;
  std::string subject, where;
};
} // namespace

/// `[[name, dtype, shape], …]`.
std::string ProgramTensor::describe() const {
  TensorInfo info{};
  info.type = type;
  info.shape = shape;
  info.packing = packing;
  return info.describe();
}

static Status parseTensors(const json &list, const std::string &subject,
                           std::vector<ProgramTensor> &out) {
  auto bad = [&](size_t i, const char *what) {
    return inputError(subject, "program info: 'tensors[" + std::to_string(i) +
                                   "]' " + what);
  };
  if (!list.is_array())
    return inputError(subject, "program info: 'tensors' is not a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const json &row = list[i];
    if (!row.is_array() || row.size() != 3 || !row[0].is_string() ||
        !row[1].is_string() || !row[2].is_array())
      return bad(i, "is not [name, dtype, shape]");
    const auto name = row[1].get<std::string>();
    auto type = parseStoredType(name);
    auto packing = parsePacking(name);
    if (packing && staysPacked(*packing))
      type = StoredType::F32;
    if (!type)
      return bad(i, "has an unknown dtype");
    std::vector<int64_t> shape;
    for (const json &side : row[2]) {
      if (!side.is_number_unsigned() ||
          side.get<uint64_t>() > uint64_t(INT64_MAX))
        return bad(i, "has a side that is no size");
      shape.push_back(side.get<int64_t>());
    }
    if (!checkedProduct(shape))
      return bad(i, "has a shape that overflows");
    if (packing &&
        (shape.size() != 2 || shape[1] % packedBlockElements(*packing)))
      return bad(i, "is packed and no matrix of whole blocks");
    out.push_back({row[0].get<std::string>(), *type, std::move(shape),
                   packing.value_or(Packing::None)});
  }
  return Status::success();
}

static std::optional<int32_t> kvElementType(const std::string &name) {
  if (name == "f32")
    return OCTET_F32;
  if (name == "bf16")
    return OCTET_BF16;
  if (name == "f16")
    return OCTET_F16;
  if (name == "fp8_e4m3")
    return OCTET_E4M3;
  return std::nullopt;
}

Result<ProgramInfo> rt::parseProgramInfo(std::string_view text,
                                         const std::string &subject) {
  OCTET_TRY_ASSIGN(json parsed, parseJson(text, subject));
  if (!parsed.is_object())
    return inputError(subject, "program info is not a JSON object");
  constexpr int64_t kMaxWidth = int64_t(1) << 31; // ids and slots are int32

  ProgramInfo info;
  InfoReader in(parsed, subject);
  info.target = in.text("target");
  info.numerics = in.text("numerics", /*required=*/false);
  info.dtype = in.text("dtype");
  info.architecture = in.text("architecture", /*required=*/false);
  info.checkpoint = in.text("checkpoint", /*required=*/false);
  info.hash = in.text("hash");
  std::string kind = in.text("kind");
  OCTET_TRY(in.status);
  if (kind != "model" && kind != "module")
    return inputError(subject, "program info: 'kind' is " + quoteName(kind) +
                                   ", not 'model' or 'module'");
  info.isModule = kind == "module";
  if (const json *tensors = in.get("tensors", true))
    OCTET_TRY(parseTensors(*tensors, subject, info.tensors));

  if (info.isModule) {
    const json *module = in.get("module", true);
    if (!module || !module->is_object())
      return inputError(subject, "program info: 'module' is not an object");
    InfoReader m(*module, subject, "module.");
    info.modulePath = m.text("path");
    info.moduleIn = m.integer("in", 1, kMaxWidth);
    info.moduleOut = m.integer("out", 1, kMaxWidth);
    OCTET_TRY(m.status);
  } else {
    info.vocab = in.integer("vocab", 1, kMaxWidth);
  }
  info.bos = in.ids("bos");
  info.eos = in.ids("eos");

  if (const json *kv = in.get("kv", false); kv && !kv->is_null()) {
    if (!kv->is_object())
      return inputError(subject, "program info: 'kv' is not an object");
    InfoReader k(*kv, subject, "kv.");
    info.kv.layers = k.integer("layers", 0, 1 << 20);
    info.kv.kvHeads = k.integer("kv_heads", 1, 1 << 20);
    info.kv.headDim = k.integer("head_dim", 1, 1 << 20);
    std::string type = k.text("type");
    OCTET_TRY(k.status);
    if (auto t = kvElementType(type))
      info.kv.type = *t;
    else
      return inputError(subject, "program info: 'kv.type' is " +
                                     quoteName(type) +
                                     ", not f32, bf16, f16 or fp8_e4m3 [P7a]");
  }

  const json *limits = in.get("limits", true);
  if (!limits || !limits->is_object())
    return inputError(subject, "program info: 'limits' is not an object");
  InfoReader l(*limits, subject, "limits.");
  info.maxContext = l.integer("max_context", 1, kMaxWidth - 1);
  info.maxSeqs = l.integer("max_seqs", 1, 1 << 20);
  info.maxStepTokens = l.integer("max_step_tokens", 1, kMaxWidth - 1);
  OCTET_TRY(l.status);
  if (const json *traces = in.get("traces", false);
      traces && traces->is_array())
    for (const json &name : *traces)
      if (name.is_string())
        info.traces.push_back(name.get<std::string>());
  if (parsed.contains("driver"))
    info.driver = int(in.integer("driver", 0, 1 << 20));
  OCTET_TRY(in.status);
  info.json = std::move(parsed);
  return info;
}

//===----------------------------------------------------------------------===//
// The shared object
//===----------------------------------------------------------------------===//

static Status writeAll(int fd, std::span<const std::byte> data,
                       const std::string &subject) {
  while (!data.empty()) {
    ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return machineError(subject, std::string("cannot map the program: ") +
                                       std::strerror(errno));
    data = data.subspan(n);
  }
  return Status::success();
}

/// dlopen takes a path. Anonymous memory has one below /proc; where that is not
/// mounted (a bare root), a temporary file is opened and removed at once.
Result<ProgramImage> ProgramImage::load(std::span<const std::byte> image,
                                        const std::string &subject) {
  std::string name;
  bool isFile = false;
  int fd = memfd_create("octet-program", MFD_CLOEXEC);
  if (fd >= 0) {
    name = "/proc/self/fd/" + std::to_string(fd);
    if (access(name.c_str(), R_OK) != 0) {
      close(fd);
      fd = -1;
    }
  }
  if (fd < 0) {
    const char *folder = getenv("TMPDIR");
    name = std::string(folder && *folder ? folder : "/tmp") +
           "/octet-program-XXXXXX";
    fd = mkostemp(name.data(), O_CLOEXEC);
    isFile = true;
  }
  if (fd < 0)
    return machineError(subject, "cannot map the program: neither /proc nor " +
                                     name +
                                     " can be used: " + std::strerror(errno));
  Status written = writeAll(fd, image, subject);
  void *handle = nullptr;
  std::string why;
  if (written.ok()) {
    handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *text = dlerror();
      why = text ? text : "unknown reason";
    }
  }
  if (isFile)
    unlink(name.c_str());
  // The loader knows objects by path: the number of a loaded one stays taken
  // until it is unloaded, or a second program would be taken for the first.
  if (isFile || !handle) {
    close(fd);
    fd = -1;
  }
  OCTET_TRY(written);
  if (!handle)
    return inputError(subject,
                      "the program cannot be loaded: " + escapeName(why));
  return ProgramImage(handle, fd);
}

ProgramImage::ProgramImage(ProgramImage &&o) noexcept
    : handle(std::exchange(o.handle, nullptr)), fd(std::exchange(o.fd, -1)) {}

ProgramImage &ProgramImage::operator=(ProgramImage &&o) noexcept {
  std::swap(handle, o.handle);
  std::swap(fd, o.fd);
  return *this;
}

ProgramImage::~ProgramImage() {
  if (handle)
    dlclose(handle);
  if (fd >= 0)
    close(fd);
}

const void *ProgramImage::find(const char *symbol) const {
  return dlsym(handle, symbol);
}

/// The section of the program that fits this machine; of several the one whose
/// target does. The section `targets` lists them, by commas.
/// \param targets  gets the list; stays empty where there is one program.
static Result<std::span<const std::byte>>
findProgram(const Payload &payload, std::vector<std::string> &targets) {
  std::string name = "program";
  if (auto list = payload.section("targets")) {
    targets.emplace_back();
    for (std::byte each : *list)
      if (char(each) == ',')
        targets.emplace_back();
      else
        targets.back() += char(each);
    size_t chosen = cu::chooseTarget(targets, cu::probeCapability());
    if (chosen > 0)
      name += "." + std::to_string(chosen);
  }
  if (auto image = payload.section(name))
    return *image;
  return inputError(payload.path(),
                    "the payload has no section '" + name + "'");
}

std::string Program::heldTargets() const {
  std::string text;
  for (const std::string &target : targets)
    text += (text.empty() ? "" : ", ") + escapeName(target);
  return text;
}

Result<std::shared_ptr<const Program>> Program::load(const Payload &payload) {
  const std::string &subject = payload.path();
  std::vector<std::string> targets;
  OCTET_TRY_ASSIGN(std::span<const std::byte> image,
                   findProgram(payload, targets));
  OCTET_TRY_ASSIGN(ProgramImage loaded, ProgramImage::load(image, subject));
  std::shared_ptr<Program> program(new Program(std::move(loaded)));
  program->path = subject;
  program->abi = static_cast<const octet_program_t *>(
      program->image.find("octet_program"));
  if (!program->abi)
    return inputError(subject, "the program exports no 'octet_program'");
  const octet_program_t &abi = *program->abi;
  if (abi.abi_version != OCTET_ABI_VERSION)
    return inputError(subject, "the program has ABI version " +
                                   std::to_string(abi.abi_version) +
                                   ", this runner has " +
                                   std::to_string(OCTET_ABI_VERSION) +
                                   "; compile again with the same Octet");
  if (!abi.info || abi.info_bytes <= 0 || abi.info_bytes > kMaxJsonBytes ||
      !abi.load || !abi.step || abi.arena_bytes < 0 || abi.num_weights < 0)
    return inputError(subject, "'octet_program' has a field without sense "
                               "(info, load, step, arena_bytes, num_weights)");
  OCTET_TRY_ASSIGN(
      program->info,
      parseProgramInfo({abi.info, size_t(abi.info_bytes)}, subject));
  program->targets = targets.empty()
                         ? std::vector<std::string>{program->info.target}
                         : std::move(targets);
  return std::shared_ptr<const Program>(std::move(program));
}
