// A CUDA device with a memory pool and lanes. Reuses the resources of closed
// lanes.
//
// A lane has one stream for copies and one for computations. Each Memory has an
// event for each stream, so that a stream waits for the other stream only if
// both use the memory.
//
// No function blocks in the driver until a device has finished its work,
// because such a wait cannot be cancelled. Wait() polls instead.
//
// Tests: unit/cuda_*_test.cc on a simulated CUDA runtime and, on a device,
// those with the CTest label gpu.
#include "core/backends/cuda/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "core/backends/cpu/pieces.h"
#include "core/backends/cuda/probe.h"
#include "core/base/free_with.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// The number of closed lanes whose parts are kept for reuse. More lanes at a
// time would not increase the throughput.
constexpr size_t kIdleLanes = 16;

using Clock = std::chrono::steady_clock;

using Stream = std::unique_ptr<CUstream_st, FreeWith<cudaStreamDestroy>>;
// A CUDA event. Waiting for an event that was never recorded is a no-op.
using Event = std::unique_ptr<CUevent_st, FreeWith<cudaEventDestroy>>;

cudaError_t Create(Event& event) {
  cudaEvent_t created = nullptr;
  const cudaError_t error =
      cudaEventCreateWithFlags(&created, cudaEventDisableTiming);
  event.reset(created);
  return error;
}

// Calls `query` until it returns an error other than cudaErrorNotReady, or
// until a cancellation. Returns the last error. Sleeps in between, but never
// for more than an eighth of the time that the caller has already waited, or 1
// ms.
template <class Query>
cudaError_t Wait(const Query& query, const Cancellation* cancellation) {
  constexpr std::chrono::microseconds kSpin{50};
  constexpr std::chrono::nanoseconds kLongestSleep =
      std::chrono::milliseconds(1);
  const auto start = Clock::now();
  for (;;) {
    const cudaError_t error = query();
    if (error != cudaErrorNotReady) return error;
    cudaGetLastError();  // otherwise, a later call would return the error
    if (IsCancelled(cancellation)) return error;
    const std::chrono::nanoseconds waited = Clock::now() - start;
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(waited / 8, kLongestSleep));
    }
  }
}

// The resources of a lane. The device reuses them, because pinned memory is
// slow to allocate.
struct LaneParts {
  struct Staging {
    std::unique_ptr<std::byte, FreeWith<cudaFreeHost>> data;
    Event copied;
  };
  Stream copying;
  Stream computing;
  std::array<Staging, 2> staging;
  // Device memory to free when all work is done.
  std::vector<void*> unfreed;
  // Memory to close when all work is done.
  std::vector<std::shared_ptr<const ImportedMemory>> kept;

  // Returns cudaErrorNotReady if work is not done. Otherwise frees `unfreed`.
  cudaError_t Finish() {
    for (const Stream* stream : {&copying, &computing}) {
      const cudaError_t error = cudaStreamQuery(stream->get());
      if (error != cudaSuccess) return error;
    }
    for (void* data : unfreed) cudaFreeAsync(data, computing.get());
    unfreed.clear();
    return cudaSuccess;
  }

  cudaError_t Create() {
    cudaError_t error = cudaSuccess;
    for (Stream* stream : {&copying, &computing}) {
      cudaStream_t created = nullptr;
      error = cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking);
      if (error != cudaSuccess) return error;
      stream->reset(created);
    }
    for (Staging& each : staging) {
      void* data = nullptr;
      error = cudaHostAlloc(&data, kStagingBytes, cudaHostAllocDefault);
      if (error != cudaSuccess) return error;
      each.data.reset(static_cast<std::byte*>(data));
      error = cuda::Create(each.copied);
      if (error != cudaSuccess) return error;
    }
    return error;
  }
};

