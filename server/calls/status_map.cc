#include "server/calls/status_map.h"

#include <google/protobuf/util/time_util.h>

#include <string>

#include "google/rpc/error_details.pb.h"

namespace topk {
namespace {

using google::protobuf::util::TimeUtil;

constexpr char kDomain[] = "topk.v1";
// Longer messages and field paths are cut, because trailers are limited to 8
// KiB by default. Nearly all text is ASCII.
constexpr size_t kMaxStatusText = 1024;

}  // namespace

google::rpc::Status ToRpcStatus(const Status& status) {
  google::rpc::Status rpc;
  if (status.ok()) return rpc;
  const std::string message = status.message.substr(0, kMaxStatusText);
  const std::string field = status.field.substr(0, kMaxStatusText);
  rpc.set_code(static_cast<int>(status.code));
  rpc.set_message(message);
  const auto add = [&rpc](const google::protobuf::Message& detail) {
    static_cast<void>(rpc.add_details()->PackFrom(detail));
  };

  google::rpc::ErrorInfo info;
  info.set_reason(status.reason);
  info.set_domain(kDomain);
  const bool retry = status.retry_after.count() > 0;
  if (!field.empty() && !retry) (*info.mutable_metadata())["field"] = field;
  add(info);

  if (status.code == Code::kInvalidArgument && !field.empty()) {
    google::rpc::BadRequest bad;
    google::rpc::BadRequest::FieldViolation& violation =
        *bad.add_field_violations();
    violation.set_field(field);
    violation.set_description(message);
    add(bad);
  }
  if (retry && status.code == Code::kResourceExhausted) {
    google::rpc::QuotaFailure failure;
    google::rpc::QuotaFailure::Violation& violation = *failure.add_violations();
    violation.set_subject(field);
    violation.set_description(message);
    add(failure);
  }
  if (retry) {
    google::rpc::RetryInfo delay;
    *delay.mutable_retry_delay() =
        TimeUtil::MillisecondsToDuration(status.retry_after.count());
    add(delay);
  }
  return rpc;
}

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status rpc = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code), rpc.message(),
                      rpc.SerializeAsString());
}

}  // namespace topk
