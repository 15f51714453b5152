//===- Decoder.cpp - A decoder as IR --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/QuantAttrs/QuantAttrs.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace octet;

namespace {

constexpr llvm::StringLiteral kLayerPrefix = "model.layers.{l}.";

/// Builds operators at an insertion point. Paths inside a layer are patterns
/// with `{l}`, whose operand is `layer`.
class DecoderBuilder {
public:
  DecoderBuilder(ModuleOp module, const DecoderConfig &config,
                 const DecoderOptions &options)
      : module(module), config(config), options(options),
        builder(module.getContext()) {}

  void buildModel(const ModelFacts &facts);
  void buildExtracted(const ExtractedModule &extracted, const LayerFacts *layer,
                      const LinearFacts *lmHead);

private:
  MLIRContext *context() { return builder.getContext(); }
  RankedTensorType rows(int64_t width, Type element = {}) {
    return RankedTensorType::get({ShapedType::kDynamic, width},
                                 element ? element : options.dtype);
  }
  RankedTensorType indices() {
    return RankedTensorType::get({ShapedType::kDynamic}, builder.getI32Type());
  }
  StringAttr text(const Twine &value) { return builder.getStringAttr(value); }
  /// Module path and file, fused.
  Location at(StringRef path, StringRef file);
  std::string inLayer(StringRef name) { return (kLayerPrefix + name).str(); }

  Value index(int64_t value);
  Value field(model::Field which, Type type);
  Value weight(StringRef path, StringRef name, const StoredTensors &stored,
               StringRef declared, StringRef file);
  Value norm(Value input, StringRef path, const StoredTensor &stored,
             int64_t heads, StringRef file);
  Value linear(Value input, const LinearFacts &facts, bool fused = true);
  Value attention(Value input, const LayerFacts &facts);
  Value mlp(Value input, const LayerFacts &facts);
  Value lmHead(Value input, const LinearFacts &facts);
  func::FuncOp buildLayer(const LayerFacts &facts, size_t kind);
  Value callLayers(const KindRun &run, func::FuncOp function, Value hidden);
  void trace(StringRef name, Value index, Value value);
  Block *startStep();
  void endStep(Value result);

  ModuleOp module;
  const DecoderConfig &config;
  const DecoderOptions &options;
  OpBuilder builder;
  Value layer, batch; ///< in scope
  Location loc = UnknownLoc::get(builder.getContext());
};

} // namespace

Location DecoderBuilder::at(StringRef path, StringRef file) {
  Location name = NameLoc::get(text(path));
  if (file.empty())
    return name;
  return FusedLoc::get(context(),
                       {name, FileLineColLoc::get(text(file), 0, 0)});
}

Value DecoderBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value DecoderBuilder::field(model::Field which, Type type) {
  return model::FieldOp::create(builder, loc, type, which, batch);
}

Value DecoderBuilder::weight(StringRef path, StringRef name,
                             const StoredTensors &stored, StringRef declared,
                             StringRef file) {
  Attribute facts = toAttr(stored, declared, context());
  Type type = toTensorType(stored.find(name.str())->second, context());
  bool layered = path.contains("{l}");
  return model::WeightOp::create(
      builder, at(path, file), type, builder.getArrayAttr({text(path)}),
      layered ? layer : Value(), text(name), builder.getArrayAttr({facts}));
}

Value DecoderBuilder::norm(Value input, StringRef path,
                           const StoredTensor &stored, int64_t heads,
                           StringRef file) {
  Value gain = weight(path, "weight", {{"weight", stored}}, "", file);
  return model::RmsNormOp::create(builder, at(path, file), input.getType(),
                                  input, gain,
                                  builder.getF32FloatAttr(config.normEps),
                                  builder.getI64IntegerAttr(heads), text(path));
}

Value DecoderBuilder::linear(Value input, const LinearFacts &facts,
                             bool fused) {
  std::string path = inLayer(facts.module);
  Value matrix =
      weight(path, "weight", facts.tensors, facts.declared, facts.file);
  Value bias;
  if (facts.bias)
    bias = weight(path, "bias", {{"bias", *facts.bias}}, "", facts.file);
  StringAttr fusedName;
  if (fused && !facts.fused.empty())
    fusedName = text(inLayer(facts.fused));
  return model::LinearOp::create(builder, at(path, facts.file), rows(facts.n),
                                 input, matrix, bias,
                                 /*input_scale=*/Value(), text(path), fusedName,
                                 /*method=*/q::MethodAttr(),
                                 /*contract=*/q::ContractAttr());
}

