#include "server/transport/grpc_plugins.h"

#include <string>
#include <utility>
#include <vector>

namespace topk {
namespace {

using Plugin = grpc::ServerBuilderPlugin;

template <class Unwanted>
class Without final : public grpc::ServerBuilderOption {
 public:
  explicit Without(Unwanted unwanted) : unwanted_(std::move(unwanted)) {}

  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<Plugin>>* plugins) override {
    std::erase_if(*plugins, [this](const auto& it) { return unwanted_(*it); });
  }

 private:
  const Unwanted unwanted_;
};

template <class Unwanted>
std::unique_ptr<grpc::ServerBuilderOption> MakeWithout(Unwanted unwanted) {
  return std::make_unique<Without<Unwanted>>(std::move(unwanted));
}

}  // namespace

std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugin(
    std::string_view name) {
  return MakeWithout([name = std::string(name)](Plugin& plugin) {
    return plugin.name() == name;
  });
}

std::unique_ptr<grpc::ServerBuilderOption> WithoutPlugins() {
  return MakeWithout([](Plugin&) { return true; });
}

}  // namespace topk
