//===- ProgramInfo.cpp - What a program says of itself --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The info JSON of runtime/README.md. Facts of the checkpoint come from the
// module attribute `model.info` of the import; the rest is read off the IR, so
// that it says what was compiled and not what was asked for.
//
//===----------------------------------------------------------------------===//

#include "HostLowering.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "octet/Support/Checked.h"
#include <nlohmann/json.hpp>

using namespace mlir;
using namespace octet;
using namespace octet::host;
using nlohmann::ordered_json;

/// An attribute of `model.info` as JSON; null for a kind that has none.
static ordered_json toJson(Attribute attribute) {
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.getValue().str();
  if (auto flag = dyn_cast<BoolAttr>(attribute))
    return flag.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getInt();
  if (auto real = dyn_cast<FloatAttr>(attribute))
    return real.getValueAsDouble();
  if (auto list = dyn_cast<ArrayAttr>(attribute)) {
    ordered_json out = ordered_json::array();
    for (Attribute element : list)
      out.push_back(toJson(element));
    return out;
  }
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute))
    return std::vector<int64_t>(list.asArrayRef());
  if (auto fields = dyn_cast<DictionaryAttr>(attribute)) {
    ordered_json out = ordered_json::object();
    for (NamedAttribute field : fields)
      out[field.getName().str()] = toJson(field.getValue());
    return out;
  }
  return nullptr;
}

static std::string textOf(Type type) {
  if (type.isF32())
    return "f32";
  if (type.isBF16())
    return "bf16";
  return type.isF16() ? "f16" : "fp8_e4m3";
}

/// A dtype as safetensors spells it.
static std::string storedName(Type tensor) {
  if (auto packed = dyn_cast<q::TensorType>(tensor))
    return packed.getGgufName().str();
  Type type = cast<RankedTensorType>(tensor).getElementType();
  if (type.isF32())
    return "F32";
  if (type.isBF16())
    return "BF16";
  if (type.isF16())
    return "F16";
  if (isa<Float8E4M3FNType>(type))
    return "F8_E4M3";
  if (isa<Float8E5M2Type>(type))
    return "F8_E5M2";
  if (isa<Float8E8M0FNUType>(type))
    return "F8_E8M0";
  if (isa<Float8E4M3FNUZType>(type))
    return "F8_E4M3FNUZ";
  if (isa<Float8E5M2FNUZType>(type))
    return "F8_E5M2FNUZ";
  if (type.isUnsignedInteger(8))
    return "U8";
  if (type.isSignlessInteger(8))
    return "I8";
  return type.isInteger(32) ? "I32" : "";
}

/// "f8E4M3FN block<128x128>, f32 scales", or "bf16".
static std::string describe(Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto quantized = dyn_cast<q::TensorType>(type);
  if (quantized && quantized.isGguf()) {
    os << quantized.getGgufName() << ", " << quantized.getElementType()
       << " group<" << quantized.getGranularity().getBlockK() << ">, "
       << quantized.getScaleType() << " scales";
    if (quantized.getOffset() != q::Offset::None)
      os << " and " << q::stringifyOffset(quantized.getOffset());
  } else if (quantized) {
    q::GranularityAttr granularity = quantized.getGranularity();
    os << quantized.getElementType() << ' '
       << q::stringifyGranularityKind(granularity.getKind());
    if (granularity.isBlock())
      os << '<' << granularity.getBlockN() << 'x' << granularity.getBlockK()
         << '>';
    if (granularity.isGroup())
      os << '<' << granularity.getBlockK() << '>';
    os << ", " << quantized.getScaleType() << " scales";
    if (quantized.getGlobal() != q::GlobalScale::None)
      os << " below one of the tensor";
    if (quantized.getOffset() != q::Offset::None)
      os << " and " << q::stringifyOffset(quantized.getOffset());
    if (quantized.getActOrder())
      os << ", act_order";
  } else {
    os << cast<RankedTensorType>(type).getElementType();
  }
  return text;
}

