#include "server/telemetry/rpc_metrics.h"

#include <google/protobuf/descriptor.h>

#include "core/base/text.h"

namespace topk {
namespace {

const char* TypeName(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? "bidi_stream" : "client_stream";
  }
  return method.server_streaming() ? "server_stream" : "unary";
}

RpcMetrics::Method MakeMethod(MetricRegistry& registry, const std::string& type,
                              const std::string& service,
                              const std::string& name) {
  prometheus::Labels labels = {
      {"grpc_type", type}, {"grpc_service", service}, {"grpc_method", name}};
  RpcMetrics::Method method{
      &registry.MakeCounter("grpc_server_started_total",
                            "RPCs started on the server", labels),
      &registry.MakeCounter("grpc_server_msg_received_total",
                            "RPC messages received on the server", labels),
      &registry.MakeCounter("grpc_server_msg_sent_total",
                            "RPC messages sent by the server", labels),
      &registry.MakeHistogram(
          "grpc_server_handling_seconds",
          "Latency of RPCs, from the handler's start to the status",
          {1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
           0.25, 0.5, 1, 2.5, 5, 10},
          labels),
      {}};
  // The names are in the order of grpc::StatusCode and in Go's spelling.
  size_t code = 0;
  for (const char* code_name :
       {"OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded",
        "NotFound", "AlreadyExists", "PermissionDenied", "ResourceExhausted",
        "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
        "Internal", "Unavailable", "DataLoss", "Unauthenticated"}) {
    labels["grpc_code"] = code_name;
    method.handled[code++] =
        &registry.MakeCounter("grpc_server_handled_total",
                              "RPCs completed on the server, by code", labels);
  }
  return method;
}

}  // namespace

RpcMetrics::RpcMetrics(MetricRegistry& registry,
                       const std::vector<std::string>& services)
    // gRPC handles an unknown method as a bidi stream.
    : unknown_(MakeMethod(registry, "bidi_stream", "unknown", "unknown")) {
  const auto* pool = google::protobuf::DescriptorPool::generated_pool();
  for (const std::string& name : services) {
    const auto* service = pool->FindServiceByName(name);
    if (service == nullptr) continue;
    for (int i = 0; i < service->method_count(); ++i) {
      const auto* method = service->method(i);
      const std::string method_name(method->name());
      methods_[StrCat("/", name, "/", method_name)] =
          MakeMethod(registry, TypeName(*method), name, method_name);
    }
  }
}

const RpcMetrics::Method& RpcMetrics::Find(std::string_view path) const {
  const auto found = methods_.find(path);
  return found == methods_.end() ? unknown_ : found->second;
}

void RpcCount::Handled(int code) const {
  constexpr size_t kUnknown = 2;
  const auto at = static_cast<size_t>(code);
  method_.handled[at < method_.handled.size() ? at : kUnknown]->Increment();
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start_;
  method_.seconds->Observe(seconds.count());
}

}  // namespace topk
