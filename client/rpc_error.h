// Converts servers' errors to Status.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "google/rpc/status.pb.h"
#include "topk/status.h"

namespace topk {

/// Status::reason of the UNAVAILABLE error for an incomplete response. Only
/// clients create this error.
inline constexpr char kBrokeOff[] = "ANSWER_BROKE_OFF";

/// Converts an error received in a message, including the reason and the field
/// in its details. REQUIRES: rpc.code() is not 0.
Status FromRpc(const google::rpc::Status& rpc);

/// Returns the status of a finished call, with the reason, the field and the
/// retry delay from grpc-status-details-bin, if any. If the details have no
/// delay, the delay is that of grpc-retry-pushback-ms, which HAProxy sends.
Status FromGrpc(const grpc::Status& grpc, const grpc::ClientContext& context);

}  // namespace topk
