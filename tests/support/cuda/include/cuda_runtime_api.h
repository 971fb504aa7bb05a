// The part of the CUDA runtime's API that the CUDA backend uses, with the
// numbers of CUDA 13. Lets device.cc compile without CUDA's headers.
// fake_runtime.cc implements the functions, which NVIDIA's documentation
// describes.
#pragma once

#include <cstddef>

#define CUDART_VERSION 13050

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaMemPool_t = struct CUmemPoolHandle_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorDeviceUninitialized = 201,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
};

struct cudaUUID_t {
  char bytes[16];
};

// Has fewer members than the real type.
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  int major;
  int minor;
};

enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
};

enum cudaDriverEntryPointQueryResult {
  cudaDriverEntryPointSuccess = 0,
};

enum cudaMemPoolAttr {
  cudaMemPoolReuseAllowInternalDependencies = 3,
  cudaMemPoolAttrReleaseThreshold = 4,
  cudaMemPoolAttrReservedMemCurrent = 5,
};
struct cudaIpcMemHandle_t {
  char reserved[64];
};

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0;
inline constexpr unsigned cudaDeviceScheduleBlockingSync = 4;
inline constexpr unsigned cudaInitDeviceFlagsAreValid = 1;
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;
inline constexpr unsigned long long cudaEnableDefault = 0;

extern "C" {
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags);
cudaError_t cudaSetDevice(int device);

const char* cudaGetErrorName(cudaError_t error);
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* data);

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);

cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle,
                                 unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* data);

// Only for cuMemGetAddressRange() of imported memory.
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version,
    unsigned long long flags, cudaDriverEntryPointQueryResult* result);
}
