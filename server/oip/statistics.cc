#include "server/oip/statistics.h"

#include <algorithm>
#include <chrono>

namespace topk {
namespace {

void Count(std::chrono::nanoseconds length, inference::StatisticDuration& to) {
  to.set_count(to.count() + 1);
  to.set_ns(to.ns() +
            static_cast<uint64_t>(std::max<int64_t>(length.count(), 0)));
}

}  // namespace

void ModelStatistics::Record(const Model& model, const RequestStats& stats,
                             bool ok) {
  const auto total = RequestStats::Clock::now() - stats.begun;
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  const MutexLock lock(mutex_);
  inference::ModelStatistics& counts = counts_[&model];
  counts.set_last_inference(static_cast<uint64_t>(now.count()));
  inference::InferStatistics& to = *counts.mutable_inference_stats();
  Count(total, ok ? *to.mutable_success() : *to.mutable_fail());
  if (!ok) return;
  counts.set_inference_count(to.success().count());
  counts.set_execution_count(to.success().count());
  const auto count = [&stats](Stage stage, inference::StatisticDuration& part) {
    Count(std::chrono::nanoseconds(stats[stage]), part);
  };
  count(Stage::kQueue, *to.mutable_queue());
  count(Stage::kDecode, *to.mutable_compute_input());
  count(Stage::kCompute, *to.mutable_compute_infer());
  count(Stage::kEncode, *to.mutable_compute_output());
}

void ModelStatistics::Describe(const Model& model,
                               inference::ModelStatistics& to) const {
  {
    const MutexLock lock(mutex_);
    if (const auto found = counts_.find(&model); found != counts_.end()) {
      to = found->second;
    }
  }
  to.set_name(model.name);
  to.set_version(std::to_string(model.version->version));
}

}  // namespace topk
