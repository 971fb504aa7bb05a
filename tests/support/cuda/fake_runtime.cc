#include "tests/support/cuda/fake_runtime.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <latch>
#include <map>
#include <mutex>
#include <set>
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

struct Runtime {
  std::mutex mutex;
  std::condition_variable changed;
  FakeCuda fake;
  int64_t calls = 0;
  bool hangs = false;
  int waiting = 0;  // streams that wait for !hangs
  cudaError_t sticky = cudaSuccess;
  std::map<void*, Block> blocks;
  std::set<cudaMemPool_t> pools;
  // Locked before `mutex`.
  std::mutex streams_mutex;
  std::set<cudaStream_t> streams;
  // The begin and the end of each range of pinned memory.
  std::map<const std::byte*, const std::byte*> pinned;
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

void Pin(const void* data, size_t bytes) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  const auto* const begin = static_cast<const std::byte*>(data);
  runtime.pinned[begin] = begin + bytes;
}

void Unpin(const void* data) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  Require(runtime.pinned.erase(static_cast<const std::byte*>(data)) == 1,
          "memory is not pinned");
}

bool IsPinned(const void* data, size_t bytes) {
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto after = runtime.pinned.upper_bound(begin);
  return after != runtime.pinned.begin() &&
         begin + bytes <= std::prev(after)->second;
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

  void Drain() {
    auto point = std::make_shared<Point>(1);
    Push([point] { point->count_down(); });
    point->wait();
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

struct CUmemPoolHandle_st {
  int device;
  size_t limit;
  std::atomic<size_t> used = 0;
  std::atomic<size_t> high = 0;
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
  properties->memoryPoolsSupported = 1;
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
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.streams_mutex);
  runtime.streams.insert(*stream);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  RequireCurrent(stream->device);
  {
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.streams_mutex);
    runtime.streams.erase(stream);
  }
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

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned) {
  RequireCurrent(stream->device);
  CALL(current_device);
  if (event == nullptr) return Return(cudaErrorInvalidResourceHandle);
  if (auto point = event->point(); point != nullptr) {
    stream->Push([point] { point->wait(); });
  }
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
  Pin(*data, bytes);
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  Unpin(data);
  {  // waits for all work, like the real function
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.streams_mutex);
    for (const cudaStream_t stream : runtime.streams) stream->Drain();
  }
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
                            cudaMemcpyKind kind, cudaStream_t stream) {
  RequireCurrent(stream->device);
  CALL(current_device);
  if (kind != cudaMemcpyDeviceToDevice) {
    Require(IsPinned(kind == cudaMemcpyHostToDevice ? from : to, bytes),
            "a copy from or to memory that is not pinned");
  }
  const auto least = TheRuntime().fake.copy_time;
  stream->Push([=] {
    std::this_thread::sleep_for(least);
    std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                              const cudaMemPoolProps* properties) {
  CALL(properties->location.id);
  *pool = new CUmemPoolHandle_st{properties->location.id, properties->maxSize};
  Runtime& runtime = TheRuntime();
  const std::lock_guard lock(runtime.mutex);
  runtime.pools.insert(*pool);
  return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  if (!Lost(pool->device)) {
    Require(pool->used == 0, "a pool is destroyed while in use");
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.mutex);
    runtime.pools.erase(pool);
    delete pool;
  }
  CALL(current_device);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr,
                                    void*) {
  CALL(pool->device);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr,
                                    void* value) {
  CALL(pool->device);
  *static_cast<uint64_t*>(value) = pool->high;
  return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes,
                                    cudaMemPool_t pool, cudaStream_t stream) {
  RequireCurrent(stream->device);
  RequireCurrent(pool->device);
  CALL(current_device);
  Require(bytes > 0, "an allocation of 0 bytes");
  const size_t used = pool->used += bytes;
  if (used > pool->limit) {
    pool->used -= bytes;
    return Return(cudaErrorMemoryAllocation);
  }
  size_t high = pool->high;
  while (used > high && !pool->high.compare_exchange_weak(high, used)) {
  }
  void* const block = std::malloc(bytes);
  {
    Runtime& runtime = TheRuntime();
    const std::lock_guard lock(runtime.mutex);
    runtime.blocks[block] = {bytes, pool};
  }
  stream->Push([block, bytes] { std::memset(block, 0xCD, bytes); });
  *data = block;
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
  }
  // Later allocations on the stream can use the memory.
  block.pool->used -= block.bytes;
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
  for (const cudaMemPool_t pool : runtime.pools) delete pool;
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

cudaError_t FakeLaunch(cudaStream_t stream, std::function<void(bool)> kernel) {
  RequireCurrent(stream->device);
  if (const cudaError_t error = Call("launch", current_device);
      error != cudaSuccess) {
    return error;
  }
  if (last_error != cudaSuccess) return last_error;
  stream->Push(
      [kernel = std::move(kernel), on_threads = TheRuntime().fake.on_threads] {
        kernel(on_threads);
      });
  return cudaSuccess;
}

}  // namespace topk::testing
