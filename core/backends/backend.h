// The interface of a backend. ARCHITECTURE.md explains how to add a backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/cancellation.h"
#include "core/plan/cost.h"
#include "core/plan/plan.h"
#include "topk/status.h"

namespace topk {

/// The chunks of a tensor's data. A chunk may end within an element.
using Chunks = std::span<const std::span<const std::byte>>;

/// How a tensor arrives: in one chunk, in several chunks that are all available
/// at the start, or in a stream of chunks.
enum class Arrival { kWhole, kChunks, kStream };

/// The output buffers, filled with zeros. Their sizes are plan.values.bytes and
/// plan.indices.bytes, or 0 for an output that was not requested or has device
/// memory.
struct Outputs {
  std::span<std::byte> values;
  std::span<std::byte> indices;
};

/// Describes a computation. The strings live as long as the backend.
struct Execution {
  std::string_view backend;
  std::string_view kernel;
  std::string_view instruction_set;
  /// UNAVAILABLE if a device failed, RESOURCE_EXHAUSTED if a device ran out of
  /// memory. In both cases, the outputs are undefined. The last backend in the
  /// registry always succeeds.
  Status status = {};
};

/// A region of the memory that another process allocated on a device.
struct DeviceRegion {
  /// Identifies the allocation, in the form of the backend.
  std::string handle;
  /// See DeviceState::uuid.
  std::string device_uuid;
  /// The part of the allocation, in bytes.
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A DeviceRegion, open while this object exists. Thread-safe. Other processes
/// may change the bytes at any time. The errors are those of Execution::status,
/// and CANCELLED.
class DeviceMemory {
 public:
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  /// The host memory that Read() and Write() use, in bytes.
  static constexpr int64_t kBufferBytes = int64_t{8} << 20;

  /// The region's addresses on the device.
  std::span<std::byte> bytes() const { return bytes_; }

  /// Copies the first bytes of the region to `to`.
  virtual Status Read(std::span<std::byte> to,
                      const Cancellation* cancellation) const = 0;
  /// Copies `from` to the beginning of the region.
  virtual Status Write(std::span<const std::byte> from,
                       const Cancellation* cancellation) const = 0;

 protected:
  explicit DeviceMemory(std::span<std::byte> bytes) : bytes_(bytes) {}

 private:
  const std::span<std::byte> bytes_;
};

/// The memory of a request whose tensor is on a device. An output that is null
/// is not on the device.
struct ResidentMemory {
  const DeviceMemory* tensor = nullptr;
  const DeviceMemory* values = nullptr;
  const DeviceMemory* indices = nullptr;
};

/// The state of a device other than the CPU.
struct DeviceState {
  /// E.g. "NVIDIA H100 80GB HBM3".
  std::string name;
  /// The device memory that this process uses, and its limit, in bytes.
  int64_t memory_bytes = 0;
  int64_t memory_limit = 0;
  /// Whether the device is unusable until the process restarts.
  bool lost = false;
  /// The device's number in this process.
  int number = 0;
  /// 16 bytes that identify the device in all processes.
  std::string uuid = {};
};

/// A selection over one tensor that arrives in chunks. The result does not
/// depend on the chunk sizes. After a cancellation, calls return soon and the
/// outputs are undefined.
class Fold {
 public:
  explicit Fold(const Plan& plan)
      : missing_(static_cast<size_t>(plan.input.bytes)) {}
  virtual ~Fold() = default;

  /// Processes the next bytes of the tensor's data. A chunk may end within an
  /// element. Ignores padding after the last element.
  void Feed(std::span<const std::byte> chunk) {
    chunk = chunk.first(std::min(chunk.size(), missing_));
    missing_ -= chunk.size();
    if (!chunk.empty()) Take(chunk);
  }

  /// Writes the remaining outputs. REQUIRES: all plan.input.bytes bytes were
  /// passed to Feed().
  virtual Execution Finish() = 0;

 private:
  virtual void Take(std::span<const std::byte> chunk) = 0;

