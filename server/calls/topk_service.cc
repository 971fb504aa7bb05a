#include "server/calls/topk_service.h"

#include <algorithm>
#include <string>

#include "core/base/text.h"
#include "server/calls/compute_call.h"
#include "server/calls/many_call.h"
#include "server/calls/stream_call.h"
#include "server/shared_memory/request_memory.h"

namespace topk {

TopKService::TopKService(const Engine& engine, Metrics& metrics,
                         const RpcMetrics& rpc_metrics, AccessLog& log,
                         SharedObjects* shared_objects,
                         AdmissionController& admission,
                         int64_t max_message_bytes, int threads)
    : engine_(engine),
      metrics_(metrics),
      rpc_metrics_(rpc_metrics),
      log_(log),
      shared_objects_(shared_objects),
      admission_(admission),
      max_message_bytes_(max_message_bytes),
      work_(threads) {}

void TopKService::Start(EventLoop& loop) {
  AcceptComputeTopK(*this, loop);
  AcceptStreamTopK(*this, loop);
  AcceptComputeTopKMany(*this, loop);
  AcceptGetCapabilities(*this, loop);
}

v1::Capabilities TopKService::GetCapabilities() const {
  v1::Capabilities capabilities = engine_.GetCapabilities();
  v1::Limits& limits = *capabilities.mutable_limits();
  limits.set_max_message_bytes(max_message_bytes_);
  limits.set_shared_memory(shared_objects_ != nullptr);
  const AdmissionLimits& together = admission_.in_flight().limits();
  limits.set_max_inflight_bytes(together.bytes);
  limits.set_max_client_inflight_bytes(together.client_bytes);
  limits.set_max_inflight_calls(together.calls);
  limits.set_max_client_inflight_calls(together.client_calls);
  return capabilities;
}

void TopKService::Record(const CallInfo& call, const v1::TopKRequest& request,
                         const RequestStats& stats, const Status& status) {
  bytes_ += stats.tensor_bytes + stats.answer_bytes;
  metrics_.Record(request, stats, status);
  log_.Record(call, request, stats, status);
}

}  // namespace topk
