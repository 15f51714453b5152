//===- RowMemory.cpp - What a row kernel loads and stores -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowBody.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;
using namespace octet::cuda;
using llvm::formatv;

std::string octet::cuda::memoryTypeName(Type element) {
  if (element.isF32())
    return "float";
  if (element.isBF16())
    return "Bf16";
  if (element.isF16())
    return "F16";
  if (isa<Float8E4M3FNType>(element))
    return "E4m3";
  return "i8";
}

static int64_t bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

static kernel::Access accessOf(kernel::RowwiseOp op, BlockArgument argument) {
  return cast<kernel::AccessAttr>(op.getAccess()[argument.getArgNumber()])
      .getValue();
}

Type RowBody::elementOf(BlockArgument argument) {
  Type type =
      kernel::getValueType(op.getInputs()[argument.getArgNumber()].getType());
  return cast<RankedTensorType>(type).getElementType();
}

/// Written before the step: it may be read before earlier kernels have ended.
bool RowBody::isWeight(BlockArgument argument) {
  return accessOf(op, argument) == kernel::Access::Uniform &&
         !isa<kernel::BufferType>(
             op.getInputs()[argument.getArgNumber()].getType());
}

/// A pointer to the operand's row.
std::string RowBody::pointerTo(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  kernel::Access access = accessOf(op, argument);
  if (access == kernel::Access::Uniform)
    return formatv("in{0}", number);
  std::string &name = strand().pointers[argument];
  if (!name.empty())
    return name;
  name = formatv("a{0}", number);
  std::string line = "row";
  if (access == kernel::Access::Indexed) {
    int64_t index = 0;
    for (unsigned i = 0; i < number; ++i)
      index += cast<kernel::AccessAttr>(op.getAccess()[i]).getValue() ==
               kernel::Access::Indexed;
    line = formatv("i64(index{0}[row])", index);
  }
  auto &list = access == kernel::Access::Row ? strand().places : strand().rows;
  list.push_back(formatv("const {0} *const {1} = in{2} + {3} * {4};",
                         memoryTypeName(elementOf(argument)), name, number,
                         line, widthOf(argument)));
  return name;
}

/// Slices and repetitions of an operand are positions in it.
std::optional<RowBody::View> RowBody::viewOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return View{argument};
  Operation *definition = value.getDefiningOp();
  if (auto round = dyn_cast<kernel::RoundOp>(definition)) {
    if (kernel::isRoundedTo(round.getInput(), round.getType()))
      return viewOf(round.getInput());
    return std::nullopt;
  }
  if (!isa<kernel::SliceOp, kernel::TileOp>(definition))
    return std::nullopt;
  std::optional<View> view = viewOf(definition->getOperand(0));
  if (!view)
    return std::nullopt;
  if (auto slice = dyn_cast<kernel::SliceOp>(definition)) {
    (view->tile ? view->phase : view->offset) += slice.getOffset();
    return view;
  }
  if (view->tile)
    return std::nullopt;
  view->tile = widthOf(definition->getOperand(0));
  return view;
}

RowBody::Text RowBody::loadOnce(const std::string &key, const std::string &type,
                                const std::string &call, int64_t width,
                                bool isWeight) {
  Text &text = strand().loaded[key];
  if (text.text.empty()) {
    text = {formatv("x{0}", strand().nextLoad++), type};
    auto &loads = isWeight ? strand().weightLoads : strand().rowLoads;
    // A declaration and a line, in turn.
    loads[width].push_back(formatv("{0} {1}{2}{3};", type, text.text,
                                   arrayOf(width),
                                   guardOf(width).empty() ? "" : " = {}"));
    loads[width].push_back(
        formatv("{0}{1} = {2};", text.text, turn(width), call));
  }
  return {text.text + turn(width), type};
}

RowBody::Text RowBody::loadView(const View &view, int64_t width) {
  BlockArgument argument = view.argument;
  Type element = elementOf(argument);
  int64_t bytes = bytesOf(element);
  std::string pointer = pointerTo(argument);
  if (view.offset)
    pointer += formatv(" + {0}", view.offset);
  bool isAligned = width % kChunk == 0 && view.offset * bytes % 16 == 0 &&
                   (accessOf(op, argument) == kernel::Access::Uniform ||
                    widthOf(argument) * bytes % 16 == 0);
  std::string chunk = chunkName(width), call;
  if (view.tile && isAligned && view.tile % kChunk == 0 &&
      view.phase % kChunk == 0) {
    std::string first =
        view.phase ? formatv("({0} + {1})", chunk, view.phase / kChunk).str()
                   : chunk;
    call = formatv("load({0}, {1} % {2})", pointer, first, view.tile / kChunk);
  } else if (view.tile) {
    call = formatv("loadTiled({0}, {1}, {2}, {3})", pointer, chunk, view.phase,
                   view.tile);
  } else if (isAligned) {
    call = formatv("load({0}, {1})", pointer, chunk);
    if ((shape.prefetches || shape.ahead) &&
        accessOf(op, argument) == kernel::Access::Row &&
        !strand().loaded.contains(formatv("{0} {1}", call, width))) {
      std::vector<std::string> &list = strand().prefetches[width];
      if (shape.ahead) {
        list.push_back(formatv("if (row + {0} < rows)", shape.ahead));
        list.push_back(formatv("  prefetch({0} + {1}, {2});", pointer,
                               shape.ahead * widthOf(argument), chunk));
      } else {
        list.push_back(formatv("prefetch({0}, {1});", pointer, chunk));
      }
    }
  } else {
    call = formatv("loadSome({0}, {1}, {2})", pointer, chunk, width);
  }
  return loadOnce(formatv("{0} {1}", call, width),
                  formatv("Chunk<{0}>", memoryTypeName(element)), call, width,
                  isWeight(argument));
}

