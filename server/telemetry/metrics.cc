#include "server/telemetry/metrics.h"

#include <grpcpp/grpcpp.h>

#include <optional>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "server/telemetry/process_metrics.h"
#include "server/telemetry/request_facts.h"

namespace topk {
namespace {

// The status codes of requests; see TopKService in topk.proto. Other codes
// would be defects and count as INTERNAL.
constexpr std::array<Code, 12> kCodes = {Code::kOk,
                                         Code::kInvalidArgument,
                                         Code::kUnimplemented,
                                         Code::kNotFound,
                                         Code::kCancelled,
                                         Code::kResourceExhausted,
                                         Code::kDeadlineExceeded,
                                         Code::kPermissionDenied,
                                         Code::kFailedPrecondition,
                                         Code::kInternal,
                                         Code::kUnavailable,
                                         Code::kUnauthenticated};
constexpr double kNanosecond = 1e-9;

// The methods that compute.
constexpr std::array<const char*, 5> kMethods = {
    "ComputeTopK", "StreamTopK", "ComputeTopKMany", "ModelInfer",
    "ModelStreamInfer"};

// From one cache line's work to a long tensor.
Buckets ComputeSeconds() {
  return Buckets::Powers(1e-5, 4, 41.94304, kNanosecond);
}

// A small request's stages take a microsecond or two.
Buckets StageSeconds() {
  return Buckets::Powers(1e-6, 4, 16.777216, kNanosecond);
}

// Powers of 8: bytes, elements and k.
Buckets Sizes() { return Buckets::Powers(1, 8, 8589934592); }

// Why a request was refused, where that is not the request's own mistake.
std::optional<Rejection> RejectionOf(const Status& status) {
  static const std::map<std::string_view, Rejection> reasons = {
      {"TOO_MANY_BYTES", Rejection::kInflightBytes},
      {"TOO_MANY_CALLS", Rejection::kInflightCalls},
      {"TOO_MANY_BYTES_OF_CLIENT", Rejection::kClientBytes},
      {"TOO_MANY_CALLS_OF_CLIENT", Rejection::kClientCalls},
      {"RATE_LIMITED", Rejection::kRate},
      {"DEADLINE_TOO_SHORT", Rejection::kDeadline},
      {"OUT_OF_MEMORY", Rejection::kMemory},
      {"SHUTTING_DOWN", Rejection::kDraining},
  };
  if (const auto found = reasons.find(status.reason); found != reasons.end()) {
    return found->second;
  }
  switch (status.code) {
    case Code::kResourceExhausted:
      return Rejection::kLimit;
    case Code::kUnauthenticated:
      return Rejection::kUnauthenticated;
    case Code::kPermissionDenied:
      return Rejection::kPermission;
    default:
      return std::nullopt;
  }
}

prometheus::Family<prometheus::Counter>& MakeCounter(MetricRegistry& registry,
                                                     const char* name,
                                                     const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(
      registry.prometheus());
}

// Adds a series for each value of a label.
template <size_t kSize>
std::array<prometheus::Counter*, kSize> MakeCounters(
    MetricRegistry& registry, const char* name, const char* help,
    const char* label, const std::array<const char*, kSize>& values) {
  auto& family = MakeCounter(registry, name, help);
  std::array<prometheus::Counter*, kSize> counters;
  for (size_t i = 0; i < kSize; ++i) {
    counters[i] = &family.Add({{label, values[i]}});
  }
  return counters;
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_shared<MetricRegistry>()),
      requests_(
          MakeCounter(*registry_, "topk_requests_total",
                      "Finished requests by operator and gRPC status code")),
      answers_(registry_->prometheus()),
      rejected_(MakeCounters(*registry_, "topk_rejected_total",
                             "Requests rejected because of a limit, missing "
                             "credentials or a drain",
                             "reason", kRejectionNames)),
      cancelled_(MakeCounters<3>(
          *registry_, "topk_cancelled_total",
          "Requests cancelled by the client or its deadline, by progress",
          "when", {"before_compute", "during_compute", "after_compute"})),
      tensor_bytes_(registry_->AddHistogram(
          "topk_tensor_bytes",
          "Size of the tensors of successful requests in bytes", Sizes())),
      elements_(registry_->AddHistogram(
          "topk_elements",
          "Number of elements of the tensors of successful requests", Sizes())),
      k_(registry_->AddHistogram(
          "topk_k_elements", "k of successful requests that send it as a value",
          Sizes())),
      ready_(prometheus::BuildGauge()
                 .Name("topk_ready")
                 .Help("1 while the server accepts calls, 0 while it drains")
                 .Register(registry_->prometheus())
                 .Add({})) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i] = &registry_->AddHistogram(
        "topk_stage_seconds",
        "Time of requests in each stage that they reach, in seconds",
        StageSeconds(), {{"stage", kStageNames[i]}});
  }
  for (const char* method : kMethods) {
    methods_.emplace_back(
        method, &registry_->AddHistogram(
                    "topk_request_seconds",
                    "Time that the server spends on one request, also "
                    "of a stream, in seconds",
                    StageSeconds(), {{"method", method}}));
  }
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      operators_[{dialect->id, version.version}] =
          MakeOperator(std::string(dialect->name), StrCat(version.version));
    }
  }
  unknown_operator_ = MakeOperator("unknown", "unknown");
  AddProcessMetrics(*registry_);
}

