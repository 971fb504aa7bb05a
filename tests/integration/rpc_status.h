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

Details DetailsOf(const grpc::Status& status);

Details DetailsOf(const google::rpc::Status& status);

}  // namespace topk::testing
