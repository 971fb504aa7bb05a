#include "core/backends/cuda/resident.h"

#include <algorithm>
#include <utility>

#include "core/backends/cuda/chunks.h"
#include "core/backends/cuda/cuda_fold.h"
#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

class Region final : public DeviceMemory {
 public:
  Region(Device& device, std::shared_ptr<const ImportedMemory> memory,
         std::span<std::byte> bytes)
      : DeviceMemory(bytes), device_(device), memory_(std::move(memory)) {}

  // Keeps the memory open until the lane's work is done.
  void KeepFor(Lane& lane) const { lane.Keep(memory_); }

  Status Read(std::span<std::byte> to,
              const Cancellation* cancellation) const override {
    return InParts(to.size(), cancellation,
                   [&](Lane& lane, Memory& part, size_t at, size_t size) {
                     lane.CopyIn(bytes().subspan(at, size), part, 0);
                     lane.Download(part, to.subspan(at, size));
                   });
  }

  Status Write(std::span<const std::byte> from,
               const Cancellation* cancellation) const override {
    return InParts(from.size(), cancellation,
                   [&](Lane& lane, Memory& part, size_t at, size_t size) {
                     lane.Upload(from.subspan(at, size), part, 0);
                     lane.CopyOut(part, bytes().subspan(at, size));
                   });
  }

 private:
  // Calls copy() for each part of `size` bytes, with memory for one part.
  template <class Copy>
  Status InParts(size_t size, const Cancellation* cancellation,
                 const Copy& copy) const {
    constexpr size_t kPartBytes = 4 * kStagingBytes;
    if (size == 0) return {};
    // Leave memory for other requests.
    const auto limit = static_cast<size_t>(device_.memory_limit() / 4);
    const size_t most =
        std::min({size, kPartBytes, std::max<size_t>(limit, 1)});
    const Result<std::unique_ptr<Lane>> lane =
        device_.OpenLane(static_cast<int64_t>(most), cancellation);
    if (!lane.ok()) return lane.status();
    KeepFor(**lane);
    const std::unique_ptr<Memory> part = (*lane)->Allocate(most);
    for (size_t at = 0; at < size && (*lane)->status().ok(); at += most) {
      if (IsCancelled(cancellation)) return Cancelled();
      copy(**lane, *part, at, std::min(most, size - at));
    }
    return (*lane)->status();
  }

  Device& device_;
  const std::shared_ptr<const ImportedMemory> memory_;
};

class CudaResidentPlan final : public ResidentPlan {
 public:
  CudaResidentPlan(const Plan& plan, Device& device, int64_t positions)
      : plan_(plan), device_(device), positions_(positions) {}

  // Includes the time to wait for the device, and exceeds the limit for
  // pollers.
  Cost cost() const override {
    constexpr int64_t kBytesPerNanosecond = 100;
    Cost cost = CostOfOutputs(plan_);
    cost.working_bytes = 2 * kStagingBytes;
    cost.nanoseconds += std::max(plan_.input.bytes / kBytesPerNanosecond,
                                 kSerialNanoseconds + 1);
    return cost;
  }

  Execution Run(const ResidentMemory& memory, const Outputs& outputs,
                const Cancellation* cancellation) const override {
    Result<std::unique_ptr<Lane>> lane = device_.OpenLane(
        DeviceBytes(plan_, positions_, /*in_place=*/true), cancellation);
    if (!lane.ok()) return {"cuda", "", "", lane.status()};
    for (const DeviceMemory* each :
         {memory.tensor, memory.values, memory.indices}) {
      if (each != nullptr) static_cast<const Region*>(each)->KeepFor(**lane);
    }
    const Residence residence{true, memory.values != nullptr,
                              memory.indices != nullptr};
    const Outputs all{
        residence.values ? memory.values->bytes() : outputs.values,
        residence.indices ? memory.indices->bytes() : outputs.indices};
    CudaFold fold(plan_, all, *std::move(lane), positions_,
                  device_.architecture(), cancellation, residence);
    fold.Feed(memory.tensor->bytes());
    return fold.Finish();
  }

 private:
  const Plan& plan_;
  Device& device_;
  const int64_t positions_;  // per chunk
};

}  // namespace

Result<std::unique_ptr<DeviceMemory>> OpenRegion(Device& device,
                                                 const DeviceRegion& region,
                                                 const std::string& field) {
  const auto handle = std::as_bytes(std::span(region.handle));
  if (handle.size() != kIpcHandleBytes) {
    return InvalidArgument("CUDA_MEMORY_HANDLE", StrCat(field, ".ipc_handle"),
                           StrCat("the handle has ", handle.size(),
                                  " bytes; a "
                                  "cudaIpcMemHandle_t has ",
                                  kIpcHandleBytes));
  }
  Result<std::unique_ptr<ImportedMemory>> memory = device.Import(
      handle.first<kIpcHandleBytes>(), StrCat(field, ".ipc_handle"));
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
      std::make_unique<Region>(device, *std::move(memory), part));
}

std::unique_ptr<const ResidentPlan> PrepareResident(const Plan& plan,
                                                    Device& device,
                                                    int64_t chunk_bytes) {
  if (device.lost()) return nullptr;
  const auto bytes = [&](int64_t positions) {
    return DeviceBytes(plan, positions, /*in_place=*/true);
  };
  // One chunk needs the fewest launches. Leave memory for other requests.
  int64_t positions = plan.outer * plan.n;
  if (bytes(positions) > device.memory_limit() / 4) {
    // If k is large, chunks may need more memory than the whole tensor.
    const int64_t chunk = PositionsPerChunk(plan, chunk_bytes);
    if (bytes(chunk) < bytes(positions)) positions = chunk;
  }
  if (bytes(positions) > device.memory_limit()) return nullptr;
  return std::make_unique<CudaResidentPlan>(plan, device, positions);
}

}  // namespace topk::cuda
