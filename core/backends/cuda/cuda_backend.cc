// Chooses a device for each plan, and declines plans that no device can run.
// The kernels read a tensor of another process in place. If the process changes
// it at the same time, only the result of its own request is wrong (filter.h).
//
// Results equal those of the CPU backend, because elements with equal keys rank
// by index (elements.h).
//
// Tests: unit/cuda_*_test.cc and, on a device, those with the CTest label gpu.
#include "core/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/backends/cuda/cuda_fold.h"
#include "core/base/text.h"

namespace topk {
namespace {

using cuda::Device;
using cuda::Lane;
using cuda::LanePtr;

constexpr std::string_view kName = "cuda";

// Returns whether the kernels can run a plan. Strides, sub-byte elements, empty
// tensors, and positions that do not fit into a sort key are not supported.
bool CanRun(const Plan& plan) {
  constexpr int64_t kNarrowPositions = int64_t{1} << 32;
  const DTypeInfo& type = InfoOf(plan.dtype);
  return plan.input.contiguous && plan.values.contiguous &&
         plan.indices.contiguous && !type.packed() && plan.slices() > 0 &&
         (type.bytes > 4 || plan.n <= kNarrowPositions);
}

// Returns the cost of a plan that takes `nanoseconds`, including the time to
// wait for the device. Exceeds the limit for pollers.
Cost CostOf(const Plan& plan, int64_t nanoseconds) {
  Cost cost = CostOfOutputs(plan);
  cost.working_bytes = 2 * cuda::kStagingBytes;
  cost.nanoseconds += std::max(nanoseconds, kSerialNanoseconds + 1);
  return cost;
}

class Region final : public DeviceMemory {
 public:
  Region(Device& device, std::shared_ptr<std::byte> memory, int64_t bytes)
      : DeviceMemory({memory.get(), static_cast<size_t>(bytes)}),
        device_(device),
        memory_(std::move(memory)) {}

  // Keeps the region open for a lane. Returns its address.
  std::byte* In(Lane& lane) const {
    lane.Keep(memory_);
    return bytes().data();
  }

  Status Read(std::span<std::byte> to,
              const Cancellation* cancellation) const override {
    return InLane(cancellation,
                  [&](Lane& lane) { lane.Download(In(lane), to); });
  }

  Status Write(std::span<const std::byte> from,
               const Cancellation* cancellation) const override {
    return InLane(cancellation, [&](Lane& lane) {
      lane.Upload(from, In(lane));
      lane.Finish();
    });
  }

 private:
  template <class Copy>
  Status InLane(const Cancellation* cancellation, const Copy& copy) const {
    const Result<LanePtr> lane = device_.OpenLane(/*bytes=*/0, cancellation);
    if (!lane.ok()) return lane.status();
    copy(**lane);
    return (*lane)->status();
  }

  Device& device_;
  const std::shared_ptr<std::byte> memory_;
};

class CudaResidentPlan final : public ResidentPlan {
 public:
  CudaResidentPlan(const Plan& plan, Device& device, int64_t batches)
      : plan_(plan), device_(device), batches_(batches) {}

  Cost cost() const override {
    constexpr int64_t kBytesPerNanosecond = 100;
    return CostOf(plan_, plan_.input.bytes / kBytesPerNanosecond);
  }

  // Writes outputs to memory of this process first, because the memory of the
  // client may be unaligned.
  Execution Run(const ResidentMemory& memory, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    Result<LanePtr> lane = device_.OpenLane(
        cuda::DeviceBytes(plan_, batches_, /*in_place=*/true), cancellation);
    if (!lane.ok()) return {kName, "", "", lane.status()};
    for (const auto* region : {memory.tensor, memory.values, memory.indices}) {
      if (region != nullptr) static_cast<const Region*>(region)->In(**lane);
    }
    cuda::CudaFold fold(plan_, outputs, *std::move(lane), batches_, memory);
    fold.Feed(memory.tensor->bytes());
    return fold.Finish();
  }

 private:
  const Plan& plan_;
  Device& device_;
  const int64_t batches_;  // per chunk
};

// A backend that uses its devices round-robin.
class CudaBackend final : public Backend {
 public:
  CudaBackend(std::vector<std::unique_ptr<Device>> devices, int64_t chunk_bytes,
              const cuda::Speeds& speeds)
      : devices_(std::move(devices)),
        chunk_bytes_(chunk_bytes),
        speeds_(speeds) {}

  std::string_view name() const override { return kName; }
  std::string_view instruction_set() const override {
    return devices_.front()->architecture();
  }
  int threads() const override { return 0; }

  std::unique_ptr<const PreparedPlan> Prepare(const Plan& plan,
                                              Arrival arrival) const override;

  std::vector<DeviceState> Devices() const override {
    std::vector<DeviceState> states;
    for (const auto& device : devices_) states.push_back(device->state());
    return states;
  }

  Result<std::unique_ptr<DeviceMemory>> OpenMemory(
      const DeviceRegion& region, const std::string& field) const override {
    Device* const device = Find(region.device_uuid);
    if (device == nullptr) return std::unique_ptr<DeviceMemory>();
    Result<std::shared_ptr<std::byte>> memory = device->Import(region, field);
    if (!memory.ok()) return memory.status();
    return std::unique_ptr<DeviceMemory>(
        std::make_unique<Region>(*device, *std::move(memory), region.bytes));
  }

