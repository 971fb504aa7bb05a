#include "core/backends/cuda/device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

#include "core/backends/cuda/probe.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// The number of closed lanes that are kept for reuse. More lanes at a time
// would not increase the throughput.
constexpr size_t kIdleLanes = 16;

using Clock = std::chrono::steady_clock;

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

ImportedMemory::~ImportedMemory() {
  static_cast<void>(device_.Use());
  cudaIpcCloseMemHandle(bytes_.data());
  cudaGetLastError();
}

cudaError_t Lane::Create() {
  cudaError_t error = cudaSuccess;
  const auto create = [&](auto& object, const auto& function) {
    if (error != cudaSuccess || object != nullptr) return;
    typename std::remove_reference_t<decltype(object)>::pointer created = {};
    error = function(&created);
    object.reset(created);
  };
  for (Stream* stream : {&copying_, &computing_}) {
    create(*stream, [](cudaStream_t* to) {
      return cudaStreamCreateWithFlags(to, cudaStreamNonBlocking);
    });
  }
  for (Staging& each : staging_) {
    create(each.data, [](void* to) {
      return cudaHostAlloc(static_cast<void**>(to), kStagingBytes,
                           cudaHostAllocDefault);
    });
  }
  for (Event* event : {&staging_[0].copied, &staging_[1].copied, &marks_[0],
                       &marks_[1], &copied_}) {
    create(*event, [](cudaEvent_t* to) {
      return cudaEventCreateWithFlags(to, cudaEventDisableTiming);
    });
  }
  return error;
}

cudaError_t Lane::FinishWork() {
  for (const Stream* stream : {&copying_, &computing_}) {
    const cudaError_t error = cudaStreamQuery(stream->get());
    if (error != cudaSuccess) return error;
  }
  for (void* data : unfreed_) cudaFreeAsync(data, computing_.get());
  unfreed_.clear();
  return cudaSuccess;
}

void CloseLane::operator()(Lane* lane) const {
  Device& device = lane->device_;
  // Until all work of this lane is done, memory that this lane freed is not
  // available to other lanes.
  if (device.Use() == cudaSuccess && !device.lost()) {
    Wait([&] { return lane->FinishWork(); }, lane->cancellation_);
  }
  Device::Unused unused;
  const std::lock_guard lock(device.mutex_);
  device.closed_.emplace_back(lane);
  device.Reclaim(unused);
}

void FreeInLane::operator()(std::byte* memory) const {
  // After an error, work may use the memory that computations do not wait for.
  if (lane->Begins() && lane->AfterCopies()) {
    lane->Succeeds(cudaFreeAsync(memory, lane->computing_.get()));
  } else {
    lane->unfreed_.push_back(memory);
  }
}

Memory Lane::Allocate(size_t bytes) {
  void* data = nullptr;
  if (Begins()) {
    Succeeds(cudaMallocFromPoolAsync(&data, std::max<size_t>(bytes, 1),
                                     device_.pool_, computing_.get()));
  }
  return Memory(static_cast<std::byte*>(data), FreeInLane{this});
}

void Lane::Select(const SelectTask& task) {
  CopyStaged();
  if (Begins() && AfterCopies()) {
    Succeeds(LaunchSelect(task, computing_.get(), device_.pool_));
  }
}

void Lane::Mark(int slot) {
  if (!Begins()) return;
  Succeeds(cudaEventRecord(marks_[slot].get(), computing_.get()));
}

