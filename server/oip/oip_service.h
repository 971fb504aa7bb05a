// inference.GRPCInferenceService: TopK by the Open Inference Protocol. Requests
// are admitted, computed and recorded by TopKService.
#pragma once

#include <vector>

#include "core/base/status.h"
#include "inference/grpc_service.grpc.pb.h"
#include "server/calls/event_loop.h"
#include "server/calls/method.h"
#include "server/calls/raw_service.h"
#include "server/calls/topk_service.h"
#include "server/health/health_service.h"
#include "server/oip/infer_response.h"
#include "server/oip/methods.h"
#include "server/oip/regions.h"
#include "server/oip/statistics.h"

namespace topk {

/// The state shared by all calls of the protocol. Thread-safe.
class OipService {
 public:
  /// The service's name in the contract.
  static const char* service_full_name() {
    return inference::GRPCInferenceService::service_full_name();
  }

  /// Both outlive the service.
  OipService(TopKService& topk, HealthState& health);

  /// The gRPC service to register; calls are requested from it.
  RawService& rpc() { return rpc_; }

  /// Takes calls from a loop until the server shuts down.
  void Start(EventLoop& loop);

 private:
  CallMethod MethodOf(OipMethod method);
  ComputeMethod InferMethod(OipMethod method, InferMessage kind);
  // A function that answers may take a `const Caller&` too.
  template <class Request, class Response, class... WithCaller>
  void AddSimple(OipMethod method,
                 Status (OipService::*answer)(const Request&, Response&,
                                              WithCaller...),
                 int64_t nanoseconds = 0);

  // The methods that take no work.
  Status ServerLive(const inference::ServerLiveRequest&,
                    inference::ServerLiveResponse& to);
  Status ServerReady(const inference::ServerReadyRequest&,
                     inference::ServerReadyResponse& to);
  Status ModelReady(const inference::ModelReadyRequest& request,
                    inference::ModelReadyResponse& to);
  Status ServerMetadata(const inference::ServerMetadataRequest&,
                        inference::ServerMetadataResponse& to);
  Status ModelMetadata(const inference::ModelMetadataRequest& request,
                       inference::ModelMetadataResponse& to);
  Status ModelConfig(const inference::ModelConfigRequest& request,
                     inference::ModelConfigResponse& to);
  Status Statistics(const inference::ModelStatisticsRequest& request,
                    inference::ModelStatisticsResponse& to);
  Status Index(const inference::RepositoryIndexRequest& request,
               inference::RepositoryIndexResponse& to);
  Status SharedMemoryStatus(
      const inference::SystemSharedMemoryStatusRequest& request,
      inference::SystemSharedMemoryStatusResponse& to);
  Status Register(const inference::SystemSharedMemoryRegisterRequest& request,
                  inference::SystemSharedMemoryRegisterResponse&,
                  const Caller& caller);
  Status Unregister(
      const inference::SystemSharedMemoryUnregisterRequest& request,
      inference::SystemSharedMemoryUnregisterResponse&, const Caller& caller);
  Status UnregisterCuda(const inference::CudaSharedMemoryUnregisterRequest&,
                        inference::CudaSharedMemoryUnregisterResponse&);

  bool ready() const;

  TopKService& topk_;
  HealthState& health_;
  RawService rpc_{kOipMethodPaths};
  Regions regions_;
  ModelStatistics statistics_;
  const ComputeMethod infer_;
  const ComputeMethod stream_infer_;
  std::vector<SimpleMethod> simple_;
};

}  // namespace topk
