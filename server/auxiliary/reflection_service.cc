#include "server/auxiliary/reflection_service.h"

#include <google/protobuf/descriptor.h>

#include <array>
#include <memory>
#include <utility>

#include "grpc/reflection/v1/reflection.pb.h"
#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "server/calls/raw_message.h"

namespace topk {
namespace {

using grpc::reflection::v1alpha::ServerReflectionRequest;

constexpr std::array<const char*, 2> kReflectionPaths = {
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};

template <class Message>
std::string ServiceBeside() {
  return std::string(Message::descriptor()->file()->service(0)->full_name());
}

}  // namespace

// Answers one request after the other.
class ReflectionService::StreamCall final : public AuxiliaryCall {
 public:
  StreamCall(ReflectionService& service, EventLoop& loop,
             const AuxiliaryMethod& method)
      : AuxiliaryCall(loop, method), service_(service) {}

 private:
  std::shared_ptr<Call> Next() const override {
    return std::make_shared<StreamCall>(service_, loop_, method());
  }

  void Received(grpc::ByteBuffer& message) override {
    ServerReflectionRequest request;
    if (Status s = ReadMessage(message, request); !s.ok()) return Finish(s);
    Write(service_.reflector_.Answer(request));
  }
  void Sent() override { Read(); }
  void ReceivedAll() override { Finish(Status{}); }

  ReflectionService& service_;
};

std::vector<std::string> ReflectionService::WithItself(
    std::vector<std::string> services) {
  services.push_back(
      ServiceBeside<grpc::reflection::v1::ServerReflectionRequest>());
  services.push_back(ServiceBeside<ServerReflectionRequest>());
  return services;
}

ReflectionService::ReflectionService(std::vector<std::string> services,
                                     const RpcMetrics& metrics,
                                     const Authenticator* authenticator)
    : reflector_(*google::protobuf::DescriptorPool::generated_pool(),
                 WithItself(std::move(services))),
      rpc_(kReflectionPaths),
      v1_{MethodOf(rpc_, 0, metrics), authenticator, &limit_},
      v1alpha_{MethodOf(rpc_, 1, metrics), authenticator, &limit_} {}

void ReflectionService::Start(EventLoop& loop) {
  for (const AuxiliaryMethod* method : {&v1_, &v1alpha_}) {
    std::make_shared<StreamCall>(*this, loop, *method)->Wait();
  }
}

}  // namespace topk