// Gathers small uploads in the staging buffer, so that each copy is large.
void Lane::Upload(std::span<const std::byte> from, std::byte* to, int slot) {
  if (to != staged_to_ + staged_) CopyStaged();
  while (!from.empty() && Begins()) {
    Staging& staging = staging_[next_staging_];
    if (staged_ == 0) {
      if (!Wait(staging.copied) || !AfterMark(slot)) return;
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

void Lane::CopyStaged() {
  if (staged_ == 0 || !Begins()) return;
  Staging& staging = staging_[next_staging_];
  Transfer(staged_to_, staging.data.get(), staged_, cudaMemcpyHostToDevice,
           staging.copied);
  staged_ = 0;
  next_staging_ ^= 1;
}

// Copies from the device to one staging buffer while emptying the other.
void Lane::Download(const std::byte* from, std::span<std::byte> to, int slot) {
  CopyStaged();
  if (!Begins() || !AfterMark(slot)) return;
  std::array<std::span<std::byte>, 2> arriving;
  for (;;) {
    const size_t number = next_staging_;
    next_staging_ ^= 1;
    Staging& staging = staging_[number];
    if (!Begins() || !Wait(staging.copied)) return;
    std::span<std::byte>& arrived = arriving[number];
    if (!arrived.empty()) {
      device_.CopyOnHost(staging.data.get(), arrived.data(), arrived.size());
    }
    arrived = to.first(std::min(to.size(), kStagingBytes));
    if (arrived.empty() && arriving[number ^ 1].empty()) return;
    if (arrived.empty()) continue;
    if (!Transfer(staging.data.get(), from, arrived.size(),
                  cudaMemcpyDeviceToHost, staging.copied)) {
      return;
    }
    from += arrived.size();
    to = to.subspan(arrived.size());
  }
}

void Lane::Copy(const std::byte* from, std::byte* to, size_t bytes, int slot) {
  CopyStaged();
  if (Begins() && AfterMark(slot) &&
      Transfer(to, from, bytes, cudaMemcpyDeviceToDevice, copied_)) {
    Wait(copied_);
  }
}

void Lane::Finish() {
  CopyStaged();
  if (Begins() && AfterCopies()) Wait(copied_);
}

void Lane::Keep(std::shared_ptr<const ImportedMemory> memory) {
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

bool Lane::Wait(const Event& event) {
  const cudaError_t error =
      cuda::Wait([&] { return cudaEventQuery(event.get()); }, cancellation_);
  if (error != cudaErrorNotReady) return Succeeds(error);
  status_ = Cancelled();
  return false;
}

bool Lane::AfterMark(int slot) {
  return Succeeds(cudaStreamWaitEvent(copying_.get(), marks_[slot].get(), 0));
}

bool Lane::AfterCopies() {
  return Succeeds(cudaEventRecord(copied_.get(), copying_.get())) &&
         Succeeds(cudaStreamWaitEvent(computing_.get(), copied_.get(), 0));
}

bool Lane::Transfer(void* to, const void* from, size_t bytes,
                    cudaMemcpyKind kind, const Event& copied) {
  return Succeeds(cudaMemcpyAsync(to, from, bytes, kind, copying_.get())) &&
         Succeeds(cudaEventRecord(copied.get(), copying_.get()));
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
  if (Use() == cudaSuccess) {
    while (!closed_.empty() && Clock::now() < end) {
      Unused unused;
      Reclaim(unused);
      std::this_thread::yield();
    }
  }
  // Work in progress uses these lanes and the pool, so leak them.
  if (!closed_.empty() && Use() == cudaSuccess) {
    for (auto& lane : closed_) static_cast<void>(lane.release());
  } else if (pool_ != nullptr) {
    closed_.clear();
    idle_.clear();
    cudaMemPoolDestroy(pool_);
  }
  cudaGetLastError();
}

Status Device::Start() {
  // Make threads block, rather than spin, in calls that wait for the device.
  cudaError_t error = cudaInitDevice(number_, cudaDeviceScheduleBlockingSync,
                                     cudaInitDeviceFlagsAreValid);
  if (error == cudaSuccess) error = Use();
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = number_;
  properties.maxSize = static_cast<size_t>(memory_limit_);
  if (error == cudaSuccess) error = cudaMemPoolCreate(&pool_, &properties);
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
  Result<LanePtr> lane = Reserve(bytes, cancellation);
  if (!lane.ok()) return lane;
  const cudaError_t error = (*lane)->Create();
  if (error != cudaSuccess) return StatusOf(error);
  return lane;
}

Result<std::unique_ptr<ImportedMemory>> Device::Import(
    const std::string& handle, const std::string& field) {
  cudaIpcMemHandle_t exported{};
  if (handle.size() != sizeof(exported)) {
    return InvalidArgument(
        "CUDA_MEMORY_HANDLE", field,
        StrCat("the handle has ", handle.size(),
               " bytes; a cudaIpcMemHandle_t has ", sizeof(exported)));
  }
  if (Status s = Ready(); !s.ok()) return s;
  std::memcpy(&exported, handle.data(), handle.size());
  // CUDA counts how often this process has opened the same memory.
  void* data = nullptr;
  cudaError_t error =
      cudaIpcOpenMemHandle(&data, exported, cudaIpcMemLazyEnablePeerAccess);
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
  auto memory = std::make_unique<ImportedMemory>(
      *this, std::span(static_cast<std::byte*>(data), bytes));
  if (error != cudaSuccess) return StatusOf(error);
  return memory;
}

DeviceState Device::state() {
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

Result<LanePtr> Device::Reserve(int64_t bytes,
                                const Cancellation* cancellation) {
  Unused unused;
  const std::lock_guard lock(mutex_);
  Reclaim(unused);
  if (bytes > memory_limit_ - reserved_) {
    return ResourceExhausted(
        "DEVICE_MEMORY", "server",
        StrCat("requests have reserved ", reserved_, " of the ", memory_limit_,
               " bytes of ", name_, ", and this one needs ", bytes),
        std::chrono::seconds(1));
  }
  if (idle_.empty()) idle_.push_back(std::make_unique<Lane>(*this));
  LanePtr lane(idle_.back().release());
  idle_.pop_back();
  lane->reserved_ = bytes;
  reserved_ += bytes;
  lane->cancellation_ = cancellation;
  lane->status_ = {};
  lane->staged_ = 0;
  return lane;
}

void Device::Reclaim(Unused& unused) {
  std::erase_if(closed_, [&](std::unique_ptr<Lane>& lane) {
    if (lane->FinishWork() != cudaSuccess) return false;
    reserved_ -= lane->reserved_;
    for (auto& memory : std::exchange(lane->kept_, {})) {
      unused.push_back(std::move(memory));
    }
    if (idle_.size() < kIdleLanes) {
      idle_.push_back(std::move(lane));
    } else {
      unused.push_back(std::shared_ptr<Lane>(std::move(lane)));
    }
    return true;
  });
  cudaGetLastError();
}

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
    auto device = std::make_unique<Device>(
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
