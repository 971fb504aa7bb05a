// A libcuda.so with the functions that clients call to export device memory.
// Its device is the simulated one of shared_device.h, whose memory can be
// accessed like any other.
//
// After the functions of the driver come functions for tests.
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/support/cuda/shared_device.h"

namespace {

using topk::testing::SharedAllocation;

// Values of CUresult.
enum Result { kSuccess = 0, kInvalidValue = 1 };

struct Allocation {
  SharedAllocation memory;
  bool is_exportable = true;
};

std::mutex mutex;
std::map<uint64_t, Allocation> allocations;  // by address
std::atomic<int> synchronized = 0;
std::atomic<int> contexts = 0;  // on the stacks of all threads

// Returns the allocation with an address, or the end.
auto Find(uint64_t at) {
  auto found = allocations.upper_bound(at);
  if (found == allocations.begin()) return allocations.end();
  --found;
  return at < found->first + found->second.memory.bytes().size()
             ? found
             : allocations.end();
}

}  // namespace

extern "C" {

int cuGetErrorName(int error, const char** to) {
  *to = error == kInvalidValue ? "CUDA_ERROR_INVALID_VALUE" : "unknown";
  return kSuccess;
}

// Only the attribute CU_POINTER_ATTRIBUTE_CONTEXT.
int cuPointerGetAttribute(void* to, int attribute, uint64_t at) {
  const std::lock_guard lock(mutex);
  if (attribute != 1 || Find(at) == allocations.end()) return kInvalidValue;
  *static_cast<void**>(to) = &contexts;
  return kSuccess;
}

int cuCtxPushCurrent_v2(void* context) {
  if (context != &contexts) return kInvalidValue;
  ++contexts;
  return kSuccess;
}

int cuCtxPopCurrent_v2(void** to) {
  *to = &contexts;
  return contexts-- > 0 ? kSuccess : kInvalidValue;
}

int cuCtxGetDevice(int* to) {
  *to = 0;
  return contexts > 0 ? kSuccess : kInvalidValue;
}

int cuCtxSynchronize() {
  ++synchronized;
  return contexts > 0 ? kSuccess : kInvalidValue;
}

int cuStreamSynchronize(void* /*stream*/) { return cuCtxSynchronize(); }

int cuDeviceGetUuid_v2(char* to, int device) {
  const std::string uuid = topk::testing::SharedDeviceUuid(device);
  std::memcpy(to, uuid.data(), uuid.size());
  return device == 0 ? kSuccess : kInvalidValue;
}

int cuMemGetAddressRange_v2(uint64_t* begin, size_t* bytes, uint64_t at) {
  const std::lock_guard lock(mutex);
  const auto found = Find(at);
  if (found == allocations.end()) return kInvalidValue;
  *begin = found->first;
  *bytes = found->second.memory.bytes().size();
  return kSuccess;
}

int cuIpcGetMemHandle(char* to, uint64_t at) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(at);
  if (found == allocations.end() || !found->second.is_exportable) {
    return kInvalidValue;
  }
  const std::string handle = found->second.memory.handle();
  std::memcpy(to, handle.data(), handle.size());
  return kSuccess;
}

int cuMemAlloc_v2(uint64_t* to, size_t bytes) {
  SharedAllocation memory(bytes, getpid());
  *to = reinterpret_cast<uint64_t>(memory.bytes().data());
  const std::lock_guard lock(mutex);
  allocations.emplace(*to, Allocation{std::move(memory)});
  return kSuccess;
}

int cuMemFree_v2(uint64_t at) {
  const std::lock_guard lock(mutex);
  return allocations.erase(at) == 1 ? kSuccess : kInvalidValue;
}

// Makes an allocation like one of cudaMallocAsync(), which cannot be exported.
void FakeForbidExport(uint64_t at) {
  const std::lock_guard lock(mutex);
  allocations.at(at).is_exportable = false;
}

// Returns how often a thread has waited for the device, and the number of
// contexts that were pushed and not popped.
int FakeSynchronized() { return synchronized; }
int FakeContexts() { return contexts; }

}  // extern "C"
