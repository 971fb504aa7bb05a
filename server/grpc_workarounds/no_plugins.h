// Defect: once channelz or reflection is enabled, gRPC adds it to every server
// in the process.
// Versions: 1.51 to 1.83. Upstream: by design (plugins are per process).
// Test: Admin tests (tests/integration/process_test.cc).
// Delete when the builder can leave a plugin out.
#pragma once

#include <grpcpp/impl/server_builder_option.h>

#include <memory>
#include <vector>

namespace topk {

/// A builder option that keeps channelz and reflection out of the server.
class WithoutPlugins final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
  }
};

}  // namespace topk