  size_t missing_;
};

/// Runs one plan on one backend. Thread-safe. The plan and the backend must
/// outlive this object.
///
/// `cancellation` may be null. A cancelled computation returns soon and leaves
/// the outputs undefined, so the caller must check `cancellation` afterwards.
class PreparedPlan {
 public:
  virtual ~PreparedPlan() = default;

  /// Returns the typical wall time of Run(), for choosing a backend. cost(),
  /// FeedNanoseconds() and FinishNanoseconds() return upper bounds on the CPU
  /// time instead.
  virtual int64_t EstimateNanoseconds() const = 0;

  /// Returns the cost of the request.
  virtual Cost cost() const = 0;

  /// Returns an upper bound on the CPU time of one call of Fold::Feed() with
  /// `bytes` bytes.
  virtual Size FeedNanoseconds(Size bytes) const = 0;

  /// Returns an upper bound on the CPU time of Fold::Finish().
  virtual Size FinishNanoseconds() const { return FeedNanoseconds(0); }

  /// Computes the result from all chunks of the tensor. On the CPU backend,
  /// uses only the calling thread if there is one chunk and cost() is at most
  /// kSerialNanoseconds. REQUIRES: the chunks have at least plan.input.bytes
  /// bytes.
  virtual Execution Run(Chunks chunks, const Outputs& outputs,
                        const Cancellation* cancellation) const = 0;

  /// Starts a selection over a tensor that arrives in chunks. Returns the same
  /// errors as Execution::status. This object, `outputs` and `cancellation`
  /// must outlive the result.
  virtual Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const = 0;
};

/// Runs one plan on a tensor in device memory. Thread-safe. The plan and the
/// backend must outlive this object.
class ResidentPlan {
 public:
  virtual ~ResidentPlan() = default;

  /// Returns the cost of the request, in host memory and time.
  virtual Cost cost() const = 0;

  /// Computes the result. Writes each output to its device memory in `memory`,
  /// or else to `outputs`. The device has finished when this function returns.
  /// After a cancellation, the outputs are undefined. REQUIRES: the memory is
  /// on the device that was passed to Backend::PrepareResident(), and is large
  /// enough. No output in `memory` overlaps the tensor.
  virtual Execution Run(const ResidentMemory& memory, const Outputs& outputs,
                        const Cancellation* cancellation) const = 0;
};

/// An implementation of the selection. Thread-safe. All backends return the
/// same bytes.
class Backend {
 public:
  virtual ~Backend() = default;

  /// A short stable name, e.g. "cpu".
  virtual std::string_view name() const = 0;
  /// The instruction set that the backend uses on this machine.
  virtual std::string_view instruction_set() const = 0;
  /// The maximum number of threads, or 0 if not applicable.
  virtual int threads() const = 0;

  /// Chooses how to run a plan on a tensor that arrives as `arrival`. Returns
  /// null if this backend cannot run the plan. The last backend in the registry
  /// can run every plan. `plan` must outlive the result.
  virtual std::unique_ptr<const PreparedPlan> Prepare(
      const Plan& plan, Arrival arrival) const = 0;

  /// Returns the state of each device other than the CPU.
  virtual std::vector<DeviceState> Devices() const { return {}; }

  /// Opens memory that another process allocated. Returns null if this backend
  /// does not have the device. `field` is the path of the request field with
  /// the region. Returns INVALID_ARGUMENT if the handle cannot be opened or the
  /// region is not within the allocation, and the errors of Execution::status.
  virtual Result<std::unique_ptr<DeviceMemory>> OpenMemory(
      const DeviceRegion& /*region*/, const std::string& /*field*/) const {
    return std::unique_ptr<DeviceMemory>();
  }

  /// Chooses how to run a plan on a tensor in the memory of a device. Returns
  /// null if this backend does not have the device or cannot run the plan.
  /// `plan` must outlive the result.
  virtual std::unique_ptr<const ResidentPlan> PrepareResident(
      const Plan& /*plan*/, const std::string& /*device_uuid*/) const {
    return nullptr;
  }
};

}  // namespace topk
