//===- Decoder.cpp - A decoder as IR --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderBuilder.h"

using namespace mlir;
using namespace octet;

void DecoderBuilder::trace(StringRef name, Value index, Value value) {
  model::TraceOp::create(builder, loc, text(name), index, value);
}

static bool ownsIndexer(const LayerFacts &facts) {
  return facts.find("self_attn.indexer.wk");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// `(layer, hidden, batch) -> hidden`; where layers share what an indexer
/// chose, one that owns an indexer also returns the keys, and one that does not
/// takes them.
func::FuncOp DecoderBuilder::buildLayer(const LayerFacts &facts, size_t kind) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module.getBody());
  loc = at(kLayerPrefix.drop_back(), facts.file);
  RankedTensorType type = rows(config.hidden);
  SmallVector<Type> inputs = {builder.getIndexType(), type,
                              model::BatchType::get(context())};
  SmallVector<Type> results = {type};
  if (sharesSelection)
    (ownsIndexer(facts) ? results : inputs)
        .push_back(rows(config.indexer->topK, builder.getI32Type()));
  auto function =
      func::FuncOp::create(builder, loc, ("decoder_layer_" + Twine(kind)).str(),
                           builder.getFunctionType(inputs, results));
  function.setPrivate();
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  layer = body->getArgument(0);
  batch = body->getArgument(2);
  Value selected;
  if (body->getNumArguments() > 3)
    selected = body->getArgument(3);
  Value hidden = body->getArgument(1);
  auto add = [&](Value lhs, Value rhs) -> Value {
    return model::AddOp::create(builder, loc, lhs.getType(), lhs, rhs);
  };
  Value normed = norm(hidden, facts.get("input_layernorm"), config.normEps);
  hidden = add(hidden, selfAttention(normed, facts, selected));
  normed = norm(hidden, facts.get("post_attention_layernorm"), config.normEps);
  SmallVector<Value> returned = {add(hidden, feedForward(normed, facts))};
  if (results.size() > 1)
    returned.push_back(selected);
  func::ReturnOp::create(builder, loc, returned);
  return function;
}

Value DecoderBuilder::callLayers(int64_t first, int64_t count,
                                 const LayerFacts &kind, func::FuncOp function,
                                 Value hidden, Value &selected) {
  auto call = [&](Value number, Value input) {
    SmallVector<Value> operands = {number, input, batch};
    if (function.getNumArguments() > operands.size())
      operands.push_back(selected);
    return func::CallOp::create(builder, loc, function, operands);
  };
  Value one = index(1);
  // What an indexer chose last leaves no loop: the last layer stands alone.
  bool last = sharesSelection && ownsIndexer(kind);
  if (count - last > 0) {
    auto loop = scf::ForOp::create(builder, loc, index(first),
                                   index(first + count - last), one, hidden);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value number = loop.getInductionVar();
    Value result = call(number, loop.getRegionIterArgs()[0]).getResult(0);
    trace("hidden", arith::AddIOp::create(builder, loc, number, one), result);
    scf::YieldOp::create(builder, loc, result);
    hidden = loop.getResult(0);
  }
  if (!last)
    return hidden;
  auto alone = call(index(first + count - 1), hidden);
  trace("hidden", index(first + count), alone.getResult(0));
  selected = alone.getResult(1);
  return alone.getResult(0);
}

Block *DecoderBuilder::startStep(StringRef name) {
  builder.setInsertionPointToEnd(module.getBody());
  loc = module.getLoc();
  auto function = func::FuncOp::create(
      builder, loc, name,
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
  sharesSelection = config.indexer && !llvm::all_of(facts.kinds, ownsIndexer);
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
  Value selected;
  for (const KindRun &run : facts.runs)
    hidden = callLayers(run.first, run.count, facts.kinds[run.kind],
                        kinds[run.kind], hidden, selected);
  Value normed = norm(hidden, "model.norm", *facts.norm, 1, facts.normFile,
                      config.normEps);
  trace("hidden_norm", zero, normed);
  Value wanted = field(model::Field::OutputRows, indices());
  Value chosen = model::SelectRowsOp::create(builder, loc, normed.getType(),
                                             normed, wanted);
  endStep(lmHead(chosen, facts.lmHead));
  for (auto [i, draft] : llvm::enumerate(facts.drafts))
    buildDraft(draft, i, facts, kinds);
}

void octet::buildDecoder(ModuleOp module, const DecoderConfig &config,
                         const DecoderOptions &options,
                         const ModelFacts &facts) {
  DecoderBuilder(module, config, options).buildModel(facts);
}
