//===- RuntimeCudaTypesTest.cpp - Our declarations and a toolkit's --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiled where cuda.h is found. The types of the functions are compared by
// the compiler, values and layouts here.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/DriverTypes.h"
#include <cstddef>
#include <cstring>
#include <cuda.h>
#include <gtest/gtest.h>

namespace cu = octet::rt::cu;

#define SAME(ours, theirs)                                                     \
  static_assert(int(cu::ours) == int(theirs), #ours " is not " #theirs)

SAME(kSuccess, CUDA_SUCCESS);
SAME(kInvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(kNoDevice, CUDA_ERROR_NO_DEVICE);
SAME(kInvalidImage, CUDA_ERROR_INVALID_IMAGE);
SAME(kNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(kUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(kNotFound, CUDA_ERROR_NOT_FOUND);
SAME(kClockKilohertz, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
SAME(kMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(kL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(kMaxSharedOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(kMaxDynamicShared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(kNonPortableCluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(kJitErrorLog, CU_JIT_ERROR_LOG_BUFFER);
SAME(kJitErrorLogBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(kEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME(kCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(kMapUint8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(kMapInt32, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME(kMapFloat16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(kMapFloat32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(kMapBfloat16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(kPromote256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(kClusterDimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(kProgrammaticStreamSerialization,
     CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);

#define SAME_PLACE(type, ours, theirs)                                         \
  static_assert(offsetof(cu::type, ours) == offsetof(type, theirs))

static_assert(sizeof(cu::CUtensorMap) == sizeof(CUtensorMap));
static_assert(sizeof(cu::CUlaunchAttribute) == sizeof(CUlaunchAttribute));
SAME_PLACE(CUlaunchAttribute, value, value);
static_assert(sizeof(cu::CUlaunchConfig) == sizeof(CUlaunchConfig));
SAME_PLACE(CUlaunchConfig, blockDimX, blockDimX);
SAME_PLACE(CUlaunchConfig, sharedMemBytes, sharedMemBytes);
SAME_PLACE(CUlaunchConfig, hStream, hStream);
SAME_PLACE(CUlaunchConfig, attrs, attrs);
SAME_PLACE(CUlaunchConfig, numAttrs, numAttrs);

TEST(CudaTypes, LaunchAttributes) {
  // The values lie at the beginning of a union.
  CUlaunchAttributeValue value{};
  value.clusterDim.x = 3;
  cu::CUlaunchAttributeValue ours;
  std::memcpy(&ours, &value, sizeof(value));
  EXPECT_EQ(ours.clusterDim.x, 3u);
  value = {};
  value.programmaticStreamSerializationAllowed = 1;
  std::memcpy(&ours, &value, sizeof(value));
  EXPECT_EQ(ours.programmaticStreamSerializationAllowed, 1);
}
