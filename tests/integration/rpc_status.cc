#include "tests/integration/rpc_status.h"

namespace topk::testing {

Details DetailsOf(const google::rpc::Status& status) {
  Details details;
  details.status = status;
  for (const google::protobuf::Any& any : status.details()) {
    if (any.type_url() == "type.googleapis.com/google.rpc.ErrorInfo") {
      any.UnpackTo(&details.info);
    }
    if (any.type_url() == "type.googleapis.com/google.rpc.BadRequest") {
      any.UnpackTo(&details.bad_request);
    }
  }
  return details;
}

Details DetailsOf(const grpc::Status& status) {
  google::rpc::Status rpc;
  rpc.ParseFromString(status.error_details());
  return DetailsOf(rpc);
}

}  // namespace topk::testing
