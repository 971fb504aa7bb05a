// Decodes the details of an error as a client would.
#pragma once

#include <grpcpp/support/status.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace topk::testing {

/// The details that our errors carry. Absent details are default messages.
struct Details {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::QuotaFailure quota;
  google::rpc::RetryInfo retry;
};

inline Details DetailsOf(const google::rpc::Status& status) {
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

inline Details DetailsOf(const grpc::Status& status) {
  google::rpc::Status rpc;
  static_cast<void>(rpc.ParseFromString(status.error_details()));
  return DetailsOf(rpc);
}

}  // namespace topk::testing