std::string TextOf(cudaError_t error) {
  return StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int number, const cudaDeviceProp& properties, int64_t memory_limit,
             int threads)
      : number_(number),
        name_(properties.name),
        uuid_(properties.uuid.bytes, sizeof(properties.uuid.bytes)),
        memory_limit_(memory_limit),
        architecture_(StrCat("sm_", properties.major, properties.minor)),
        arenas_(threads) {}
  ~CudaDevice() override;

  // Creates the context and the memory pool, and runs a kernel.
  Status Start() {
    if (const cudaError_t error = Initialize(); error != cudaSuccess) {
      return StatusOf(error);
    }
    return Probe(*this);
  }

  Result<std::unique_ptr<Lane>> OpenLane(
      int64_t bytes, const Cancellation* cancellation) override;
  Result<std::unique_ptr<ImportedMemory>> Import(
      std::span<const std::byte, kIpcHandleBytes> handle,
      const std::string& field) override;
  const std::string& uuid() const override { return uuid_; }
  std::string_view architecture() const override { return architecture_; }
  bool lost() const override { return lost_.load(std::memory_order_relaxed); }
  int64_t memory_limit() const override { return memory_limit_; }
  // Also closes the memory of lanes that were cancelled, so that metrics close
  // it on an idle server.
  DeviceState state() override {
    DeviceState state{name_, 0, memory_limit_, lost(), number_, uuid_};
    if (state.lost || Use() != cudaSuccess) return state;
    Unused unused;
    if (std::unique_lock lock(mutex_, std::try_to_lock); lock) Reclaim(unused);
    uint64_t used = 0;
    if (cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent,
                                &used) == cudaSuccess) {
      state.memory_bytes = static_cast<int64_t>(used);
    }
    return state;
  }

  cudaMemPool_t pool() const { return pool_; }
  // Makes this the current device of the calling thread. Clears the error that
  // an earlier call left, for example in a destructor, because the next launch
  // of a kernel would return this error.
  cudaError_t Use() const {
    cudaGetLastError();
    return cudaSetDevice(number_);
  }

  // Returns whether every later call would fail.
  bool HasStickyError() const {
    // No work uses the default stream, so only a sticky error fails.
    return cudaSetDevice(number_) != cudaSuccess ||
           cudaStreamQuery(nullptr) != cudaSuccess;
  }

  // The error of a device that was lost earlier.
  Status Lost() const {
    return {Code::kUnavailable, "DEVICE_LOST", "",
            StrCat(name_, " failed earlier and is no longer used")};
  }

  // Returns the status for an error. Sets `lost_` if the error is sticky, i.e.
  // every later call of this process would fail. REQUIRES: not cudaSuccess.
  Status StatusOf(cudaError_t error) {
    cudaGetLastError();  // clears the error unless it is sticky
    if (error == cudaErrorMemoryAllocation) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               StrCat("no memory left on ", name_),
                               std::chrono::seconds(1));
    }
    if (HasStickyError()) lost_.store(true, std::memory_order_relaxed);
    return {Code::kUnavailable, "DEVICE_LOST", "",
            StrCat(name_, " failed: ", TextOf(error))};
  }

  // Copies host memory, with several threads if that is faster.
  void Copy(const std::byte* from, std::byte* to, size_t bytes) {
    constexpr size_t kPieceBytes = size_t{512} << 10;
    if (bytes <= kPieceBytes) {
      std::memcpy(to, from, bytes);
      return;
    }
    const auto pieces =
        static_cast<int>(std::min(bytes / kPieceBytes, size_t{1024}));
    arenas_.Run(pieces, [&] {
      cpu::ForEachRange(static_cast<int64_t>(bytes), kPieceBytes, nullptr,
                        [&](int64_t begin, int64_t end) {
                          std::memcpy(to + begin, from + begin,
                                      static_cast<size_t>(end - begin));
                        });
    });
  }

  // Takes the reservation and the parts of a lane. Reuses both as soon as the
  // work of the lane is done.
  void Close(int64_t bytes, std::unique_ptr<LaneParts> parts) {
    Unused unused;
    const std::lock_guard lock(mutex_);
    closed_.push_back({bytes, std::move(parts)});
    Reclaim(unused);
  }

 private:
  using Unused = std::vector<std::shared_ptr<const void>>;
  struct ClosedLane {
    int64_t bytes;
    std::unique_ptr<LaneParts> parts;
  };

  cudaError_t Initialize() {
    // Make threads block, rather than spin, in calls that wait for the device.
    cudaError_t error = cudaInitDevice(number_, cudaDeviceScheduleBlockingSync,
                                       cudaInitDeviceFlagsAreValid);
    if (error == cudaSuccess) error = Use();
    if (error != cudaSuccess) return error;
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = number_;
    properties.maxSize = static_cast<size_t>(memory_limit_);
    error = cudaMemPoolCreate(&pool_, &properties);
    if (error != cudaSuccess) return error;
    // Keep freed memory in the pool for later requests.
    auto keep = static_cast<uint64_t>(memory_limit_);
    return cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold,
                                   &keep);
  }

  // Takes back what closed lanes have finished using. Appends parts and
  // imported memory that are not needed to `unused`, which the caller must
  // destroy without the lock, because freeing pinned memory is slow. REQUIRES:
  // `mutex_` is locked, and Use() was called.
  void Reclaim(Unused& unused) {
    std::erase_if(closed_, [&](ClosedLane& lane) {
      if (lane.parts != nullptr) {
        if (lane.parts->Finish() != cudaSuccess) return false;
        for (auto& memory : std::exchange(lane.parts->kept, {})) {
          unused.push_back(std::move(memory));
        }
        if (idle_.size() < kIdleLanes) {
          idle_.push_back(std::move(lane.parts));
        } else {
          unused.push_back(std::shared_ptr<LaneParts>(std::move(lane.parts)));
        }
      }
      reserved_ -= lane.bytes;
      return true;
    });
    cudaGetLastError();
  }

  // Reserves memory for a lane. Reuses the parts of a closed lane if possible.
  Status Reserve(int64_t bytes, std::unique_ptr<LaneParts>& parts) {
    Unused unused;
    const std::lock_guard lock(mutex_);
    Reclaim(unused);
    if (bytes > memory_limit_ - reserved_) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               StrCat("requests have reserved ", reserved_,
                                      " of the ", memory_limit_, " bytes of ",
                                      name_, ", and this one needs ", bytes),
                               std::chrono::seconds(1));
    }
    reserved_ += bytes;
    if (!idle_.empty()) {
      parts = std::move(idle_.back());
      idle_.pop_back();
    }
    return {};
  }

  const int number_;
  const std::string name_;
  const std::string uuid_;
  const int64_t memory_limit_;
  const std::string architecture_;
  cpu::ArenaPool arenas_;
  std::atomic<bool> lost_ = false;
  cudaMemPool_t pool_ = nullptr;
  // Guards the members below.
  std::mutex mutex_;
  int64_t reserved_ = 0;            // bytes of open lanes, and of `closed_`
  std::vector<ClosedLane> closed_;  // lanes whose work may not be done
  std::vector<std::unique_ptr<LaneParts>> idle_;  // of closed lanes, for reuse
};

