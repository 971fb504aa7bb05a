#include "server/telemetry/rpc_metrics.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/status.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "core/base/text.h"

namespace topk {
namespace {

using prometheus::Counter;
using prometheus::Family;

// In the order of grpc::StatusCode, in the spelling of Go.
constexpr std::array<const char*, 17> kCodeNames = {"OK",
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

}  // namespace

struct RpcMetrics::Method {
  Counter* started;
  Counter* received;
  Counter* sent;
  prometheus::Histogram* seconds;
  std::array<Counter*, kCodeNames.size()> handled;
};

// All methods' metrics, looked up once and for all.
class RpcMetrics::Table {
 public:
  Table(MetricRegistry& registry, const std::vector<std::string>& services)
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
                     .Help("Latency of RPCs, from the handler's start to the "
                           "status")
                     .Register(registry.prometheus())),
        // gRPC handles a method that it does not know as a bidi stream.
        unknown_(Make("bidi_stream", "unknown", "unknown")) {
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    for (const std::string& name : services) {
      const auto* service = pool->FindServiceByName(name);
      if (service == nullptr) continue;
      for (int i = 0; i < service->method_count(); ++i) {
        const auto* method = service->method(i);
        const std::string method_name(method->name());
        methods_.emplace(StrCat("/", name, "/", method_name),
                         Make(TypeName(*method), name, method_name));
      }
    }
  }

  const Method& Find(std::string_view path) const {
    const auto found = methods_.find(path);
    return found == methods_.end() ? unknown_ : found->second;
  }

 private:
  static Family<Counter>& MakeCounter(MetricRegistry& registry,
                                      const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(
        registry.prometheus());
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
        &seconds_.Add(labels, prometheus::Histogram::BucketBoundaries{
                                  1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2,
                                  2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
    for (size_t i = 0; i < kCodeNames.size(); ++i) {
      labels["grpc_code"] = kCodeNames[i];
      method.handled[i] = &handled_.Add(labels);
    }
    return method;
  }

  Family<Counter>& started_;
  Family<Counter>& handled_;
  Family<Counter>& received_;
  Family<Counter>& sent_;
  Family<prometheus::Histogram>& seconds_;
  const Method unknown_;
  std::map<std::string, Method, std::less<>> methods_;
};

RpcMetrics::RpcMetrics(MetricRegistry& registry,
                       const std::vector<std::string>& services)
    : table_(std::make_unique<Table>(registry, services)) {}

RpcMetrics::~RpcMetrics() = default;

const RpcMetrics::Method& RpcMetrics::Find(std::string_view path) const {
  return table_->Find(path);
}

RpcCount::RpcCount(const RpcMetrics::Method& method)
    : method_(method), start_(std::chrono::steady_clock::now()) {
  method_.started->Increment();
}

void RpcCount::Received() const { method_.received->Increment(); }

void RpcCount::Sent() const { method_.sent->Increment(); }

void RpcCount::Handled(int code) const {
  const auto at = static_cast<size_t>(code);
  method_.handled[at < kCodeNames.size() ? at : 2]->Increment();
  method_.seconds->Observe(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_)
          .count());
}

}  // namespace topk
