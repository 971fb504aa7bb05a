#include "server/telemetry/metrics.h"

#include <grpcpp/grpcpp.h>

#include <cmath>
#include <optional>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "server/telemetry/process_metrics.h"

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

// The methods that compute.
constexpr std::array<const char*, 5> kMethods = {
    "ComputeTopK", "StreamTopK", "ComputeTopKMany", "ModelInfer",
    "ModelStreamInfer"};

using Histogram = prometheus::Histogram;

// Returns the bounds first, first * factor, ..., last.
Histogram::BucketBoundaries Powers(double first, double factor, double last) {
  Histogram::BucketBoundaries bounds;
  // Computes each bound as a power, because repeated multiplication would
  // expose 1e-3 as 0.0009999.
  const double steps = std::round(std::log(last / first) / std::log(factor));
  for (int i = 0; i <= static_cast<int>(steps); ++i) {
    bounds.push_back(first * std::pow(factor, i));
  }
  return bounds;
}

// Buckets from the work on one cache line to a long tensor.
Histogram::BucketBoundaries ComputeSeconds() {
  return Powers(1e-5, 4, 41.94304);
}

// A stage of a small request takes a microsecond or two.
Histogram::BucketBoundaries StageSeconds() {
  return Powers(1e-6, 4, 16.777216);
}

// Buckets of bytes, elements and k.
Histogram::BucketBoundaries Sizes() { return Powers(1, 8, 8589934592); }

double Seconds(int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

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

prometheus::Family<Histogram>& MakeHistogram(MetricRegistry& registry,
                                             const char* name,
                                             const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(
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
      compute_seconds_(
          MakeHistogram(*registry_, "topk_compute_seconds",
                        "Compute time of successful requests in seconds")),
      answers_(registry_->prometheus()),
      rejected_(MakeCounters(*registry_, "topk_rejected_total",
                             "Requests rejected because of a limit, missing "
                             "credentials or a drain",
                             "reason", kRejectionNames)),
      cancelled_(MakeCounters<3>(
          *registry_, "topk_cancelled_total",
          "Requests cancelled by the client or its deadline, by progress",
          "when", {"before_compute", "during_compute", "after_compute"})),
      tensor_bytes_(
          MakeHistogram(*registry_, "topk_tensor_bytes",
                        "Size of the tensors of successful requests in bytes")
              .Add({}, Sizes())),
      elements_(MakeHistogram(
                    *registry_, "topk_elements",
                    "Number of elements of the tensors of successful requests")
                    .Add({}, Sizes())),
      k_(MakeHistogram(*registry_, "topk_k_elements",
                       "k of successful requests that send it as a value")
             .Add({}, Sizes())),
      ready_(prometheus::BuildGauge()
                 .Name("topk_ready")
                 .Help("1 while the server accepts calls, 0 while it drains")
                 .Register(registry_->prometheus())
                 .Add({})) {
  auto& stage_seconds = MakeHistogram(
      *registry_, "topk_stage_seconds",
      "Time of requests in each stage that they reach, in seconds");
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i] =
        &stage_seconds.Add({{"stage", kStageNames[i]}}, StageSeconds());
  }
  auto& request_seconds = MakeHistogram(
      *registry_, "topk_request_seconds",
      "Time that the server spends on one request, also of a stream, in "
      "seconds");
  for (const char* method : kMethods) {
    methods_.emplace_back(
        method, &request_seconds.Add({{"method", method}}, StageSeconds()));
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
  row.compute_seconds = &compute_seconds_.Add(
      {{"dialect", dialect}, {"version", version}}, ComputeSeconds());
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
                     const RequestStats& stats, const Status& status) {
  const auto found =
      operators_.find({request.spec().dialect(), request.spec().version()});
  const OfOperator& row =
      found == operators_.end() ? unknown_operator_ : found->second;
  Count(row.requests, status.code);
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stats.nanoseconds[i] < 0) continue;
    stages_[i]->Observe(Seconds(stats.nanoseconds[i]));
  }
  if (const int64_t total = stats.TotalNanoseconds(); total > 0) {
    for (const auto& [name, seconds] : methods_) {
      if (name == method) seconds->Observe(Seconds(total));
    }
  }
  if (!status.ok()) return RecordFailure(stats, status);
  answers_.Count(stats.backend, stats.kernel);
  row.compute_seconds->Observe(Seconds(stats[Stage::kCompute]));
  tensor_bytes_.Observe(static_cast<double>(stats.tensor_bytes));
  elements_.Observe(static_cast<double>(ElementsOf(request).value_or(0)));
  if (const int64_t k = KOf(request).value_or(0); k > 0) {
    k_.Observe(static_cast<double>(k));
  }
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
