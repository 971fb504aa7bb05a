// An OpenTelemetry collector in this process, on a free loopback port.
#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/telemetry/trace_context.h"

namespace topk::testing {

/// Stores the messages that it receives. The handler decides how to respond to
/// a message, and may wait for Release().
class Collector final : private opentelemetry::proto::collector::trace::v1::
                            TraceService::Service {
 public:
  using Request =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response =
      opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
  using Span = opentelemetry::proto::trace::v1::Span;
  using Handler = std::function<grpc::Status(Collector&, Response&)>;

  explicit Collector(
      Handler handler = [](Collector&, Response&) { return grpc::Status(); },
      const std::shared_ptr<grpc::ServerCredentials>& credentials =
          grpc::InsecureServerCredentials())
      : handler_(std::move(handler)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Collector() {
    Release();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  /// Returns settings that sample every call and export its spans here.
  TraceConfig Config(const std::string& scheme = "http") const {
    TraceConfig config;
    config.endpoint = scheme + "://127.0.0.1:" + std::to_string(port_);
    config.resource = {{"service.name", "test"}};
    return config;
  }

  /// For handlers: blocks until Release().
  void AwaitRelease() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return released_; });
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  std::vector<Request> Requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Returns the spans so far. If `name` is not empty, only those named so.
  std::vector<Span> Spans(const std::string& name = "") {
    std::vector<Span> spans;
    for (const Request& request : Requests()) {
      for (const Span& span :
           request.resource_spans(0).scope_spans(0).spans()) {
        if (name.empty() || span.name() == name) spans.push_back(span);
      }
    }
    return spans;
  }

 private:
  grpc::Status Export(grpc::ServerContext*, const Request* request,
                      Response* response) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(*request);
    }
    return handler_(*this, *response);
  }

  const Handler handler_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
  std::vector<Request> requests_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace topk::testing
