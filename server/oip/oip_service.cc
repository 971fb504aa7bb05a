#include "server/oip/oip_service.h"

#include <memory>
#include <string>

#include "server/calls/group_call.h"
#include "server/calls/unary_call.h"
#include "server/oip/infer_codec.h"
#include "server/oip/models.h"

namespace topk {
namespace {

constexpr char kServerName[] = "topkd";

}  // namespace

OipService::OipService(TopKService& topk, HealthState& health)
    : topk_(topk),
      health_(health),
      regions_(topk.shared_objects()),
      infer_(InferMethod(OipMethod::kModelInfer, InferMessage::kOne)),
      stream_infer_(
          InferMethod(OipMethod::kModelStreamInfer, InferMessage::kOfStream)) {
  using S = OipService;
  AddSimple(OipMethod::kServerLive, &S::ServerLive);
  AddSimple(OipMethod::kServerReady, &S::ServerReady);
  AddSimple(OipMethod::kModelReady, &S::ModelReady);
  AddSimple(OipMethod::kServerMetadata, &S::ServerMetadata);
  AddSimple(OipMethod::kModelMetadata, &S::ModelMetadata);
  AddSimple(OipMethod::kModelConfig, &S::ModelConfig);
  AddSimple(OipMethod::kModelStatistics, &S::Statistics);
  AddSimple(OipMethod::kRepositoryIndex, &S::Index);
  AddSimple(OipMethod::kSystemSharedMemoryStatus, &S::SharedMemoryStatus,
            /*nanoseconds=*/int64_t{Regions::kMax} * 4000);
  AddSimple(OipMethod::kSystemSharedMemoryRegister, &S::Register);
  AddSimple(OipMethod::kSystemSharedMemoryUnregister, &S::Unregister);
  AddSimple(OipMethod::kCudaSharedMemoryUnregister, &S::UnregisterCuda);
}

CallMethod OipService::MethodOf(OipMethod method) {
  return topk::MethodOf(rpc_, static_cast<size_t>(method), topk_.rpc_metrics());
}

ComputeMethod OipService::InferMethod(OipMethod method, InferMessage kind) {
  return {MethodOf(method), [this, kind] {
            return std::make_unique<InferCodec>(regions_, statistics_, kind);
          }};
}

template <class Request, class Response, class... WithCaller>
void OipService::AddSimple(OipMethod method,
                           Status (OipService::*answer)(const Request&,
                                                        Response&,
                                                        WithCaller...),
                           int64_t nanoseconds) {
  simple_.push_back({MethodOf(method),
                     AnswerMessages<Request, Response>(
                         [this, answer](const Request& request, Response& to,
                                        [[maybe_unused]] const Caller& caller) {
                           return (this->*answer)(
                               request, to, static_cast<WithCaller>(caller)...);
                         }),
                     nanoseconds});
}

void OipService::Start(EventLoop& loop) {
  std::make_shared<UnaryCall>(topk_, loop, infer_)->Wait();
  std::make_shared<GroupCall>(topk_, loop, stream_infer_)->Wait();
  for (const SimpleMethod& method : simple_) {
    std::make_shared<SimpleCall>(topk_, loop, method)->Wait();
  }
}

bool OipService::ready() const {
  return health_.StateOf(health_.Has(service_full_name())) ==
         grpc::health::v1::HealthCheckResponse::SERVING;
}

Status OipService::ServerLive(const inference::ServerLiveRequest&,
                              inference::ServerLiveResponse& to) {
  to.set_live(true);
  return {};
}

Status OipService::ServerReady(const inference::ServerReadyRequest&,
                               inference::ServerReadyResponse& to) {
  to.set_ready(ready());
  return {};
}

Status OipService::ModelReady(const inference::ModelReadyRequest& request,
                              inference::ModelReadyResponse& to) {
  to.set_ready(ready() && FindModel(request.name(), request.version()).ok());
  return {};
}

Status OipService::ServerMetadata(const inference::ServerMetadataRequest&,
                                  inference::ServerMetadataResponse& to) {
  to.set_name(kServerName);
  to.set_version(TOPK_VERSION);
  to.add_extensions("model_repository");
  to.add_extensions("model_configuration");
  to.add_extensions("statistics");
  if (topk_.shared_objects() != nullptr) {
    to.add_extensions("system_shared_memory");
  }
  return {};
}

Status OipService::ModelMetadata(const inference::ModelMetadataRequest& request,
                                 inference::ModelMetadataResponse& to) {
  const auto model = FindModel(request.name(), request.version());
  if (!model.ok()) return model.status();
  Describe(**model, to);
  return {};
}

Status OipService::ModelConfig(const inference::ModelConfigRequest& request,
                               inference::ModelConfigResponse& to) {
  const auto model = FindModel(request.name(), request.version());
  if (!model.ok()) return model.status();
  Describe(**model, *to.mutable_config());
  return {};
}

Status OipService::Statistics(const inference::ModelStatisticsRequest& request,
                              inference::ModelStatisticsResponse& to) {
  const std::string& name = request.name();
  if (!name.empty()) {
    const auto model = FindModel(name, request.version());
    if (!model.ok()) return model.status();
    if (!request.version().empty()) {
      statistics_.Describe(**model, *to.add_model_stats());
      return {};
    }
  }
  for (const Model& model : Models()) {
    if (!name.empty() && model.name != name) continue;
    statistics_.Describe(model, *to.add_model_stats());
  }
  return {};
}

Status OipService::Index(const inference::RepositoryIndexRequest& request,
                         inference::RepositoryIndexResponse& to) {
  if (!request.repository_name().empty()) {
    return Unimplemented("REPOSITORY", "repository_name",
                         "there is one repository, whose name is \"\"");
  }
  const bool is_ready = ready();
  for (const Model& model : Models()) {
    if (request.ready() && !is_ready) continue;
    auto& row = *to.add_models();
    row.set_name(model.name);
    row.set_version(std::to_string(model.version->version));
    row.set_state(is_ready ? "READY" : "UNAVAILABLE");
    if (!is_ready) row.set_reason("the server is shutting down");
  }
  return {};
}

Status OipService::SharedMemoryStatus(
    const inference::SystemSharedMemoryStatusRequest& request,
    inference::SystemSharedMemoryStatusResponse& to) {
  return regions_.List(request.name(), to);
}

Status OipService::Register(
    const inference::SystemSharedMemoryRegisterRequest& request,
    inference::SystemSharedMemoryRegisterResponse&, const Caller& caller) {
  return regions_.Register(request, caller);
}

Status OipService::Unregister(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    inference::SystemSharedMemoryUnregisterResponse&, const Caller& caller) {
  return regions_.Unregister(request.name(), caller);
}

Status OipService::UnregisterCuda(
    const inference::CudaSharedMemoryUnregisterRequest&,
    inference::CudaSharedMemoryUnregisterResponse&) {
  return {};
}

}  // namespace topk
