// The interface of a GPU: memory, and queues of ordered work. Implemented by
// device/cuda_device.cc, which the tests run on a simulated CUDA runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/backends/backend.h"
#include "core/backends/cuda/tasks.h"
#include "core/base/cancellation.h"
#include "topk/status.h"

namespace topk::cuda {

/// Device memory of a lane. On destruction, frees the memory once the work that
/// uses it is done, unless it is borrowed.
class Memory {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// The address on the device.
  std::byte* data() const { return data_; }

 protected:
  explicit Memory(std::byte* data) : data_(data) {}

 private:
  std::byte* data_;
};

/// The size of a cudaIpcMemHandle_t in bytes.
inline constexpr size_t kIpcHandleBytes = 64;

/// Memory that another process allocated. Closed on destruction.
class ImportedMemory {
 public:
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;
  virtual ~ImportedMemory() = default;

  /// The addresses on the device. Other processes may change the bytes at any
  /// time.
  std::span<std::byte> bytes() const { return bytes_; }

 protected:
  explicit ImportedMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

 private:
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
/// Operations on the same memory run in the order of the calls. Uploads overlap
/// with computations that use other memory.
///
/// After an error or a cancellation, all operations are no-ops. No operation
/// waits for the device after a cancellation.
class Lane {
 public:
  virtual ~Lane() = default;

  /// The first error: RESOURCE_EXHAUSTED if the device ran out of memory,
  /// UNAVAILABLE if it failed, CANCELLED after a cancellation. Errors of
  /// asynchronous work are reported by a later operation, no later than the
  /// next Download().
  const Status& status() const { return status_; }

  /// Returns uninitialized memory. Never returns null. After an error, the
  /// result's data() is null.
  virtual std::unique_ptr<Memory> Allocate(size_t bytes) = 0;

  /// Copies bytes to offset `at` of `to`. The caller may change `from` as soon
  /// as Upload() returns. `to` must live until the next Select() or Download().
  virtual void Upload(std::span<const std::byte> from, Memory& to,
                      size_t at) = 0;

  /// Runs a task. `uses` lists all memory that the task uses; null entries are
  /// ignored.
  virtual void Select(const SelectTask& task,
                      std::initializer_list<Memory*> uses) = 0;

  /// Fills `to` with the first bytes of `from`. Blocks until the copy is done.
  virtual void Download(Memory& from, std::span<std::byte> to) = 0;

  /// Copies the first `bytes` bytes of `from` to offset `at` of `to`. Blocks
  /// until the copy is done.
  virtual void Copy(Memory& from, Memory& to, size_t at, size_t bytes) = 0;

  /// Blocks until all copies to `memory` are done.
  virtual void Finish(Memory& memory) = 0;

  /// Returns the part `bytes` of imported memory. Keeps the imported memory
  /// open until all work of this lane is done. After a cancellation, this may
  /// be later than the end of this lane.
  virtual std::unique_ptr<Memory> Borrow(
      std::shared_ptr<const ImportedMemory> memory,
      std::span<std::byte> bytes) = 0;

 protected:
  Status status_;
};

/// A GPU. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  /// Returns a lane that may allocate `bytes` bytes. Returns RESOURCE_EXHAUSTED
  /// if other lanes have reserved the memory, or UNAVAILABLE if the device
  /// failed. The device and `cancellation`, which may be null, must outlive the
  /// lane.
  virtual Result<std::unique_ptr<Lane>> OpenLane(
      int64_t bytes, const Cancellation* cancellation) = 0;

  /// Opens memory that another process allocated on this device. `handle` has
  /// the bytes of a cudaIpcMemHandle_t. Returns INVALID_ARGUMENT for `field` if
  /// the handle cannot be opened. Such an error does not affect the device.
  /// Also returns the errors of OpenLane(). The device must outlive the result.
  virtual Result<std::unique_ptr<ImportedMemory>> Import(
      std::span<const std::byte, kIpcHandleBytes> handle,
      const std::string& field) = 0;

  /// See DeviceState::uuid.
  virtual const std::string& uuid() const = 0;
  /// The architecture, e.g. "sm_90". The string lives as long as the device.
  virtual std::string_view architecture() const = 0;
  /// Whether the device is unusable until the process restarts.
  virtual bool lost() const = 0;
  /// The maximum total memory of all lanes, in bytes.
  virtual int64_t memory_limit() const = 0;
  virtual DeviceState state() = 0;
};

}  // namespace topk::cuda
