#include "server/telemetry/request_stats.h"

namespace topk {

void RequestStats::Note(const v1::TopKResponse& answer) {
  RecordStage(Stage::kDecode);
  const v1::ExecutionInfo& execution = answer.execution();
  (*this)[Stage::kCompute] = execution.compute_nanoseconds();
  int64_t& decode = (*this)[Stage::kDecode];
  decode = std::max<int64_t>(decode - execution.compute_nanoseconds(), 0);
  answer_bytes = static_cast<int64_t>(answer.values().data().size() +
                                      answer.indices().data().size());
  backend = execution.backend();
  kernel = execution.kernel();
}

}  // namespace topk