class CudaImport final : public ImportedMemory {
 public:
  CudaImport(const CudaDevice& device, std::span<std::byte> bytes)
      : ImportedMemory(bytes), device_(device) {}
  ~CudaImport() override {
    static_cast<void>(device_.Use());
    cudaIpcCloseMemHandle(bytes().data());
    cudaGetLastError();
  }

 private:
  const CudaDevice& device_;
};

// Sets `bytes` to the number of bytes from `data` to the end of its allocation.
// Only the driver has a function for this: cuMemGetAddressRange().
cudaError_t GetBytesAt(void* data, size_t& bytes) {
  using GetRange = int (*)(unsigned long long*, size_t*, unsigned long long);
  constexpr unsigned kVersion = 3020;  // of the function's signature
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(
      "cuMemGetAddressRange", &function, kVersion, cudaEnableDefault, &found);
  if (error != cudaSuccess) return error;
  unsigned long long begin = 0;
  const auto at = reinterpret_cast<uintptr_t>(data);
  if (function == nullptr ||
      reinterpret_cast<GetRange>(function)(&begin, &bytes, at) != 0) {
    return cudaErrorInvalidValue;
  }
  bytes -= at - begin;
  return cudaSuccess;
}

CudaDevice::~CudaDevice() {
  // A device that hangs must not prevent the process from exiting.
  constexpr std::chrono::seconds kPatience{1};
  const auto end = Clock::now() + kPatience;
  if (Use() == cudaSuccess) {
    while (!closed_.empty() && Clock::now() < end) {
      Unused unused;
      Reclaim(unused);
      std::this_thread::yield();
    }
  }
  // Work in progress uses these parts and the pool, so leak them.
  if (!closed_.empty() && Use() == cudaSuccess) {
    for (ClosedLane& lane : closed_) static_cast<void>(lane.parts.release());
  } else if (pool_ != nullptr) {
    closed_.clear();
    idle_.clear();
    cudaMemPoolDestroy(pool_);
  }
  cudaGetLastError();
}

class CudaLane;

