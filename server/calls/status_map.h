// The one place where our errors become gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "google/rpc/status.pb.h"

namespace topk {

/// Returns the google.rpc.Status of an error: its code and message, an
/// ErrorInfo with the reason in the domain "topk.v1", for bad input a
/// BadRequest with the field, and for errors that may be retried a QuotaFailure
/// and a RetryInfo. Small enough for a trailer (< 8 KiB).
google::rpc::Status ToRpcStatus(const Status& status);

/// Returns the gRPC status that carries ToRpcStatus() as its details.
grpc::Status ToGrpcStatus(const Status& status);

}  // namespace topk
