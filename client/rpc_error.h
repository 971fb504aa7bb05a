// Converts servers' errors to Status.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>

#include "core/base/status.h"
#include "google/rpc/status.pb.h"

namespace topk {

/// The reason of UNAVAILABLE if a response broke off. Servers never send it.
inline constexpr char kBrokeOff[] = "ANSWER_BROKE_OFF";

/// Returns an error that a message contains, with the reason and field of its
/// details. REQUIRES: its code is not 0.
Status FromRpc(const google::rpc::Status& rpc);

/// The value of Status::retry_after if the server forbids a retry.
inline constexpr std::chrono::milliseconds kDoNotRetry{-1};

/// Returns the status of a finished call, with the reason and field of the
/// details in grpc-status-details-bin, if any. The retry delay, 0 .. 1 day, is
/// that of the RetryInfo or else of grpc-retry-pushback-ms, or is kDoNotRetry
/// if the latter forbids a retry.
Status FromGrpc(const grpc::Status& grpc, const grpc::ClientContext& context);

}  // namespace topk
