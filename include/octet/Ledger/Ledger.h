//===- Ledger.h - The precision ledger of a model ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// SPEC section 5 for one model: what a token's values are at each operator
// boundary, where scales come from and who rounds what. The figures are plain
// data here, taken from the types of the IR (Collect.h); three printers write
// them. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LEDGER_LEDGER_H
#define OCTET_LEDGER_LEDGER_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace octet {

/// The scales of some codes.
struct LedgerScales {
  std::string granularity;    ///< `block<1x128>`, `group<32> with minimums`
  std::string dtype;          ///< `F32`, `UE8M0`
  std::vector<int64_t> shape; ///< of one token's, or of a whole weight's
  int64_t count = 0;
  int64_t bytes = 0; ///< with zero points or minimums
  bool powerOfTwo = false;
  bool isStatic = false; ///< one for all tokens: no bytes of a token
};

/// Numbers of one dtype: of one token at a boundary, or a weight.
struct LedgerPart {
  std::string name;           ///< of a weight's slot; else what it is, or empty
  std::string dtype;          ///< `BF16`, `F8_E4M3`, `I32`
  std::vector<int64_t> shape; ///< without the rows of a step
  int64_t elements = 0;
  int64_t codeBytes = 0;
  std::optional<LedgerScales> scales;

  int64_t getBytes() const { return codeBytes + (scales ? scales->bytes : 0); }
};

/// What one rounding does at most and on average (N5).
struct LedgerError {
  std::string format; ///< dtype that is rounded to
  /// At most: of the value where it is normal in the format, or with
  /// `ofLargest` of the largest value that the scale can hold.
  double relative = 0;
  double rms = 0; ///< the same on average, of Gaussian values
  /// Below this part of the group's largest value the error is absolute, at
  /// most `absolute` of that largest value; 0: practically nowhere.
  double normalFrom = 0, absolute = 0;
  bool ofLargest = false;
};

/// One operator boundary.
struct LedgerEntry {
  std::vector<std::string> rules; ///< the boundary's first
  std::string op;                 ///< `quantise`, `linear`
  std::string module;             ///< path, with {l} for the layer
  std::vector<LedgerPart> in, weights, out;
  std::string arithmetic;
  std::optional<LedgerError> error;
  /// A sum in FP32 is wrong by at most this part of the sum of magnitudes.
  double sumBound = 0;
  bool isCache = false; ///< `out` is what a token leaves in a cache
  bool isMoved = false; ///< `out` goes to other ranks
  std::vector<std::string> notes;
};

/// Sums over the entries of a section, for one token.
struct LedgerTotals {
  int64_t roundings = 0; ///< to a format of 8 bits or less
  int64_t switches = 0;  ///< boundaries whose dtype out is not the one in
  /// Bytes that boundaries write, scales apart, by dtype.
  std::map<std::string, int64_t> written;
  int64_t writtenBytes = 0;
  int64_t cacheBytes = 0;  ///< KV cache and indexer's
  int64_t movedBytes = 0;  ///< to other ranks
  int64_t weightBytes = 0; ///< that a layer holds, scales included
  int64_t weightScales = 0;
  int64_t weightScaleBytes = 0;
};

/// What happens to a token at the model's ends or in a layer.
struct LedgerSection {
  std::string kind;  ///< `embedding`, `layer` or `head`
  std::string title; ///< "latent attention with an indexer, experts"
  /// First and last layer of each run that is so; empty for the ends.
  std::vector<std::pair<int64_t, int64_t>> layers;
  std::vector<LedgerEntry> entries;
  LedgerTotals totals;

  int64_t countLayers() const;
};

/// One step on the way of a weight from the file to its slot.
struct LedgerRewrite {
  std::vector<std::string> rules;
  std::string what;
  std::optional<LedgerError> error; ///< absent: the numbers stay
};

/// A weight as it is stored and as the kernels read it.
struct LedgerWeight {
  std::string slot;
  std::vector<std::string> tensors; ///< stored names, with {l} and {e}
  LedgerPart part;                  ///< of one layer
  int64_t count = 1;                ///< layers that have it
  std::vector<LedgerRewrite> rewrites;
};

/// The ledger of one model on one rank.
struct Ledger {
  /// What was asked for and what the checkpoint is, in the order of printing.
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<LedgerSection> sections;
  std::vector<LedgerWeight> weights;

  // Of the whole model.
  std::map<std::string, int64_t> weightBytes; ///< by dtype; scales by theirs
  int64_t totalWeightBytes = 0;
  int64_t weightScales = 0, weightScaleBytes = 0;
  int64_t cacheBytes = 0; ///< of one token in all layers
  int64_t maxContext = 0; ///< tokens of one sequence
  int64_t roundings = 0;  ///< of one token in all layers

  /// Of one sequence that is as long as it may be; saturates.
  int64_t getCacheBytes() const;
};

/// Sums of a section's entries; what collectLedger fills `totals` with.
LedgerTotals sumEntries(const std::vector<LedgerEntry> &entries);

/// Leaves the weights that the remaining sections read, and what belongs to
/// them.
void keepReadWeights(Ledger &ledger);

/// For a terminal or a file: a table a section, of `width` columns or more.
std::string formatLedgerText(const Ledger &ledger);

/// One JSON object, ended by a newline: see `octet ledger --help`.
std::string formatLedgerJson(const Ledger &ledger);

/// One HTML page that needs nothing else. All names are escaped.
std::string formatLedgerHtml(const Ledger &ledger);

} // namespace octet

#endif // OCTET_LEDGER_LEDGER_H
