// The services that gRPC adds to a server without being asked.
#pragma once

#include <grpcpp/impl/server_builder_option.h>

#include <memory>

namespace topk {

/// Returns the option that keeps them out of the server that is built:
/// channelz, once any server of the process has it.
std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins();

}  // namespace topk
