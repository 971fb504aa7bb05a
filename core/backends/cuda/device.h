// One GPU, as the fold sees it: memory, and work that is done in order. The
// contract of cuda_device.h, and of the device that tests put in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>

#include "core/backends/backend.h"
#include "core/backends/cuda/tasks.h"
#include "core/base/status.h"

namespace topk::cuda {

/// Memory of a device, given back when destroyed, after the work that uses it.
class Memory {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Its address on the device.
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  Memory(std::byte* data, size_t size) : data_(data), size_(size) {}

 private:
  std::byte* data_;
  size_t size_;
};

/// Of each of the two buffers of pinned memory that a lane copies through: from
/// other memory copies are slow, and wait.
inline constexpr size_t kStagingBytes = size_t{4} << 20;

/// A queue of work on a device, for one caller at a time. Operations on the
/// same memory run in the order of the calls; uploads overlap with computations
/// that use other memory.
///
/// Errors: RESOURCE_EXHAUSTED if the device has no memory left, UNAVAILABLE if
/// it is lost. An error of asynchronous work may be returned by a later call,
/// at the latest by the next Download.
class Lane {
 public:
  virtual ~Lane() = default;

  /// Returns memory, its contents undefined.
  virtual Result<std::unique_ptr<Memory>> Allocate(size_t bytes) = 0;

  /// Copies bytes to `at` in a memory. `from` may change when it returns.
  virtual Status Upload(std::span<const std::byte> from, Memory& to,
                        size_t at) = 0;

  /// Does a task that uses these memories and no others.
  virtual Status Select(const SelectTask& task,
                        std::initializer_list<Memory*> uses) = 0;
  virtual Status Emit(const EmitTask& task,
                      std::initializer_list<Memory*> uses) = 0;

  /// Copies the first bytes of a memory, which are there when it returns.
  virtual Status Download(Memory& from, std::span<std::byte> to) = 0;
};

/// A GPU. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  /// Returns a lane that may take about `bytes` of memory, or
  /// RESOURCE_EXHAUSTED while others have too much, or UNAVAILABLE: lost. The
  /// device outlives its lanes.
  virtual Result<std::unique_ptr<Lane>> OpenLane(int64_t bytes) = 0;

  /// The architecture of its code, e.g. "sm_90". Outlives the device's lanes.
  virtual std::string_view architecture() const = 0;
  /// Whether it failed. It stays so until the process starts again.
  virtual bool lost() const = 0;
  /// The maximum memory of all its lanes together, in bytes.
  virtual int64_t memory_limit() const = 0;
  /// The device's state, for operators.
  virtual DeviceState state() const = 0;
};

}  // namespace topk::cuda
