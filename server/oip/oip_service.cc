#include "server/oip/oip_service.h"

#include <memory>
#include <utility>

#include "core/base/text.h"
#include "server/calls/handlers.h"
#include "server/calls/simple_call.h"
#include "server/oip/infer_codec.h"
#include "server/oip/models.h"

namespace topk {
namespace {

constexpr char kServerName[] = "topkd";

std::string PathOf(const char* name) {
  return StrCat("/", OipService::service_full_name(), "/", name);
}

}  // namespace

template <class Request, class Response, class Answer>
void OipService::Add(CallRouter& router, const char* name, Answer answer,
                     int64_t nanoseconds) {
  AddSimpleMethod<Request, Response>(router, state_, PathOf(name),
                                     std::move(answer), nanoseconds);
}

void OipService::AddMethods(CallRouter& router) {
  using namespace inference;  // NOLINT: the messages of the protocol
  router.Add(PathOf("ModelInfer"), [this](Call& call) {
    return MakeUnaryCall(state_, call,
                         std::make_unique<InferCodec>(regions_, statistics_,
                                                      /*of_stream=*/false));
  });
  router.Add(PathOf("ModelStreamInfer"), [this](Call& call) {
    return MakeManyCall(state_, call, [this] {
      return std::make_unique<InferCodec>(regions_, statistics_,
                                          /*of_stream=*/true);
    });
  });

  Add<ServerLiveRequest, ServerLiveResponse>(
      router, "ServerLive", [](const auto&, auto& to, const Caller&) {
        to.set_live(true);
        return Status();
      });
  Add<ServerReadyRequest, ServerReadyResponse>(
      router, "ServerReady", [this](const auto&, auto& to, const Caller&) {
        to.set_ready(health_.serving());
        return Status();
      });
  Add<ServerMetadataRequest, ServerMetadataResponse>(
      router, "ServerMetadata", [this](const auto&, auto& to, const Caller&) {
        to.set_name(kServerName);
        to.set_version(TOPK_VERSION);
        to.add_extensions("model_repository");
        to.add_extensions("model_configuration");
        to.add_extensions("statistics");
        if (state_.shared_objects != nullptr) {
          to.add_extensions("system_shared_memory");
        }
        if (state_.allow_cuda_memory &&
            !state_.engine.found_devices().empty()) {
          to.add_extensions("cuda_shared_memory");
        }
        return Status();
      });
  Add<RepositoryIndexRequest, RepositoryIndexResponse>(
      router, "RepositoryIndex",
      [this](const auto& request, auto& to, const Caller&) {
        if (!request.repository_name().empty()) {
          return Unimplemented("REPOSITORY", "repository_name",
                               "this server has only one repository: "
                               "repository_name must be empty");
        }
        const bool is_ready = health_.serving();
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
      router, "ModelReady",
      [this](const auto& request, auto& to, const Caller&) {
        to.set_ready(health_.serving() &&
                     FindModel(request.name(), request.version()).ok());
        return Status();
      });
  const auto describe = [](const auto& request, auto& to, const Caller&) {
    const auto model = FindModel(request.name(), request.version());
    if (!model.ok()) return model.status();
    Describe(**model, to);
    return Status();
  };
  Add<ModelMetadataRequest, ModelMetadataResponse>(router, "ModelMetadata",
                                                   describe);
  Add<ModelConfigRequest, ModelConfigResponse>(router, "ModelConfig", describe);
  Add<ModelStatisticsRequest, ModelStatisticsResponse>(
      router, "ModelStatistics",
      [this](const auto& request, auto& to, const Caller&) {
        const std::string& name = request.name();
        const auto model = FindModel(name, request.version());
        if (!name.empty() && !model.ok()) return model.status();
        for (const Model& row : Models()) {
          if (!name.empty() && row.name != name) continue;
          if (!name.empty() && !request.version().empty() && &row != *model) {
            continue;
          }
          statistics_.Describe(row, *to.add_model_stats());
        }
        return Status();
      });

  Add<SystemSharedMemoryStatusRequest, SystemSharedMemoryStatusResponse>(
      router, "SystemSharedMemoryStatus",
      [this](const auto& request, auto& to, const Caller&) {
        return regions_.List(request.name(), to);
      },
      /*nanoseconds=*/int64_t{Regions::kMax} * 4000);
  Add<SystemSharedMemoryRegisterRequest, SystemSharedMemoryRegisterResponse>(
      router, "SystemSharedMemoryRegister",
      [this](const auto& request, auto&, const Caller& caller) {
        return regions_.Register(request, caller);
      });
  Add<SystemSharedMemoryUnregisterRequest,
      SystemSharedMemoryUnregisterResponse>(
      router, "SystemSharedMemoryUnregister",
      [this](const auto& request, auto&, const Caller& caller) {
        return regions_.Unregister(request.name(), caller, /*is_cuda=*/false);
      });

  // Opening and closing CUDA memory may take milliseconds. Opening the first
  // may also initialize the device.
  constexpr int64_t kOpenNanoseconds = 10'000'000;
  Add<CudaSharedMemoryStatusRequest, CudaSharedMemoryStatusResponse>(
      router, "CudaSharedMemoryStatus",
      [this](const auto& request, auto& to, const Caller&) {
        return regions_.List(request.name(), to);
      },
      /*nanoseconds=*/int64_t{Regions::kMax} * 4000);
  Add<CudaSharedMemoryRegisterRequest, CudaSharedMemoryRegisterResponse>(
      router, "CudaSharedMemoryRegister",
      [this](const auto& request, auto&, const Caller& caller) {
        return regions_.Register(request, caller);
      },
      kOpenNanoseconds);
  // OK even without CUDA, because clients unregister regions of every kind when
  // they start.
  Add<CudaSharedMemoryUnregisterRequest, CudaSharedMemoryUnregisterResponse>(
      router, "CudaSharedMemoryUnregister",
      [this](const auto& request, auto&, const Caller& caller) {
        return regions_.Unregister(request.name(), caller, /*is_cuda=*/true);
      },
      kOpenNanoseconds);
}

}  // namespace topk
