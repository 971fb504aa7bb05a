#include "server/grpc_workarounds/no_plugins.h"

#include <vector>

namespace topk {
namespace {

class None final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    plugins->clear();
  }
};

}  // namespace

std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins() {
  return std::make_unique<None>();
}

}  // namespace topk
