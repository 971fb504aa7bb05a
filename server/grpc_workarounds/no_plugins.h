// Defect: once channelz is enabled for one server of the process, gRPC adds it
// to every server that is built later. Versions: 1.51 to 1.83. Upstream: by
// design (a plugin per process). Test: Admin tests
// (tests/integration/admin_test.cc). Delete when the builder can leave a plugin
// out.
#pragma once

#include <grpcpp/impl/server_builder_option.h>

#include <memory>

namespace topk {

/// Returns the option that keeps them out of the server that is built:
/// channelz, once any server of the process has it.
std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins();

}  // namespace topk
