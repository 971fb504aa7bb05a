#include "core/backends/cuda/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/backends/cuda/probe.h"
#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// The number of closed lanes that are kept for reuse. More lanes at a time
// would not increase the throughput.
constexpr size_t kIdleLanes = 16;

using Clock = std::chrono::steady_clock;

std::string TextOf(cudaError_t error) {
  return StrCat(cudaGetErrorName(error), ": ", cudaGetErrorString(error));
}

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

// Returns why there is no device. Checks the driver's version, because
// cudaGetDeviceCount() does not distinguish a missing driver from an old one.
std::string WhyNoDevice(cudaError_t error) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) return "this machine has no NVIDIA driver";
  if (error == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver is too old: this program needs version 580 or "
           "later (CUDA 13.0)";
  }
  if (error != cudaSuccess) {
    return StrCat("this machine has no CUDA device: ", TextOf(error));
  }
  return "this machine has no CUDA device of compute capability 8.0 or later";
}

}  // namespace

void CloseLane::operator()(Lane* lane) const {
  Device& device = lane->device_;
  std::unique_ptr<Lane> closed(lane);
  lane->status_ = {};
  // Until all work of this lane is done, other lanes can neither reserve nor
  // reuse its memory.
  const bool is_finished = device.Use() == cudaSuccess && !device.lost() &&
                           lane->Wait([&] { return lane->FinishWork(); });
  if (is_finished) lane->kept_.clear();
  const std::lock_guard lock(device.mutex_);
  --device.open_;
  if (!is_finished) {
    device.unfinished_.push_back(std::move(closed));
    return;
  }
  device.reserved_ -= lane->reserved_;
  if (device.idle_.size() < kIdleLanes) {
    device.idle_.push_back(std::move(closed));
  }
}

std::string_view Lane::architecture() const { return device_.architecture(); }

cudaError_t Lane::Create() {
  if (staging_.back().copied != nullptr) return cudaSuccess;
  cudaStream_t stream = nullptr;
  cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  stream_.reset(stream);
  for (Staging& each : staging_) {
    if (error != cudaSuccess) return error;
    void* data = nullptr;
    error = cudaHostAlloc(&data, kStagingBytes, cudaHostAllocDefault);
    each.data.reset(static_cast<std::byte*>(data));
    if (error != cudaSuccess) return error;
    cudaEvent_t event = nullptr;
    error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    each.copied.reset(event);
  }
  return error;
}

cudaError_t Lane::FinishWork() {
  for (void* memory : std::exchange(allocated_, {})) {
    cudaFreeAsync(memory, stream_.get());
  }
  return cudaStreamQuery(stream_.get());
}

std::byte* Lane::Allocate(size_t bytes) {
  void* data = nullptr;
  if (Begins() && Succeeds(cudaMallocAsync(&data, bytes, stream_.get()))) {
    allocated_.push_back(data);
  }
  return static_cast<std::byte*>(data);
}

void Lane::Select(const SelectTask& task) {
  if (CopyStaged()) Succeeds(LaunchSelect(task, stream_.get()));
}

// Gathers small uploads in the staging buffer, so that each copy is large.
void Lane::Upload(std::span<const std::byte> from, std::byte* to) {
  if (to != staged_to_ + staged_) CopyStaged();
  while (!from.empty() && Begins()) {
    const Staging& staging = staging_[next_staging_];
    if (staged_ == 0) {
      if (!Wait(staging)) return;
      staged_to_ = to;
    }
    const size_t size = std::min(from.size(), kStagingBytes - staged_);
    device_.CopyOnHost(from.data(), staging.data.get() + staged_, size);
    staged_ += size;
    to += size;
    from = from.subspan(size);
    if (staged_ == kStagingBytes) CopyStaged();
  }
}

