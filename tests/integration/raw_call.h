// Calls with any bytes to any method: what no generated stub would send.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>
#include <vector>

namespace topk::testing {

/// The result of a raw call.
struct RawAnswer {
  grpc::Status status;
  /// The answers' messages, unparsed.
  std::vector<std::string> messages;
};

/// Calls a method, e.g. "/topk.v1.TopKService/ComputeTopK", of any kind: sends
/// the messages, small ones, then reads all answers. At most 20 s.
RawAnswer RawCall(const std::shared_ptr<grpc::Channel>& channel,
                  const std::string& method,
                  const std::vector<std::string>& messages);

}  // namespace topk::testing
