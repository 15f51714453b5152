//===- Draft.cpp - Draft layers (multi-token prediction) ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A draft layer (W14) predicts the token after next from the next token and
// what the model made of this one:
//
//   x = eh_proj([enorm(embedding(next)), hnorm(hidden)])
//   logits = head(shared_head.norm(decoder_layer(x)))
//
// `hidden` is what the model's last norm, or the draft layer before, made of
// the row. Its decoder layer is of a kind like any other, with the layer's own
// number, cache and weights; embedding and head are the model's own where the
// layer stores no copy. Whether a drafted token stands is decided by whoever
// samples, in FP32 (P18).
//
//===----------------------------------------------------------------------===//

#include "DecoderBuilder.h"

using namespace mlir;
using namespace octet;

void DecoderBuilder::buildDraft(const DraftFacts &draft, int64_t number,
                                const ModelFacts &facts,
                                ArrayRef<func::FuncOp> kinds) {
  startStep(("draft_" + Twine(number)).str());
  const LayerFacts &own = draft.modules;
  std::string path = "model.layers." + std::to_string(draft.layer);
  loc = at(path, own.file);
  layer = index(draft.layer);

  Value table;
  if (const StoredModule *copy = own.find("embed_tokens"))
    table = parameter(*copy, "weight");
  else
    table = weight("model.embed_tokens", "weight",
                   {{"weight", *facts.embedding}}, "", facts.embeddingFile);
  Value next = model::EmbeddingOp::create(
      builder, loc, rows(config.hidden),
      field(model::Field::DraftIds, indices()), table);
  Value hidden = field(model::Field::DraftHidden, rows(config.hidden));
  Value joined = model::JoinOp::create(
      builder, loc, rows(2 * config.hidden),
      ValueRange{norm(next, own.get("enorm"), config.normEps),
                 norm(hidden, own.get("hnorm"), config.normEps)},
      text(path));
  Value input = linear(joined, own.get("eh_proj"), /*fused=*/false,
                       /*element=*/{}, /*precise=*/true);

  func::FuncOp function = kinds[draft.kind];
  Value output = func::CallOp::create(builder, loc, function,
                                      ValueRange{layer, input, batch})
                     .getResult(0);
  Value normed = norm(output, own.get("shared_head.norm"), config.normEps);
  trace("draft_hidden", index(number), normed);
  Value chosen =
      model::SelectRowsOp::create(builder, loc, normed.getType(), normed,
                                  field(model::Field::OutputRows, indices()));
  const StoredModule *head = own.find("shared_head.head");
  if (!head)
    return endStep(lmHead(chosen, facts.lmHead));
  endStep(model::LmHeadOp::create(
      builder, at(path + ".shared_head.head", head->file),
      rows(config.vocab, builder.getF32Type()), chosen,
      parameter(*head, "weight"), /*input_scale=*/Value(),
      text(path + ".shared_head.head"), /*method=*/q::MethodAttr(),
      /*contract=*/q::ContractAttr()));
}
