// Authentication of the calls that gRPC's own services answer: reflection.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "server/security/authenticator.h"

namespace topk {

/// Returns what refuses the calls of all methods but of these, which see to it
/// themselves or are open to all, and of those that nobody serves, which gRPC
/// refuses. Set it before those that count statuses. The authenticator outlives
/// the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
MakeAuthInterceptorFactory(const Authenticator& authenticator,
                           std::vector<std::string> but);

}  // namespace topk
