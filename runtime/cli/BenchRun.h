//===- BenchRun.h - What both benches run and print ----------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_BENCHRUN_H
#define OCTET_RUNTIME_CLI_BENCHRUN_H

#include "octet/Support/Clock.h"
#include "runtime/api/Handles.h"
#include "runtime/cli/Bench.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include "runtime/core/Sampler.h"

namespace octet::rt {

/// The shape that options and the program's limits allow. A default gives way
/// to the limit, a number of the user's does not.
Result<BenchShape> chooseShape(const BenchOptions &options,
                               const CommonOptions &common);

/// Sequences of drawn ids on an engine, cut back and run again.
class BenchRun {
public:
  BenchRun(Engine &engine, const BenchShape &shape)
      : engine(engine), shape(shape), sequences(size_t(shape.batch)) {}
  ~BenchRun() {
    for (Sequence &s : sequences)
      engine.release(s);
  }

  /// Puts `depth` tokens of each sequence into the cache.
  Status fill() { return runPrompts(shape.depth, /*outputs=*/0); }
  /// Runs the prompts.
  Status prefill() {
    cut();
    return runPrompts(shape.promptLength, /*outputs=*/1);
  }
  /// Back to the depth, with a token in the cache to follow.
  Status startDecode() {
    cut();
    return Status::success();
  }
  /// One token of each sequence.
  Status decode() {
    feeds.clear();
    for (Sequence &s : sequences) {
      s.tokens.push_back(nextId());
      feeds.push_back({&s, 1, 1});
    }
    if (engine.model().draws()) { // Only tokens leave the device.
      draws.resize(feeds.size());
      tokens.resize(feeds.size());
      return engine.draw(feeds, draws, tokens);
    }
    logits.resize(feeds.size() * size_t(engine.model().info().vocab));
    return engine.step(feeds, logits);
  }

private:
  void cut() {
    for (Sequence &s : sequences)
      engine.truncate(s, shape.depth);
  }
  Status runPrompts(int64_t length, int64_t outputs) {
    for (Sequence &s : sequences) {
      for (int64_t i = 0; i < length; ++i)
        s.tokens.push_back(nextId());
      logits.clear();
      OCTET_TRY(engine.prefill(s, outputs, logits));
    }
    return Status::success();
  }
  int32_t nextId() {
    return int32_t(uniform(/*seed=*/1, /*stream=*/0, drawn++) *
                   float(engine.model().info().vocab));
  }

  Engine &engine;
  const BenchShape &shape;
  std::vector<Sequence> sequences;
  std::vector<Feed> feeds;
  std::vector<Draw> draws;
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  uint64_t drawn = 0;
};

/// Takes `profile`, of `runs` runs that took `seconds`, into a phase.
void addProfile(BenchPhase &phase, const Profile &profile, double runs,
                double seconds);
Status measurePrefill(BenchRun &run, Model &model, const BenchShape &shape,
                      BenchPhase &phase, Progress &progress);

/// Runs a short prompt, for the time since this process started; where there
/// are weights to start with, other processes are started, now that the
/// weights are in memory.
Result<FirstToken> measureFirstToken(Session &session,
                                     const CommonOptions &common);

/// The bench of a CUDA program, after the session was opened.
Status benchDevice(Session &session, const CommonOptions &common,
                   const BenchOptions &options, const BenchShape &shape);

std::string bytesText(double bytes);     ///< "2.07 GB"
std::string secondsText(double seconds); ///< "3.82 s", "65.6 ms"
std::string todayText();                 ///< "2026-11-30"
/// A field of a program's info as text for a person; "-" of none.
std::string programWord(const nlohmann::json &program, const char *key);
/// The lines `model` and `run`.
std::string modelText(const nlohmann::json &program,
                      const std::string &weights);
std::string runText(const BenchShape &shape);
std::string firstTokenText(const FirstToken &first);
/// Time between the operators of a run: the program's own code, and packing.
double betweenSeconds(const BenchPhase &phase);
std::string operatorTable(const char *title, const BenchPhase &phase);
nlohmann::json phaseJson(const BenchPhase &phase);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_BENCHRUN_H
