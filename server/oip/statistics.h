// Statistics per model in the format of Triton's clients.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "inference/grpc_service.pb.h"
#include "server/oip/models.h"
#include "server/telemetry/request_stats.h"

namespace topk {

/// Counts since the server's start. Thread-safe. The counts of a model are
/// consistent: each request is in all of them or in none of them, on which load
/// generators rely.
class ModelStatistics {
 public:
  ModelStatistics();

  /// Counts a request that has ended now.
  void Record(const Model& model, const RequestStats& stats, bool ok);

  /// Writes the statistics of a version of a model.
  void Describe(const Model& model, inference::ModelStatistics& to) const;

 private:
  struct Row {
    mutable std::mutex mutex;
    uint64_t answered = 0;
    uint64_t failed = 0;
    uint64_t answered_ns = 0;
    uint64_t failed_ns = 0;
    std::array<uint64_t, kStageNames.size()> stage_ns{};
    int64_t last_ms = 0;
  };

  std::vector<Row> rows_;  // as Models()
};

}  // namespace topk
