// Converts servers' errors to Status.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>

#include "google/rpc/status.pb.h"
#include "topk/status.h"

namespace topk {

/// Status::reason of the UNAVAILABLE error for an incomplete response. Only
/// clients create this error.
inline constexpr char kBrokeOff[] = "ANSWER_BROKE_OFF";

/// Converts an error received in a message, including the reason and the field
/// in its details. REQUIRES: rpc.code() is not 0.
Status FromRpc(const google::rpc::Status& rpc);

/// The value of Status::retry_after if the server forbids a retry.
inline constexpr std::chrono::milliseconds kDoNotRetry{-1};

/// Returns the status of a finished call, with the reason and field from
/// grpc-status-details-bin, if any. The retry delay is taken from the details,
/// or from grpc-retry-pushback-ms if the details have none. If
/// grpc-retry-pushback-ms forbids a retry, the delay is kDoNotRetry.
Status FromGrpc(const grpc::Status& grpc, const grpc::ClientContext& context);

}  // namespace topk
