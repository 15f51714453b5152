//===- RowValues.cpp - The chunks of a row kernel's values ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowBody.h"
#include "lib/HostCode/RowPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;
using namespace octet::cuda;
using host::RowPlan;
using llvm::formatv;

static APFloat constantOf(Value constant) {
  auto dense = cast<DenseElementsAttr>(
      cast<arith::ConstantOp>(constant.getDefiningOp()).getValue());
  return dense.getSplatValue<APFloat>();
}

/// Digits that give the same float.
static std::string literalOf(const APFloat &value) {
  if (!value.isFinite())
    return formatv("floatOf({0:x8}u)",
                   uint32_t(value.bitcastToAPInt().getZExtValue()));
  SmallString<24> text;
  value.toString(text, /*FormatPrecision=*/9, /*FormatMaxPadding=*/4);
  bool isWhole = text.find_first_of(".eE") == StringRef::npos;
  return (text + (isWhole ? ".f" : "f")).str();
}
static std::string literalOf(Value constant) {
  return literalOf(constantOf(constant));
}

static StringRef functionOf(Operation *op) {
  return TypeSwitch<Operation *, StringRef>(op)
      .Case([](arith::AddFOp) { return "add"; })
      .Case([](arith::SubFOp) { return "subtract"; })
      .Case([](arith::MulFOp) { return "multiply"; })
      .Case([](arith::DivFOp) { return "divide"; })
      .Case([](arith::NegFOp) { return "negate"; })
      .Case([](arith::MaximumFOp) { return "maximum"; })
      .Case([](arith::MinimumFOp) { return "minimum"; })
      .Case([](arith::MaxNumFOp) { return "maxNumber"; })
      .Case([](arith::MinNumFOp) { return "minNumber"; })
      .Case([](math::SqrtOp) { return "squareRoot"; })
      .Case([](math::RsqrtOp) { return "inverseSquareRoot"; })
      .Case([](math::AbsFOp) { return "magnitude"; })
      .Case([](math::FmaOp) { return "multiplyAdd"; })
      .Case([](math::ExpOp) { return "exponential"; });
}

bool RowBody::isRoundedToBf16(Value value) {
  return kernel::isRoundedTo(value, Builder(value.getContext()).getBF16Type());
}

/// Values of BF16 or F16.
bool RowBody::isShort(Value value) {
  return isRoundedToBf16(value) ||
         kernel::isRoundedTo(value, Builder(value.getContext()).getF16Type());
}

/// The operator that makes `value`, for its reader alone.
template <class Op>
static Op makerFor(Value value) {
  auto op = value.getDefiningOp<Op>();
  return op && op->hasOneUse() ? op : Op();
}

static bool isOne(Value value) {
  return value.getDefiningOp<arith::ConstantOp>() &&
         constantOf(value).isExactlyValue(1.0);
}

/// An element-wise operator, or a few that row.cuh computes sooner, to the same
/// bits.
RowBody::Function RowBody::functionFor(Operation *op) {
  Function function{functionOf(op).str(), op->getOperands(), ""};
  auto divide = dyn_cast<arith::DivFOp>(op);
  if (!divide)
    return function;
  Value x = divide.getLhs(), by = divide.getRhs();
  if (isOne(x)) {
    if (auto root = makerFor<math::SqrtOp>(by))
      return {"inverseSquareRoot", {root.getOperand()}, ""};
    return {"reciprocal", {by}, ""};
  }
  if (by.getDefiningOp<arith::ConstantOp>()) {
    APFloat inverse(0.0f);
    if (constantOf(by).getExactInverse(&inverse))
      return {"multiply", {x}, literalOf(inverse)};
    return function;
  }
  auto sum = makerFor<arith::AddFOp>(by);
  auto exponential = sum ? makerFor<math::ExpOp>(sum.getRhs()) : nullptr;
  auto minus =
      exponential ? makerFor<arith::NegFOp>(exponential.getOperand()) : nullptr;
  if (minus && isOne(sum.getLhs()) && minus.getOperand() == x && isShort(x))
    return {"silu", {x}, ""};
  return function;
}

std::string RowBody::nameOf(Value value, char prefix) {
  return formatv("{0}{1}", prefix, numbers.lookup(value));
}

/// f(a, b)
RowBody::Text RowBody::call(const Function &function, ArrayRef<Text> operands) {
  bool isFloat = llvm::all_of(operands, [](auto &o) { return o.isFloat(); });
  std::string text = function.name + "(";
  for (auto [i, operand] : llvm::enumerate(operands))
    text += (i ? ", " : "") + operand.text;
  if (!function.literal.empty())
    text += ", " + function.literal;
  return {text + ")", isFloat ? "float" : "Floats"};
}

