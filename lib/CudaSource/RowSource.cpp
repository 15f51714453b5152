//===- RowSource.cpp - kernel.rowwise to CUDA C++ -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowSource.h"
#include "GemmText.h"
#include "RowBody.h"
#include "lib/HostCode/RowPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "octet/Support/Checked.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace octet;
using namespace octet::cuda;
using host::RowPlan;
using llvm::formatv;

/// Threads of a CTA that has a part of a row, at most; and of several rows.
static constexpr int64_t kSpreadThreads = 128, kManySpreadThreads = 256;
/// Rows of at least so many threads have a variant with fewer of them, which
/// serves steps of more than kFewThreads (about as many as are at once in a
/// large device), or twice as many where they wait for memory rather than for
/// barriers. Tried on an H200 (widths of 4096 to 18432, 1 to 4096 rows).
static constexpr int64_t kManyUnits = 512, kManyTurns = 4, kManyThreads = 256;
static constexpr int64_t kFewThreads = 1 << 18;
/// Kernels that do much with little memory bring the row to L2 that a CTA will
/// have about when they end; others have memory busy all the time.
static constexpr int64_t kAheadRows = 640;
/// So many threads of whole rows share a multiprocessor's registers at least.
static constexpr int64_t kResidentThreads = 1024;
/// Of a CTA on every target.
static constexpr int64_t kMaxSharedBytes = 99 << 10;

//===----------------------------------------------------------------------===//
// What can be printed
//===----------------------------------------------------------------------===//

static LogicalResult checkQuantize(kernel::RowwiseOp op,
                                   q::QuantizeOp quantize) {
  q::TensorType type = quantize.getType();
  bool isCode = isa<Float8E4M3FNType>(type.getElementType()) ||
                type.getElementType().isSignlessInteger(8);
  bool isKnown = type.getScaleType().isF32() &&
                 (type.getLayout() == q::Layout::Plain ||
                  type.getLayout() == q::Layout::ColumnMajorScales);
  isKnown |= quantize.getUe8m0() && type.getLayout() == q::Layout::Ue8m0Packed;
  if (!isCode || !isKnown)
    return op.emitError() << "internal error: " << op.getLabel()
                          << ": q.quantize to " << type
                          << "; CUDA row code rounds to f8E4M3FN or i8 with "
                             "f32 scales, or ue8m0_packed ones [N1]";
  if (!quantize.getScale() &&
      type.getGranularity().getKind() == q::GranularityKind::PerTensor)
    return op.emitError() << "internal error: " << op.getLabel()
                          << ": q.quantize to per_tensor without a scale; a "
                             "dynamic scale is per token or per group [P3, B5]";
  for (Operation *user : quantize->getUsers())
    if (!isa<kernel::YieldOp>(user))
      return op.emitError() << "internal error: " << op.getLabel()
                            << ": codes are read in the region; they can only "
                               "be yielded";
  return success();
}

