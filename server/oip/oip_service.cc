#include "server/oip/oip_service.h"

#include <string>

#include "server/oip/infer_call.h"
#include "server/oip/models.h"
#include "server/oip/plain_call.h"
#include "server/oip/stream_infer_call.h"

namespace topk {
namespace {

constexpr char kServerName[] = "topkd";

}  // namespace

void OipService::Start(EventLoop& loop) {
  AcceptModelInfer(*this, loop);
  AcceptModelStreamInfer(*this, loop);
  AcceptPlainCalls(*this, loop);
}

bool OipService::ready() const {
  return health_.Answer(service_full_name()).status() ==
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
    inference::SystemSharedMemoryRegisterResponse&) {
  return regions_.Register(request);
}

Status OipService::Unregister(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    inference::SystemSharedMemoryUnregisterResponse&) {
  regions_.Unregister(request.name());
  return {};
}

Status OipService::UnregisterCuda(
    const inference::CudaSharedMemoryUnregisterRequest&,
    inference::CudaSharedMemoryUnregisterResponse&) {
  return {};
}

}  // namespace topk
