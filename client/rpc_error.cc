#include "client/rpc_error.h"

#include <algorithm>
#include <chrono>

#include "core/base/text.h"
#include "google/rpc/error_details.pb.h"

namespace topk {
namespace {

// A server may send any number of seconds. No topkd has a longer delay than
// this, and every clock can add it.
std::chrono::milliseconds DelayOf(const google::rpc::RetryInfo& retry) {
  using std::chrono::milliseconds;
  constexpr int64_t kMaxSeconds = 86400;
  const std::chrono::nanoseconds delay =
      std::chrono::seconds(
          std::clamp<int64_t>(retry.retry_delay().seconds(), 0, kMaxSeconds)) +
      std::chrono::nanoseconds(retry.retry_delay().nanos());
  return std::clamp<milliseconds>(std::chrono::ceil<milliseconds>(delay),
                                  milliseconds(0),
                                  std::chrono::seconds(kMaxSeconds));
}

// Fills in what google.rpc details say.
void ReadDetails(const google::rpc::Status& rpc, Status& status) {
  for (const google::protobuf::Any& detail : rpc.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad;
    google::rpc::QuotaFailure quota;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info)) {
      status.reason = info.reason();
      const auto field = info.metadata().find("field");
      if (field != info.metadata().end()) status.field = field->second;
    } else if (detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      status.field = bad.field_violations(0).field();
    } else if (detail.UnpackTo(&quota) && quota.violations_size() > 0) {
      status.field = quota.violations(0).subject();
    } else if (detail.UnpackTo(&retry)) {
      status.retry_after = DelayOf(retry);
    }
  }
}

}  // namespace

Status FromRpc(const google::rpc::Status& rpc) {
  Status status{static_cast<Code>(rpc.code()), "", "", rpc.message()};
  ReadDetails(rpc, status);
  return status;
}

Status FromGrpc(const grpc::Status& grpc) {
  Status status{static_cast<Code>(grpc.error_code()), "", "",
                grpc.error_message()};
  google::rpc::Status rpc;
  if (rpc.ParseFromString(grpc.error_details())) ReadDetails(rpc, status);
  if (grpc.error_code() == grpc::StatusCode::UNKNOWN &&
      grpc.error_details().empty()) {
    // No server's word, who all have better ones: a proxy whose server died
    // amid an answer ends the call without a status.
    status.code = Code::kUnavailable;
    status.reason = kBrokeOff;
    status.message = Cat("the answer broke off: ", grpc.error_message());
  }
  return status;
}

}  // namespace topk