Value DecoderBuilder::attention(Value input, const LayerFacts &facts) {
  std::string path = inLayer("self_attn");
  Location here = at(path, facts.q.file);
  Value q = linear(input, facts.q), k = linear(input, facts.k);
  Value v = linear(input, facts.v);
  if (config.qkNorm) {
    q = norm(q, path + ".q_norm", *facts.qNorm, config.heads, facts.file);
    k = norm(k, path + ".k_norm", *facts.kNorm, config.kvHeads, facts.file);
  }
  Value positions = field(model::Field::Positions, indices());
  int64_t rotated = 2 * int64_t(options.rope.inverse.size());
  Value table = model::RopeTableOp::create(
      builder, here,
      RankedTensorType::get({options.maxContext, rotated},
                            builder.getF32Type()),
      builder.getDenseF32ArrayAttr(options.rope.inverse),
      builder.getF32FloatAttr(options.rope.scale));
  auto rotate = [&](Value value) -> Value {
    return model::RopeOp::create(builder, here, value.getType(), value, table,
                                 positions,
                                 builder.getI64IntegerAttr(config.headDim),
                                 /*interleaved=*/UnitAttr(), text(path));
  };
  q = rotate(q);
  k = rotate(k);
  q::StoredAttr scales;
  if (!facts.kvScales.empty())
    scales = toAttr(facts.kvScales, "", context());
  Value mixed = model::AttentionOp::create(
      builder, here, q.getType(), q, k, v, /*cache=*/Value(), batch, layer,
      /*k_scale=*/Value(), /*v_scale=*/Value(),
      builder.getI64IntegerAttr(config.heads),
      builder.getI64IntegerAttr(config.kvHeads),
      builder.getI64IntegerAttr(config.headDim),
      builder.getF32FloatAttr(float(1 / std::sqrt(double(config.headDim)))),
      builder.getI64IntegerAttr(facts.window), text(path), scales);
  return linear(mixed, facts.o);
}

Value DecoderBuilder::mlp(Value input, const LayerFacts &facts) {
  Value gate = linear(input, facts.gate), up = linear(input, facts.up);
  Value product = model::SwigluOp::create(
      builder, at(inLayer("mlp"), facts.gate.file), gate.getType(), gate, up);
  return linear(product, facts.down);
}

Value DecoderBuilder::lmHead(Value input, const LinearFacts &facts) {
  Value matrix =
      weight(facts.module, "weight", facts.tensors, facts.declared, facts.file);
  return model::LmHeadOp::create(
      builder, at("lm_head", facts.file),
      rows(config.vocab, builder.getF32Type()), input, matrix,
      /*input_scale=*/Value(), text("lm_head"), /*method=*/q::MethodAttr(),
      /*contract=*/q::ContractAttr());
}

void DecoderBuilder::trace(StringRef name, Value index, Value value) {
  model::TraceOp::create(builder, loc, text(name), index, value);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

func::FuncOp DecoderBuilder::buildLayer(const LayerFacts &facts, size_t kind) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module.getBody());
  loc = at(kLayerPrefix.drop_back(), facts.file);
  RankedTensorType type = rows(config.hidden);
  auto function = func::FuncOp::create(
      builder, loc, ("decoder_layer_" + Twine(kind)).str(),
      builder.getFunctionType(
          {builder.getIndexType(), type, model::BatchType::get(context())},
          {type}));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  layer = body->getArgument(0);
  batch = body->getArgument(2);
  Value hidden = body->getArgument(1);
  auto add = [&](Value lhs, Value rhs) -> Value {
    return model::AddOp::create(builder, loc, lhs.getType(), lhs, rhs);
  };
  Value normed =
      norm(hidden, inLayer("input_layernorm"), *facts.inputNorm, 1, facts.file);
  hidden = add(hidden, attention(normed, facts));
  normed = norm(hidden, inLayer("post_attention_layernorm"), *facts.postNorm, 1,
                facts.file);
  hidden = add(hidden, mlp(normed, facts));
  func::ReturnOp::create(builder, loc, hidden);
  return function;
}

Value DecoderBuilder::callLayers(const KindRun &run, func::FuncOp function,
                                 Value hidden) {
  Value one = index(1);
  auto loop = scf::ForOp::create(builder, loc, index(run.first),
                                 index(run.first + run.count), one, hidden);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value number = loop.getInductionVar();
  auto call = func::CallOp::create(
      builder, loc, function, {number, loop.getRegionIterArgs()[0], batch});
  Value next = arith::AddIOp::create(builder, loc, number, one);
  trace("hidden", next, call.getResult(0));
  scf::YieldOp::create(builder, loc, call.getResult(0));
  return loop.getResult(0);
}

Block *DecoderBuilder::startStep() {
  builder.setInsertionPointToEnd(module.getBody());
  loc = module.getLoc();
  auto function = func::FuncOp::create(
      builder, loc, "step",
      builder.getFunctionType({model::BatchType::get(context())}, {}));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  batch = body->getArgument(0);
  return body;
}

void DecoderBuilder::endStep(Value result) {
  model::OutputOp::create(builder, loc, result, batch);
  func::ReturnOp::create(builder, loc);
}

