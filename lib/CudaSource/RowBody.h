//===- RowBody.h - The statements of one row kernel -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value of width W is cut into chunks of 8 elements. Threads hold chunks in
// registers, and chunk c of every value of one width lies in the same thread,
// so what is element-wise needs no exchange. The region becomes *blocks*, loops
// over a thread's chunks; reductions, quantisations and rotations end a block,
// because lanes or warps exchange something there:
//
//   sum of squares of x + y ──► a block: adds, rounds, stores and keeps the sum
//                               of rows in registers, sums its squares; then
//                               lanes and warps add what they have
//   quantise (x + y) * r * w ─► a block: the largest magnitude of its chunks;
//                               lanes of a group exchange it; a block: codes
//
// What is read at other positions than it was computed at (rows of odd heads,
// parts of computed values) goes through shared memory.
//
// A region is printed twice. The first run keeps everything and finds out what
// later blocks read and whether the row has to stay together; then RowShape is
// decided, and the second run is the text.
//
// Two shapes:
//   whole   a CTA, or a warp of it, has the row; threads have the chunks of
//   each
//           value in turns
//   spread  nothing is exchanged beyond a warp: values that do not meet are
//           *strands* side by side, and threads have a chunk of one strand, or
//           several where there are many rows
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_ROWBODY_H
#define OCTET_CUDASOURCE_ROWBODY_H

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "lib/HostCode/RowPrinter.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <string>

namespace octet::cuda {

inline constexpr int64_t kChunk = 8; ///< elements; row.cuh
inline constexpr int64_t kWarp = 32;

/// Names of the C++ types of row.cuh for what lies in memory.
std::string memoryTypeName(mlir::Type element);

struct RowShape {
  bool isSpread = false;
  bool keepsAll = false; ///< the first run
  llvm::DenseSet<mlir::Value> kept;
  std::vector<int> strandOf;         ///< of each block, in order
  std::vector<int64_t> strandWidths; ///< of spread strands
  int64_t turns = 1;                 ///< at most, of spread strands
  int64_t maxThreads = 1024;         ///< of a whole row
  int64_t threads = kWarp;           ///< of a row; of a CTA's part when spread
  int64_t rows = 1;                  ///< of a CTA
  int64_t minCtas = 0;               ///< of a multiprocessor
  bool prefetches = false;           ///< before earlier kernels have ended
  int64_t ahead = 0;                 ///< prefetches the row so much further on

  /// A value's chunks are in so many turns of so many threads.
  int64_t turnsOf(int64_t width) const;
  int64_t threadsOf(int64_t width) const;
  /// Threads of a row that is spread.
  int64_t countUnits() const;
};

/// What the first run finds.
struct RowFacts {
  bool isWhole = false;             ///< something crosses warps
  llvm::DenseSet<mlir::Value> read; ///< in other blocks than they come from
  std::vector<int64_t> blockWidths;
  std::vector<std::pair<int, int>> joined; ///< blocks that share registers
  int64_t sharedFloats = 0;                ///< for each row of a CTA
  int numSlots = 0;                        ///< reductions over warps,
  int64_t slots = 0;                       ///< and the most results of warps
};

class RowBody {
public:
  RowBody(kernel::RowwiseOp op, const RowShape &shape)
      : op(op), shape(shape), frame(host::RowFrame::of(op)) {}

  void print();

  const RowFacts &getFacts() const { return facts; }
  /// Statements of strand `i`; a whole row is strand 0.
  std::string getStrand(int i) const;
  int getNumStrands() const { return strands.size(); }

  static int64_t widthOf(mlir::Value value);
  static int64_t chunksOf(int64_t width);

private:
  /// Text of a value, and its C++ type: "float" stands for all elements.
  struct Text {
    std::string text, type;
    bool isFloat() const { return type == "float"; }
  };
  /// A function of row.cuh, what it takes, and a last constant.
  struct Function {
    std::string name;
    llvm::SmallVector<mlir::Value, 3> operands;
    std::string literal;
  };
  /// Element i is argument[offset + (phase + i) % tile]; no tile: offset + i.
  struct View {
    mlir::BlockArgument argument;
    int64_t offset = 0, tile = 0, phase = 0;
  };
  struct Strand {
    /// Statements before loads; those of `places` read no memory.
    std::vector<std::string> weights, places, rows;
    /// Loads of each width: of weights, and of what the step writes.
    std::map<int64_t, std::vector<std::string>> weightLoads, rowLoads;
    std::map<int64_t, std::vector<std::string>> prefetches;
    std::string body;
    std::map<std::string, Text> loaded; ///< by what is loaded
    llvm::DenseMap<mlir::Value, std::string> scalars, pointers;
    int nextLoad = 0;
    bool hasSlot = false;
  };
  struct Destination {
    std::string pointer, scales;
    mlir::Type type;       ///< element type, or the q::TensorType of codes
    bool isCached = false; ///< in the row's slot of the cache
    int64_t width = 0;
  };
  /// How a reduction over groups is shared among threads.
  enum class Exchange { Row, Lanes, Chunks, Elements };

