// Calls any method with any bytes, valid or not.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace topk::testing {

struct RawAnswer {
  grpc::Status status;
  /// The unparsed response messages.
  std::vector<std::string> messages;
};

/// Calls a method of any kind, e.g. "/topk.v1.TopKService/ComputeTopK". Sends
/// the metadata, calls `meanwhile` unless empty, sends the messages, which must
/// be small, and then reads all responses, within 20 s.
RawAnswer RawCall(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const std::vector<std::string>& messages,
    const std::vector<std::pair<std::string, std::string>>& metadata = {},
    const std::function<void()>& meanwhile = {});

}  // namespace topk::testing