class CudaMemory final : public Memory {
 public:
  CudaMemory(void* data, bool is_borrowed, const LaneParts& parts,
             CudaLane& lane)
      : Memory(static_cast<std::byte*>(data)),
        is_borrowed_(is_borrowed),
        parts_(parts),
        lane_(lane) {}
  ~CudaMemory() override;
  bool is_borrowed() const { return is_borrowed_; }
  cudaError_t Create() {
    const cudaError_t error = cuda::Create(copied_);
    return error == cudaSuccess ? cuda::Create(computed_) : error;
  }

  // Before...() makes a stream wait until the other stream has finished using
  // this memory. After...() records when a stream finishes using this memory.
  cudaError_t BeforeCopy() const {
    return cudaStreamWaitEvent(parts_.copying.get(), computed_.get(), 0);
  }
  const Event& copied() const { return copied_; }
  cudaError_t AfterCopy() const {
    return cudaEventRecord(copied_.get(), parts_.copying.get());
  }
  cudaError_t BeforeComputing() const {
    return cudaStreamWaitEvent(parts_.computing.get(), copied_.get(), 0);
  }
  cudaError_t AfterComputing() const {
    return cudaEventRecord(computed_.get(), parts_.computing.get());
  }

 private:
  const bool is_borrowed_;
  const LaneParts& parts_;
  CudaLane& lane_;
  Event copied_;
  Event computed_;
};

class CudaLane final : public Lane {
 public:
  // The device must have reserved `bytes` for this lane.
  CudaLane(CudaDevice& device, int64_t bytes, std::unique_ptr<LaneParts> parts,
           const Cancellation* cancellation)
      : device_(device),
        bytes_(bytes),
        cancellation_(cancellation),
        parts_(std::move(parts)) {}
  ~CudaLane() override {
    // Until all work of this lane is done, memory that this lane freed is not
    // available to other lanes.
    if (device_.Use() == cudaSuccess && !device_.lost()) {
      cuda::Wait([&] { return parts_->Finish(); }, cancellation_);
    }
    device_.Close(bytes_, std::move(parts_));
  }

  // Frees memory that is not borrowed, when all work that uses it is done.
  void Free(const CudaMemory& memory) {
    // After an error, an event may be missing that the release must wait for.
    if (!memory.is_borrowed() && Begins() &&
        Succeeds(memory.BeforeComputing())) {
      Succeeds(cudaFreeAsync(memory.data(), parts_->computing.get()));
      return;
    }
    // The caller destroys events of this device.
    static_cast<void>(device_.Use());
    if (!memory.is_borrowed()) parts_->unfreed.push_back(memory.data());
  }

