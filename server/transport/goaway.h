// Telling the clients of all connections to take their next calls elsewhere.
#pragma once

#include <grpcpp/server.h>

namespace topk {

/// Sends GOAWAY on all connections of now, as HTTP/2 wants it: calls that cross
/// it are still taken and served, later ones go to another connection, without
/// an error. Returns whether this gRPC can.
///
/// gRPC's own Shutdown() sends it too, but drops the calls that cross it, with
/// CANCELLED (its issue 24237).
bool SendGoaways(grpc::Server& server);

}  // namespace topk
