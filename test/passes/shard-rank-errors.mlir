// RUN: octet-opt %s -octet-shard="ep=3 dp=2" -split-input-file -verify-diagnostics
// RUN: not octet-opt %s -octet-shard=tp=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE

// The experts' groups divide the ranks (W3c).
// NEGATIVE: error: --tp -1: expected 1 or more [W3c]
// expected-error @+1 {{--ep 3: does not divide the 2 ranks of tp=1 and dp=2 [W3c]}}
module {
}