  // Processes the tensor at once, or in chunks if the device has too little
  // memory for the results.
  std::unique_ptr<const ResidentPlan> PrepareResident(
      const Plan& plan, const std::string& device_uuid) const override {
    Device* const device = Find(device_uuid);
    if (device == nullptr || device->lost() || !CanRun(plan)) return nullptr;
    const auto bytes = [&](int64_t batches) {
      return cuda::DeviceBytes(plan, batches, /*in_place=*/true);
    };
    // One chunk needs the fewest launches. Leave memory for other requests.
    int64_t batches = plan.outer;
    if (bytes(batches) > device->memory_limit() / 4) {
      batches = cuda::BatchesPerChunk(plan, chunk_bytes_);
    }
    if (bytes(batches) > device->memory_limit()) return nullptr;
    return std::make_unique<CudaResidentPlan>(plan, *device, batches);
  }

  // Opens a lane on the next device that works and has enough free memory.
  Result<LanePtr> OpenLane(int64_t bytes,
                           const Cancellation* cancellation) const {
    const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0;; ++i) {
      Device& device = *devices_[(first + i) % devices_.size()];
      Result<LanePtr> lane = device.OpenLane(bytes, cancellation);
      if (lane.ok() || i + 1 == devices_.size()) return lane;
    }
  }

 private:
  // Returns null if there is no such device.
  Device* Find(const std::string& uuid) const {
    const auto found = std::ranges::find_if(
        devices_, [&](const auto& device) { return device->uuid() == uuid; });
    return found == devices_.end() ? nullptr : found->get();
  }

  const std::vector<std::unique_ptr<Device>> devices_;
  const int64_t chunk_bytes_;
  const cuda::Speeds speeds_;
  mutable std::atomic<size_t> next_ = 0;
};

class CudaPlan final : public PreparedPlan {
 public:
  CudaPlan(const Plan& plan, const CudaBackend& backend, int64_t batches,
           int64_t nanoseconds)
      : plan_(plan),
        backend_(backend),
        batches_(batches),
        nanoseconds_(nanoseconds) {}

  int64_t EstimateNanoseconds() const override { return nanoseconds_; }

  Cost cost() const override { return CostOf(plan_, nanoseconds_); }

  // Exceeds the limit for pollers, because Feed() may wait for the device.
  Size FeedNanoseconds(Size bytes) const override {
    const double share = static_cast<double>(bytes.value()) /
                         static_cast<double>(plan_.input.bytes);
    return std::max(Size::Of(share * static_cast<double>(nanoseconds_)),
                    Size(kSerialNanoseconds + 1));
  }

  Execution Run(Chunks chunks, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    const Result<std::unique_ptr<Fold>> fold = StartFold(outputs, cancellation);
    if (!fold.ok()) return {kName, "", "", fold.status()};
    for (const auto& chunk : chunks) (*fold)->Feed(chunk);
    return (*fold)->Finish();
  }

  Result<std::unique_ptr<Fold>> StartFold(
      const Outputs& outputs, const Cancellation* cancellation) const override {
    Result<LanePtr> lane =
        backend_.OpenLane(cuda::DeviceBytes(plan_, batches_), cancellation);
    if (!lane.ok()) return lane.status();
    Lane& opened = **lane;
    std::unique_ptr<Fold> fold = std::make_unique<cuda::CudaFold>(
        plan_, outputs, *std::move(lane), batches_);
    if (!opened.status().ok()) return opened.status();
    return fold;
  }

 private:
  const Plan& plan_;
  const CudaBackend& backend_;
  const int64_t batches_;  // per chunk
  const int64_t nanoseconds_;
};

std::unique_ptr<const PreparedPlan> CudaBackend::Prepare(
    const Plan& plan, Arrival arrival) const {
  // Enough for a chunk of 4-byte elements, its transposed copy, its outputs and
  // a sort. A stream holds its memory while it is idle, so it gets no more.
  constexpr int64_t kStreamChunks = 12;
  if (!CanRun(plan)) return nullptr;
  int64_t batches = cuda::BatchesPerChunk(plan, chunk_bytes_);
  int64_t bytes = cuda::DeviceBytes(plan, batches);
  if (arrival == Arrival::kStream) {
    const int64_t most = kStreamChunks * chunk_bytes_;
    while (batches > 1 && bytes > most) {
      batches /= 2;
      bytes = cuda::DeviceBytes(plan, batches);
    }
    if (bytes > most) return nullptr;
  }
  const auto has_memory = [&](const std::unique_ptr<Device>& device) {
    return !device->lost() && bytes <= device->memory_limit();
  };
  if (std::ranges::none_of(devices_, has_memory)) return nullptr;
  return std::make_unique<CudaPlan>(plan, *this, batches,
                                    cuda::EstimateNanoseconds(plan, speeds_));
}

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(
    std::vector<std::unique_ptr<Device>> devices, int64_t chunk_bytes,
    const cuda::Speeds& speeds) {
  return std::make_unique<CudaBackend>(std::move(devices), chunk_bytes, speeds);
}

}  // namespace topk
