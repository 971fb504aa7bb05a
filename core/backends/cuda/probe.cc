#include "core/backends/cuda/probe.h"

#include <array>
#include <utility>

#include "core/backends/cuda/cuda_fold.h"
#include "core/base/text.h"

namespace topk::cuda {

Status Probe(Device& device) {
  constexpr std::array<float, 3> kData = {1, 3, 2};
  constexpr std::array<int64_t, 2> kRightIndices = {1, 2};
  PlanRequest request;
  request.shape = {static_cast<int64_t>(kData.size())};
  request.k = static_cast<int64_t>(kRightIndices.size());
  const Result<Plan> plan = MakePlan(request, {});
  if (!plan.ok()) return plan.status();
  std::array<float, 2> values{};
  std::array<int64_t, 2> indices{};
  const Outputs outputs{std::as_writable_bytes(std::span(values)),
                        std::as_writable_bytes(std::span(indices))};
  const int64_t positions = plan->n;
  auto lane = device.OpenLane(DeviceBytes(*plan, positions), nullptr);
  if (!lane.ok()) return lane.status();
  CudaFold fold(*plan, outputs, *std::move(lane), positions,
                device.architecture(), nullptr);
  fold.Feed(std::as_bytes(std::span(kData)));
  if (Status s = fold.Finish().status; !s.ok()) return s;
  if (indices == kRightIndices) return {};
  return {Code::kUnavailable, "DEVICE_LOST", "",
          StrCat(device.state().name, " returned a wrong result")};
}

}  // namespace topk::cuda