std::string RowBody::elementOfView(const View &view, const std::string &index) {
  std::string at = index;
  if (view.tile)
    at = formatv("({0} + {1}) % {2}", index, view.phase, view.tile);
  return formatv("toFloat({0}[{1} + {2}])", pointerTo(view.argument),
                 view.offset, at);
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

void RowBody::collectDestinations() {
  ValueRange yielded = op.getBody().front().getTerminator()->getOperands();
  for (auto [i, out] : llvm::enumerate(op.getOuts())) {
    Type type = kernel::getValueType(out.getType());
    Destination place;
    auto quantized = dyn_cast<q::TensorType>(type);
    place.width = quantized ? quantized.getK()
                            : cast<RankedTensorType>(type).getDimSize(1);
    place.type =
        quantized ? type : cast<RankedTensorType>(type).getElementType();
    place.pointer = formatv("out{0} + row * {1}", i, place.width);
    if (quantized)
      place.scales = formatv("scale{0}", i);
    destinations[yielded[i]].push_back(place);
  }
  if (!op.getCache())
    return;
  q::KvType cache = op.getCache().getType();
  for (auto [i, name] : {std::pair(2, "keys"), std::pair(1, "values")}) {
    Value value = yielded[yielded.size() - i];
    Destination place;
    place.width = cache.getHeads() * cache.getDim();
    place.type = isa<q::TensorType>(value.getType())
                     ? Type(value.getType())
                     : Type(cache.getElementType());
    place.pointer = formatv("{0} + slot * {1}", name, place.width);
    place.isCached = true;
    destinations[value].push_back(place);
  }
}

/// Slots are read with the operands: nothing waits for them at the end.
std::string RowBody::pointerTo(const Destination &place) {
  if (place.isCached && !strand().hasSlot) {
    strand().hasSlot = true;
    strand().rows.push_back("const i64 slot = slots[row];");
  }
  return place.pointer;
}

/// In a block: its chunk of a float row.
void RowBody::storeValue(Value value, const Text &text) {
  auto found = destinations.find(value);
  if (found == destinations.end() || !stored.insert(value).second)
    return;
  for (const Destination &place : found->second) {
    std::string element = memoryTypeName(place.type);
    std::string chunk = chunkName(place.width);
    if (place.width % kChunk)
      line(formatv("storeSome({0}, {1}, {2}, {3});", pointerTo(place), chunk,
                   place.width, text.text));
    else
      line(formatv("store({0}, {1}, {2});", pointerTo(place), chunk,
                   text.type == "Chunk<" + element + ">"
                       ? text.text
                       : formatv("round<{0}>({1})", element, text.text).str()));
  }
}

void RowBody::storeCodes(const Destination &place, const std::string &codes) {
  std::string chunk = chunkName(place.width);
  if (place.width % kChunk)
    line(formatv("storeSomeCodes({0}, {1}, {2}, {3});", pointerTo(place), chunk,
                 place.width, codes));
  else
    line(formatv("storeCodes({0}, {1}, {2});", pointerTo(place), chunk, codes));
}

/// Stores the scale of a group of this row (P3).
std::string RowBody::storeScale(const Destination &place,
                                const std::string &group, int64_t groups,
                                const std::string &scale) {
  auto type = cast<q::TensorType>(place.type);
  if (type.getLayout() == q::Layout::Ue8m0Packed)
    return formatv("storeExponent({0}, {1}, {2}, {3}, row, rows);",
                   place.scales, scale, group, groups);
  if (type.getLayout() == q::Layout::ColumnMajorScales)
    return formatv("storeColumn({0}, {1}, {2}, row, rows);", place.scales,
                   scale, group);
  std::string index = "row";
  if (groups > 1)
    index = formatv("row * {0} + {1}", groups, group);
  return formatv("{0}[{1}] = {2};", place.scales, index, scale);
}
