#include "client/rpc_error.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "core/base/text.h"
#include "google/rpc/error_details.pb.h"

namespace topk {
namespace {

using std::chrono::milliseconds;

// Returns a retry delay from a server, but at least 0, and at most 24 h, so
// that it cannot overflow the clock.
milliseconds Bounded(double delay) {
  constexpr milliseconds kMaxDelay = std::chrono::hours(24);
  return milliseconds(static_cast<int64_t>(std::ceil(
      std::clamp(delay, 0.0, static_cast<double>(kMaxDelay.count())))));
}

// Returns the delay in the trailer grpc-retry-pushback-ms, or 0.
milliseconds PushbackOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  int64_t number = 0;
  if (found != trailers.end()) {
    std::from_chars(found->second.begin(), found->second.end(), number);
  }
  return Bounded(static_cast<double>(number));
}

// Copies the google.rpc details to `status`.
void ReadDetails(const google::rpc::Status& rpc, Status& status) {
  for (const google::protobuf::Any& detail : rpc.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::QuotaFailure quota;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info)) {
      status.reason = info.reason();
      const auto field = info.metadata().find("field");
      if (field != info.metadata().end()) status.field = field->second;
    } else if (detail.UnpackTo(&quota) && quota.violations_size() > 0) {
      status.field = quota.violations(0).subject();
    } else if (detail.UnpackTo(&retry)) {
      const google::protobuf::Duration& delay = retry.retry_delay();
      status.retry_after = Bounded(static_cast<double>(delay.seconds()) * 1e3 +
                                   static_cast<double>(delay.nanos()) / 1e6);
    }
  }
}

}  // namespace

Status FromRpc(const google::rpc::Status& rpc) {
  Status status{static_cast<Code>(rpc.code()), "", "", rpc.message()};
  ReadDetails(rpc, status);
  return status;
}

Status FromGrpc(const grpc::Status& grpc, const grpc::ClientContext& context) {
  Status status{static_cast<Code>(grpc.error_code()), "", "",
                grpc.error_message()};
  google::rpc::Status rpc;
  if (rpc.ParseFromString(grpc.error_details())) ReadDetails(rpc, status);
  if (status.retry_after.count() == 0) status.retry_after = PushbackOf(context);
  if (grpc.error_code() == grpc::StatusCode::UNKNOWN &&
      grpc.error_details().empty()) {
    // topkd always sends details. An error without details is from a proxy
    // whose server died during the response.
    status.code = Code::kUnavailable;
    status.reason = kBrokeOff;
    status.message = StrCat("the answer broke off: ", grpc.error_message());
  }
  return status;
}

}  // namespace topk
