#include "server/oip/statistics.h"

#include <algorithm>
#include <chrono>

namespace topk {
namespace {

size_t RowOf(const Model& model) {
  return static_cast<size_t>(&model - Models().data());
}

void Set(uint64_t count, uint64_t nanoseconds,
         inference::StatisticDuration& to) {
  to.set_count(count);
  to.set_ns(nanoseconds);
}

}  // namespace

ModelStatistics::ModelStatistics() : rows_(Models().size()) {}

void ModelStatistics::Record(const Model& model, const RequestStats& stats,
                             bool ok) {
  using std::chrono::duration_cast;
  using std::chrono::milliseconds;
  const auto total = static_cast<uint64_t>(
      std::chrono::nanoseconds(RequestStats::Clock::now() - stats.begun)
          .count());
  const int64_t now = duration_cast<milliseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  Row& row = rows_[RowOf(model)];
  const MutexLock lock(row.mutex);
  row.last_ms = now;
  (ok ? row.answered : row.failed) += 1;
  (ok ? row.answered_ns : row.failed_ns) += total;
  if (!ok) return;
  for (size_t i = 0; i < row.stage_ns.size(); ++i) {
    row.stage_ns[i] +=
        static_cast<uint64_t>(std::max<int64_t>(stats.nanoseconds[i], 0));
  }
}

void ModelStatistics::Describe(const Model& model,
                               inference::ModelStatistics& to) const {
  const Row& row = rows_[RowOf(model)];
  const MutexLock lock(row.mutex);
  to.set_name(model.name);
  to.set_version(std::to_string(model.version->version));
  to.set_last_inference(static_cast<uint64_t>(row.last_ms));
  to.set_inference_count(row.answered);
  to.set_execution_count(row.answered);
  inference::InferStatistics& stats = *to.mutable_inference_stats();
  const auto stage =
      [&row](Stage which, inference::StatisticDuration& part)
          TOPK_REQUIRES(row.mutex) {
            Set(row.answered, row.stage_ns[static_cast<size_t>(which)], part);
          };
  Set(row.answered, row.answered_ns, *stats.mutable_success());
  Set(row.failed, row.failed_ns, *stats.mutable_fail());
  stage(Stage::kQueue, *stats.mutable_queue());
  stage(Stage::kDecode, *stats.mutable_compute_input());
  stage(Stage::kCompute, *stats.mutable_compute_infer());
  stage(Stage::kEncode, *stats.mutable_compute_output());
}

}  // namespace topk
