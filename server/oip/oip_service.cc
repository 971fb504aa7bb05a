#include "server/oip/oip_service.h"

#include <memory>
#include <utility>

#include "core/base/text.h"
#include "server/calls/handlers.h"
#include "server/calls/simple_call.h"
#include "server/oip/infer_codec.h"
#include "server/oip/models.h"
#include "server/oip/regions.h"
#include "server/oip/statistics.h"

namespace topk {
namespace {

constexpr char kServerName[] = "topkd";

std::string PathOf(const char* name) {
  return StrCat("/", kOipService, "/", name);
}

// Adds a method whose messages hold no tensors; see AddSimpleMethod().
template <class Request, class Response, class Answer>
void Add(SharedState& state, CallRouter& router, const char* name,
         Answer answer, int64_t nanoseconds = 0) {
  AddSimpleMethod<Request, Response>(router, state, PathOf(name),
                                     std::move(answer), nanoseconds);
}

}  // namespace

void AddOipMethods(SharedState& state, HealthState& health,
                   CallRouter& router) {
  using namespace inference;  // NOLINT: the messages of the protocol
  const auto regions = std::make_shared<Regions>(state.shared_objects.get(),
                                                 state.cuda_memory());
  const auto statistics = std::make_shared<ModelStatistics>();
  router.Add(PathOf("ModelInfer"), [&state, regions, statistics](Call& call) {
    return MakeUnaryCall(state, call,
                         std::make_unique<InferCodec>(*regions, *statistics,
                                                      /*of_stream=*/false));
  });
  router.Add(PathOf("ModelStreamInfer"),
             [&state, regions, statistics](Call& call) {
               return MakeManyCall(state, call, [regions, statistics] {
                 return std::make_unique<InferCodec>(*regions, *statistics,
                                                     /*of_stream=*/true);
               });
             });

  Add<ServerLiveRequest, ServerLiveResponse>(
      state, router, "ServerLive", [](const auto&, auto& to, const Caller&) {
        to.set_live(true);
        return Status();
      });
  Add<ServerReadyRequest, ServerReadyResponse>(
      state, router, "ServerReady",
      [&health](const auto&, auto& to, const Caller&) {
        to.set_ready(health.serving());
        return Status();
      });
  Add<ServerMetadataRequest, ServerMetadataResponse>(
      state, router, "ServerMetadata",
      [&state](const auto&, auto& to, const Caller&) {
        to.set_name(kServerName);
        to.set_version(TOPK_VERSION);
        to.add_extensions("model_repository");
        to.add_extensions("model_configuration");
        to.add_extensions("statistics");
        if (state.shared_objects != nullptr) {
          to.add_extensions("system_shared_memory");
        }
        if (state.allow_cuda_memory && !state.engine.found_devices().empty()) {
          to.add_extensions("cuda_shared_memory");
        }
        return Status();
      });
  Add<RepositoryIndexRequest, RepositoryIndexResponse>(
      state, router, "RepositoryIndex",
      [&health](const auto& request, auto& to, const Caller&) {
        if (!request.repository_name().empty()) {
          return Unimplemented("REPOSITORY", "repository_name",
                               "this server has only one repository: "
                               "repository_name must be empty");
        }
        const bool is_ready = health.serving();
        for (const Model& model : Models()) {
          if (request.ready() && !is_ready) continue;
          auto& row = *to.add_models();
          row.set_name(model.name);
          row.set_version(std::to_string(model.version->version));
          row.set_state(is_ready ? "READY" : "UNAVAILABLE");
          if (!is_ready) row.set_reason("the server is shutting down");
        }
        return Status();
      });

  Add<ModelReadyRequest, ModelReadyResponse>(
      state, router, "ModelReady",
      [&health](const auto& request, auto& to, const Caller&) {
        to.set_ready(health.serving() &&
                     FindModel(request.name(), request.version()).ok());
        return Status();
      });
  const auto describe = [](const auto& request, auto& to, const Caller&) {
    const auto model = FindModel(request.name(), request.version());
    if (!model.ok()) return model.status();
    Describe(**model, to);
    return Status();
  };
  Add<ModelMetadataRequest, ModelMetadataResponse>(state, router,
                                                   "ModelMetadata", describe);
  Add<ModelConfigRequest, ModelConfigResponse>(state, router, "ModelConfig",
                                               describe);
  Add<ModelStatisticsRequest, ModelStatisticsResponse>(
      state, router, "ModelStatistics",
      [statistics](const auto& request, auto& to, const Caller&) {
        const std::string& name = request.name();
        const auto model = FindModel(name, request.version());
        if (!name.empty() && !model.ok()) return model.status();
        for (const Model& row : Models()) {
          if (!name.empty() && row.name != name) continue;
          if (!name.empty() && !request.version().empty() && &row != *model) {
            continue;
          }
          statistics->Describe(row, *to.add_model_stats());
        }
        return Status();
      });

  const auto list = [regions](const auto& request, auto& to, const Caller&) {
    return regions->List(request.name(), to);
  };
  const auto enroll = [regions](const auto& request, auto&,
                                const Caller& caller) {
    return regions->Register(request, caller);
  };
  const auto remove = [regions](bool is_cuda) {
    return [=](const auto& request, auto&, const Caller& caller) {
      return regions->Unregister(request.name(), caller, is_cuda);
    };
  };
  constexpr int64_t kListNanoseconds = int64_t{Regions::kMax} * 4000;
  Add<SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse>(
      state, router, "SystemSharedMemoryStatus", list, kListNanoseconds);
  Add<SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse>(
      state, router, "SystemSharedMemoryRegister", enroll);
  Add<SystemSharedMemoryUnregisterRequest,
      SystemSharedMemoryUnregisterResponse>(
      state, router, "SystemSharedMemoryUnregister", remove(false));

  // Opening and closing CUDA memory may take milliseconds. Opening the first
  // may also initialize the device.
  constexpr int64_t kOpenNanoseconds = 10'000'000;
  Add<CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse>(
      state, router, "CudaSharedMemoryStatus", list, kListNanoseconds);
  Add<CudaSharedMemoryRegisterRequest, CudaSharedMemoryRegisterResponse>(
      state, router, "CudaSharedMemoryRegister", enroll, kOpenNanoseconds);
  // OK even without CUDA, because clients unregister regions of every kind when
  // they start.
  Add<CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse>(
      state, router, "CudaSharedMemoryUnregister", remove(true),
      kOpenNanoseconds);
}

}  // namespace topk
