// An asynchronous gRPC service that calls topkd. One thread serves all calls
// from its own completion queue, and never blocks on topkd.
//
// usage: async_service TOPKD_TARGET LISTEN_ADDRESS
#include <grpcpp/grpcpp.h>
#include <topk/client.h>
#include <topk/v1/topk.grpc.pb.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <utility>

namespace {

// Your service has its own methods. This one forwards calls of topkd's method.
using Service = topk::v1::TopKService::AsyncService;

// A call of the service. Deletes itself at the end.
class Call {
 public:
  Call(Service& service, grpc::ServerCompletionQueue& queue,
       const topk::Client& client)
      : service_(service), queue_(queue), client_(client) {
    service_.RequestComputeTopK(&context_, &message_, &responder_, &queue_,
                                &queue_, this);
  }

  // Handles an event of the queue: the call has arrived, or has ended.
  void Proceed(bool ok) {
    if (!ok || std::exchange(arrived_, true)) {
      delete this;
      return;
    }
    new Call(service_, queue_, client_);  // waits for the next call
    const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
        context_.deadline() - std::chrono::system_clock::now());
    client_.ComputeTopK(topk::Request(message_), {.timeout = timeout},
                        [this](topk::Result<topk::Response> response) {
                          Finish(response);  // on another thread
                        });
  }

 private:
  void Finish(const topk::Result<topk::Response>& response) {
    if (response.ok()) {
      responder_.Finish(response->message(), grpc::Status::OK, this);
    } else {
      const topk::Status& error = response.status();
      responder_.FinishWithError(
          {static_cast<grpc::StatusCode>(error.code), error.message}, this);
    }
  }

  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  const topk::Client& client_;
  grpc::ServerContext context_;
  topk::v1::TopKRequest message_;
  grpc::ServerAsyncResponseWriter<topk::v1::TopKResponse> responder_{&context_};
  bool arrived_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const topk::Client client({.target = argv[1]});
  Service service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(argv[2], grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  new Call(service, *queue, client);
  std::cout << "serving on " << argv[2] << std::endl;
  void* call = nullptr;
  bool ok = false;
  while (queue->Next(&call, &ok)) static_cast<Call*>(call)->Proceed(ok);
}
