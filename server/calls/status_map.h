// Converts our errors to gRPC errors.
#pragma once

#include <grpcpp/support/status.h>

#include "google/rpc/status.pb.h"
#include "topk/status.h"

namespace topk {

/// Converts an error to a google.rpc.Status with the same code and message.
/// Adds an ErrorInfo with the reason in the domain "topk.v1". Adds a BadRequest
/// for an invalid field, a RetryInfo for a retryable error, and a QuotaFailure
/// for a retryable RESOURCE_EXHAUSTED. The result fits into a trailer (< 8
/// KiB).
google::rpc::Status ToRpcStatus(const Status& status);

/// Converts an error to a gRPC status with ToRpcStatus() as its details.
grpc::Status ToGrpcStatus(const Status& status);

}  // namespace topk