static ordered_json makeDecisions(ModuleOp module) {
  ordered_json decisions = ordered_json::array();
  module.walk([&](kernel::GemmOp gemm) {
    auto method = gemm->getAttrOfType<q::MethodAttr>("method");
    decisions.push_back(
        {{"module", gemm.getModule().str()},
         {"method", method ? method.getName().str() : "unquantized"},
         {"weight", describe(gemm.getWeight().getType())},
         {"activation",
          describe(kernel::getValueType(gemm.getInput().getType()))},
         {"kernel", gemm.getKernel().str()}});
  });
  module.walk([&](kernel::AttentionOp attention) {
    decisions.push_back(
        {{"module", attention.getModule().str()},
         {"method", "attention"},
         {"weight",
          "KV cache " +
              q::stringifyKvLayout(attention.getCache().getType().getLayout())
                  .str()},
         {"activation",
          describe(kernel::getValueType(attention.getQ().getType()))},
         {"kernel", attention.getKernel().str()}});
  });
  return decisions;
}

/// The cache's rows, or null. All layers share one geometry in abi.h.
static FailureOr<ordered_json> makeKv(ModuleOp module, int64_t layers) {
  q::KvType type;
  int64_t last = -1;
  bool isVariable = false;
  WalkResult walked = module.walk([&](q::KvCacheOp cache) {
    if (type && cache.getType() != type) {
      cache.emitError() << "a layer's cache is " << cache.getType()
                        << ", another's " << type
                        << "; the runtime keeps one kind [P7]";
      return WalkResult::interrupt();
    }
    type = cache.getType();
    if (std::optional<int64_t> layer = getConstantIntValue(cache.getLayer()))
      last = std::max(last, *layer);
    else
      isVariable = true;
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  if (!type)
    return ordered_json();
  return ordered_json{
      {"layers", isVariable ? std::max(layers, last + 1) : last + 1},
      {"kv_heads", type.getHeads()},
      {"head_dim", type.getDim()},
      {"type", textOf(type.getElementType())}};
}

FailureOr<std::string> octet::host::makeInfo(ModuleOp module,
                                             ArrayRef<TensorRow> tensors) {
  model::SettingsAttr settings = model::getSettings(module);
  auto facts = module->getAttrOfType<DictionaryAttr>("model.info");
  if (!settings || !facts)
    return module.emitError() << "the module has no "
                              << (settings ? "model.info" : "model.settings")
                              << "; import writes both";
  ordered_json info;
  info["octet"] = OCTET_VERSION;
  info["target"] = settings.getTarget().str();
  info["numerics"] = settings.getNumerics().str();
  info["dtype"] = textOf(settings.getDtype());
  // Cubins of any 13.x load on the drivers of 13.0.
  if (auto nvrtc = module->getAttrOfType<StringAttr>("kernel.nvrtc")) {
    int64_t major = 0;
    nvrtc.getValue().split('.').first.getAsInteger(10, major);
    info["nvrtc"] = nvrtc.str();
    info["driver"] = 1000 * major;
  }
  for (NamedAttribute fact : facts)
    info[fact.getName().str()] = toJson(fact.getValue());
  auto layers = dyn_cast_or_null<IntegerAttr>(facts.get("layers"));
  FailureOr<ordered_json> kv = makeKv(module, layers ? layers.getInt() : 0);
  if (failed(kv))
    return failure();
  if (!kv->is_null())
    info["kv"] = *kv;
  info["limits"] = {{"max_context", settings.getMaxContext()},
                    {"max_seqs", settings.getMaxSeqs()},
                    {"max_step_tokens", settings.getMaxStepTokens()}};
  ordered_json traces = ordered_json::array();
  module.walk([&](kernel::TraceOp trace) {
    std::string name = trace.getName().str();
    if (llvm::find(traces, ordered_json(name)) == traces.end())
      traces.push_back(name);
  });
  info["traces"] = traces;
  info["decisions"] = makeDecisions(module);
  if (auto memory = module->getAttrOfType<DictionaryAttr>("model.memory"))
    info["memory"] = toJson(memory);

  ordered_json table = ordered_json::array();
  for (const TensorRow &row : tensors) {
    std::string type = storedName(row.type);
    auto packed = dyn_cast<q::TensorType>(row.type);
    ArrayRef<int64_t> shape = packed
                                  ? packed.getShape()
                                  : cast<RankedTensorType>(row.type).getShape();
    if (type.empty())
      return module.emitError() << "tensor '" << row.name << "' has type "
                                << row.type << ", which no file stores";
    table.push_back({row.name, type, std::vector<int64_t>(shape)});
  }
  info["tensors"] = table;
  // A name from a file may hold anything; what is no UTF-8 is replaced.
  return info.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}
