#include "tests/integration/rpc_status.h"

namespace topk::testing {

Details DetailsOf(const google::rpc::Status& status) {
  Details details;
  details.status = status;
  for (const google::protobuf::Any& any : status.details()) {
    // UnpackTo() ignores messages of other types.
    static_cast<void>(any.UnpackTo(&details.info));
    static_cast<void>(any.UnpackTo(&details.bad_request));
    static_cast<void>(any.UnpackTo(&details.quota));
    static_cast<void>(any.UnpackTo(&details.retry));
  }
  return details;
}

Details DetailsOf(const grpc::Status& status) {
  google::rpc::Status rpc;
  static_cast<void>(rpc.ParseFromString(status.error_details()));
  return DetailsOf(rpc);
}

}  // namespace topk::testing
