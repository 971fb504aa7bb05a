#include "tests/support/cuda/fake_runtime.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <latch>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/cuda/shared_device.h"

using topk::testing::CloseShared;
using topk::testing::FakeCuda;
using topk::testing::FindShared;
using topk::testing::OpenShared;
using topk::testing::SharedDeviceUuid;

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fake CUDA runtime: %s\n", what);
  std::abort();
}

// Reached once the stream has done the work before it.
using Point = std::latch;

struct Block {
  size_t bytes;
  cudaMemPool_t pool;
};

}  // namespace

struct CUmemPoolHandle_st {
  size_t used = 0;
  size_t high = 0;
  // The release threshold. The backend sets it to its limit.
  size_t limit = SIZE_MAX;
};

namespace {

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;
  FakeCuda fake;
  int64_t calls = 0;
  bool hangs = false;
  int waiting = 0;  // streams that wait for !hangs
  cudaError_t sticky = cudaSuccess;
  std::map<void*, Block> blocks;
  std::map<int, CUmemPoolHandle_st> pools;  // by device
};

Runtime& TheRuntime() {
  static Runtime runtime;
  return runtime;
}

// Negative until the thread calls cudaSetDevice().
thread_local int current_device = -1;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Counts a call that may fail. Returns its error. Does not count queries that
// return cudaErrorNotReady, because their number varies.
cudaError_t Call(std::string_view function, int device) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  const FakeCuda& fake = runtime.fake;
  if (fake.device >= 0 && fake.device != device) return cudaSuccess;
  if (runtime.sticky != cudaSuccess) return Return(runtime.sticky);
  if (!fake.function.empty() && fake.function != function) return cudaSuccess;
  const int64_t call = runtime.calls++;
  const bool fails =
      fake.calls_until_error >= 0 && call == fake.calls_until_error;
  if (!fails) return cudaSuccess;
  if (fake.sticky) runtime.sticky = fake.error;
  return Return(fake.error);
}

// Calls that destroy an object report errors too, but do destroy the object.
#define CALL(device)                                       \
  if (const cudaError_t failed = Call(__func__, (device)); \
      failed != cudaSuccess)                               \
  return failed

bool Lost(int device) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  return runtime.sticky != cudaSuccess &&
         (runtime.fake.device < 0 || runtime.fake.device == device);
}

}  // namespace

struct CUevent_st {
  int device;
  std::mutex mutex;
  std::shared_ptr<Point> recorded;

  std::shared_ptr<Point> point() {
    const std::lock_guard lock(mutex);
    return recorded;
  }
};

struct CUstream_st {
  explicit CUstream_st(int number) : device(number), thread([&] { Loop(); }) {}
  ~CUstream_st() {
    Push(nullptr);
    thread.join();
  }

  // Null ends the thread.
  void Push(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }

  bool idle() {
    const std::lock_guard lock(mutex);
    return queue.empty();
  }

  void Loop() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !queue.empty(); });
        work = queue.front();
      }
      if (work == nullptr) return;
      {
        Runtime& runtime = TheRuntime();
        std::unique_lock lock(runtime.mutex);
        ++runtime.waiting;
        runtime.changed.wait(lock, [&] { return !runtime.hangs; });
        --runtime.waiting;
      }
      work();
      work = nullptr;
      const std::lock_guard lock(mutex);
      queue.pop_front();
    }
  }

  const int device;
  std::mutex mutex;
  std::condition_variable changed;
  // The first element may be running.
  std::deque<std::function<void()>> queue;
  std::thread thread;
};

namespace {

void RequireCurrent(int device) {
  Require(device == current_device || Lost(device),
          "an object of another device is used");
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheRuntime().fake.driver;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  const FakeCuda& fake = TheRuntime().fake;
  *count = 0;
  if (fake.driver < 13000) return Return(cudaErrorInsufficientDriver);
  if (fake.devices == 0) return Return(cudaErrorNoDevice);
  *count = fake.devices;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof(properties->name), "fake %d", device);
  const std::string uuid = SharedDeviceUuid(device);
  std::memcpy(properties->uuid.bytes, uuid.data(), uuid.size());
  properties->totalGlobalMem = TheRuntime().fake.memory;
  properties->major = 9;
  return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  CALL(device);
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  CALL(device);
  current_device = device;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoKernelImageForDevice:
      return "cudaErrorNoKernelImageForDevice";
    default:
      return "cudaError";
  }
}
const char* cudaGetErrorString(cudaError_t) { return "a simulated error"; }

cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  CALL(current_device);
  *stream = new CUstream_st(current_device);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RequireCurrent(stream->device);
  delete stream;
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (stream != nullptr) {  // otherwise the default stream, which is not used
    RequireCurrent(stream->device);
    if (!stream->idle() && !Lost(stream->device))
      return Return(cudaErrorNotReady);
  }
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  CALL(current_device);
  *event =
      new CUevent_st{.device = current_device, .mutex = {}, .recorded = {}};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  RequireCurrent(event->device);
  delete event;
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  RequireCurrent(event->device);
  RequireCurrent(stream->device);
  CALL(current_device);
  auto point = std::make_shared<Point>(1);
  {
    const std::lock_guard lock(event->mutex);
    event->recorded = point;
  }
  stream->Push([point] { point->count_down(); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  RequireCurrent(event->device);
  const auto point = event->point();
  if (point != nullptr && !point->try_wait() && !Lost(event->device)) {
    return Return(cudaErrorNotReady);
  }
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  CALL(current_device);
  *data = std::malloc(bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle,
                                 unsigned) {
  CALL(current_device);
  const std::span<std::byte> opened =
      OpenShared(std::as_bytes(std::span(handle.reserved)));
  if (opened.empty()) return Return(cudaErrorInvalidValue);
  *data = opened.data();
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* data) {
  CloseShared(static_cast<std::byte*>(data));
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned, unsigned long long,
    cudaDriverEntryPointQueryResult* result) {
  CALL(current_device);
  Require(std::string_view(symbol) == "cuMemGetAddressRange", symbol);
  constexpr int (*kGetRange)(unsigned long long*, size_t*, unsigned long long) =
      [](unsigned long long* begin, size_t* bytes, unsigned long long at) {
        const auto memory = FindShared(reinterpret_cast<std::byte*>(at));
        *begin = reinterpret_cast<uintptr_t>(memory.data());
        *bytes = memory.size();
        return memory.empty() ? 1 : 0;
      };
  *function = reinterpret_cast<void*>(kGetRange);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind, cudaStream_t stream) {
  RequireCurrent(stream->device);
  CALL(current_device);
  const auto least = TheRuntime().fake.copy_time;
  stream->Push([=] {
    std::this_thread::sleep_for(least);
    std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  CALL(device);
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  *pool = &runtime.pools[device];
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                    cudaMemPoolAttr attribute, void* value) {
  CALL(current_device);
  if (attribute != cudaMemPoolAttrReleaseThreshold) return cudaSuccess;
  const std::lock_guard lock(TheRuntime().mutex);
  pool->limit = *static_cast<uint64_t*>(value);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr,
                                    void* value) {
  CALL(current_device);
  const std::lock_guard lock(TheRuntime().mutex);
  *static_cast<uint64_t*>(value) = pool->high;
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  RequireCurrent(stream->device);
  CALL(current_device);
  Require(bytes > 0, "an allocation of 0 bytes");
  {
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.mutex);
    CUmemPoolHandle_st& pool = runtime.pools[stream->device];
    if (pool.used + bytes > pool.limit) {
      return Return(cudaErrorMemoryAllocation);
    }
    pool.used += bytes;
    pool.high = std::max(pool.high, pool.used);
    *data = std::malloc(bytes);
    runtime.blocks[*data] = {bytes, &pool};
  }
  stream->Push([block = *data, bytes] { std::memset(block, 0xCD, bytes); });
  return cudaSuccess;
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  RequireCurrent(stream->device);
  Block block{};
  {
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.mutex);
    const auto found = runtime.blocks.find(data);
    Require(found != runtime.blocks.end(), "cudaFreeAsync() of other memory");
    block = found->second;
    runtime.blocks.erase(found);
    // Later allocations on the stream can use the memory.
    block.pool->used -= block.bytes;
  }
  stream->Push([data, block] {
    std::memset(data, 0xDD, block.bytes);
    std::free(data);
  });
  CALL(current_device);
  return cudaSuccess;
}

}  // extern "C"

namespace topk::testing {

ScopedFakeCuda::ScopedFakeCuda(const FakeCuda& fake) { Set(fake); }

// A lost device never frees its memory.
ScopedFakeCuda::~ScopedFakeCuda() {
  Hang(false);
  Set({});
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  for (const auto& [data, block] : runtime.blocks) std::free(data);
  runtime.blocks.clear();
  runtime.pools.clear();
}

void ScopedFakeCuda::Set(const FakeCuda& fake) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  runtime.fake = fake;
  runtime.calls = 0;
  runtime.sticky = cudaSuccess;
  last_error = cudaSuccess;
}

int64_t ScopedFakeCuda::calls() const {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  return runtime.calls;
}

bool ScopedFakeCuda::has_work() const {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  return runtime.waiting > 0;
}

void ScopedFakeCuda::Hang(bool hangs) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  runtime.hangs = hangs;
  runtime.changed.notify_all();
}

cudaError_t FakeLaunch(cudaStream_t stream, std::function<void()> kernel) {
  RequireCurrent(stream->device);
  if (const cudaError_t error = Call("launch", current_device);
      error != cudaSuccess) {
    return error;
  }
  if (last_error != cudaSuccess) return last_error;
  stream->Push(std::move(kernel));
  return cudaSuccess;
}

}  // namespace topk::testing
