// What a client is told whose bytes are no message.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

namespace topk {

/// Returns an interceptor factory that turns gRPC's status for a unary request
/// that it cannot parse, INTERNAL without a word, into INVALID_ARGUMENT with
/// the details of our other errors: INTERNAL stands for our own defects, and
/// alerts watch it. (Streaming requests: see ReadMessage().)
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeMalformedRequestStatus();

}  // namespace topk