  std::unique_ptr<Memory> Allocate(size_t bytes) override {
    void* data = nullptr;
    if (Begins()) {
      Succeeds(cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                       device_.pool(),
                                       parts_->computing.get()));
    }
    auto memory = std::make_unique<CudaMemory>(data, false, *parts_, *this);
    if (data != nullptr && Succeeds(memory->Create())) {
      // Make copies wait until the computing stream has allocated the memory.
      Succeeds(memory->AfterComputing());
    }
    return memory;
  }

  // Gathers small uploads in the staging buffer, so that each copy is large.
  void Upload(std::span<const std::byte> from, Memory& to, size_t at) override {
    if (&to != staged_for_ || at != staged_at_ + staged_) CopyStaged();
    while (!from.empty() && Begins()) {
      LaneParts::Staging& staging = parts_->staging[next_staging_];
      if (staged_ == 0) {
        if (!Wait(staging.copied)) return;
        staged_for_ = static_cast<CudaMemory*>(&to);
        staged_at_ = at;
      }
      const size_t size = std::min(from.size(), kStagingBytes - staged_);
      device_.Copy(from.data(), staging.data.get() + staged_, size);
      staged_ += size;
      at += size;
      from = from.subspan(size);
      if (staged_ == kStagingBytes) CopyStaged();
    }
  }

  void Select(const SelectTask& task,
              std::initializer_list<Memory*> uses) override {
    CopyStaged();
    if (!Begins()) return;
    const auto each = [&](cudaError_t (CudaMemory::*step)() const) {
      return std::ranges::all_of(uses, [&](Memory* memory) {
        return memory == nullptr ||
               Succeeds((static_cast<CudaMemory*>(memory)->*step)());
      });
    };
    if (each(&CudaMemory::BeforeComputing) &&
        Succeeds(static_cast<cudaError_t>(
            LaunchSelect(task, parts_->computing.get(), device_.pool())))) {
      each(&CudaMemory::AfterComputing);
    }
  }

  // Copies from the device to one staging buffer while emptying the other.
  void Download(Memory& memory, std::span<std::byte> to) override {
    CopyStaged();
    auto& from = static_cast<CudaMemory&>(memory);
    if (!Begins() || !Succeeds(from.BeforeCopy())) return;
    std::array<std::span<std::byte>, 2> arriving;
    for (size_t at = 0;;) {
      const size_t number = next_staging_;
      next_staging_ ^= 1;
      LaneParts::Staging& staging = parts_->staging[number];
      if (!Begins() || !Wait(staging.copied)) return;
      std::span<std::byte>& arrived = arriving[number];
      if (!arrived.empty()) {
        device_.Copy(staging.data.get(), arrived.data(), arrived.size());
        arrived = {};
      }
      if (at < to.size()) {
        arrived = to.subspan(at, std::min(to.size() - at, kStagingBytes));
        if (!Succeeds(cudaMemcpyAsync(staging.data.get(), from.data() + at,
                                      arrived.size(), cudaMemcpyDeviceToHost,
                                      parts_->copying.get())) ||
            !Succeeds(
                cudaEventRecord(staging.copied.get(), parts_->copying.get()))) {
          return;
        }
        at += arrived.size();
      } else if (arriving[number ^ 1].empty()) {
        break;
      }
    }
    Succeeds(from.AfterCopy());
  }

  void Copy(Memory& from, Memory& to, size_t at, size_t bytes) override {
    CopyStaged();
    const auto& source = static_cast<CudaMemory&>(from);
    const auto& target = static_cast<CudaMemory&>(to);
    if (Begins() && Succeeds(source.BeforeCopy()) &&
        Succeeds(target.BeforeCopy()) &&
        Succeeds(cudaMemcpyAsync(to.data() + at, from.data(), bytes,
                                 cudaMemcpyDeviceToDevice,
                                 parts_->copying.get())) &&
        Succeeds(source.AfterCopy()) && Succeeds(target.AfterCopy())) {
      Finish(to);
    }
  }

  void Finish(Memory& memory) override {
    CopyStaged();
    if (Begins()) Wait(static_cast<CudaMemory&>(memory).copied());
  }

  std::unique_ptr<Memory> Borrow(std::shared_ptr<const ImportedMemory> memory,
                                 std::span<std::byte> bytes) override {
    parts_->kept.push_back(std::move(memory));
    auto borrowed =
        std::make_unique<CudaMemory>(bytes.data(), true, *parts_, *this);
    if (Begins()) Succeeds(borrowed->Create());
    return borrowed;
  }

 private:
  // Returns whether a call succeeded, and sets the status if not.
  bool Succeeds(cudaError_t error) {
    if (error != cudaSuccess) status_ = device_.StatusOf(error);
    return error == cudaSuccess;
  }

  // Makes the device current. Returns false after an error or a cancellation.
  bool Begins() {
    if (status_.ok() && IsCancelled(cancellation_)) status_ = Cancelled();
    return status_.ok() && Succeeds(device_.Use());
  }

  // Waits for an event. Returns false after an error or a cancellation.
  bool Wait(const Event& event) {
    const cudaError_t error =
        cuda::Wait([&] { return cudaEventQuery(event.get()); }, cancellation_);
    if (error != cudaErrorNotReady) return Succeeds(error);
    status_ = Cancelled();
    return false;
  }

  // Starts the copy of the staged bytes to the device.
  void CopyStaged() {
    if (staged_ == 0 || !Begins()) return;
    LaneParts::Staging& staging = parts_->staging[next_staging_];
    if (Succeeds(staged_for_->BeforeCopy()) &&
        Succeeds(cudaMemcpyAsync(
            staged_for_->data() + staged_at_, staging.data.get(), staged_,
            cudaMemcpyHostToDevice, parts_->copying.get())) &&
        Succeeds(
            cudaEventRecord(staging.copied.get(), parts_->copying.get()))) {
      Succeeds(staged_for_->AfterCopy());
    }
    staged_ = 0;
    next_staging_ ^= 1;
  }

  CudaDevice& device_;
  const int64_t bytes_;
  const Cancellation* const cancellation_;
  std::unique_ptr<LaneParts> parts_;
  size_t next_staging_ = 0;
  // The number of bytes in the next staging buffer, and their destination on
  // the device.
  size_t staged_ = 0;
  CudaMemory* staged_for_ = nullptr;
  size_t staged_at_ = 0;
};

