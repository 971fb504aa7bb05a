// Calls any method with any bytes, valid or not.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

namespace topk::testing {

struct RawAnswer {
  grpc::Status status;
  /// The unparsed response messages.
  std::vector<std::string> messages;
};

/// Calls a method of any kind, e.g. "/topk.v1.TopKService/ComputeTopK". Sends
/// the messages, which must be small, and then reads all responses, within 20
/// s.
RawAnswer RawCall(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& method,
                  const std::vector<std::string>& messages);

}  // namespace topk::testing