void DecoderBuilder::buildModel(const ModelFacts &facts) {
  SmallVector<func::FuncOp> kinds;
  for (auto [i, kind] : llvm::enumerate(facts.kinds))
    kinds.push_back(buildLayer(kind, i));
  startStep();
  Value ids = field(model::Field::Ids, indices());
  constexpr StringRef kEmbedding = "model.embed_tokens";
  Value table = weight(kEmbedding, "weight", {{"weight", *facts.embedding}}, "",
                       facts.embeddingFile);
  Value hidden =
      model::EmbeddingOp::create(builder, at(kEmbedding, facts.embeddingFile),
                                 rows(config.hidden), ids, table);
  Value zero = index(0);
  trace("hidden", zero, hidden);
  for (const KindRun &run : facts.runs)
    hidden = callLayers(run, kinds[run.kind], hidden);
  Value normed = norm(hidden, "model.norm", *facts.norm, 1, facts.normFile);
  trace("hidden_norm", zero, normed);
  Value wanted = field(model::Field::OutputRows, indices());
  Value selected = model::SelectRowsOp::create(builder, loc, normed.getType(),
                                               normed, wanted);
  endStep(lmHead(selected, facts.lmHead));
}

void octet::buildDecoder(ModuleOp module, const DecoderConfig &config,
                         const DecoderOptions &options,
                         const ModelFacts &facts) {
  DecoderBuilder(module, config, options).buildModel(facts);
}

//===----------------------------------------------------------------------===//
// --extract
//===----------------------------------------------------------------------===//

/// The modules of a layer that can be extracted, with the widths of a row.
static std::vector<std::tuple<std::string, int64_t, int64_t>>
getLayerModules(const DecoderConfig &config) {
  int64_t hidden = config.hidden, width = config.heads * config.headDim;
  int64_t kvWidth = config.kvHeads * config.headDim;
  int64_t inner = config.intermediate;
  return {{"self_attn", hidden, hidden},
          {"self_attn.q_proj", hidden, width},
          {"self_attn.k_proj", hidden, kvWidth},
          {"self_attn.v_proj", hidden, kvWidth},
          {"self_attn.o_proj", width, hidden},
          {"mlp", hidden, hidden},
          {"mlp.gate_proj", hidden, inner},
          {"mlp.up_proj", hidden, inner},
          {"mlp.down_proj", inner, hidden}};
}

static std::string listExtractable(const DecoderConfig &config) {
  std::string names;
  for (const auto &[name, in, out] : getLayerModules(config))
    names += (names.empty() ? "" : ", ") + name;
  return names;
}

Result<ExtractedModule> octet::findExtracted(const DecoderConfig &config,
                                             const std::string &name) {
  ExtractedModule result;
  std::string_view rest = normalizeName(name);
  if (rest == "lm_head") {
    result = {"lm_head", "lm_head", -1, config.hidden, config.vocab};
    return result;
  }
  constexpr std::string_view kLayers = "layers.";
  if (!rest.starts_with(kLayers))
    return usageError("--extract " + escapeName(name),
                      "no module of that name; 'lm_head', or below "
                      "'model.layers.N': " +
                          listExtractable(config));
  rest.remove_prefix(kLayers.size());
  size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  std::string_view number = rest.substr(0, digits);
  int64_t layer = -1;
  if (!number.empty() && number.size() <= 9 &&
      (number.size() == 1 || number[0] != '0'))
    layer = std::stoll(std::string(number));
  if (layer < 0 || layer >= config.layers)
    return usageError("--extract " + escapeName(name),
                      "no layer of that number; the model has layers 0 to " +
                          std::to_string(config.layers - 1));
  std::string_view below = digits < rest.size() && rest[digits] == '.'
                               ? rest.substr(digits + 1)
                               : std::string_view();
  for (const auto &[module, in, out] : getLayerModules(config))
    if (module == below)
      return ExtractedModule{"model.layers." + std::to_string(layer) + "." +
                                 module,
                             module, layer, in, out};
  return usageError("--extract " + escapeName(name),
                    "a linear, 'self_attn' or 'mlp' can be extracted; below "
                    "'model.layers." +
                        std::to_string(layer) + "' there are " +
                        listExtractable(config));
}

void DecoderBuilder::buildExtracted(const ExtractedModule &extracted,
                                    const LayerFacts *facts,
                                    const LinearFacts *head) {
  startStep();
  Value input = field(model::Field::Input, rows(extracted.in));
  if (!facts) {
    endStep(lmHead(input, *head));
    return;
  }
  layer = index(extracted.layer);
  if (extracted.name == "self_attn") {
    endStep(attention(input, *facts));
    return;
  }
  if (extracted.name == "mlp") {
    endStep(mlp(input, *facts));
    return;
  }
  for (const LinearFacts *linearFacts :
       {&facts->q, &facts->k, &facts->v, &facts->o, &facts->gate, &facts->up,
        &facts->down})
    // Alone it is no shard of a fused module.
    if (linearFacts->module == extracted.name) {
      endStep(linear(input, *linearFacts, /*fused=*/false));
      return;
    }
  llvm_unreachable("findExtracted knows no other module");
}

void octet::buildExtracted(ModuleOp module, const DecoderConfig &config,
                           const DecoderOptions &options,
                           const ExtractedModule &extracted,
                           const LayerFacts *layer, const LinearFacts *lmHead) {
  DecoderBuilder(module, config, options)
      .buildExtracted(extracted, layer, lmHead);
}