bool Lane::CopyStaged() {
  if (!Begins() || staged_ == 0) return status_.ok();
  const Staging& staging = staging_[next_staging_];
  next_staging_ ^= 1;
  return Transfer(staging, staged_to_, staging.data.get(),
                  std::exchange(staged_, 0), cudaMemcpyHostToDevice);
}

// Copies from the device to one staging buffer while emptying the other.
void Lane::Download(const std::byte* from, std::span<std::byte> to) {
  if (!CopyStaged()) return;
  std::span<std::byte> arriving;
  while (!to.empty() || !arriving.empty()) {
    const Staging& staging = staging_[next_staging_];
    next_staging_ ^= 1;
    const auto next = to.first(std::min(to.size(), kStagingBytes));
    if (!Begins()) return;
    if (!next.empty() &&
        !(Wait(staging) && Transfer(staging, staging.data.get(), from,
                                    next.size(), cudaMemcpyDeviceToHost))) {
      return;
    }
    const Staging& arrived = staging_[next_staging_];
    if (!arriving.empty()) {
      if (!Wait(arrived)) return;
      device_.CopyOnHost(arrived.data.get(), arriving.data(), arriving.size());
    }
    arriving = next;
    from += next.size();
    to = to.subspan(next.size());
  }
}

void Lane::Copy(const std::byte* from, std::byte* to, size_t bytes) {
  if (CopyStaged()) {
    Succeeds(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                             stream_.get()));
  }
}

void Lane::Finish() {
  if (CopyStaged()) Wait([&] { return cudaStreamQuery(stream_.get()); });
}

void Lane::Keep(std::shared_ptr<const std::byte> memory) {
  kept_.push_back(std::move(memory));
}

bool Lane::Succeeds(cudaError_t error) {
  if (error != cudaSuccess) status_ = device_.StatusOf(error);
  return error == cudaSuccess;
}

bool Lane::Begins() {
  if (status_.ok() && IsCancelled(cancellation_)) status_ = Cancelled();
  return status_.ok() && Succeeds(device_.Use());
}

// Sleeps between the calls, but never for more than an eighth of the time that
// the caller has already waited, or 1 ms.
bool Lane::Wait(absl::FunctionRef<cudaError_t()> query) {
  constexpr std::chrono::microseconds kSpin{50};
  constexpr std::chrono::nanoseconds kLongestSleep{1'000'000};
  const auto start = Clock::now();
  for (;;) {
    const cudaError_t error = query();
    if (error != cudaErrorNotReady) return Succeeds(error);
    if (IsCancelled(cancellation_)) {
      status_ = Cancelled();
      return false;
    }
    const std::chrono::nanoseconds waited = Clock::now() - start;
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min(waited / 8, kLongestSleep));
    }
  }
}

bool Lane::Wait(const Staging& staging) {
  return Wait([&] { return cudaEventQuery(staging.copied.get()); });
}

bool Lane::Transfer(const Staging& staging, void* to, const void* from,
                    size_t bytes, cudaMemcpyKind kind) {
  return Succeeds(cudaMemcpyAsync(to, from, bytes, kind, stream_.get())) &&
         Succeeds(cudaEventRecord(staging.copied.get(), stream_.get()));
}

Device::Device(int number, const cudaDeviceProp& properties,
               int64_t memory_limit, int threads)
    : number_(number),
      name_(properties.name),
      uuid_(properties.uuid.bytes, sizeof(properties.uuid.bytes)),
      memory_limit_(memory_limit),
      architecture_(StrCat("sm_", properties.major, properties.minor)),
      arenas_(threads) {}

Device::~Device() {
  // A device that hangs must not prevent the process from exiting.
  constexpr std::chrono::seconds kPatience{1};
  const auto end = Clock::now() + kPatience;
  const bool works = Use() == cudaSuccess;
  while (works && !unfinished_.empty() && Clock::now() < end) {
    TakeFinished();
    std::this_thread::yield();
  }
  // Work in progress uses these lanes, so leak them.
  for (auto& lane : unfinished_) {
    if (works) static_cast<void>(lane.release());
  }
}

