#include "server/calls/many_call.h"

#include <memory>

#include "server/calls/compute_request.h"
#include "server/calls/group_call.h"

namespace topk {
namespace {

class ManyCall final : public GroupCall {
 public:
  ManyCall(TopKService& service, EventLoop& loop)
      : GroupCall(service, loop, service.method(Method::kComputeTopKMany)) {}

 private:
  void Accept() override { AcceptComputeTopKMany(service_, loop_); }

  std::unique_ptr<Request> MakeRequest() override {
    return std::make_unique<ManyRequest>(service_, admitted());
  }
};

}  // namespace

void AcceptComputeTopKMany(TopKService& service, EventLoop& loop) {
  std::make_shared<ManyCall>(service, loop)->Wait();
}

}  // namespace topk