static LogicalResult checkBody(kernel::RowwiseOp op) {
  for (Value input : op.getInputs())
    if (isa<q::TensorType>(kernel::getValueType(input.getType())))
      return op.emitError()
             << "internal error: " << op.getLabel() << ": reads "
             << input.getType() << "; CUDA row code reads f32, bf16 and f16";
  for (Operation &body : op.getBody().front()) {
    if (auto quantize = dyn_cast<q::QuantizeOp>(body)) {
      if (failed(checkQuantize(op, quantize)))
        return failure();
      continue;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(body)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!dense || !dense.getElementType().isF32() || !dense.isSplat())
        return op.emitError() << "internal error: " << op.getLabel()
                              << ": a constant of a row is one f32 value "
                                 "repeated";
      continue;
    }
    if (RowPlan::isElementwise(&body) ||
        isa<kernel::ReduceOp, kernel::BroadcastOp, kernel::TileOp,
            kernel::SliceOp, kernel::RopeOp, kernel::YieldOp>(body))
      continue;
    return op.emitError() << "internal error: " << op.getLabel()
                          << ": no CUDA code for '" << body.getName()
                          << "' in a row";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The shape
//===----------------------------------------------------------------------===//

/// Blocks that share registers are a strand.
static void findStrands(const RowFacts &facts, RowShape &shape) {
  llvm::EquivalenceClasses<int> classes;
  int count = facts.blockWidths.size();
  for (int i = 0; i < count; ++i)
    classes.insert(i);
  for (auto [a, b] : facts.joined)
    classes.unionSets(a, b);
  llvm::DenseMap<int, int> strandOfLeader;
  for (int i = 0; i < count; ++i) {
    auto [found, isNew] = strandOfLeader.try_emplace(classes.getLeaderValue(i),
                                                     shape.strandWidths.size());
    if (isNew)
      shape.strandWidths.push_back(facts.blockWidths[i]);
    shape.strandOf.push_back(found->second);
  }
}

namespace {
enum class Rows {
  Any,
  Few, ///< the whole device waits for each of them
  Many ///< more than there are multiprocessors, by far
};
} // namespace

static int64_t countRowOperands(kernel::RowwiseOp op) {
  return llvm::count_if(op.getAccess().getAsRange<kernel::AccessAttr>(),
                        [](kernel::AccessAttr access) {
                          return access.getValue() == kernel::Access::Row;
                        });
}

static RowShape chooseShape(kernel::RowwiseOp op, const RowFacts &facts,
                            Rows rows, const Target &target) {
  bool isRope = !op.getBody().front().getOps<kernel::RopeOp>().empty();
  RowShape shape;
  // Before sm_90 kernels start when those in front have ended.
  shape.prefetches = rows == Rows::Few && target.capability >= 90;
  int64_t spreadThreads = kSpreadThreads;
  if (rows == Rows::Many) {
    shape.turns = kManyTurns;
    int64_t chunks = RowBody::chunksOf(*llvm::max_element(facts.blockWidths));
    shape.maxThreads =
        std::clamp<int64_t>(llvm::alignTo(cdiv(chunks, kManyTurns), kWarp),
                            2 * kWarp, kManyThreads);
    if (!isRope)
      spreadThreads = kManySpreadThreads;
    if (isRope || (facts.isWhole && countRowOperands(op) == 1))
      shape.ahead = kAheadRows;
  }
  shape.kept = facts.read;
  shape.isSpread = !facts.isWhole;
  if (shape.isSpread) {
    findStrands(facts, shape);
    int64_t units = shape.countUnits();
    int64_t parts = cdiv(units, spreadThreads);
    shape.threads = llvm::alignTo(cdiv(units, parts), kWarp);
    shape.rows = std::max<int64_t>(1, kSpreadThreads / units);
    return shape;
  }
  for (int64_t width : facts.blockWidths)
    shape.threads = std::max(shape.threads, shape.threadsOf(width));
  // Short rows have a warp each.
  shape.rows = shape.threads == kWarp ? 4 : 1;
  if (rows == Rows::Many)
    shape.minCtas = cdiv(kResidentThreads, shape.threads);
  return shape;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

namespace {
/// The parameters in the order of host::RowFrame.
struct Parameters {
  std::vector<std::string> declarations;
  std::vector<std::string> notes; ///< for the comment

  void add(const std::string &declaration, const std::string &note) {
    declarations.push_back(declaration);
    notes.push_back(note);
  }
};
} // namespace

static std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static Parameters parametersOf(kernel::RowwiseOp op) {
  Parameters parameters;
  for (auto [i, input, access] : llvm::enumerate(
           op.getInputs(), op.getAccess().getAsRange<kernel::AccessAttr>())) {
    auto type = cast<RankedTensorType>(kernel::getValueType(input.getType()));
    parameters.add(
        formatv("const {0} *in{1}", memoryTypeName(type.getElementType()), i),
        formatv("in{0}: {1}, {2}", i, textOf(type),
                stringifyAccess(access.getValue())));
  }
  for (size_t i = 0; i < op.getIndices().size(); ++i)
    parameters.add(formatv("const i32 *index{0}", i),
                   formatv("index{0}: tensor<?xi32>", i));
  for (auto [i, out] : llvm::enumerate(op.getOuts())) {
    Type type = kernel::getValueType(out.getType());
    auto quantized = dyn_cast<q::TensorType>(type);
    Type element = quantized ? quantized.getElementType()
                             : cast<RankedTensorType>(type).getElementType();
    parameters.add(formatv("{0} *out{1}", memoryTypeName(element), i),
                   formatv("out{0}: {1}", i, textOf(type)));
    if (quantized)
      parameters.add(formatv("{0} *scale{1}",
                             quantized.getScaleType().isF32() ? "float" : "u8",
                             i),
                     formatv("scale{0}: its scales", i));
  }
  if (op.getCache()) {
    q::KvType cache = op.getCache().getType();
    std::string element = memoryTypeName(cache.getElementType());
    parameters.add(formatv("{0} *keys", element),
                   formatv("keys, values: {0}, row slots[i]", textOf(cache)));
    parameters.add(formatv("{0} *values", element), "");
    parameters.add("const i32 *slots", "");
  }
  return parameters;
}

/// Which threads have which rows and chunks.
static std::string printPlace(const RowShape &shape, const RowFacts &facts) {
  std::string text;
  const char *name = shape.isSpread ? "unit" : "thread";
  if (shape.rows > 1)
    text += formatv("  const int {0} = threadIdx.x % {1};\n"
                    "  const i64 row = i64(blockIdx.x) * {2} + threadIdx.x / "
                    "{1};\n"
                    "  if (row >= rows)\n    return;\n",
                    name, shape.threads, shape.rows);
  else if (shape.isSpread && shape.countUnits() > shape.threads)
    text += formatv("  const int unit = blockIdx.y * {0} + threadIdx.x;\n"
                    "  const i64 row = blockIdx.x;\n",
                    shape.threads);
  else
    text += formatv("  const int {0} = threadIdx.x;\n"
                    "  const i64 row = blockIdx.x;\n",
                    name);
  if (facts.numSlots)
    text += formatv("  __shared__ float partials[{0}][{1}];\n", facts.numSlots,
                    facts.slots);
  if (facts.sharedFloats) {
    text += "  extern __shared__ float4 sharedBytes[];\n"
            "  float *const shared = reinterpret_cast<float *>(sharedBytes)";
    if (shape.rows > 1)
      text += formatv(" + threadIdx.x / {0} * {1}", shape.threads,
                      facts.sharedFloats);
    text += ";\n";
  }
  return text;
}

static std::string indent(StringRef text) {
  std::string result;
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    result += (first.starts_with("#") ? "" : "  ") + first.str() + "\n";
    text = rest;
  }
  return result;
}

static std::string printBody(const RowShape &shape, const RowBody &body) {
  if (!shape.isSpread)
    return body.getStrand(0);
  std::string text;
  int64_t first = 0;
  int count = body.getNumStrands();
  for (int i = 0; i < count; ++i) {
    std::string start =
        first ? formatv("unit - {0}", first).str() : std::string("unit");
    int64_t width = shape.strandWidths[i];
    std::string declaration =
        formatv("  const int {0} = {1};\n",
                shape.turnsOf(width) > 1 ? "start" : "chunk", start);
    first += shape.threadsOf(width);
    if (count == 1)
      return declaration + body.getStrand(0);
    text += i == 0 ? "  " : " else ";
    text +=
        i + 1 < count ? formatv("if (unit < {0}) {{\n", first).str() : "{\n";
    text += indent(declaration + body.getStrand(i)) + "  }";
  }
  return text + "\n";
}

/// "add+rms_norm" → "add_rms_norm"
static std::string identifierOf(StringRef label) {
  std::string text = label.str();
  for (char &c : text)
    if (!llvm::isAlnum(c))
      c = '_';
  return text;
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

/// Bytes of operands that are the same for all rows.
static int64_t countUniformBytes(kernel::RowwiseOp op) {
  int64_t bytes = 0;
  for (auto [input, access] : llvm::zip(
           op.getInputs(), op.getAccess().getAsRange<kernel::AccessAttr>()))
    if (access.getValue() == kernel::Access::Uniform) {
      auto type = cast<RankedTensorType>(kernel::getValueType(input.getType()));
      bytes +=
          type.getNumElements() * q::getElementBytes(type.getElementType());
    }
  return bytes;
}

static int64_t countFlops(kernel::RowwiseOp op) {
  int64_t flops = 0;
  for (Operation &body : op.getBody().front())
    if (RowPlan::isElementwise(&body) ||
        isa<kernel::ReduceOp, kernel::RopeOp, q::QuantizeOp>(body))
      flops += RowPlan::widthOf(body.getOperand(0));
  return flops;
}

static FailureOr<KernelInstance> printInstance(kernel::RowwiseOp op,
                                               const RowShape &shape,
                                               const Target &target) {
  RowBody body(op, shape);
  body.print();
  const RowFacts &facts = body.getFacts();

  KernelInstance instance;
  instance.label = op.getLabel().str();
  instance.threads = shape.threads * shape.rows;
  instance.sharedBytes = facts.sharedFloats * shape.rows * 4;
  instance.overlaps = target.capability >= 90;
  if (instance.sharedBytes > kMaxSharedBytes)
    return op.emitError() << "internal error: " << op.getLabel()
                          << ": a row needs " << instance.sharedBytes
                          << " bytes of shared memory, more than "
                          << kMaxSharedBytes;
  instance.grid[0] = {1, 0, int32_t(shape.rows), 0};
  if (shape.isSpread)
    instance.grid[1] = Grid::constant(cdiv(shape.countUnits(), shape.threads));
  for (int64_t i = 0; i < host::RowFrame::of(op).size; ++i)
    instance.params.push_back(Param::address(i));
  instance.params.push_back(Param::rowCount());

  Parameters parameters = parametersOf(op);
  std::string text = printPlace(shape, facts) + "  launchNextGrid();\n" +
                     printBody(shape, body) + "}\n";
  std::string list = llvm::join(parameters.declarations, ", ") + ", int rows";
  uint64_t hash = llvm::xxh3_64bits("(" + list + ") {\n" + text);
  instance.entry = formatv("octet_row_{0}_{1}", identifierOf(op.getLabel()),
                           llvm::utohexstr(hash, /*LowerCase=*/true, 16));

  std::string comment = formatv("// {0}\n//\n", op.getLabel());
  for (const std::string &note : parameters.notes)
    if (!note.empty())
      comment += "//   " + note + "\n";
  comment += formatv("//\n// {0} threads a row, {1} rows a CTA of {2}.\n",
                     shape.isSpread ? shape.countUnits() : shape.threads,
                     shape.rows, instance.threads);
  std::string bounds = std::to_string(instance.threads);
  if (shape.minCtas)
    bounds += ", " + std::to_string(shape.minCtas);
  instance.source = comment +
                    "\n#include \"row/row.cuh\"\n\n"
                    "using namespace octet::cuda;\n\n"
                    "extern \"C\" __global__ void __launch_bounds__(" +
                    bounds + ")\n" + wrapList(instance.entry + "(", list) +
                    ") {\n" + text;
  return instance;
}

FailureOr<KernelLaunch> octet::cuda::printRowwiseLaunch(kernel::RowwiseOp op,
                                                        const Target &target) {
  if (failed(checkBody(op)))
    return failure();
  // The first run finds what the shape depends on (RowBody.h).
  RowShape first;
  first.keepsAll = true;
  first.threads = 1024;
  RowBody trial(op, first);
  trial.print();

  KernelLaunch launch;
  if (!op.getModules().empty())
    launch.module = cast<StringAttr>(op.getModules()[0]).str();
  launch.label = op.getLabel().str();
  launch.bytes = countUniformBytes(op);
  launch.rowBytes = host::countRowBytes(op) - launch.bytes;
  launch.rowFlops = countFlops(op);

  // Few rows want many threads; of many rows several are at once in a
  // multiprocessor, each with loads in flight.
  RowShape shape = chooseShape(op, trial.getFacts(), Rows::Any, target);
  std::vector<std::pair<int64_t, RowShape>> shapes;
  int64_t threads = shape.isSpread ? shape.countUnits() : shape.threads;
  if (threads >= kManyUnits) {
    shape = chooseShape(op, trial.getFacts(), Rows::Few, target);
    bool waits = shape.isSpread || countRowOperands(op) > 1;
    shapes.push_back({(waits ? 2 : 1) * kFewThreads / threads, shape});
    shape = chooseShape(op, trial.getFacts(), Rows::Many, target);
  }
  shapes.push_back({-1, shape});
  for (auto &[maxRows, each] : shapes) {
    FailureOr<KernelInstance> instance = printInstance(op, each, target);
    if (failed(instance))
      return failure();
    launch.variants.push_back({maxRows, {*instance}});
  }
  return launch;
}
