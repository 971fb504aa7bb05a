#include "server/rpc_metrics.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/status.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Histogram;

// In the order of grpc::StatusCode, in the spelling of Go.
constexpr std::array<const char*, 17> kCodes = {"OK",
                                                "Canceled",
                                                "Unknown",
                                                "InvalidArgument",
                                                "DeadlineExceeded",
                                                "NotFound",
                                                "AlreadyExists",
                                                "PermissionDenied",
                                                "ResourceExhausted",
                                                "FailedPrecondition",
                                                "Aborted",
                                                "OutOfRange",
                                                "Unimplemented",
                                                "Internal",
                                                "Unavailable",
                                                "DataLoss",
                                                "Unauthenticated"};

const char* TypeName(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? "bidi_stream" : "client_stream";
  }
  return method.server_streaming() ? "server_stream" : "unary";
}

// One method's metrics.
struct Method {
  Counter* started;
  Counter* received;
  Counter* sent;
  Histogram* seconds;
  std::array<Counter*, kCodes.size()> handled;
};

// All methods' metrics, looked up once and for all.
class MethodTable {
 public:
  MethodTable(prometheus::Registry& registry,
              const std::vector<std::string>& services)
      : started_(MakeCounter(registry, "grpc_server_started_total",
                             "RPCs started on the server")),
        handled_(MakeCounter(registry, "grpc_server_handled_total",
                             "RPCs completed on the server, by code")),
        received_(MakeCounter(registry, "grpc_server_msg_received_total",
                              "RPC messages received on the server")),
        sent_(MakeCounter(registry, "grpc_server_msg_sent_total",
                          "RPC messages sent by the server")),
        seconds_(prometheus::BuildHistogram()
                     .Name("grpc_server_handling_seconds")
                     .Help("Latency of RPCs, from the handler's start to "
                           "the status")
                     .Register(registry)),
        // gRPC handles a method that it does not know as a bidi stream.
        unknown_(Make("bidi_stream", "unknown", "unknown")) {
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    for (const std::string& name : services) {
      const auto* service = pool->FindServiceByName(name);
      if (service == nullptr) continue;
      for (int i = 0; i < service->method_count(); ++i) {
        const auto* method = service->method(i);
        methods_.emplace(Cat("/", name, "/", method->name()),
                         Make(TypeName(*method), name, method->name()));
      }
    }
  }

  const Method& Find(std::string_view path) const {
    const auto found = methods_.find(path);
    return found == methods_.end() ? unknown_ : found->second;
  }

 private:
  static Family<Counter>& MakeCounter(prometheus::Registry& registry,
                                      const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }

  Method Make(const std::string& type, const std::string& service,
              const std::string& name) {
    prometheus::Labels labels = {
        {"grpc_type", type}, {"grpc_service", service}, {"grpc_method", name}};
    Method method;
    method.started = &started_.Add(labels);
    method.received = &received_.Add(labels);
    method.sent = &sent_.Add(labels);
    method.seconds =
        &seconds_.Add(labels, Histogram::BucketBoundaries{
                                  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2,
                                  2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
    for (size_t i = 0; i < kCodes.size(); ++i) {
      labels["grpc_code"] = kCodes[i];
      method.handled[i] = &handled_.Add(labels);
    }
    return method;
  }

  Family<Counter>& started_;
  Family<Counter>& handled_;
  Family<Counter>& received_;
  Family<Counter>& sent_;
  Family<Histogram>& seconds_;
  const Method unknown_;
  std::map<std::string, Method, std::less<>> methods_;
};

// Counts one call.
class Interceptor final : public grpc::experimental::Interceptor {
 public:
  explicit Interceptor(const Method& method) : method_(method) {
    method_.started->Increment();
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    using Hook = InterceptionHookPoints;
    // A null message at POST_RECV_MESSAGE is the end of a stream.
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr) {
      method_.received->Increment();
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_MESSAGE)) {
      method_.sent->Increment();
    }
    if (methods->QueryInterceptionHookPoint(Hook::PRE_SEND_STATUS)) {
      const auto code =
          static_cast<size_t>(methods->GetSendStatus().error_code());
      method_.handled[code < kCodes.size() ? code : 2]->Increment();
      method_.seconds->Observe(std::chrono::duration<double>(
                                   std::chrono::steady_clock::now() - start_)
                                   .count());
    }
    methods->Proceed();
  }

 private:
  const Method& method_;
  const std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

class Factory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(prometheus::Registry& registry,
          const std::vector<std::string>& services)
      : table_(registry, services) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return new Interceptor(table_.Find(info->method()));
  }

 private:
  const MethodTable table_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeRpcMetrics(prometheus::Registry& registry,
               const std::vector<std::string>& services) {
  return std::make_unique<Factory>(registry, services);
}

}  // namespace topk