  // Memory (RowMemory.cpp).
  mlir::Type elementOf(mlir::BlockArgument argument);
  std::string pointerTo(mlir::BlockArgument argument);
  std::optional<View> viewOf(mlir::Value value);
  Text loadView(const View &view, int64_t width);
  Text loadOnce(const std::string &key, const std::string &type,
                const std::string &call, int64_t width, bool isWeight);
  std::string elementOfView(const View &view, const std::string &index);
  bool isWeight(mlir::BlockArgument argument);
  void collectDestinations();
  std::string pointerTo(const Destination &place);
  void storeValue(mlir::Value value, const Text &text);
  void storeCodes(const Destination &place, const std::string &codes);
  std::string storeScale(const Destination &place, const std::string &group,
                         int64_t groups, const std::string &scale);

  // Values (RowValues.cpp).
  Text valueOf(mlir::Value value);
  Text computeValue(mlir::Value value);
  static Function functionFor(mlir::Operation *op);
  Text call(const Function &function, llvm::ArrayRef<Text> operands);
  Text ropeOf(kernel::RopeOp rope);
  std::string ropeTable(kernel::RopeOp rope, bool isSine);
  Text groupOf(mlir::Value value, int64_t width, int64_t group);
  bool isGroupText(mlir::Value value, int64_t width, int64_t group);
  std::string scalarOf(mlir::Value value);
  Text define(mlir::Value value, const Text &text);
  std::string nameOf(mlir::Value value, char prefix = 'v');
  static bool isRoundedToBf16(mlir::Value value);
  static bool isShort(mlir::Value value);
  bool exchangesLanes(kernel::RopeOp rope);
  bool isChunked(kernel::RopeOp rope);

  // Blocks (RowBlocks.cpp).
  Strand &strand() { return strands[current]; }
  void enterStrand();
  void openBlock(int64_t width);
  void closeBlock(const std::string &declarations = "");
  std::string loop(int64_t width, const std::vector<std::string> &lines,
                   bool isGuarded);
  std::string guardOf(int64_t width);
  std::string turn(int64_t width);
  std::string arrayOf(int64_t width);
  std::string chunkName(int64_t width);
  void line(const std::string &text) { lines.push_back(text); }
  void statement(const std::string &text);
  void synchronize();
  void prepare(mlir::Value value);
  void preparePartner(kernel::RopeOp rope);
  void spill(mlir::Value value);
  bool isSpilled(mlir::Value value) { return spilled.contains(value); }
  std::string allocateShared(int64_t floats);
  Exchange exchangeOf(int64_t width, int64_t group);
  std::string startGroups(const std::string &op, mlir::Value input,
                          const std::string &result, Exchange exchange,
                          int64_t group);
  void noteRead(mlir::Value value);
  void printReduce(kernel::ReduceOp reduce);
  void printQuantize(q::QuantizeOp quantize);
  void printStatic(q::QuantizeOp quantize);
  std::string codesOf(q::QuantizeOp quantize, const std::string &x,
                      const std::string &scale, bool isOne);
  std::string scaleOf(q::QuantizeOp quantize, const std::string &amax);
  void printYields();

  kernel::RowwiseOp op;
  const RowShape &shape;
  host::RowFrame frame;
  RowFacts facts;

  std::vector<Strand> strands;
  int current = 0;

  // Where things are.
  llvm::DenseMap<mlir::Value, int> madeIn; ///< block, of what is in registers
  llvm::DenseMap<mlir::Value, Text> registers;
  llvm::DenseMap<mlir::Value, std::string> spilled; ///< pointer
  llvm::DenseMap<mlir::Value, int64_t> groups; ///< of reductions in registers
  llvm::DenseMap<mlir::Value, std::pair<int, std::string>> partners;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Destination, 1>> destinations;
  llvm::DenseSet<mlir::Value> stored;
  llvm::DenseMap<mlir::Value, int> numbers;

  // Of the open block.
  int block = -1;
  int64_t blockWidth = 0;
  bool isOpen = false;
  std::vector<std::string> lines;
  std::string pending; ///< declarations of registers that outlive the block
  llvm::DenseMap<mlir::Value, Text> local;
  std::map<std::pair<void *, int64_t>, Text> localGroups;
};

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_ROWBODY_H
