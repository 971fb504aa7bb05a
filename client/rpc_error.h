// The errors of servers, decoded.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>

#include "core/base/status.h"
#include "google/rpc/status.pb.h"

namespace topk {

/// The reason of an answer that broke off, UNAVAILABLE, which no server gives.
inline constexpr char kBrokeOff[] = "ANSWER_BROKE_OFF";

/// Returns an error in a message with the reason and field of its details.
/// REQUIRES: its code is not 0.
Status FromRpc(const google::rpc::Status& rpc);

/// In Status::retry_after: the server forbids a retry.
inline constexpr std::chrono::milliseconds kDoNotRetry{-1};

/// Returns the status of a call that has ended, with the reason and field of
/// the details in grpc-status-details-bin, if there are any, and the delay of
/// its RetryInfo, or else of grpc-retry-pushback-ms: 0 .. 1 day, or kDoNotRetry
/// if the latter says so.
Status FromGrpc(const grpc::Status& grpc, const grpc::ClientContext& context);

}  // namespace topk
