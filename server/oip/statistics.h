// Statistics of each model, as Triton's clients read them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/mutex.h"
#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "server/telemetry/request_stats.h"

namespace topk {

/// Counts requests since the start of the server. Thread-safe. Load generators
/// rely on consistent counts: each request is in all counts of its model or in
/// none.
class ModelStatistics {
 public:
  ModelStatistics();

  /// Counts a request that has just ended.
  void Record(const Model& model, const RequestStats& stats, bool ok);

  /// Writes the statistics of a version of a model.
  void Describe(const Model& model, inference::ModelStatistics& to) const;

 private:
  struct Row {
    mutable Mutex mutex;
    uint64_t answered TOPK_GUARDED_BY(mutex) = 0;
    uint64_t failed TOPK_GUARDED_BY(mutex) = 0;
    uint64_t answered_ns TOPK_GUARDED_BY(mutex) = 0;
    uint64_t failed_ns TOPK_GUARDED_BY(mutex) = 0;
    std::array<uint64_t, kStageNames.size()> stage_ns TOPK_GUARDED_BY(mutex){};
    int64_t last_ms TOPK_GUARDED_BY(mutex) = 0;
  };

  std::vector<Row> rows_;  // in the order of Models()
};

}  // namespace topk
