#include "core/backends/cuda/probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/backends/cuda/cuda_fold.h"
#include "core/base/text.h"

namespace topk::cuda {
namespace {

// Returns the least time of a few runs, in nanoseconds. Ignores the first run,
// which may allocate memory and start threads.
template <class Run>
double LeastNanoseconds(const Run& run) {
  constexpr int kRuns = 3;
  double least = std::numeric_limits<double>::max();
  for (int i = 0; i <= kRuns; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - start;
    if (i > 0) least = std::min(least, time.count());
  }
  return least;
}

}  // namespace

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
  auto lane = device.OpenLane(DeviceBytes(*plan, 1), nullptr);
  if (!lane.ok()) return lane.status();
  CudaFold fold(*plan, outputs, *std::move(lane), /*chunk_batches=*/1);
  fold.Feed(std::as_bytes(std::span(kData)));
  if (Status s = fold.Finish().status; !s.ok()) return s;
  if (indices == kRightIndices) return {};
  return {Code::kUnavailable, "DEVICE_LOST", "",
          StrCat(device.state().name, " returned a wrong result")};
}

Result<Speeds> MeasureSpeeds(Device& device) {
  constexpr size_t kCopied = kChunkBytes;
  constexpr int64_t kSlices = 2;
  constexpr int64_t kLength = int64_t{1} << 17;
  constexpr int64_t kLaneBytes = int64_t{64} << 20;  // more than needed below
  Status status;
  const double request = LeastNanoseconds([&] {
    if (status.ok()) status = Probe(device);
  });
  if (!status.ok()) return status;
  const auto opened = device.OpenLane(kLaneBytes, nullptr);
  if (!opened.ok()) return opened.status();
  Lane& lane = **opened;
  std::byte* const elements = lane.Allocate(kCopied);
  std::byte* const values = lane.Allocate(kSlices * kLength * sizeof(uint32_t));
  std::vector<std::byte> host(kCopied);
  const double copying = LeastNanoseconds([&] {
    lane.Upload(host, elements);
    lane.Download(elements, host);
  });
  SelectTask task;  // sorts the first elements, as numbers of 4 bytes
  task.elements = elements;
  task.batches = kSlices;
  task.positions = task.k = kLength;
  task.values = values;
  task.indices = lane.Allocate(kSlices * kLength * sizeof(int64_t));
  const double sorting = LeastNanoseconds([&] {
    lane.Select(task);
    lane.Finish();
  });
  if (!lane.status().ok()) return lane.status();
  return Speeds{request, 2.0 * kCopied / copying, kSlices * kLength / sorting};
}

}  // namespace topk::cuda
