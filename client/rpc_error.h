// The errors of servers, decoded.
#pragma once

#include <grpcpp/support/status.h>

#include "core/base/status.h"
#include "google/rpc/status.pb.h"

namespace topk {

/// The reason of an answer that broke off, UNAVAILABLE, which no server gives.
inline constexpr char kBrokeOff[] = "ANSWER_BROKE_OFF";

/// Returns an error in a message with the reason and field of its details.
/// REQUIRES: its code is not 0.
Status FromRpc(const google::rpc::Status& rpc);

/// Returns the status of a call, with the reason and field of the details that
/// came in grpc-status-details-bin, if any.
Status FromGrpc(const grpc::Status& grpc);

}  // namespace topk
