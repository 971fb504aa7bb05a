#include "server/telemetry/metrics.h"

#include <grpcpp/grpcpp.h>

#include <cmath>

#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "server/telemetry/process_metrics.h"

namespace topk {
namespace {

using Bounds = prometheus::Histogram::BucketBoundaries;

// Returns `count` bounds: first, first * factor, first * factor^2, ...
Bounds Powers(double first, double factor, int count) {
  Bounds bounds;
  // Repeated multiplication would be inexact, e.g. 0.0009999 instead of 1e-3.
  for (int i = 0; i < count; ++i) bounds.push_back(first * std::pow(factor, i));
  return bounds;
}

// From 1 us to 17 s. A stage of a small request takes a microsecond or two.
Bounds StageSeconds() { return Powers(1e-6, 4, 13); }

// From 1 to 8^11.
Bounds Sizes() { return Powers(1, 8, 12); }

double Seconds(int64_t nanoseconds) {
  return 1e-9 * static_cast<double>(nanoseconds);
}

// The reasons of rejections and their labels. The last ones stand for all
// errors with certain codes.
constexpr std::pair<std::string_view, const char*> kRejections[] = {
    {"TOO_MANY_BYTES", "inflight_bytes"},
    {"TOO_MANY_CALLS", "inflight_calls"},
    {"TOO_MANY_BYTES_OF_CLIENT", "client_bytes"},
    {"TOO_MANY_CALLS_OF_CLIENT", "client_calls"},
    {"RATE_LIMITED", "rate"},
    {"DEADLINE_TOO_SHORT", "deadline"},
    {"OUT_OF_MEMORY", "memory"},
    {"SHUTTING_DOWN", "draining"},
    {"RESOURCE_EXHAUSTED", "limit"},
    {"UNAUTHENTICATED", "unauthenticated"},
    {"PERMISSION_DENIED", "permission"},
};

}  // namespace

Metrics::Metrics()
    : tensor_bytes_(registry_->MakeHistogram(
          "topk_tensor_bytes",
          "Size of the tensors of successful requests in bytes", Sizes())),
      elements_(registry_->MakeHistogram(
          "topk_elements",
          "Number of elements of the tensors of successful requests", Sizes())),
      k_(registry_->MakeHistogram("topk_k_elements", "k of successful requests",
                                  Sizes())),
      poller_busy_(registry_->MakeHistogram(
          "topk_poller_busy_seconds",
          "CPU time of a poller for one event in seconds; other events wait "
          "meanwhile",
          {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1})) {
  for (const auto& [reason, label] : kRejections) {
    rejected_[reason] = &registry_->MakeCounter(
        "topk_rejected_total",
        "Requests rejected because of a limit, missing credentials or a "
        "drain",
        {{"reason", label}});
  }
  for (const char* when :
       {"before_compute", "during_compute", "after_compute"}) {
    cancelled_[when] = &registry_->MakeCounter(
        "topk_cancelled_total",
        "Requests cancelled by the client or its deadline, by progress",
        {{"when", when}});
  }
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i] = &registry_->MakeHistogram(
        "topk_stage_seconds",
        "Time of requests in each stage that they reach, in seconds",
        StageSeconds(), {{"stage", kStageNames[i]}});
  }
  for (const char* method : {"ComputeTopK", "StreamTopK", "ComputeTopKMany",
                             "ModelInfer", "ModelStreamInfer"}) {
    methods_[method] = &registry_->MakeHistogram(
        "topk_request_seconds",
        "Time that the server spends on one request, also of a stream, in "
        "seconds",
        StageSeconds(), {{"method", method}});
  }
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      operators_[{dialect->id, version.version}] = MakeOperatorMetrics(
          std::string(dialect->name), StrCat(version.version));
    }
  }
  unknown_operator_ = MakeOperatorMetrics("unknown", "unknown");
  registry_->AddGauge("topk_ready",
                      "1 while the server accepts calls, 0 while it drains",
                      [this] { return ready_ ? 1 : 0; });
  AddProcessMetrics(*registry_);
}

