// Defect: gRPC adds channelz and reflection to every server of a process that
// has them for one. Versions: 1.51 to 1.83. Upstream: by design (a plugin per
// process). Test: Admin tests (tests/integration/admin_test.cc). Delete when
// the builder can leave a plugin out.
#pragma once

#include <grpcpp/impl/server_builder_option.h>

#include <memory>

namespace topk {

/// Returns the option that keeps channelz and reflection out of the server that
/// is built.
std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins();

}  // namespace topk