void Metrics::SetBuild(const std::string& instruction_set) {
  prometheus::BuildGauge()
      .Name("topk_build_info")
      .Help("Always 1; the labels describe the build and the machine")
      .Register(registry_->prometheus())
      .Add({{"version", TOPK_VERSION},
            {"compiler", TOPK_COMPILER},
            {"grpc_version", grpc::Version()},
            {"instruction_set", instruction_set}})
      .Set(1);
}

Metrics::OfOperator Metrics::MakeOperator(const std::string& dialect,
                                          const std::string& version) {
  OfOperator row;
  row.compute_seconds = &registry_->AddHistogram(
      "topk_compute_seconds", "Compute time of successful requests in seconds",
      ComputeSeconds(), {{"dialect", dialect}, {"version", version}});
  row.requests.fill(nullptr);
  for (const Code code : kCodes) {
    row.requests[static_cast<size_t>(code)] =
        &requests_.Add({{"dialect", dialect},
                        {"version", version},
                        {"code", std::string(CodeName(code))}});
  }
  for (prometheus::Counter*& counter : row.requests) {
    if (counter != nullptr) continue;
    counter = row.requests[static_cast<size_t>(Code::kInternal)];
  }
  return row;
}

void Metrics::Record(std::string_view method, const v1::TopKRequest& request,
                     const RequestStats& stats, const Status& status,
                     const TraceContext* sampled) {
  const auto found =
      operators_.find({request.spec().dialect(), request.spec().version()});
  const OfOperator& row =
      found == operators_.end() ? unknown_operator_ : found->second;
  Count(row.requests, status.code);
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stats.nanoseconds[i] < 0) continue;
    stages_[i]->Observe(stats.nanoseconds[i], sampled);
  }
  if (const int64_t total = stats.TotalNanoseconds(); total > 0) {
    for (const auto& [name, seconds] : methods_) {
      if (name == method) seconds->Observe(total, sampled);
    }
  }
  if (!status.ok()) return RecordFailure(stats, status);
  answers_.Count(stats.backend, stats.kernel);
  row.compute_seconds->Observe(stats[Stage::kCompute], sampled);
  tensor_bytes_.Observe(stats.tensor_bytes);
  elements_.Observe(ElementsOf(request).value_or(0));
  if (const int64_t k = KOf(request).value_or(0); k > 0) k_.Observe(k);
}

void Metrics::RecordFailure(const RequestStats& stats, const Status& status) {
  if (const auto why = RejectionOf(status); why.has_value()) {
    Count(rejected_, *why);
  } else if (status.code == Code::kCancelled ||
             status.code == Code::kDeadlineExceeded) {
    Count(cancelled_, stats[Stage::kCompute] >= 0 ? Progress::kAfter
                      : stats.computing           ? Progress::kDuring
                                                  : Progress::kBefore);
  }
}

void Metrics::SetReady(bool ready) { ready_.Set(ready ? 1 : 0); }

}  // namespace topk