Metrics::OperatorMetrics Metrics::MakeOperatorMetrics(
    const std::string& dialect, const std::string& version) {
  prometheus::Labels labels = {{"dialect", dialect}, {"version", version}};
  // The buckets range from 10 us to 42 s.
  OperatorMetrics made{&registry_->MakeHistogram(
                           "topk_compute_seconds",
                           "Compute time of successful requests in seconds",
                           Powers(1e-5, 4, 12), labels),
                       {}};
  // The status codes of requests; see TopKService in topk.proto.
  using enum Code;
  for (const Code code :
       {kOk, kInvalidArgument, kUnimplemented, kNotFound, kCancelled,
        kResourceExhausted, kDeadlineExceeded, kPermissionDenied,
        kFailedPrecondition, kInternal, kUnavailable, kUnauthenticated}) {
    labels["code"] = CodeName(code);
    made.requests[code] = &registry_->MakeCounter(
        "topk_requests_total",
        "Finished requests by operator and gRPC status code", labels);
  }
  return made;
}

void Metrics::SetBuild(const std::string& instruction_set) {
  registry_->AddGauge("topk_build_info",
                      "Always 1; the labels describe the build and the machine",
                      [] { return 1; },
                      {{"version", TOPK_VERSION},
                       {"compiler", TOPK_COMPILER},
                       {"grpc_version", grpc::Version()},
                       {"instruction_set", instruction_set}});
}

void Metrics::Record(std::string_view method, const v1::TopKRequest& request,
                     const RequestStats& stats, const Status& status) {
  const auto known =
      operators_.find({request.spec().dialect(), request.spec().version()});
  const OperatorMetrics& row =
      known == operators_.end() ? unknown_operator_ : known->second;
  // A code without a counter indicates a bug, so count it as kInternal.
  const auto count = row.requests.find(status.code);
  (count == row.requests.end() ? row.requests.at(Code::kInternal)
                               : count->second)
      ->Increment();
  for (size_t i = 0; i < stages_.size(); ++i) {
    if (stats.nanoseconds[i] < 0) continue;
    stages_[i]->Observe(Seconds(stats.nanoseconds[i]));
  }
  const int64_t total = stats.TotalNanoseconds();
  if (const auto found = methods_.find(method);
      found != methods_.end() && total > 0) {
    found->second->Observe(Seconds(total));
  }
  if (!status.ok()) return RecordFailure(stats, status);
  CountAnswer(stats.backend, stats.kernel);
  row.compute_seconds->Observe(Seconds(stats[Stage::kCompute]));
  tensor_bytes_.Observe(static_cast<double>(stats.tensor_bytes));
  elements_.Observe(static_cast<double>(ElementsOf(request).value_or(0)));
  k_.Observe(static_cast<double>(stats.k.value_or(0)));
}

void Metrics::RecordFailure(const RequestStats& stats, const Status& status) {
  auto rejected = rejected_.find(status.reason);
  if (rejected == rejected_.end()) {
    rejected = rejected_.find(CodeName(status.code));
  }
  if (rejected != rejected_.end()) {
    rejected->second->Increment();
  } else if (status.code == Code::kCancelled ||
             status.code == Code::kDeadlineExceeded) {
    cancelled_
        .at(stats[Stage::kCompute] >= 0 ? "after_compute"
            : stats.computing           ? "during_compute"
                                        : "before_compute")
        ->Increment();
  }
}

void Metrics::CountAnswer(const std::string& backend,
                          const std::string& kernel) {
  const MutexLock lock(mutex_);
  prometheus::Counter*& counter = answers_[{backend, kernel}];
  if (counter == nullptr) {
    counter = &registry_->MakeCounter(
        "topk_answers_total",
        "Responses by the backend and the kernel that computed them",
        {{"backend", backend}, {"kernel", kernel}});
  }
  counter->Increment();
}

void Metrics::RecordPollerBusy(std::chrono::nanoseconds busy,
                               spdlog::logger& log) {
  poller_busy_.Observe(Seconds(busy.count()));
  constexpr std::chrono::milliseconds kMaxBusy{100};
  if (busy < kMaxBusy || !poller_lines_.Pass().has_value()) return;
  log.warn(
      "poller busy: one event took {} ms of CPU time, while other calls "
      "waited (topk_poller_busy_seconds)",
      std::chrono::duration_cast<std::chrono::milliseconds>(busy).count());
}

}  // namespace topk
