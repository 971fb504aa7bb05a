#include "server/rpc_metrics.h"

#include <grpcpp/support/status.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

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

const char* TypeName(ServerRpcInfo::Type type) {
  switch (type) {
    case ServerRpcInfo::Type::UNARY:
      return "unary";
    case ServerRpcInfo::Type::CLIENT_STREAMING:
      return "client_stream";
    case ServerRpcInfo::Type::SERVER_STREAMING:
      return "server_stream";
    case ServerRpcInfo::Type::BIDI_STREAMING:
      return "bidi_stream";
  }
  return "unknown";
}

// One method's metrics.
struct Method {
  Counter* started;
  Counter* received;
  Counter* sent;
  Histogram* seconds;
  std::array<Counter*, kCodes.size()> handled;
};

// All methods' metrics. A method gets its own at its first call; there are as
// many as the server's services have, and one for all that clients make up.
class MethodTable {
 public:
  explicit MethodTable(prometheus::Registry& registry)
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
                     .Register(registry)) {}

  const Method& Find(const ServerRpcInfo& info) {
    const std::string path = info.method();
    {
      const std::shared_lock lock(mutex_);
      const auto found = methods_.find(path);
      if (found != methods_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    const auto found = methods_.find(path);
    if (found != methods_.end()) return found->second;
    return methods_.emplace(path, Make(path, info.type())).first->second;
  }

 private:
  static Family<Counter>& MakeCounter(prometheus::Registry& registry,
                                      const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }

  Method Make(const std::string& path, ServerRpcInfo::Type type) {
    // "/package.Service/Method"; gRPC's name for all it does not know has no
    // slash.
    const size_t slash = path.rfind('/');
    const bool known = slash != std::string::npos && slash > 0;
    prometheus::Labels labels = {
        {"grpc_type", TypeName(type)},
        {"grpc_service", known ? path.substr(1, slash - 1) : "unknown"},
        {"grpc_method", known ? path.substr(slash + 1) : "unknown"}};
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
  std::shared_mutex mutex_;
  std::map<std::string, Method> methods_;
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
  explicit Factory(prometheus::Registry& registry) : table_(registry) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    return new Interceptor(table_.Find(*info));
  }

 private:
  MethodTable table_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeRpcMetrics(prometheus::Registry& registry) {
  return std::make_unique<Factory>(registry);
}

}  // namespace topk
