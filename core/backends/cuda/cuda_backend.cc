// The CUDA backend: which device, and whether at all.
//
// Why the bytes are those of the CPU: an item's order is unique (items.h).
//
// Tests: tests/unit/cuda on the host, the label gpu on a device.
#include "core/backends/cuda/cuda_backend.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/backends/cuda/cost.h"
#include "core/backends/cuda/cuda_fold.h"
#include "core/base/text.h"

namespace topk {
namespace {

using cuda::Device;
using cuda::Lane;

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::vector<std::unique_ptr<Device>> devices,
              int64_t piece_elements)
      : devices_(std::move(devices)), piece_elements_(piece_elements) {}

  std::string_view name() const override { return "cuda"; }
  std::string_view instruction_set() const override {
    return devices_.front()->architecture();
  }
  int threads() const override { return 0; }

  Status Supports(const Plan& plan) const override {
    if (!plan.input.packed || !plan.values.packed || !plan.indices.packed) {
      return Declined("tensors with strides");
    }
    if (InfoOf(plan.dtype).bits < 8) {
      return Declined("elements of less than a byte");
    }
    if (plan.input.bytes == 0) return Declined("tensors without elements");
    const int element = InfoOf(plan.dtype).bytes;
    constexpr int64_t kNarrowIndices = int64_t{1} << 32;
    if (element <= 4 && plan.n > kNarrowIndices) {
      return Declined(Cat("axes of more than ", kNarrowIndices, " elements"));
    }
    const int64_t bytes = cuda::DeviceBytes(plan, Rows(plan));
    int64_t most = 0;
    bool lost = true;
    for (const auto& device : devices_) {
      if (device->lost()) continue;
      lost = false;
      most = std::max(most, device->memory_limit());
    }
    if (lost) return Declined("anything: each of its devices is lost");
    if (bytes > most) {
      return Declined(
          Cat("what takes ", bytes, " bytes of a device that gives ", most));
    }
    return {};
  }

  std::string_view KernelFor(const Plan& plan) const override {
    return NameOf(cuda::MethodOf(plan, Rows(plan)));
  }

  bool FoldsWell(const Plan&) const override { return true; }

  int64_t EstimateNanoseconds(const Plan& plan) const override {
    return cuda::EstimateNanoseconds(plan, Rows(plan));
  }

  // A thread copies into pinned memory and waits for the device.
  Cost RunCost(const Plan& plan) const override {
    Cost cost = CostOfOutputs(plan);
    cost.working_bytes = 2 * cuda::kStagingBytes;
    cost.nanoseconds += EstimateNanoseconds(plan);
    return cost;
  }
  Cost FoldCost(const Plan& plan) const override { return RunCost(plan); }

  // Any call may wait for the device to take a piece.
  Size FeedNanoseconds(const Plan& plan, Size) const override {
    return EstimateNanoseconds(plan);
  }

  Execution Run(const Plan& plan, std::span<const std::byte> tensor,
                const Outputs& outputs,
                const Cancellation* cancellation) const override {
    const Result<std::unique_ptr<Fold>> fold =
        Start(plan, outputs, cancellation);
    if (!fold.ok()) return {name(), "", "", fold.status()};
    (*fold)->Feed(tensor.first(static_cast<size_t>(plan.input.bytes)));
    return (*fold)->Finish();
  }

  Result<std::unique_ptr<Fold>> Start(
      const Plan& plan, const Outputs& outputs,
      const Cancellation* cancellation) const override {
    Result<std::unique_ptr<Lane>> lane = OpenLane(plan);
    if (!lane.ok()) return lane.status();
    return cuda::MakeFold(plan, outputs, *std::move(lane), Rows(plan),
                          instruction_set(), cancellation);
  }

  std::vector<DeviceState> Devices() const override {
    std::vector<DeviceState> states;
    for (const auto& device : devices_) states.push_back(device->state());
    return states;
  }

 private:
  static Status Declined(const std::string& what) {
    return Unimplemented("NOT_ON_THIS_BACKEND", "",
                         Cat("the CUDA backend does not take ", what));
  }

  int64_t Rows(const Plan& plan) const {
    return cuda::RowsPerPiece(plan, piece_elements_);
  }

  // Takes the devices in turn; one that is lost or full is passed over.
  Result<std::unique_ptr<Lane>> OpenLane(const Plan& plan) const {
    const int64_t bytes = cuda::DeviceBytes(plan, Rows(plan));
    const size_t first = next_.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0;; ++i) {
      Device& device = *devices_[(first + i) % devices_.size()];
      Result<std::unique_ptr<Lane>> lane = device.OpenLane(bytes);
      if (lane.ok() || i + 1 == devices_.size()) return lane;
    }
  }

  const std::vector<std::unique_ptr<Device>> devices_;
  const int64_t piece_elements_;
  mutable std::atomic<size_t> next_ = 0;
};

}  // namespace

std::unique_ptr<Backend> MakeCudaBackend(
    std::vector<std::unique_ptr<Device>> devices, int64_t piece_elements) {
  return std::make_unique<CudaBackend>(std::move(devices), piece_elements);
}

}  // namespace topk
