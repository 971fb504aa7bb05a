// Chooses a device for each plan, and declines plans that no device can run.
//
// Results equal those of the CPU backend, because items with equal keys rank by
// index (items.h).
//
// Tests: unit/cuda_*_test.cc and, on a device, those with the CTest label gpu.
#include "core/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/backends/cuda/cuda_fold.h"
#include "core/backends/cuda/resident.h"

namespace topk {
namespace {

using cuda::Device;
using cuda::Lane;

constexpr std::string_view kName = "cuda";

// Returns whether the kernels can run a plan. Strides, sub-byte elements, empty
// tensors, and indices that do not fit into an item are not supported.
bool CanRun(const Plan& plan) {
  constexpr int64_t kNarrowIndices = int64_t{1} << 32;
  const DTypeInfo& type = InfoOf(plan.dtype);
  return plan.input.contiguous && plan.values.contiguous &&
         plan.indices.contiguous && !type.packed() && plan.slices() > 0 &&
         (type.bytes > 4 || plan.n <= kNarrowIndices);
}

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
    return cuda::OpenRegion(*device, region, field);
  }

  std::unique_ptr<const ResidentPlan> PrepareResident(
      const Plan& plan, const std::string& device_uuid) const override {
    Device* const device = Find(device_uuid);
    if (device == nullptr || !CanRun(plan)) return nullptr;
    return cuda::PrepareResident(plan, *device, chunk_bytes_);
  }

  // Opens a lane on the next device that works and has enough free memory.
  Result<std::unique_ptr<Lane>> OpenLane(
      int64_t bytes, const Cancellation* cancellation) const {
    const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0;; ++i) {
      Device& device = *devices_[(first + i) % devices_.size()];
      Result<std::unique_ptr<Lane>> lane = device.OpenLane(bytes, cancellation);
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
  CudaPlan(const Plan& plan, const CudaBackend& backend, int64_t positions,
           int64_t nanoseconds)
      : plan_(plan),
        backend_(backend),
        positions_(positions),
        nanoseconds_(nanoseconds) {}

  int64_t EstimateNanoseconds() const override { return nanoseconds_; }

  // The time includes copying to pinned memory and waiting for the device.
  Cost cost() const override {
    Cost cost = CostOfOutputs(plan_);
    cost.working_bytes = 2 * cuda::kStagingBytes;
    cost.nanoseconds += FeedNanoseconds(0);
    return cost;
  }

  // Exceeds the limit for pollers, because Feed() may wait for the device.
  Size FeedNanoseconds(Size) const override {
    return std::max(nanoseconds_, kSerialNanoseconds + 1);
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
    Result<std::unique_ptr<Lane>> lane =
        backend_.OpenLane(cuda::DeviceBytes(plan_, positions_), cancellation);
    if (!lane.ok()) return lane.status();
    return std::unique_ptr<Fold>(std::make_unique<cuda::CudaFold>(
        plan_, outputs, *std::move(lane), positions_,
        backend_.instruction_set()));
  }

 private:
  const Plan& plan_;
  const CudaBackend& backend_;
  const int64_t positions_;  // per chunk
  const int64_t nanoseconds_;
};

std::unique_ptr<const PreparedPlan> CudaBackend::Prepare(const Plan& plan,
                                                         Arrival) const {
  if (!CanRun(plan)) return nullptr;
  const int64_t positions = cuda::PositionsPerChunk(plan, chunk_bytes_);
  const int64_t bytes = cuda::DeviceBytes(plan, positions);
  const auto has_memory = [&](const std::unique_ptr<Device>& device) {
    return !device->lost() && bytes <= device->memory_limit();
  };
  if (std::ranges::none_of(devices_, has_memory)) return nullptr;
  return std::make_unique<CudaPlan>(
      plan, *this, positions,
      cuda::EstimateNanoseconds(plan, positions, speeds_));
}

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(
    std::vector<std::unique_ptr<Device>> devices, int64_t chunk_bytes,
    const cuda::Speeds& speeds) {
  return std::make_unique<CudaBackend>(std::move(devices), chunk_bytes, speeds);
}

}  // namespace topk
