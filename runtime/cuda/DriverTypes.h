//===- DriverTypes.h - What is used of the driver's API --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declared here, so that the runner builds without a toolkit. Names, values and
// layouts are those of the CUDA driver API (cuda.h of CUDA 12.0 and later);
// they are ABI and never change. DriverTypesTest compares them with a toolkit's
// header where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_DRIVERTYPES_H
#define OCTET_RUNTIME_CUDA_DRIVERTYPES_H

#include <cstddef>
#include <cstdint>

namespace octet::rt::cu {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;

inline constexpr CUresult kSuccess = 0;
inline constexpr CUresult kInvalidValue = 1;
inline constexpr CUresult kOutOfMemory = 2;
inline constexpr CUresult kStubLibrary = 34;
inline constexpr CUresult kNoDevice = 100;
inline constexpr CUresult kInvalidImage = 200;
inline constexpr CUresult kNoBinaryForGpu = 209;
inline constexpr CUresult kUnsupportedPtxVersion = 222;
inline constexpr CUresult kNotFound = 500;

// CUdevice_attribute
inline constexpr int kClockKilohertz = 13;
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kCapabilityMajor = 75;
inline constexpr int kCapabilityMinor = 76;
inline constexpr int kMaxSharedOptin = 97;

// CUfunction_attribute
inline constexpr int kMaxDynamicShared = 8;
inline constexpr int kNonPortableCluster = 14;

// CUjit_option
inline constexpr int kJitErrorLog = 5;
inline constexpr int kJitErrorLogBytes = 6;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventRecordExternal = 1;
inline constexpr int kCaptureRelaxed = 2;

struct CUtensorMap {
  alignas(64) uint64_t opaque[16];
};

// CUtensorMapDataType
inline constexpr int kMapUint8 = 0;
inline constexpr int kMapInt32 = 3;
inline constexpr int kMapFloat16 = 6;
inline constexpr int kMapFloat32 = 7;
inline constexpr int kMapBfloat16 = 9;
// CUtensorMapL2promotion
inline constexpr int kPromote256 = 3;

// CUlaunchAttributeID
inline constexpr int kClusterDimension = 4;
inline constexpr int kProgrammaticStreamSerialization = 6;

union CUlaunchAttributeValue {
  char pad[64];
  struct {
    unsigned x, y, z;
  } clusterDim;
  int programmaticStreamSerializationAllowed;
};
struct CUlaunchAttribute {
  int id;
  char pad[4];
  CUlaunchAttributeValue value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

} // namespace octet::rt::cu

/// X(member, exported name, parameters) of each function that is used. All are
/// in drivers of CUDA 12.0.
#define OCTET_DRIVER_FUNCTIONS(X)                                              \
  X(cuInit, cuInit, (unsigned))                                                \
  X(cuDriverGetVersion, cuDriverGetVersion, (int *))                           \
  X(cuGetErrorName, cuGetErrorName, (CUresult, const char **))                 \
  X(cuGetErrorString, cuGetErrorString, (CUresult, const char **))             \
  X(cuDeviceGetCount, cuDeviceGetCount, (int *))                               \
  X(cuDeviceGet, cuDeviceGet, (CUdevice *, int))                               \
  X(cuDeviceGetName, cuDeviceGetName, (char *, int, CUdevice))                 \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *, int, CUdevice))        \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                        \
    (CUcontext *, CUdevice))                                                   \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice))       \
  X(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext))                             \
  X(cuMemGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                       \
  X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr *, size_t))                        \
  X(cuMemFree, cuMemFree_v2, (CUdeviceptr))                                    \
  X(cuMemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))               \
  X(cuMemFreeHost, cuMemFreeHost, (void *))                                    \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                   \
    (CUdeviceptr, const void *, size_t, CUstream))                             \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                   \
    (void *, CUdeviceptr, size_t, CUstream))                                   \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                   \
    (CUdeviceptr, CUdeviceptr, size_t, CUstream))                              \
  X(cuMemsetD8Async, cuMemsetD8Async,                                          \
    (CUdeviceptr, unsigned char, size_t, CUstream))                            \
  X(cuStreamCreate, cuStreamCreate, (CUstream *, unsigned))                    \
  X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream))                           \
  X(cuStreamSynchronize, cuStreamSynchronize, (CUstream))                      \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))            \
  X(cuStreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph *))             \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags,                           \
    (CUgraphExec *, CUgraph, unsigned long long))                              \
  X(cuGraphDestroy, cuGraphDestroy, (CUgraph))                                 \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                     \
  X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                     \
  X(cuEventCreate, cuEventCreate, (CUevent *, unsigned))                       \
  X(cuEventDestroy, cuEventDestroy_v2, (CUevent))                              \
  X(cuEventRecord, cuEventRecord, (CUevent, CUstream))                         \
  X(cuEventRecordWithFlags, cuEventRecordWithFlags,                            \
    (CUevent, CUstream, unsigned))                                             \
  X(cuEventSynchronize, cuEventSynchronize, (CUevent))                         \
  X(cuEventElapsedTime, cuEventElapsedTime, (float *, CUevent, CUevent))       \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx,                                    \
    (CUmodule *, const void *, unsigned, int *, void **))                      \
  X(cuModuleUnload, cuModuleUnload, (CUmodule))                                \
  X(cuModuleGetFunction, cuModuleGetFunction,                                  \
    (CUfunction *, CUmodule, const char *))                                    \
  X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))            \
  X(cuLaunchKernelEx, cuLaunchKernelEx,                                        \
    (const CUlaunchConfig *, CUfunction, void **, void **))                    \
  X(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled,                            \
    (CUtensorMap *, int, uint32_t, void *, const uint64_t *, const uint64_t *, \
     const uint32_t *, const uint32_t *, int, int, int, int))

/// The same of functions that newer drivers have: null where they are missing.
#define OCTET_NEWER_DRIVER_FUNCTIONS(X)                                        \
  X(cuFuncGetParamInfo, cuFuncGetParamInfo,                                    \
    (CUfunction, size_t, size_t *, size_t *))

namespace octet::rt::cu {

/// The functions by their plain names; all set once a driver is open.
struct DriverApi {
#define OCTET_DECLARE(member, name, parameters) CUresult(*member) parameters;
  OCTET_DRIVER_FUNCTIONS(OCTET_DECLARE)
  OCTET_NEWER_DRIVER_FUNCTIONS(OCTET_DECLARE)
#undef OCTET_DECLARE
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_DRIVERTYPES_H
