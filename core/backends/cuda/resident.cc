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

  // Returns the region as memory of a lane.
  std::unique_ptr<Memory> BorrowFor(Lane& lane) const {
    return lane.Borrow(memory_, bytes());
  }

  Status Read(std::span<std::byte> to,
              const Cancellation* cancellation) const override {
    return InLane(cancellation, [&](Lane& lane, Memory& memory) {
      lane.Download(memory, to);
    });
  }

  Status Write(std::span<const std::byte> from,
               const Cancellation* cancellation) const override {
    return InLane(cancellation, [&](Lane& lane, Memory& memory) {
      lane.Upload(from, memory, 0);
      lane.Finish(memory);
    });
  }

 private:
  template <class Copy>
  Status InLane(const Cancellation* cancellation, const Copy& copy) const {
    const Result<std::unique_ptr<Lane>> lane =
        device_.OpenLane(/*bytes=*/0, cancellation);
    if (!lane.ok()) return lane.status();
    copy(**lane, *BorrowFor(**lane));
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
    const auto borrow = [&](const DeviceMemory* from) {
      return from == nullptr
                 ? nullptr
                 : static_cast<const Region*>(from)->BorrowFor(**lane);
    };
    Residence residence{borrow(memory.tensor), borrow(memory.values),
                        borrow(memory.indices)};
    CudaFold fold(plan_, outputs, *std::move(lane), positions_,
                  device_.architecture(), std::move(residence));
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
