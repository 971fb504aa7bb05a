// A CUDA device, and lanes: queues of ordered work on the device. The tests run
// this code on a simulated CUDA runtime.
//
// No function blocks in the driver until a device has finished its work,
// because such a wait cannot be cancelled.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/backends/backend.h"
#include "core/backends/cpu/pieces.h"
#include "core/backends/cuda/tasks.h"
#include "core/base/cancellation.h"
#include "core/base/free_with.h"
#include "topk/status.h"

namespace topk::cuda {

class Device;
class Lane;

/// Frees memory when all earlier work of a lane is done.
struct FreeInLane {
  Lane* lane = nullptr;
  void operator()(std::byte* memory) const;
};
/// Device memory that a lane allocated.
using Memory = std::unique_ptr<std::byte, FreeInLane>;

/// Closes a lane, which its device may reuse.
struct CloseLane {
  void operator()(Lane* lane) const;
};
using LanePtr = std::unique_ptr<Lane, CloseLane>;

/// Memory that another process allocated. Closed on destruction. Other
/// processes may change the bytes at any time.
class ImportedMemory {
 public:
  ImportedMemory(const Device& device, std::span<std::byte> bytes)
      : device_(device), bytes_(bytes) {}
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  ~ImportedMemory();

  /// The addresses on the device.
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  const Device& device_;
  const std::span<std::byte> bytes_;
};

/// The size of a buffer of pinned memory. A lane has two buffers. All copies
/// pass through these buffers, because copies from pageable memory are slow and
/// synchronous.
///
/// Shared memory is not registered with CUDA, which would avoid the buffers. A
/// registration keeps its pages if the client removes pages from its object.
/// Later requests would read the old pages without an error, because the object
/// is still the same and has the same size.
inline constexpr size_t kStagingBytes = DeviceMemory::kBufferBytes / 2;

/// A queue of work on a device. Only one thread at a time may use a lane.
/// Computations run in the order of the calls, after all earlier copies. Copies
/// run in the order of the calls too, and overlap with computations: a copy
/// waits only for the computations before the last Mark() of its slot.
///
/// After an error or a cancellation, all operations are no-ops. No operation
/// waits for the device after a cancellation.
class Lane {
 public:
  static constexpr int kSlots = 2;

  explicit Lane(Device& device) : device_(device) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// The first error: RESOURCE_EXHAUSTED if the device ran out of memory,
  /// UNAVAILABLE if it failed, CANCELLED after a cancellation. Errors of
  /// asynchronous work are reported by a later operation, no later than the
  /// next Download().
  const Status& status() const { return status_; }

  /// Returns uninitialized memory, for computations, and for copies after the
  /// next Mark(). Returns null after an error.
  Memory Allocate(size_t bytes);

  /// Runs a task.
  void Select(const SelectTask& task);

  /// Makes later copies of a slot wait for all computations so far.
  void Mark(int slot);

  /// Copies bytes to the device. The caller may change `from` as soon as
  /// Upload() returns. `to` must live until the next Select() or Download().
  void Upload(std::span<const std::byte> from, std::byte* to, int slot);

  /// Fills `to` from the device. Blocks until the copy is done.
  void Download(const std::byte* from, std::span<std::byte> to, int slot);

  /// Copies bytes on the device. Blocks until the copy is done.
  void Copy(const std::byte* from, std::byte* to, size_t bytes, int slot);

  /// Blocks until all copies are done.
  void Finish();

  /// Keeps imported memory open until all work of this lane is done. After a
  /// cancellation, this may be later than the end of this lane.
  void Keep(std::shared_ptr<const ImportedMemory> memory);

 private:
  friend class Device;
  friend struct CloseLane;
  friend struct FreeInLane;
  using Stream = std::unique_ptr<CUstream_st, FreeWith<cudaStreamDestroy>>;
  // Waiting for an event that was never recorded is a no-op.
  using Event = std::unique_ptr<CUevent_st, FreeWith<cudaEventDestroy>>;
  struct Staging {
    std::unique_ptr<std::byte, FreeWith<cudaFreeHost>> data;
    Event copied;
  };

  // Creates the resources that do not exist yet.
  cudaError_t Create();
  // Returns cudaErrorNotReady if work is not done. Otherwise frees `unfreed_`.
  cudaError_t FinishWork();
  // Returns whether a call succeeded, and sets the status if not.
  bool Succeeds(cudaError_t error);
  // Makes the device current. Returns false after an error or a cancellation.
  bool Begins();
  // Waits for an event. Returns false after an error or a cancellation.
  bool Wait(const Event& event);
  // Makes later copies wait for the work that Mark() recorded.
  bool AfterMark(int slot);
  // Makes later computations wait for all copies so far.
  bool AfterCopies();
  // Copies between a staging buffer and the device.
  bool Transfer(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                const Event& copied);
  // Starts the copy of the staged bytes to the device.
  void CopyStaged();

