#include "server/calls/topk_service.h"

#include <memory>
#include <utility>

#include "core/common/methods.h"
#include "core/dialects/registry.h"
#include "server/calls/handlers.h"
#include "server/calls/simple_call.h"
#include "server/calls/status_map.h"
#include "server/calls/write_message.h"

namespace topk {
namespace {

// The codec of ComputeTopKMany. Each result is a response or an error.
class TopKManyCodec final : public Codec {
 public:
  grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) override {
    v1::TopKResult result;
    result.set_request_id(response->request_id());
    *result.mutable_response() = std::move(*response);
    return WriteMessage(std::move(result));
  }
  grpc::ByteBuffer WriteError(const Status& status,
                              const v1::TopKRequest& request) override {
    v1::TopKResult result;
    *result.mutable_error() = ToRpcStatus(status);
    // Do not echo an ID that is too long.
    if (request.request_id().size() <= kMaxRequestIdBytes) {
      result.set_request_id(request.request_id());
    }
    return WriteMessage(std::move(result));
  }
};

v1::Capabilities GetCapabilities(const SharedState& state) {
  v1::Capabilities capabilities = state.engine.GetCapabilities();
  v1::Limits& limits = *capabilities.mutable_limits();
  limits.set_max_message_bytes(state.max_message_bytes);
  limits.set_shared_memory(state.shared_objects != nullptr);
  limits.set_cuda_memory(state.allow_cuda_memory &&
                         !state.engine.found_devices().empty());
  const AdmissionLimits& together = state.admission.in_flight().limits();
  limits.set_max_inflight_bytes(together.bytes);
  limits.set_max_client_inflight_bytes(together.client_bytes);
  limits.set_max_inflight_calls(together.calls);
  limits.set_max_client_inflight_calls(together.client_calls);
  return capabilities;
}

}  // namespace

void AddTopKMethods(SharedState& state, CallRouter& router) {
  router.Add(kComputeTopK, [&state](Call& call) {
    return MakeUnaryCall(state, call, std::make_unique<Codec>());
  });
  router.Add(kStreamTopK,
             [&state](Call& call) { return MakeStreamCall(state, call); });
  router.Add(kComputeTopKMany, [&state](Call& call) {
    return MakeManyCall(state, call,
                        [] { return std::make_unique<TopKManyCodec>(); });
  });
  AddSimpleMethod<v1::GetCapabilitiesRequest, v1::Capabilities>(
      router, state, kGetCapabilities,
      [&state](const auto&, v1::Capabilities& to, const Caller&) {
        to = GetCapabilities(state);
        return Status();
      });
}

}  // namespace topk
