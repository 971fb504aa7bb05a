// One call, and what came of it.
#pragma once

#include <string>

#include "tests/integration/rpc_status.h"
#include "tests/support/test_server.h"

namespace topk::testing {

/// The result of a call.
struct Asked {
  grpc::Status status;
  v1::TopKResponse response;

  std::string reason() const { return DetailsOf(status).info.reason(); }
  std::string field() const {
    return DetailsOf(status).info.metadata().at("field");
  }
};

/// Asks a server by ComputeTopK.
inline Asked Ask(v1::TopKService::Stub& stub, const v1::TopKRequest& request) {
  grpc::ClientContext context;
  Asked asked;
  asked.status = stub.ComputeTopK(&context, request, &asked.response);
  return asked;
}

/// Calls the server on a new connection.
inline Asked Ask(const TestServer& server, const v1::TopKRequest& request) {
  return Ask(*server.Stub(), request);
}

}  // namespace topk::testing
