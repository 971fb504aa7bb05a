#include "server/telemetry/rpc_metrics.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

namespace topk {
namespace {

// `path` is e.g. "/package.Service/Method".
prometheus::Labels LabelsOf(std::string path) {
  std::ranges::replace(path, '/', '.');
  const auto* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          path.substr(std::min<size_t>(1, path.size())));
  if (method == nullptr) {  // gRPC handles an unknown method as a bidi stream
    return {{"grpc_type", "bidi_stream"},
            {"grpc_service", "unknown"},
            {"grpc_method", "unknown"}};
  }
  const bool sends = method->client_streaming();
  const bool receives = method->server_streaming();
  return {{"grpc_type", sends && receives ? "bidi_stream"
                        : sends           ? "client_stream"
                        : receives        ? "server_stream"
                                          : "unary"},
          {"grpc_service", std::string(method->service()->full_name())},
          {"grpc_method", std::string(method->name())}};
}

}  // namespace

RpcMetrics::RpcMetrics(MetricRegistry& registry, const std::string& path)
    : RpcMetrics(registry, LabelsOf(path)) {}

RpcMetrics::RpcMetrics(MetricRegistry& registry, prometheus::Labels labels)
    : started_(registry.MakeCounter("grpc_server_started_total",
                                    "RPCs started on the server", labels)),
      received_(registry.MakeCounter("grpc_server_msg_received_total",
                                     "RPC messages received on the server",
                                     labels)),
      sent_(registry.MakeCounter("grpc_server_msg_sent_total",
                                 "RPC messages sent by the server", labels)),
      seconds_(registry.MakeHistogram(
          "grpc_server_handling_seconds",
          "Latency of RPCs, from the handler's start to the status",
          {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
           0.25, 0.5, 1, 2.5, 5, 10},
          labels)) {
  // The names are in the order of grpc::StatusCode and in Go's spelling.
  size_t code = 0;
  for (const char* name :
       {"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded",
        "NotFound", "AlreadyExists", "PermissionDenied", "ResourceExhausted",
        "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
        "Internal", "Unavailable", "DataLoss", "Unauthenticated"}) {
    labels["grpc_code"] = name;
    handled_[code++] =
        &registry.MakeCounter("grpc_server_handled_total",
                              "RPCs completed on the server, by code", labels);
  }
}

void RpcMetrics::CountHandled(
    Code code, std::chrono::steady_clock::time_point start) const {
  handled_[static_cast<size_t>(code)]->Increment();
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  seconds_.Observe(seconds.count());
}

}  // namespace topk