/// Names a value, in registers that outlive the block if others read it.
RowBody::Text RowBody::define(Value value, const Text &text) {
  std::string name = nameOf(value);
  if (text.isFloat() || !(shape.keepsAll || shape.kept.contains(value))) {
    line(formatv("const {0} {1} = {2};", text.type, name, text.text));
    return local[value] = {name, text.type};
  }
  pending += formatv("{0} {1}{2};\n", text.type, name, arrayOf(blockWidth));
  registers[value] = {name, text.type};
  madeIn[value] = block;
  line(formatv("{0}{1} = {2};", name, turn(blockWidth), text.text));
  return {name + turn(blockWidth), text.type};
}

/// A later block reads what an earlier one left in registers.
void RowBody::noteRead(Value value) {
  int from = madeIn.lookup(value);
  if (from == block)
    return;
  facts.read.insert(value);
  facts.joined.push_back({from, block});
}

/// In a block: the value's chunk, as text that may stand for it.
RowBody::Text RowBody::valueOf(Value value) {
  if (widthOf(value) == 1)
    return {scalarOf(value), "float"};
  if (auto found = local.find(value); found != local.end())
    return found->second;
  if (std::optional<View> view = viewOf(value))
    return loadView(*view, widthOf(value));
  if (auto found = registers.find(value);
      found != registers.end() && !groups.contains(value)) {
    noteRead(value);
    return {found->second.text + turn(blockWidth), found->second.type};
  }
  if (auto found = spilled.find(value); found != spilled.end()) {
    bool isWhole = widthOf(value) % kChunk == 0;
    line(formatv("const Chunk<float> {0} = {1}({2}, {3}{4});", nameOf(value),
                 isWhole ? "load" : "loadSome", found->second,
                 chunkName(blockWidth),
                 isWhole ? "" : formatv(", {0}", widthOf(value)).str()));
    return local[value] = {nameOf(value), "Chunk<float>"};
  }
  Text text = computeValue(value);
  // Names that stand for all elements need no other one.
  if (text.isFloat() &&
      isa<arith::ConstantOp, kernel::BroadcastOp, kernel::TileOp>(
          value.getDefiningOp()))
    local[value] = text;
  else
    text = define(value, text);
  storeValue(value, text);
  return text;
}