  Device& device_;
  // The resources, which are reused because pinned memory is slow to allocate.
  Stream copying_;
  Stream computing_;
  std::array<Staging, 2> staging_;
  std::array<Event, kSlots> marks_;
  Event copied_;
  // The device memory that the lane may allocate, in bytes.
  int64_t reserved_ = 0;
  // Device memory to free, and memory to close, when all work is done.
  std::vector<void*> unfreed_;
  std::vector<std::shared_ptr<const ImportedMemory>> kept_;
  const Cancellation* cancellation_ = nullptr;
  Status status_;
  size_t next_staging_ = 0;
  // The number of bytes in the next staging buffer, and their destination on
  // the device.
  size_t staged_ = 0;
  std::byte* staged_to_ = nullptr;
};

/// A device with a memory pool. Reuses the resources of closed lanes.
/// Thread-safe.
class Device {
 public:
  /// Start() must succeed before any other call.
  Device(int number, const cudaDeviceProp& properties, int64_t memory_limit,
         int threads);
  ~Device();

  /// Creates the context and the memory pool, and runs a kernel.
  Status Start();

  /// Returns a lane that may allocate `bytes` bytes. Returns RESOURCE_EXHAUSTED
  /// if other lanes have reserved the memory, or UNAVAILABLE if the device
  /// failed. The device and `cancellation`, which may be null, must outlive the
  /// lane.
  Result<LanePtr> OpenLane(int64_t bytes, const Cancellation* cancellation);

  /// Opens memory that another process allocated on this device. `handle` has
  /// the bytes of a cudaIpcMemHandle_t. Returns INVALID_ARGUMENT for `field` if
  /// the handle cannot be opened. Such an error does not affect the device.
  /// Also returns the errors of OpenLane(). The device must outlive the result.
  Result<std::unique_ptr<ImportedMemory>> Import(const std::string& handle,
                                                 const std::string& field);

  /// See DeviceState::uuid.
  const std::string& uuid() const { return uuid_; }
  /// The architecture, e.g. "sm_90". The string lives as long as the device.
  std::string_view architecture() const { return architecture_; }
  /// Whether the device is unusable until the process restarts.
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  /// The maximum total memory of all lanes, in bytes.
  int64_t memory_limit() const { return memory_limit_; }
  /// Also closes the memory of lanes that were cancelled, so that metrics close
  /// it on an idle server.
  DeviceState state();

 private:
  friend class ImportedMemory;
  friend class Lane;
  friend struct CloseLane;
  using Unused = std::vector<std::shared_ptr<const void>>;

  // Makes this the current device of the calling thread. Clears the error that
  // an earlier call left, for example in a destructor, because the next launch
  // of a kernel would return this error.
  cudaError_t Use() const;
  // Returns whether every later call would fail.
  bool HasStickyError() const;
  // Makes this the current device. Returns an error if it failed.
  Status Ready();
  // Returns the status for an error. Sets `lost_` if the error is sticky, i.e.
  // every later call of this process would fail. REQUIRES: not cudaSuccess.
  Status StatusOf(cudaError_t error);
  // Copies host memory, with several threads if that is faster.
  void CopyOnHost(const std::byte* from, std::byte* to, size_t bytes);
  // Returns a lane that has reserved memory.
  Result<LanePtr> Reserve(int64_t bytes, const Cancellation* cancellation);
  // Takes back what closed lanes have finished using. Appends lanes and
  // imported memory that are not needed to `unused`, which the caller must
  // destroy without the lock, because freeing pinned memory is slow. REQUIRES:
  // `mutex_` is locked, and Use() was called.
  void Reclaim(Unused& unused);

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
  int64_t reserved_ = 0;  // bytes of open lanes, and of `closed_`
  std::vector<std::unique_ptr<Lane>> closed_;  // whose work may not be done
  std::vector<std::unique_ptr<Lane>> idle_;    // for reuse
};

struct DeviceOptions {
  /// The memory limit of each device in bytes, or 0 for half of its memory.
  int64_t memory_bytes = 0;
  /// The maximum number of threads that copy from and to host memory.
  int threads = 1;
};

/// Returns the devices of this machine that can run the kernels. Takes a
/// second, because it initializes each device and runs a kernel. Appends to
/// `errors` why devices are not used, or why there is no device.
std::vector<std::unique_ptr<Device>> OpenDevices(
    const DeviceOptions& options, std::vector<std::string>& errors);

}  // namespace topk::cuda
