// Chooses a device for each plan, and declines plans that no device can run.
// The kernels read a tensor of another process in place. If the process changes
// it at the same time, only the result of its own request is wrong (filter.h).
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
#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk {
namespace {

using cuda::Device;
using cuda::ImportedMemory;
using cuda::Lane;
using cuda::LanePtr;

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
  Region(Device& device, std::shared_ptr<const ImportedMemory> memory,
         std::span<std::byte> bytes)
      : DeviceMemory(bytes), device_(device), memory_(std::move(memory)) {}

  // Keeps the region open for a lane. Returns its address.
  std::byte* In(Lane& lane) const {
    lane.Keep(memory_);
    return bytes().data();
  }

  Status Read(std::span<std::byte> to,
              const Cancellation* cancellation) const override {
    return InLane(cancellation,
                  [&](Lane& lane) { lane.Download(In(lane), to, /*slot=*/0); });
  }

  Status Write(std::span<const std::byte> from,
               const Cancellation* cancellation) const override {
    return InLane(cancellation, [&](Lane& lane) {
      lane.Upload(from, In(lane), /*slot=*/0);
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
  const std::shared_ptr<const ImportedMemory> memory_;
};

class CudaResidentPlan final : public ResidentPlan {
 public:
  CudaResidentPlan(const Plan& plan, Device& device, int64_t positions)
      : plan_(plan), device_(device), positions_(positions) {}

  Cost cost() const override {
    constexpr int64_t kBytesPerNanosecond = 100;
    return CostOf(plan_, plan_.input.bytes / kBytesPerNanosecond);
  }

  // Writes outputs to memory of this process first, because the memory of the
  // client may overlap the tensor.
  Execution Run(const ResidentMemory& memory, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    Result<LanePtr> lane = device_.OpenLane(
        cuda::DeviceBytes(plan_, positions_, /*in_place=*/true), cancellation);
    if (!lane.ok()) return {kName, "", "", lane.status()};
    const auto address = [&](const DeviceMemory* region) {
      return region == nullptr ? nullptr
                               : static_cast<const Region*>(region)->In(**lane);
    };
    address(memory.tensor);
    const cuda::Residence residence{true, address(memory.values),
                                    address(memory.indices)};
    cuda::CudaFold fold(plan_, outputs, *std::move(lane), positions_,
                        device_.architecture(), residence);
    fold.Feed(memory.tensor->bytes());
    return fold.Finish();
  }

 private:
  const Plan& plan_;
  Device& device_;
  const int64_t positions_;  // per chunk
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
    Result<std::unique_ptr<ImportedMemory>> memory =
        device->Import(region.handle, StrCat(field, ".ipc_handle"));
    if (!memory.ok()) return memory.status();
    const std::span<std::byte> all = (*memory)->bytes();
    const auto size = static_cast<int64_t>(all.size());
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
    const auto part = all.subspan(static_cast<size_t>(region.offset),
                                  static_cast<size_t>(region.bytes));
    return std::unique_ptr<DeviceMemory>(
        std::make_unique<Region>(*device, *std::move(memory), part));
  }

  // Processes the tensor at once, or in chunks if the device has too little
  // memory for the results.
  std::unique_ptr<const ResidentPlan> PrepareResident(
      const Plan& plan, const std::string& device_uuid) const override {
    Device* const device = Find(device_uuid);
    if (device == nullptr || device->lost() || !CanRun(plan)) return nullptr;
    const auto bytes = [&](int64_t positions) {
      return cuda::DeviceBytes(plan, positions, /*in_place=*/true);
    };
    // One chunk needs the fewest launches. Leave memory for other requests.
    int64_t positions = plan.outer * plan.n;
    if (bytes(positions) > device->memory_limit() / 4) {
      // If k is large, chunks may need more memory than the whole tensor.
      const int64_t chunk = cuda::PositionsPerChunk(plan, chunk_bytes_);
      if (bytes(chunk) < bytes(positions)) positions = chunk;
    }
    if (bytes(positions) > device->memory_limit()) return nullptr;
    return std::make_unique<CudaResidentPlan>(plan, *device, positions);
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
  CudaPlan(const Plan& plan, const CudaBackend& backend, int64_t positions,
           int64_t nanoseconds)
      : plan_(plan),
        backend_(backend),
        positions_(positions),
        nanoseconds_(nanoseconds) {}

  int64_t EstimateNanoseconds() const override { return nanoseconds_; }

  Cost cost() const override { return CostOf(plan_, nanoseconds_); }

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
    Result<LanePtr> lane =
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
