// Converts our errors to gRPC errors.
#pragma once

#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "google/rpc/status.pb.h"

namespace topk {

/// Converts an error to a google.rpc.Status with the error's code and message,
/// and an ErrorInfo with its reason in the domain "topk.v1". Adds a BadRequest
/// with the field for invalid input, and a QuotaFailure and a RetryInfo for
/// retryable errors. The result fits into a trailer (< 8 KiB).
google::rpc::Status ToRpcStatus(const Status& status);

/// Converts an error to a gRPC status with ToRpcStatus() as its details.
grpc::Status ToGrpcStatus(const Status& status);

}  // namespace topk
