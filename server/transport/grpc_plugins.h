// What gRPC adds to a server without being asked.
#pragma once

#include <grpcpp/impl/server_builder_option.h>

#include <memory>
#include <string_view>

namespace topk {

/// Returns the option that keeps a plugin out of the server that is built. What
/// one server of a process has asked for, all that are built later have too.
std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugin(std::string_view name);

/// Returns the option that keeps out all that are there when it is set.
std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins();

}  // namespace topk
