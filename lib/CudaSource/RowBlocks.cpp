//===- RowBlocks.cpp - The order of a row kernel --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowBody.h"
#include "lib/HostCode/RowPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "octet/Support/Checked.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace octet;
using namespace octet::cuda;
using host::RowPlan;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Widths
//===----------------------------------------------------------------------===//

int64_t RowBody::widthOf(Value value) { return RowPlan::widthOf(value); }

int64_t RowBody::chunksOf(int64_t width) { return cdiv(width, kChunk); }

int64_t RowShape::turnsOf(int64_t width) const {
  int64_t chunks = RowBody::chunksOf(width);
  return isSpread ? std::min(turns, cdiv(chunks, kWarp))
                  : cdiv(chunks, maxThreads);
}

int64_t RowShape::threadsOf(int64_t width) const {
  return llvm::alignTo(cdiv(RowBody::chunksOf(width), turnsOf(width)), kWarp);
}

int64_t RowShape::countUnits() const {
  int64_t units = 0;
  for (int64_t width : strandWidths)
    units += threadsOf(width);
  return units;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Index into registers of all turns.
std::string RowBody::turn(int64_t width) {
  return shape.turnsOf(width) > 1 ? "[i]" : "";
}

/// Of such registers.
std::string RowBody::arrayOf(int64_t width) {
  int64_t turns = shape.turnsOf(width);
  return turns > 1 ? formatv("[{0}]", turns).str() : "";
}

std::string RowBody::chunkName(int64_t width) {
  return shape.isSpread || shape.turnsOf(width) > 1 ? "chunk" : "thread";
}

/// Which threads have a chunk; empty: all.
std::string RowBody::guardOf(int64_t width) {
  int64_t chunks = chunksOf(width), turns = shape.turnsOf(width);
  int64_t threads = shape.threadsOf(width);
  // Threads beyond those that are this width's.
  bool hasOthers = threads < shape.threads;
  if (shape.isSpread) {
    int64_t units = shape.countUnits();
    hasOthers = current + 1 == int(shape.strandWidths.size()) &&
                units % shape.threads != 0 && shape.threads % units != 0;
  }
  std::string guard;
  if (hasOthers && turns > 1)
    guard = formatv("{0} < {1}", shape.isSpread ? "start" : "thread", threads);
  if (chunks < threads * turns || (hasOthers && turns == 1))
    guard += formatv("{0}{1} < {2}", guard.empty() ? "" : " && ",
                     chunkName(width), chunks);
  return guard;
}

/// Lines for each chunk of a thread, indented for a strand.
std::string RowBody::loop(int64_t width, const std::vector<std::string> &body,
                          bool isGuarded) {
  std::string guard = isGuarded ? guardOf(width) : "", text, indent = "  ";
  bool hasTurns = shape.turnsOf(width) > 1;
  if (hasTurns) {
    text += formatv("#pragma unroll\n  for (int i = 0; i < {0}; ++i) {{\n",
                    shape.turnsOf(width));
    bool isNamed = StringRef(guard).contains("chunk");
    for (const std::string &each : body)
      isNamed |= StringRef(each).contains("chunk");
    if (isNamed)
      text +=
          formatv("    const int chunk = {0} + i * {1};\n",
                  shape.isSpread ? "start" : "thread", shape.threadsOf(width));
    indent += "  ";
  }
  bool hasScope = !guard.empty() || !hasTurns;
  if (hasScope) {
    text += indent +
            (guard.empty() ? "{\n" : formatv("if ({0}) {{\n", guard).str());
    indent += "  ";
  }
  for (const std::string &each : body)
    text += indent + each + "\n";
  if (hasScope)
    text += std::string(hasTurns ? 4 : 2, ' ') + "}\n";
  if (hasTurns)
    text += "  }\n";
  return text;
}

void RowBody::openBlock(int64_t width) {
  assert(!isOpen && "blocks do not nest");
  isOpen = true;
  ++block;
  blockWidth = width;
  facts.blockWidths.push_back(width);
  if (shape.isSpread)
    current = shape.strandOf[block];
}

/// What is said before the next block is said in its strand.
void RowBody::enterStrand() {
  if (shape.isSpread)
    current = shape.strandOf[block + 1];
}

void RowBody::closeBlock(const std::string &declarations) {
  isOpen = false;
  std::string &body = strand().body;
  for (StringRef rest = pending; !rest.empty();) {
    auto [first, next] = rest.split('\n');
    body += "  " + first.str() + "\n";
    rest = next;
  }
  if (!declarations.empty())
    body += "  " + declarations + "\n";
  if (!lines.empty())
    body += loop(blockWidth, lines, /*isGuarded=*/true);
  pending.clear();
  lines.clear();
  local.clear();
  localGroups.clear();
}

/// Once for the row, in all its threads.
void RowBody::statement(const std::string &text) {
  strand().body += "  " + text + "\n";
}

/// All threads of the row have written what they had to.
void RowBody::synchronize() {
  facts.isWhole = true;
  statement(shape.threads == kWarp ? "__syncwarp();" : "__syncthreads();");
}

std::string RowBody::getStrand(int i) const {
  const Strand &from = strands[i];
  std::string text;
  auto &self = const_cast<RowBody &>(*this);
  int before = current;
  self.current = i;
  auto print = [&](const std::vector<std::string> &before,
                   const std::map<int64_t, std::vector<std::string>> &loads) {
    for (const std::string &each : before)
      text += "  " + each + "\n";
    for (auto &[width, list] : loads) {
      std::vector<std::string> body;
      for (size_t j = 0; j < list.size(); j += 2) {
        text += "  " + list[j] + "\n";
        body.push_back(list[j + 1]);
      }
      text += self.loop(width, body, /*isGuarded=*/true);
    }
  };
  print(from.weights, from.weightLoads);
  print(from.places, {});
  std::string prefetches;
  for (auto &[width, list] : from.prefetches)
    prefetches += self.loop(width, list, /*isGuarded=*/true);
  if (shape.prefetches)
    text += prefetches;
  text += "  waitForPriorGrids();\n";
  print(from.rows, from.rowLoads);
  if (shape.ahead)
    text += prefetches;
  self.current = before;
  return text + from.body;
}

//===----------------------------------------------------------------------===//
// What has to be there before a block
//===----------------------------------------------------------------------===//

std::string RowBody::allocateShared(int64_t floats) {
  std::string name = formatv("shared + {0}", facts.sharedFloats);
  facts.sharedFloats += llvm::alignTo(floats, 4);
  return name;
}

/// Puts a row where every thread can read all of it.
void RowBody::spill(Value value) {
  if (spilled.contains(value))
    return;
  if (auto reduce = value.getDefiningOp<kernel::ReduceOp>();
      reduce && groups.contains(value)) {
    // The first chunk of each group has its result.
    int64_t chunks = groups.lookup(value) / kChunk;
    std::string place = formatv("s{0}", numbers.lookup(value));
    statement(formatv("float *const {0} = {1};", place,
                      allocateShared(widthOf(value))));
    openBlock(widthOf(reduce.getInput()));
    std::string chunk = chunkName(blockWidth);
    noteRead(value);
    line(formatv("if ({0} % {1} == 0)", chunk, chunks));
    line(formatv("  {0}[{1} / {2}] = {3}{4};", place, chunk, chunks,
                 registers.lookup(value).text, turn(blockWidth)));
    closeBlock();
    synchronize();
    spilled[value] = place;
    return;
  }
  prepare(value);
  if (spilled.contains(value))
    return;
  int64_t width = widthOf(value);
  std::string place = formatv("s{0}", numbers.lookup(value));
  statement(formatv("float *const {0} = {1};", place, allocateShared(width)));
  openBlock(width);
  std::string text = valueOf(value).text, chunk = chunkName(width);
  if (width % kChunk)
    line(formatv("storeSome({0}, {1}, {2}, {3});", place, chunk, width, text));
  else
    line(formatv("store({0}, {1}, round<float>({2}));", place, chunk, text));
  closeBlock();
  synchronize();
  spilled[value] = place;
}

/// Computes what a block over `value` cannot compute by itself.
void RowBody::prepare(Value value) {
  if (widthOf(value) == 1) {
    scalarOf(value);
    return;
  }
  if (viewOf(value) || registers.contains(value) || spilled.contains(value))
    if (!groups.contains(value))
      return;
  Operation *definition = value.getDefiningOp();
  if (isa<kernel::ReduceOp>(definition))
    return spill(value);
  if (isa<kernel::SliceOp, kernel::TileOp>(definition)) {
    if (widthOf(definition->getOperand(0)) > 1)
      return spill(definition->getOperand(0));
    scalarOf(definition->getOperand(0));
    return;
  }
  if (auto broadcast = dyn_cast<kernel::BroadcastOp>(definition)) {
    Value input = broadcast.getInput();
    int64_t group = broadcast.getGroup().value_or(widthOf(value));
    if (widthOf(input) > 1 && !isGroupText(input, widthOf(value), group))
      return spill(input);
    // Its scalars, here and not inside of the block.
    SmallVector<Value> pending = {input};
    while (!pending.empty()) {
      Value each = pending.pop_back_val();
      if (widthOf(each) == 1) {
        scalarOf(each);
        continue;
      }
      Operation *maker = each.getDefiningOp();
      if (maker && !isa<kernel::ReduceOp>(maker) && !viewOf(each))
        llvm::append_range(pending, maker->getOperands());
    }
    return;
  }
  if (auto rope = dyn_cast<kernel::RopeOp>(definition))
    return preparePartner(rope);
  for (Value operand : definition->getOperands())
    prepare(operand);
}

void RowBody::preparePartner(kernel::RopeOp rope) {
  Value x = rope.getInput();
  if (!isChunked(rope) || (!rope.getInterleaved() && !exchangesLanes(rope))) {
    std::optional<View> table = viewOf(rope.getTable());
    if (!table || table->tile)
      spill(rope.getTable());
    return spill(x);
  }
  prepare(x);
  if (rope.getInterleaved() || partners.contains(rope.getResult()))
    return;
  int64_t width = widthOf(x);
  if (!viewOf(x) && !registers.contains(x) && !spilled.contains(x)) {
    openBlock(width);
    valueOf(x);
    closeBlock();
  }
  openBlock(width);
  Text text = valueOf(x);
  std::string name = nameOf(rope.getResult(), 'p');
  std::string exchange =
      formatv("{0}{1} = exchange<{2}>({3}, RopePlace<{4}, {5}, {6}>({7})."
              "isFirst);",
              name, turn(width), widthOf(rope.getTable()) / 2 / kChunk,
              text.text, rope.getHeadDim(), rope.getOffset(),
              widthOf(rope.getTable()) / 2, chunkName(width));
  if (text.isFloat())
    exchange = formatv("{0}{1} = {2};", name, turn(width), text.text);
  lines.push_back(exchange);
  std::vector<std::string> unguarded = std::move(lines);
  lines.clear();
  closeBlock(formatv("{0} {1}{2};", text.isFloat() ? "Floats" : text.type, name,
                     arrayOf(width)));
  strand().body += loop(width, unguarded, /*isGuarded=*/false);
  partners[rope.getResult()] = {block, name};
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

RowBody::Exchange RowBody::exchangeOf(int64_t width, int64_t group) {
  if (group >= width)
    return Exchange::Row;
  if (group % kChunk)
    return Exchange::Elements;
  int64_t chunks = group / kChunk;
  return llvm::isPowerOf2_64(chunks) && chunks <= kWarp ? Exchange::Lanes
                                                        : Exchange::Chunks;
}

/// Reduces `input` so that `result` is there: one float for the row, one for
/// each chunk's group, or for elements \returns the pointer to all of them.
std::string RowBody::startGroups(const std::string &reduction, Value input,
                                 const std::string &result, Exchange exchange,
                                 int64_t group) {
  int64_t width = widthOf(input);
  if (exchange == Exchange::Elements) {
    spill(input);
    std::string place = "s" + result;
    statement(formatv("float *const {0} = {1};", place,
                      allocateShared(cdiv(width, group))));
    statement(formatv("reduceGroups<{0}>({1}, {2}, {3}, {4}, thread, {5});",
                      reduction, spilled.lookup(input), width, group, place,
                      shape.threads));
    synchronize();
    return place;
  }
  enterStrand();
  // Squares of BF16 and F16 numbers are exact: they may be added unrounded.
  auto square = input.getDefiningOp<arith::MulFOp>();
  bool isSquares = reduction == "Sum" && square && square->hasOneUse() &&
                   square.getLhs() == square.getRhs() &&
                   isShort(square.getLhs());
  if (isSquares)
    input = square.getLhs();
  prepare(input);
  bool hasTurns = !turn(width).empty();
  std::string each = result + turn(width);
  std::string array = arrayOf(width);
  std::string slots = "c" + result;
  openBlock(width);
  std::string x = valueOf(input).text, chunk = chunkName(width);
  if (width % kChunk)
    x = formatv("keepWithin<{0}>({1}, {2}, {3})", reduction, x, chunk, width);
  std::string part = isSquares
                         ? formatv("sumSquares({0})", x).str()
                         : formatv("reduceChunk<{0}>({1})", reduction, x).str();
  std::string neutral = reduction + "::neutral()";
  bool isGuarded = !guardOf(width).empty();
  std::string initial;
  // Lanes without a chunk take part with what changes nothing.
  if (isGuarded) {
    initial = neutral;
    for (int64_t i = 1; i < shape.turnsOf(width); ++i)
      initial += ", " + neutral;
    initial = hasTurns ? " = {" + initial + "}" : " = " + initial;
  }
  std::string declaration = formatv("float {0}{1}{2};", result, array, initial);
  switch (exchange) {
  case Exchange::Row: {
    facts.isWhole = true;
    if (shape.threads == kWarp) {
      line(formatv("{0} = {1};", each, part));
      closeBlock(declaration);
      statement(formatv("{0} = reduceLanes<{1}, 32>({0});", result, reduction));
      break;
    }
    std::string parts = "p" + result;
    line(formatv("{0}{1} = {2};", parts, turn(width), part));
    closeBlock(formatv("float {0}{1}{2};", parts, array, initial));
    std::string slots = formatv("partials[{0}]", facts.numSlots++);
    int64_t count = cdiv(chunksOf(width), kWarp);
    facts.slots = std::max(facts.slots, shape.turnsOf(width) *
                                            shape.threadsOf(width) / kWarp);
    int64_t threads = shape.threadsOf(width);
    std::string start = hasTurns
                            ? formatv("startRow<{0}, {1}>({2}, thread, {3});",
                                      reduction, threads, parts, slots)
                                  .str()
                            : formatv("startRow<{0}>({1}, thread, {2});",
                                      reduction, parts, slots)
                                  .str();
    // Whole warps are this width's, or are not.
    if (threads < shape.threads)
      start = formatv("if (thread < {0}) {1}", threads, start);
    statement(start);
    synchronize();
    statement(formatv("const float {0} = finishRow<{1}, {2}>({3});", result,
                      reduction, count, slots));
    break;
  }
  case Exchange::Lanes:
    line(formatv("{0} = {1};", each, part));
    closeBlock(declaration);
    if (group == kChunk)
      break;
    if (reduction == "Amax" && hasTurns && isRoundedToBf16(input))
      statement(formatv("reduceTurns<{0}>({1});", group / kChunk, result));
    else
      strand().body += loop(width,
                            {formatv("{0} = reduceLanes<{1}, {2}>({0});", each,
                                     reduction, group / kChunk)},
                            /*isGuarded=*/false);
    break;
  case Exchange::Chunks:
    line(formatv("{0}[{1}] = {2};", slots, chunk, part));
    closeBlock(formatv("float *const {0} = {1};", slots,
                       allocateShared(chunksOf(width))));
    synchronize();
    statement(formatv("float {0}{1};", result, array));
    strand().body += loop(
        width,
        {formatv("{0} = reduceChunks<{1}>({2}, {3}, {4}, {5});", each,
                 reduction, slots, chunk, group / kChunk, chunksOf(width))},
        /*isGuarded=*/true);
    break;
  case Exchange::Elements:
    break;
  }
  return "";
}

void RowBody::printReduce(kernel::ReduceOp reduce) {
  Value input = reduce.getInput(), value = reduce.getResult();
  std::string reduction =
      reduce.getKind() == kernel::Reduction::Max ? "Max" : "Sum";
  int64_t width = widthOf(input);
  if (width == 1) {
    strand().scalars[value] = scalarOf(input);
    return;
  }
  int64_t group = reduce.getGroup().value_or(width);
  Exchange exchange = exchangeOf(width, group);
  std::string name = nameOf(value, 'r');
  std::string place = startGroups(reduction, input, name, exchange, group);
  if (exchange == Exchange::Row) {
    strand().scalars[value] = name;
  } else if (exchange == Exchange::Elements) {
    spilled[value] = place;
  } else {
    groups[value] = group;
    registers[value] = {name, "float"};
    madeIn[value] = block;
  }
}

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

static bool isInt8(q::QuantizeOp quantize) {
  return quantize.getType().getElementType().isInteger(8);
}

/// \param scale  one for the chunk, or for each element.
std::string RowBody::codesOf(q::QuantizeOp quantize, const std::string &x,
                             const std::string &scale, bool isOne) {
  if (isInt8(quantize))
    return formatv("quantizeInt8({0}, {1})", x, scale);
  if (!isOne)
    return formatv("quantizeE4m3({0}, {1})", x, scale);
  const char *range = "Any";
  if (quantize.getUe8m0() && !quantize.getScale() && !quantize.getBound())
    range = "PowerOfTwo";
  else if (isShort(quantize.getInput()))
    range =
        quantize.getScale() || quantize.getBound() ? "Short" : "ShortInScale";
  return formatv("quantizeE4m3<Range::{0}>({1}, {2})", range, x, scale);
}

std::string RowBody::scaleOf(q::QuantizeOp quantize, const std::string &amax) {
  if (isInt8(quantize))
    return formatv("dynamicScaleInt8({0})", amax);
  std::string scale =
      formatv("dynamicScale{0}({1})",
              isShort(quantize.getInput()) ? "<true>" : "", amax);
  if (std::optional<APFloat> bound = quantize.getBound())
    scale = formatv("dynamicScale({0}, floatOf({1:x8}u))", amax,
                    uint32_t(bound->bitcastToAPInt().getZExtValue()));
  return quantize.getUe8m0() ? formatv("roundUpToPowerOfTwo({0})", scale).str()
                             : scale;
}

/// A static scale is one value for all rows: the first row writes it (P3).
void RowBody::printStatic(q::QuantizeOp quantize) {
  int64_t width = widthOf(quantize.getInput());
  enterStrand();
  std::string scale = scalarOf(quantize.getScale());
  prepare(quantize.getInput());
  openBlock(width);
  std::string x = valueOf(quantize.getInput()).text, chunk = chunkName(width);
  line(formatv("const uint2 codes = {0};",
               codesOf(quantize, x, scale, /*isOne=*/true)));
  for (const Destination &place : destinations[quantize.getResult()]) {
    storeCodes(place, "codes");
    if (place.scales.empty())
      continue;
    line(formatv("if (row == 0 && {0} == 0)", chunk));
    line(formatv("  *{0} = {1};", place.scales, scale));
  }
  closeBlock();
}

void RowBody::printQuantize(q::QuantizeOp quantize) {
  if (quantize.getScale())
    return printStatic(quantize);
  Value input = quantize.getInput(), value = quantize.getResult();
  int64_t width = widthOf(input), group = RowPlan::groupOf(quantize);
  int64_t count = cdiv(width, group);
  Exchange exchange = exchangeOf(width, group);
  if (width == 1)
    exchange = Exchange::Row;
  std::string name = nameOf(value, 'm'), number = name.substr(1);
  std::string place = startGroups("Amax", input, name, exchange, group);
  ArrayRef<Destination> places = destinations[value];
  if (exchange == Exchange::Elements) {
    statement(formatv("for (int group = thread; group < {0}; group += {1}) {{",
                      count, shape.threads));
    statement(formatv("  {0}[group] = {1};", place,
                      scaleOf(quantize, place + "[group]")));
    for (const Destination &each : places)
      if (!each.scales.empty())
        statement("  " + storeScale(each, "group", count, place + "[group]"));
    statement("}");
    synchronize();
    openBlock(width);
    std::string x = valueOf(input).text;
    std::string scales = formatv("loadGroups({0}, {1}, {2}, {3})", place,
                                 chunkName(width), group, width);
    line(formatv("const uint2 codes = {0};",
                 codesOf(quantize, x, scales, /*isOne=*/false)));
    for (const Destination &each : places)
      storeCodes(each, "codes");
    return closeBlock();
  }
  madeIn[value] = block;
  std::string amax = name, scale = "rowScale" + number;
  if (exchange == Exchange::Row)
    statement(
        formatv("const float {0} = {1};", scale, scaleOf(quantize, amax)));
  openBlock(width);
  noteRead(value);
  std::string x = valueOf(input).text, chunk = chunkName(width), index = "0";
  if (exchange != Exchange::Row) {
    amax += turn(width);
    scale = "scale";
    line(formatv("const float {0} = {1};", scale, scaleOf(quantize, amax)));
    index = formatv("{0} / {1}u", chunk, group / kChunk); // a shift
  }
  line(formatv("const uint2 codes = {0};",
               codesOf(quantize, x, scale, /*isOne=*/true)));
  for (const Destination &each : places) {
    storeCodes(each, "codes");
    if (each.scales.empty())
      continue;
    if (exchange == Exchange::Row)
      line(formatv("if ({0} == 0)", chunk));
    else if (group > kChunk)
      line(formatv("if ({0} % {1} == 0)", chunk, group / kChunk));
    line("  " + storeScale(each, index, count, scale));
  }
  closeBlock();
}

//===----------------------------------------------------------------------===//
// The region
//===----------------------------------------------------------------------===//

void RowBody::printYields() {
  for (Value value : op.getBody().front().getTerminator()->getOperands()) {
    if (isa<q::TensorType>(value.getType()) || stored.contains(value))
      continue;
    enterStrand();
    prepare(value);
    if (stored.contains(value)) // on the way
      continue;
    openBlock(widthOf(value));
    Text text = valueOf(value);
    storeValue(value, text);
    closeBlock();
  }
}

void RowBody::print() {
  strands.resize(shape.isSpread ? shape.strandWidths.size() : 1);
  int next = 0;
  for (Operation &body : op.getBody().front())
    for (Value result : body.getResults())
      numbers[result] = next++;
  collectDestinations();
  for (Operation &body : op.getBody().front()) {
    if (auto reduce = dyn_cast<kernel::ReduceOp>(body))
      printReduce(reduce);
    else if (auto quantize = dyn_cast<q::QuantizeOp>(body))
      printQuantize(quantize);
  }
  printYields();
}
