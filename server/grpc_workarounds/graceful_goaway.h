// Defect: grpc::Server::Shutdown() sends GOAWAY but drops the calls that cross
// it, with CANCELLED. No public function sends GOAWAY alone, so this one calls
// grpc_core::Server::SendGoaways(), which the library exports without a header.
// Versions: 1.51 to 1.83. Upstream: https://github.com/grpc/grpc/issues/24237
// Test: Drain.LosesNoCallOfABalancedClient (drain_test.cc).
// Delete when a public function sends GOAWAY, or Shutdown() serves what
// crosses.
#pragma once

#include <grpcpp/server.h>

namespace topk {

/// Sends a graceful GOAWAY on all open connections: the server still accepts
/// and serves calls that cross it, and clients send later ones elsewhere,
/// without an error. Returns false if this gRPC does not export the function.
bool SendGoaways(grpc::Server& server);

}  // namespace topk
