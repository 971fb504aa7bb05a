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
                         SharedObjects* shared_objects, Gate& gate,
                         int64_t max_message_bytes, int threads)
    : engine_(engine),
      metrics_(metrics),
      rpc_metrics_(rpc_metrics),
      log_(log),
      shared_objects_(shared_objects),
      gate_(gate),
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
  const AdmissionLimits& together = gate_.admission().limits();
  limits.set_max_inflight_bytes(together.bytes);
  limits.set_max_client_inflight_bytes(together.client_bytes);
  limits.set_max_inflight_requests(together.requests);
  limits.set_max_client_inflight_requests(together.client_requests);
  return capabilities;
}

Status TopKService::Compute(v1::TopKRequest& request, Pieces data,
                            const ComputeOptions& options, Tally& tally,
                            v1::TopKResponse& answer) const {
  size_t bytes = request.tensor().data().size();
  for (const auto& piece : data) bytes += piece.size();
  tally.tensor_bytes = static_cast<int64_t>(bytes);
  RequestMemory memory(shared_objects_);
  if (Status s = memory.OpenTensor(request); !s.ok()) return s;
  if (Status s = memory.OpenOutputs(request); !s.ok()) return s;
  const auto shared = memory.tensor();
  if (shared) tally.tensor_bytes = static_cast<int64_t>(shared->size());
  tally.computing = true;
  Result<v1::TopKResponse> computed =
      shared         ? engine_.Compute(request, *shared, options)
      : data.empty() ? engine_.Compute(request, options)
                     : engine_.Compute(request, data, options);
  if (!computed.ok()) {
    tally.Lap(Stage::kDecode);
    Status status = computed.status();
    if (shared && status.field == "tensor.data") {
      status.field = "tensor.shared_memory.byte_size";
    }
    return status;
  }
  tally.Note(*computed);
  if (Status s = memory.CheckTensor(); !s.ok()) return s;
  if (Status s = memory.Deliver(*computed); !s.ok()) return s;
  answer = *std::move(computed);
  return {};
}

void TopKService::Record(const CallInfo& call, const v1::TopKRequest& request,
                         const Tally& tally, const Status& status) {
  bytes_ += tally.tensor_bytes + tally.answer_bytes;
  metrics_.Record(request, tally, status);
  log_.Record(call, request, tally, status);
}

int64_t SharedBytes(const v1::TopKRequest& request) {
  // Whatever it says, a call has sums of these.
  constexpr int64_t kMost = int64_t{1} << 40;
  return std::clamp(request.tensor().shared_memory().byte_size(), int64_t{0},
                    kMost);
}

}  // namespace topk