Status Device::Start() {
  // Make threads block, rather than spin, in calls that wait for the device.
  cudaError_t error = cudaInitDevice(number_, cudaDeviceScheduleBlockingSync,
                                     cudaInitDeviceFlagsAreValid);
  if (error == cudaSuccess) error = Use();
  if (error == cudaSuccess) {
    error = cudaDeviceGetDefaultMemPool(&pool_, number_);
  }
  // Freed memory must not make a lane wait for the work of another lane, which
  // may have been cancelled.
  int waits = 0;
  if (error == cudaSuccess) {
    error = cudaMemPoolSetAttribute(
        pool_, cudaMemPoolReuseAllowInternalDependencies, &waits);
  }
  // Keep freed memory in the pool for later requests.
  auto keep = static_cast<uint64_t>(memory_limit_);
  if (error == cudaSuccess) {
    error =
        cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
  }
  return error == cudaSuccess ? Probe(*this) : StatusOf(error);
}

Result<LanePtr> Device::OpenLane(int64_t bytes,
                                 const Cancellation* cancellation) {
  if (Status s = Ready(); !s.ok()) return s;
  Lanes finished;
  std::unique_ptr<Lane> lane;
  {
    const std::lock_guard lock(mutex_);
    finished = TakeFinished();
    if (bytes > memory_limit_ - reserved_) {
      return ResourceExhausted("DEVICE_MEMORY", "server",
                               StrCat("requests have reserved ", reserved_,
                                      " of the ", memory_limit_, " bytes of ",
                                      name_, ", and this one needs ", bytes),
                               std::chrono::seconds(1));
    }
    // Allocate before anything changes. CloseLane must not need memory.
    if (idle_.empty()) idle_.push_back(std::make_unique<Lane>(*this));
    idle_.reserve(kIdleLanes);
    unfinished_.reserve(unfinished_.size() + open_ + 1);
    ++open_;
    reserved_ += bytes;
    lane = std::move(idle_.back());
    idle_.pop_back();
  }
  lane->reserved_ = bytes;
  lane->cancellation_ = cancellation;
  lane->status_ = {};
  lane->staged_ = 0;
  LanePtr open(lane.release());
  const cudaError_t error = open->Create();
  if (error != cudaSuccess) return StatusOf(error);
  return open;
}

Result<std::shared_ptr<std::byte>> Device::Import(const DeviceRegion& region,
                                                  const std::string& field) {
  cudaIpcMemHandle_t exported{};
  if (region.handle.size() != sizeof(exported)) {
    return InvalidArgument(
        "CUDA_MEMORY_HANDLE", StrCat(field, ".ipc_handle"),
        StrCat("the handle has ", region.handle.size(),
               " bytes; a cudaIpcMemHandle_t has ", sizeof(exported)));
  }
  if (Status s = Ready(); !s.ok()) return s;
  std::memcpy(&exported, region.handle.data(), sizeof(exported));
  // CUDA counts how often this process has opened the same memory.
  void* data = nullptr;
  cudaError_t error =
      cudaIpcOpenMemHandle(&data, exported, cudaIpcMemLazyEnablePeerAccess);
  if (error != cudaSuccess) {
    if (error == cudaErrorMemoryAllocation || HasStickyError()) {
      return StatusOf(error);
    }
    return InvalidArgument(
        "CUDA_MEMORY_HANDLE", StrCat(field, ".ipc_handle"),
        StrCat("the handle cannot be opened on ", name_, ": ", TextOf(error),
               "; another process must have exported memory that it has not "
               "freed"));
  }
  std::shared_ptr<std::byte> memory(static_cast<std::byte*>(data),
                                    [this](std::byte* opened) {
                                      static_cast<void>(Use());
                                      cudaIpcCloseMemHandle(opened);
                                    });
  size_t bytes = 0;
  error = GetBytesAt(data, bytes);
  if (error != cudaSuccess) return StatusOf(error);
  const auto size = static_cast<int64_t>(bytes);
  int64_t end = 0;
  if (region.offset < 0 || region.bytes < 0 ||
      !CheckedAdd(region.offset, region.bytes, &end) || end > size) {
    const bool size_is_wrong = region.offset >= 0 && region.offset <= size;
    return InvalidArgument(
        "CUDA_MEMORY_RANGE",
        StrCat(field, size_is_wrong ? ".byte_size" : ".offset"),
        StrCat("the region with offset ", region.offset, " and byte_size ",
               region.bytes, " is not within the allocation of ", size,
               " bytes"));
  }
  std::byte* const begin = memory.get() + region.offset;
  return std::shared_ptr<std::byte>(std::move(memory), begin);
}