RowBody::Text RowBody::computeValue(Value value) {
  Operation *definition = value.getDefiningOp();
  int64_t width = widthOf(value);
  std::string chunk = chunkName(blockWidth);
  // Parts of computed rows are in shared memory.
  auto from = [&](Value source, int64_t offset) {
    return formatv("{0} + {1}", spilled.lookup(source), offset).str();
  };
  return TypeSwitch<Operation *, Text>(definition)
      .Case([&](arith::ConstantOp) -> Text {
        return {literalOf(value), "float"};
      })
      .Case([&](kernel::SliceOp slice) -> Text {
        std::string source = from(slice.getInput(), slice.getOffset());
        bool isAligned = slice.getOffset() % 4 == 0 && width % kChunk == 0;
        return {isAligned
                    ? formatv("load({0}, {1})", source, chunk).str()
                    : formatv("loadSome({0}, {1}, {2})", source, chunk, width)
                          .str(),
                "Chunk<float>"};
      })
      .Case([&](kernel::TileOp tile) -> Text {
        if (widthOf(tile.getInput()) == 1)
          return {scalarOf(tile.getInput()), "float"};
        return {formatv("loadTiled({0}, {1}, 0, {2})",
                        spilled.lookup(tile.getInput()), chunk,
                        widthOf(tile.getInput())),
                "Chunk<float>"};
      })
      .Case([&](kernel::BroadcastOp broadcast) -> Text {
        Value input = broadcast.getInput();
        if (widthOf(input) == 1)
          return {scalarOf(input), "float"};
        int64_t group = broadcast.getGroup().value_or(width);
        if (isGroupText(input, width, group))
          return groupOf(input, width, group);
        return {formatv("loadGroups({0}, {1}, {2}, {3})", spilled.lookup(input),
                        chunk, group, width),
                "Floats"};
      })
      .Case([&](kernel::RopeOp rope) { return ropeOf(rope); })
      .Case([&](kernel::RoundOp round) -> Text {
        Text input = valueOf(round.getInput());
        std::string type = memoryTypeName(round.getType());
        if (kernel::isRoundedTo(round.getInput(), round.getType()))
          return input;
        if (input.isFloat())
          return {formatv("roundOne<{0}>({1})", type, input.text), "float"};
        // Nobody wants it as memory has it.
        if (round.getType().isBF16() && !destinations.contains(value) &&
            llvm::all_of(round->getUsers(), llvm::IsaPred<q::QuantizeOp>))
          return {formatv("roundFloats({0})", input.text), "Floats"};
        return {formatv("round<{0}>({1})", type, input.text),
                "Chunk<" + type + ">"};
      })
      .Default([&](Operation *other) {
        Function function = functionFor(other);
        SmallVector<Text> operands;
        for (Value operand : function.operands)
          operands.push_back(valueOf(operand));
        return call(function, operands);
      });
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// The element of `value` that chunk's group has is one float in this thread.
bool RowBody::isGroupText(Value value, int64_t width, int64_t group) {
  if (group % kChunk)
    return false;
  Operation *definition = value.getDefiningOp();
  if (widthOf(value) == 1 || spilled.contains(value) || viewOf(value) ||
      isa<arith::ConstantOp>(definition))
    return true;
  if (auto reduce = dyn_cast<kernel::ReduceOp>(definition))
    return groups.lookup(value) == group && widthOf(reduce.getInput()) == width;
  if (!RowPlan::isElementwise(definition))
    return false;
  return llvm::all_of(definition->getOperands(), [&](Value operand) {
    return isGroupText(operand, width, group);
  });
}

RowBody::Text RowBody::groupOf(Value value, int64_t width, int64_t group) {
  if (widthOf(value) == 1)
    return {scalarOf(value), "float"};
  std::string index =
      formatv("{0} / {1}", chunkName(width), group / kChunk).str();
  if (std::optional<View> view = viewOf(value))
    return {elementOfView(*view, index), "float"};
  if (value.getDefiningOp<arith::ConstantOp>())
    return {literalOf(value), "float"};
  if (groups.lookup(value) == group) {
    noteRead(value);
    return {registers.lookup(value).text + turn(width), "float"};
  }
  if (auto found = spilled.find(value); found != spilled.end())
    return {formatv("{0}[{1}]", found->second, index), "float"};
  Text &text = localGroups[{value.getAsOpaquePointer(), group}];
  if (!text.text.empty())
    return text;
  Operation *definition = value.getDefiningOp();
  std::string result;
  if (auto round = dyn_cast<kernel::RoundOp>(definition)) {
    result = formatv("roundOne<{0}>({1})", memoryTypeName(round.getType()),
                     groupOf(round.getInput(), width, group).text);
  } else {
    Function function = functionFor(definition);
    SmallVector<Text> operands;
    for (Value operand : function.operands)
      operands.push_back(groupOf(operand, width, group));
    result = call(function, operands).text;
  }
  std::string name = nameOf(value);
  line(formatv("const float {0} = {1};", name, result));
  return localGroups[{value.getAsOpaquePointer(), group}] = {name, "float"};
}

//===----------------------------------------------------------------------===//
// One element
//===----------------------------------------------------------------------===//

/// A value of one element: the same in all threads of the row.
std::string RowBody::scalarOf(Value value) {
  if (auto found = strand().scalars.find(value);
      found != strand().scalars.end())
    return found->second;
  auto remember = [&](const std::string &text) {
    return strand().scalars[value] = text;
  };
  auto element = [&](const View &view) {
    std::string name = formatv("e{0}", strand().scalars.size());
    auto &list = isWeight(view.argument) ? strand().weights : strand().rows;
    std::string text = elementOfView(view, "0");
    list.push_back(formatv("const float {0} = {1};", name, text));
    return remember(name);
  };
  if (std::optional<View> view = viewOf(value))
    return element(*view);
  Operation *definition = value.getDefiningOp();
  if (isa<arith::ConstantOp>(definition))
    return remember(literalOf(value));
  if (isa<kernel::SliceOp, kernel::TileOp, kernel::BroadcastOp>(definition)) {
    Value input = definition->getOperand(0);
    if (widthOf(input) == 1)
      return remember(scalarOf(input));
    int64_t offset = 0;
    if (auto slice = dyn_cast<kernel::SliceOp>(definition))
      offset = slice.getOffset();
    spill(input);
    statement(formatv("const float {0} = {1}[{2}];", nameOf(value),
                      spilled.lookup(input), offset));
    return remember(nameOf(value));
  }
  std::string text;
  if (auto round = dyn_cast<kernel::RoundOp>(definition)) {
    text = formatv("roundOne<{0}>({1})", memoryTypeName(round.getType()),
                   scalarOf(round.getInput()));
  } else {
    Function function = functionFor(definition);
    SmallVector<Text> operands;
    for (Value operand : function.operands)
      operands.push_back({scalarOf(operand), "float"});
    text = call(function, operands).text;
  }
  statement(formatv("const float {0} = {1};", nameOf(value), text));
  return remember(nameOf(value));
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

static int64_t halfOf(kernel::RopeOp rope) {
  return RowPlan::widthOf(rope.getTable()) / 2;
}

/// Every chunk is all first elements of pairs, all second ones, whole pairs, or
/// not rotated, and its table is memory that can be loaded in chunks.
bool RowBody::isChunked(kernel::RopeOp rope) {
  int64_t half = halfOf(rope);
  int64_t rotated = rope.getInterleaved() ? 2 * half : half;
  std::optional<View> table = viewOf(rope.getTable());
  return table && !table->tile && table->offset % 4 == 0 &&
         widthOf(table->argument) % 8 == 0 && rotated % kChunk == 0 &&
         rope.getHeadDim() % kChunk == 0 && rope.getOffset() % kChunk == 0 &&
         widthOf(rope.getInput()) % kChunk == 0;
}

/// Both chunks of all pairs are in one warp.
bool RowBody::exchangesLanes(kernel::RopeOp rope) {
  if (!isChunked(rope) || rope.getInterleaved())
    return false;
  int64_t half = halfOf(rope) / kChunk;
  for (int64_t head = 0; head < widthOf(rope.getInput());
       head += rope.getHeadDim()) {
    int64_t first = (head + rope.getOffset()) / kChunk;
    for (int64_t c = first; c < first + half; ++c)
      if (c / kWarp != (c + half) / kWarp)
        return false;
  }
  return true;
}

static std::string placeOf(kernel::RopeOp rope) {
  return formatv("RopePlace<{0}, {1}, {2}>", rope.getHeadDim(),
                 rope.getOffset(), halfOf(rope));
}

/// A chunk of cosines or sines, loaded with the operands.
std::string RowBody::ropeTable(kernel::RopeOp rope, bool isSine) {
  View table = *viewOf(rope.getTable());
  std::string pointer = pointerTo(table.argument);
  if (int64_t offset = table.offset + (isSine ? halfOf(rope) : 0))
    pointer += formatv(" + {0}", offset);
  std::string chunk = chunkName(blockWidth);
  if (shape.turnsOf(blockWidth) > 1 &&
      shape.threadsOf(blockWidth) * kChunk % rope.getHeadDim() == 0)
    chunk = shape.isSpread ? "start" : "thread";
  std::string place = formatv("{0}({1})", placeOf(rope), chunk);
  std::string call, type;
  if (rope.getInterleaved()) {
    call = formatv("loadPairs({0}, {1}.within)", pointer, place);
    type = "Floats";
  } else {
    call = formatv("load({0} + {1}.pair, 0)", pointer, place);
    type = "Chunk<" + memoryTypeName(elementOf(table.argument)) + ">";
  }
  // Turns that are whole heads apart read the same place.
  if (shape.turnsOf(blockWidth) > 1 &&
      shape.threadsOf(blockWidth) * kChunk % rope.getHeadDim() != 0)
    return loadOnce(formatv("{0} {1}", call, blockWidth), type, call,
                    blockWidth, isWeight(table.argument))
        .text;
  Text &text = strand().loaded[call];
  if (text.text.empty()) {
    text = {formatv("x{0}", strand().nextLoad++), type};
    strand().rows.push_back(
        formatv("const {0} {1} = {2};", type, text.text, call));
  }
  return text.text;
}

RowBody::Text RowBody::ropeOf(kernel::RopeOp rope) {
  std::string chunk = chunkName(blockWidth);
  if (!isChunked(rope) || (!rope.getInterleaved() && !exchangesLanes(rope))) {
    std::optional<View> table = viewOf(rope.getTable());
    std::string pointer =
        table && !table->tile
            ? formatv("{0} + {1}", pointerTo(table->argument), table->offset)
                  .str()
            : spilled.lookup(rope.getTable());
    return {formatv("ropeElements<{0}, {1}, {2}, {3}>({4}, {5}, {6}, {7})",
                    rope.getHeadDim(), rope.getOffset(), halfOf(rope),
                    rope.getInterleaved() ? "true" : "false",
                    spilled.lookup(rope.getInput()), pointer, chunk,
                    blockWidth),
            "Floats"};
  }
  std::string place = formatv("{0}({1})", placeOf(rope), chunk);
  std::string x = valueOf(rope.getInput()).text;
  std::string cosine = ropeTable(rope, /*isSine=*/false);
  std::string sine = ropeTable(rope, /*isSine=*/true);
  if (rope.getInterleaved())
    return {formatv("ropePairs({0}, {1}, {2}, {3})", place, x, cosine, sine),
            "Floats"};
  auto [from, partner] = partners.lookup(rope.getResult());
  facts.joined.push_back({from, block});
  return {formatv("rope({0}, {1}, {2}, {3}, {4})", place, x,
                  partner + turn(blockWidth), cosine, sine),
          "Floats"};
}
