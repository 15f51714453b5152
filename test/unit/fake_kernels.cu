//===- fake_kernels.cu - The kernels of fake_cuda_program.c ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For a device of capability 9.0, as plain as can be: a launch of each kind
// that the runtime knows (grids of two dimensions, persistent CTAs, clusters, a
// tensor map, a workspace, overlap with the kernel before).
//
//===----------------------------------------------------------------------===//

constexpr int kHidden = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 16;
constexpr int kQ = kHeads * kHeadDim, kKv = kKvHeads * kHeadDim;
constexpr int kPage = 64;

struct Sequence {
  int firstRow, numRows, context, firstPage;
};
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

__device__ inline void waitForInputs() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
}

extern "C" __global__ void fake_embed(const float *table, const int *ids,
                                      const int *positions, float *h,
                                      int rows) {
  waitForInputs();
  const int i = blockIdx.x;
  for (int j = threadIdx.x; j < kHidden; j += blockDim.x)
    h[i * kHidden + j] = table[ids[i] * kHidden + j] +
                         (j == 0 ? float(positions[i]) * 0.015625f : 0.0f);
}

/// One row by all CTAs of x; those of y, or all that there are, take the rows.
template <int N, int K>
__device__ void gemm(const float *x, const float *w, float *y, int rows,
                     int begin, int step) {
  for (int i = begin; i < rows; i += step)
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
      float sum = 0;
      for (int l = 0; l < K; ++l)
        sum += x[i * K + l] * w[j * K + l];
      y[i * N + j] = sum;
    }
}

extern "C" __global__ void fake_gemm_128_48(const float *x, const float *w,
                                            float *y, int rows) {
  waitForInputs();
  const int block = blockIdx.x + blockIdx.y * gridDim.x;
  gemm<128, 48>(x, w, y, rows, block, gridDim.x * gridDim.y);
}

extern "C" __global__ void fake_gemm_61_48(const float *x, const float *w,
                                           float *y, int rows) {
  waitForInputs();
  gemm<61, 48>(x, w, y, rows, blockIdx.y, gridDim.y);
}

/// A tile of 8 rows comes through the map; rows beyond the last are zeros.
extern "C" __global__ void
fake_map_gemm_48_64(const __grid_constant__ TensorMap x, const float *w,
                    float *y, int rows) {
  extern __shared__ __align__(128) float tile[];
  __shared__ __align__(8) unsigned long long barrier;
  const unsigned at = __cvta_generic_to_shared(&barrier);
  waitForInputs();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     at),
                 "r"(8 * 64 * 4)
                 : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     unsigned(__cvta_generic_to_shared(tile))),
                 "l"(&x), "r"(0), "r"(int(blockIdx.x) * 8), "r"(at)
                 : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  for (int tries = 0; !done && tries < (1 << 20); ++tries)
    asm volatile("{\n.reg .pred p;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                 "selp.u32 %0, 1, 0, p;\n}"
                 : "=r"(done)
                 : "r"(at)
                 : "memory");
  const int first = blockIdx.x * 8;
  const int count = min(8, rows - first);
  gemm<48, 64>(tile, w, y + first * 48, count, 0, 1);
}

extern "C" __global__ void fake_split(const float *qkv, const int *slots,
                                      float *k, float *v, float *q, int rows) {
  waitForInputs();
  const int i = blockIdx.x;
  const float *row = qkv + i * (kQ + 2 * kKv);
  for (int j = threadIdx.x; j < kQ; j += blockDim.x)
    q[i * kQ + j] = row[j];
  for (int j = threadIdx.x; j < kKv; j += blockDim.x) {
    k[slots[i] * kKv + j] = row[kQ + j];
    v[slots[i] * kKv + j] = row[kQ + kKv + j];
  }
}

extern "C" __global__ void fake_attention(const float *q, const float *k,
                                          const float *v, float *y,
                                          const Sequence *sequences,
                                          const int *pages, int count) {
  waitForInputs();
  const Sequence s = sequences[blockIdx.x];
  const int *own = pages + s.firstPage;
  for (int work = threadIdx.x; work < s.numRows * kHeads; work += blockDim.x) {
    const int r = work / kHeads, head = work % kHeads;
    const int keys = s.context - s.numRows + r + 1;
    const float *query = q + (s.firstRow + r) * kQ + head * kHeadDim;
    const int offset = head / (kHeads / kKvHeads) * kHeadDim;
    float largest = -INFINITY, sum = 0, out[kHeadDim] = {};
    for (int key = 0; key < keys; ++key) {
      const long slot = own[key / kPage] * kPage + key % kPage;
      float dot = 0;
      for (int d = 0; d < kHeadDim; ++d)
        dot += query[d] * k[slot * kKv + offset + d];
      dot *= 0.25f;
      const float next = fmaxf(largest, dot);
      const float fade = expf(largest - next), weight = expf(dot - next);
      sum = sum * fade + weight;
      for (int d = 0; d < kHeadDim; ++d)
        out[d] = out[d] * fade + weight * v[slot * kKv + offset + d];
      largest = next;
    }
    for (int d = 0; d < kHeadDim; ++d)
      y[(s.firstRow + r) * kQ + head * kHeadDim + d] = out[d] / sum;
  }
}

extern "C" __global__ void fake_add(float *h, const float *o,
                                    const int *workspace, int rows) {
  waitForInputs();
  const int i = blockIdx.x;
  // What is not zero there shows.
  for (int j = threadIdx.x; j < kHidden; j += blockDim.x)
    h[i * kHidden + j] += o[i * kHidden + j] + workspace[0] + workspace[15];
}

extern "C" __global__ void fake_output(const float *h, const int *outputRows,
                                       float *o, int rows) {
  waitForInputs();
  const int i = blockIdx.x;
  for (int j = threadIdx.x; j < kHidden; j += blockDim.x)
    o[i * kHidden + j] = h[outputRows[i] * kHidden + j] * 0.0625f;
}

struct SampleRow {
  float temperature, topP, minP, uniform;
  int topK;
};

/// The largest alone.
extern "C" __global__ void fake_sample_61(const float *logits,
                                          const SampleRow *options, int *tokens,
                                          float *scratch, int rows) {
  waitForInputs();
  const int i = blockIdx.x;
  if (threadIdx.x > 0)
    return;
  int best = 0;
  for (int j = 1; j < 61; ++j)
    if (logits[i * 61 + j] > logits[i * 61 + best])
      best = j;
  scratch[i * 64 + 63] = 0;
  tokens[i] = options[i].temperature > 0 ? -1 : best;
}
