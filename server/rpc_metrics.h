// The grpc_server_* metrics that dashboards know, for every call of every
// service of the server.
#pragma once

#include <grpcpp/support/server_interceptor.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

namespace topk {

/// Returns an interceptor factory that counts calls and messages and observes
/// latencies in the registry, with the names and labels of go-grpc-prometheus:
/// grpc_server_started_total, grpc_server_handled_total,
/// grpc_server_msg_received_total, grpc_server_msg_sent_total and
/// grpc_server_handling_seconds. The methods of the named services, whose
/// descriptors must be linked in, have their own series, from zero; all others,
/// which anyone can make up, are counted together as "unknown".
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeRpcMetrics(prometheus::Registry& registry,
               const std::vector<std::string>& services);

}  // namespace topk
