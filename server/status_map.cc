#include "server/status_map.h"

#include <string>

#include "google/rpc/error_details.pb.h"

namespace topk {
namespace {

constexpr char kDomain[] = "topk.v1";
// Trailers are limited to 8 KiB by default; a field path that quotes a hostile
// request must not reach it. Our texts are ASCII, so any cut is a valid one.
constexpr size_t kMaxText = 1024;

}  // namespace

google::rpc::Status ToRpcStatus(const Status& status) {
  google::rpc::Status rpc;
  if (status.ok()) return rpc;
  const std::string message = status.message.substr(0, kMaxText);
  const std::string field = status.field.substr(0, kMaxText);
  rpc.set_code(static_cast<int>(status.code));
  rpc.set_message(message);

  google::rpc::ErrorInfo info;
  info.set_reason(status.reason);
  info.set_domain(kDomain);
  if (!field.empty()) (*info.mutable_metadata())["field"] = field;
  rpc.add_details()->PackFrom(info);

  if (status.code == Code::kInvalidArgument && !field.empty()) {
    google::rpc::BadRequest bad;
    google::rpc::BadRequest::FieldViolation& violation =
        *bad.add_field_violations();
    violation.set_field(field);
    violation.set_description(message);
    rpc.add_details()->PackFrom(bad);
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
