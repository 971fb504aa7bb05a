// A CUDA device, and lanes: queues of ordered work on the device. The tests run
// this code on a simulated CUDA runtime.
//
// No function blocks in the driver until a device has finished its work,
// because such a wait cannot be cancelled.
#pragma once

#include <absl/functional/function_ref.h>
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

/// Closes a lane, which its device may reuse.
struct CloseLane {
  void operator()(Lane* lane) const;
};
using LanePtr = std::unique_ptr<Lane, CloseLane>;

/// The size of a buffer of pinned memory. A lane has two buffers. All copies
/// pass through these buffers, because copies from pageable memory are slow and
/// synchronous.
///
/// Shared memory is not registered with CUDA, which would avoid the buffers. A
/// registration keeps its pages if the client removes pages from its object.
/// Later requests would read the old pages without an error, because the object
/// is still the same and has the same size.
inline constexpr size_t kStagingBytes = DeviceMemory::kBufferBytes / 2;

/// A queue of work on a device, which runs in the order of the calls. Only one
/// thread at a time may use a lane.
///
/// After an error or a cancellation, all operations are no-ops. No operation
/// waits for the device after a cancellation.
class Lane {
 public:
  explicit Lane(Device& device) : device_(device) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// The first error: RESOURCE_EXHAUSTED if the device ran out of memory,
  /// UNAVAILABLE if it failed, CANCELLED after a cancellation. Errors of
  /// asynchronous work are reported by a later operation, no later than the
  /// next Download() or Finish().
  const Status& status() const { return status_; }

  /// See Device.
  std::string_view architecture() const;

  /// Returns uninitialized memory, which is freed when the lane is closed.
  /// Returns null after an error.
  std::byte* Allocate(size_t bytes);

  /// Runs a task.
  void Select(const SelectTask& task);

  /// Copies bytes to the device. The caller may change `from` as soon as
  /// Upload() returns.
  void Upload(std::span<const std::byte> from, std::byte* to);

  /// Fills `to` from the device. Blocks until the copy is done.
  void Download(const std::byte* from, std::span<std::byte> to);

  /// Copies bytes on the device.
  void Copy(const std::byte* from, std::byte* to, size_t bytes);

  /// Blocks until all work is done.
  void Finish();

  /// Keeps imported memory open until all work of this lane is done. After a
  /// cancellation, this may be later than the end of this lane.
  void Keep(std::shared_ptr<const std::byte> memory);

 private:
  friend class Device;
  friend struct CloseLane;
  struct Staging {
    std::unique_ptr<std::byte, FreeWith<cudaFreeHost>> data;
    // Waiting for an event that was never recorded is a no-op.
    std::unique_ptr<CUevent_st, FreeWith<cudaEventDestroy>> copied;
  };

  // Creates the resources that do not exist yet.
  cudaError_t Create();
  // Frees the memory of a closed lane. Returns cudaErrorNotReady if work is not
  // done.
  cudaError_t FinishWork();
  // Returns whether a call succeeded, and sets the status if not.
  bool Succeeds(cudaError_t error);
  // Makes the device current. Returns false after an error or a cancellation.
  bool Begins();
  // Calls `query` until it does not return cudaErrorNotReady. Returns false
  // after an error, or if cancelled before.
  bool Wait(absl::FunctionRef<cudaError_t()> query);
  bool Wait(const Staging& staging);
  // Copies between a staging buffer and the device.
  bool Transfer(const Staging& staging, void* to, const void* from,
                size_t bytes, cudaMemcpyKind kind);
  // Starts the copy of the staged bytes to the device. Returns whether another
  // operation may begin.
  bool CopyStaged();

  Device& device_;
  // The resources, which are reused because pinned memory is slow to allocate.
  // The work of the stream uses the buffers.
  std::array<Staging, 2> staging_;
  std::unique_ptr<CUstream_st, FreeWith<cudaStreamDestroy>> stream_;
  // The device memory that the lane may allocate, in bytes.
  int64_t reserved_ = 0;
  // Device memory to free, and memory to close, at the end.
  std::vector<void*> allocated_;
  std::vector<std::shared_ptr<const std::byte>> kept_;
  const Cancellation* cancellation_ = nullptr;
  Status status_;
  size_t next_staging_ = 0;
  // The number of bytes in the next staging buffer, and their destination on
  // the device.
  size_t staged_ = 0;
  std::byte* staged_to_ = nullptr;
};

/// A device. Reuses the resources of closed lanes. Thread-safe.
class Device {
 public:
  /// Start() must succeed before any other call.
  Device(int number, const cudaDeviceProp& properties, int64_t memory_limit,
         int threads);
  ~Device();

  /// Creates the context, and runs a kernel.
  Status Start();

  /// Returns a lane that may allocate `bytes` bytes. Returns RESOURCE_EXHAUSTED
  /// if other lanes have reserved the memory, or UNAVAILABLE if the device
  /// failed. The device and `cancellation`, which may be null, must outlive the
  /// lane.
  Result<LanePtr> OpenLane(int64_t bytes, const Cancellation* cancellation);

  /// Opens memory that another process allocated on this device. The handle is
  /// a cudaIpcMemHandle_t. Returns INVALID_ARGUMENT for a field of `field` if
  /// the handle cannot be opened, or if the region is not within the
  /// allocation. Such an error does not affect the device. Also returns the
  /// errors of OpenLane(). The device must outlive the result. Other processes
  /// may change the bytes at any time.
  Result<std::shared_ptr<std::byte>> Import(const DeviceRegion& region,
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
  friend class Lane;
  friend struct CloseLane;
  using Lanes = std::vector<std::unique_ptr<Lane>>;

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
  // Removes the lanes whose work is done from `unfinished_`. Keeps some for
  // reuse, and returns the others. The caller must destroy these without the
  // lock, because freeing pinned memory and closing memory are slow. REQUIRES:
  // `mutex_` is locked, and Use() was called.
  Lanes TakeFinished();

  const int number_;
  const std::string name_;
  const std::string uuid_;
  const int64_t memory_limit_;
  const std::string architecture_;
  cpu::ArenaPool arenas_;
  std::atomic<bool> lost_ = false;
  cudaMemPool_t pool_ = nullptr;  // CUDA's default pool
  // Guards the members below.
  std::mutex mutex_;
  int64_t reserved_ = 0;  // bytes of open lanes, and of `unfinished_`
  size_t open_ = 0;       // the number of open lanes
  Lanes idle_;            // for reuse
  Lanes unfinished_;      // closed, but their work is not done
};

/// Returns the devices of this machine that can run the kernels. Takes a
/// second, because it initializes each device and runs a kernel. The memory
/// limit of each device is `memory_bytes`, or half of its memory if 0. At most
/// `threads` threads copy from and to host memory. Appends to `errors` why
/// devices are not used, or why there is no device.
std::vector<std::unique_ptr<Device>> OpenDevices(
    int64_t memory_bytes, int threads, std::vector<std::string>& errors);

}  // namespace topk::cuda
