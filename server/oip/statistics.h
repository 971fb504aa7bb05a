// Per-model statistics for Triton's clients.
#pragma once

#include <map>

#include "core/common/mutex.h"
#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "server/telemetry/request_stats.h"

namespace topk {

/// Counts requests since the start of the server. Updates all counts of a model
/// together, because load generators rely on consistent counts. Thread-safe.
class ModelStatistics {
 public:
  /// Counts a request that has just ended.
  void Record(const Model& model, const RequestStats& stats, bool ok);

  /// Writes the statistics of one version of a model.
  void Describe(const Model& model, inference::ModelStatistics& to) const;

 private:
  mutable Mutex mutex_;
  std::map<const Model*, inference::ModelStatistics> counts_
      TOPK_GUARDED_BY(mutex_);
};

}  // namespace topk