CudaMemory::~CudaMemory() {
  if (data() != nullptr) lane_.Free(*this);
}

Result<std::unique_ptr<Lane>> CudaDevice::OpenLane(
    int64_t bytes, const Cancellation* cancellation) {
  if (lost()) return Lost();
  if (const cudaError_t error = Use(); error != cudaSuccess) {
    return StatusOf(error);
  }
  std::unique_ptr<LaneParts> parts;
  if (Status s = Reserve(bytes, parts); !s.ok()) return s;
  try {
    if (parts == nullptr) {
      parts = std::make_unique<LaneParts>();
      if (const cudaError_t error = parts->Create(); error != cudaSuccess) {
        Close(bytes, nullptr);
        return StatusOf(error);
      }
    }
    return std::unique_ptr<Lane>(std::make_unique<CudaLane>(
        *this, bytes, std::move(parts), cancellation));
  } catch (...) {  // std::bad_alloc
    Close(bytes, nullptr);
    throw;
  }
}

Result<std::unique_ptr<ImportedMemory>> CudaDevice::Import(
    std::span<const std::byte, kIpcHandleBytes> handle,
    const std::string& field) {
  if (lost()) return Lost();
  cudaIpcMemHandle_t exported{};
  static_assert(sizeof(exported) == kIpcHandleBytes);
  std::memcpy(&exported, handle.data(), handle.size());
  cudaError_t error = Use();
  if (error != cudaSuccess) return StatusOf(error);
  // CUDA counts how often this process has opened the same memory.
  void* data = nullptr;
  error = cudaIpcOpenMemHandle(&data, exported, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    cudaGetLastError();  // otherwise, a later call would return the error
    if (error == cudaErrorMemoryAllocation || HasStickyError()) {
      return StatusOf(error);
    }
    return InvalidArgument(
        "CUDA_MEMORY_HANDLE", field,
        StrCat("the handle cannot be opened on ", name_, ": ", TextOf(error),
               "; another process must have exported memory that it has not "
               "freed"));
  }
  size_t bytes = 0;
  error = GetBytesAt(data, bytes);
  auto memory = std::make_unique<CudaImport>(
      *this, std::span(static_cast<std::byte*>(data), bytes));
  if (error != cudaSuccess) return StatusOf(error);
  return std::unique_ptr<ImportedMemory>(std::move(memory));
}

// Returns why there is no device. Checks the driver's version, because
// cudaGetDeviceCount() does not distinguish a missing driver from an old one.
std::string WhyNoDevice(cudaError_t error) {
  const auto version = [](int number) {
    return StrCat(number / 1000, ".", number % 1000 / 10);
  };
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "this machine has no NVIDIA driver";
  if (error == cudaErrorInsufficientDriver) {
    // Drivers of the same major version can run code of a newer toolkit.
    return StrCat("the NVIDIA driver is too old: it supports CUDA ",
                  version(driver), ", and this program needs ",
                  CUDART_VERSION / 1000,
                  ".0, which drivers of version 580 and later support");
  }
  if (error != cudaSuccess) {
    return StrCat("this machine has no CUDA device: ", TextOf(error));
  }
  return "this machine has no CUDA device of compute capability 8.0 or later";
}

}  // namespace

std::vector<std::unique_ptr<Device>> OpenDevices(
    const DeviceOptions& options, std::vector<std::string>& errors) {
  std::vector<std::unique_ptr<Device>> devices;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) count = 0;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess ||
        properties.major < 8 || properties.memoryPoolsSupported == 0) {
      continue;
    }
    const auto half = static_cast<int64_t>(properties.totalGlobalMem / 2);
    auto device = std::make_unique<CudaDevice>(
        number, properties,
        options.memory_bytes > 0 ? options.memory_bytes : half,
        options.threads);
    if (Status s = device->Start(); s.ok()) {
      devices.push_back(std::move(device));
    } else {
      errors.push_back(StrCat("device ", number, " is not used: ", s.message));
    }
  }
  if (devices.empty() && errors.empty()) {
    errors.push_back(WhyNoDevice(error));
  }
  cudaGetLastError();
  return devices;
}

}  // namespace topk::cuda
