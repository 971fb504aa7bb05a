// The end of a server that loses no call.
#pragma once

#include <chrono>

#include "server/calls/grpc_server.h"
#include "server/services.h"

namespace topk {

/// Drains a server and returns when all calls have ended. Call it once. Each
/// step ends when its condition is true or its bound has passed:
///
/// 1. Announce: the health status is NOT_SERVING, calls are served. Ends after
///    `delay`, so that load balancers notice.
/// 2. Send GOAWAY on all connections and accept no more; calls that cross it
///    are served. Ends when no call has arrived for half a second; 2 s.
/// 3. Reject new calls, and end open streams with UNAVAILABLE and a retry
///    delay: ComputeTopKMany and ModelStreamInfer once the requests that they
///    have received are answered, StreamTopK if it has received nothing for
///    0.8 s. Ends when no call is in flight; `timeout`.
/// 4. Shut gRPC down. Ends when all connections are closed, which the server
///    does if no call arrives for a moment; `timeout`.
///
/// `timeout` is that of steps 2 to 4 together. Then the calls in flight are
/// cancelled.
void Drain(Services& services, GrpcServer& grpc,
           std::chrono::milliseconds delay, std::chrono::milliseconds timeout);

}  // namespace topk