DeviceState Device::state() {
  DeviceState state{name_, 0, memory_limit_, lost(), number_, uuid_};
  if (state.lost || Use() != cudaSuccess) return state;
  Lanes finished;
  if (std::unique_lock lock(mutex_, std::try_to_lock); lock) {
    finished = TakeFinished();
  }
  uint64_t used = 0;
  if (cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent,
                              &used) == cudaSuccess) {
    state.memory_bytes = static_cast<int64_t>(used);
  }
  return state;
}

cudaError_t Device::Use() const {
  cudaGetLastError();
  return cudaSetDevice(number_);
}

bool Device::HasStickyError() const {
  // No work uses the default stream, so only a sticky error fails.
  return cudaSetDevice(number_) != cudaSuccess ||
         cudaStreamQuery(nullptr) != cudaSuccess;
}

Status Device::Ready() {
  if (lost()) {
    return {Code::kUnavailable, "DEVICE_LOST", "",
            StrCat(name_, " failed earlier and is no longer used")};
  }
  const cudaError_t error = Use();
  return error == cudaSuccess ? Status() : StatusOf(error);
}

Status Device::StatusOf(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) {
    return ResourceExhausted("DEVICE_MEMORY", "server",
                             StrCat("no memory left on ", name_),
                             std::chrono::seconds(1));
  }
  if (HasStickyError()) lost_.store(true, std::memory_order_relaxed);
  return {Code::kUnavailable, "DEVICE_LOST", "",
          StrCat(name_, " failed: ", TextOf(error))};
}

void Device::CopyOnHost(const std::byte* from, std::byte* to, size_t bytes) {
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

Device::Lanes Device::TakeFinished() {
  Lanes finished;
  finished.reserve(unfinished_.size());
  idle_.reserve(kIdleLanes);
  std::erase_if(unfinished_, [&](std::unique_ptr<Lane>& lane) {
    if (lane->FinishWork() != cudaSuccess) return false;
    reserved_ -= lane->reserved_;
    const bool is_reused = lane->kept_.empty() && idle_.size() < kIdleLanes;
    (is_reused ? idle_ : finished).push_back(std::move(lane));
    return true;
  });
  return finished;
}

std::vector<std::unique_ptr<Device>> OpenDevices(
    int64_t memory_bytes, int threads, std::vector<std::string>& errors) {
  std::vector<std::unique_ptr<Device>> devices;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) count = 0;
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess ||
        properties.major < 8) {
      continue;
    }
    const auto half = static_cast<int64_t>(properties.totalGlobalMem / 2);
    auto device = std::make_unique<Device>(
        number, properties, memory_bytes > 0 ? memory_bytes : half, threads);
    if (Status s = device->Start(); s.ok()) {
      devices.push_back(std::move(device));
    } else {
      errors.push_back(StrCat("device ", number, " is not used: ", s.message));
    }
  }
  if (devices.empty() && errors.empty()) {
    errors.push_back(WhyNoDevice(error));
  }
  return devices;
}

}  // namespace topk::cuda
