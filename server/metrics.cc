#include "server/metrics.h"

#include <array>

#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

using prometheus::Histogram;

// What a request can end with; see TopKService in topk.proto.
constexpr std::array<Code, 9> kCodes = {Code::kOk,
                                        Code::kInvalidArgument,
                                        Code::kUnimplemented,
                                        Code::kCancelled,
                                        Code::kResourceExhausted,
                                        Code::kDeadlineExceeded,
                                        Code::kPermissionDenied,
                                        Code::kFailedPrecondition,
                                        Code::kInternal};

// From one cache line's work to a long tensor: 10 us .. 40 s, factors of 4.
Histogram::BucketBoundaries SecondsBuckets() {
  Histogram::BucketBoundaries buckets;
  for (double bound = 1e-5; bound < 50; bound *= 4) buckets.push_back(bound);
  return buckets;
}

// Powers of 8 from 1 to 2^33: bytes and k.
Histogram::BucketBoundaries SizeBuckets() {
  Histogram::BucketBoundaries buckets;
  for (double bound = 1; bound < 1e10; bound *= 8) buckets.push_back(bound);
  return buckets;
}

int64_t KOf(const v1::TopKRequest& request) {
  switch (request.attributes_case()) {
    case v1::TopKRequest::kOnnx:
      return request.onnx().k().value();
    case v1::TopKRequest::kOpenvino:
      return request.openvino().k().value();
    case v1::TopKRequest::kDirectml:
      return request.directml().k();
    default:
      return 0;
  }
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_(prometheus::BuildCounter()
                    .Name("topk_requests_total")
                    .Help("Requests by operator and gRPC status code")
                    .Register(*registry_)),
      compute_seconds_(prometheus::BuildHistogram()
                           .Name("topk_compute_seconds")
                           .Help("Time in the backend of answered requests")
                           .Register(*registry_)),
      tensor_bytes_(&prometheus::BuildHistogram()
                         .Name("topk_tensor_bytes")
                         .Help("Size of the tensors of answered requests")
                         .Register(*registry_)
                         .Add({}, SizeBuckets())),
      k_(&prometheus::BuildHistogram()
              .Name("topk_k_elements")
              .Help("K of answered requests that send it as a value")
              .Register(*registry_)
              .Add({}, SizeBuckets())),
      ready_(&prometheus::BuildGauge()
                  .Name("topk_ready")
                  .Help("1 while the server serves, 0 while it drains")
                  .Register(*registry_)
                  .Add({})) {
  for (const Dialect* dialect : Dialects()) {
    for (const OperatorVersion& version : dialect->versions) {
      operators_[{dialect->id, version.version}] =
          MakeOperator(std::string(dialect->name), Cat(version.version));
    }
  }
  unknown_operator_ = MakeOperator("unknown", "unknown");
  prometheus::BuildGauge()
      .Name("topk_build_info")
      .Help("Always 1; the labels describe the build")
      .Register(*registry_)
      .Add({{"version", TOPK_VERSION}})
      .Set(1);
}

Metrics::OfOperator Metrics::MakeOperator(const std::string& dialect,
                                          const std::string& version) {
  OfOperator row;
  row.compute_seconds = &compute_seconds_.Add(
      {{"dialect", dialect}, {"version", version}}, SecondsBuckets());
  for (const Code code : kCodes) {
    row.requests[code] =
        &requests_.Add({{"dialect", dialect},
                        {"version", version},
                        {"code", std::string(CodeName(code))}});
  }
  return row;
}

void Metrics::Record(const v1::TopKRequest& request, Code code,
                     int64_t tensor_bytes, int64_t compute_nanoseconds) {
  const auto found =
      operators_.find({request.spec().dialect(), request.spec().version()});
  const OfOperator& row =
      found == operators_.end() ? unknown_operator_ : found->second;
  const auto counter = row.requests.find(code);
  (counter == row.requests.end() ? row.requests.at(Code::kInternal)
                                 : counter->second)
      ->Increment();
  if (code != Code::kOk) return;
  row.compute_seconds->Observe(static_cast<double>(compute_nanoseconds) * 1e-9);
  tensor_bytes_->Observe(static_cast<double>(tensor_bytes));
  if (const int64_t k = KOf(request); k > 0) {
    k_->Observe(static_cast<double>(k));
  }
}

void Metrics::SetReady(bool ready) { ready_->Set(ready ? 1 : 0); }

}  // namespace topk
