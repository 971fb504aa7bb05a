#include "server/calls/topk_service.h"

#include <memory>

#include "core/wire/methods.h"
#include "server/calls/handlers.h"
#include "server/calls/simple_call.h"
#include "server/calls/topk_codec.h"

namespace topk {

TopKService::TopKService(const Engine& engine, Metrics& metrics, AccessLog& log,
                         SpanExporter* spans, SharedObjects* shared_objects,
                         AdmissionController& admission,
                         int64_t max_message_bytes, int threads)
    : engine_(engine),
      metrics_(metrics),
      log_(log),
      spans_(spans),
      shared_objects_(shared_objects),
      admission_(admission),
      max_message_bytes_(max_message_bytes),
      work_(threads) {}

void TopKService::AddMethods(CallRouter& router) {
  router.Add(PathOf(Method::kComputeTopK), [this](Call& call) {
    return MakeUnaryCall(*this, call, std::make_unique<TopKCodec>());
  });
  router.Add(PathOf(Method::kStreamTopK),
             [this](Call& call) { return MakeStreamCall(*this, call); });
  router.Add(PathOf(Method::kComputeTopKMany), [this](Call& call) {
    return MakeGroupCall(*this, call,
                         [] { return std::make_unique<TopKManyCodec>(); });
  });
  AddSimpleMethod<v1::GetCapabilitiesRequest, v1::Capabilities>(
      router, *this, PathOf(Method::kGetCapabilities),
      [this](const auto&, v1::Capabilities& to, const Caller&) {
        to = GetCapabilities();
        return Status();
      });
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
  metrics_.Record(call.method, request, stats, status);
  log_.Record(call, request, stats, status);
}

}  // namespace topk
