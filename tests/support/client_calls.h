// Calls of messages through the C++ client.
#pragma once

#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <span>
#include <vector>

#include "topk/client.h"

namespace topk::testing {

/// Returns arguments for a client that shares no connection with others.
inline std::shared_ptr<grpc::ChannelArguments> OwnConnection() {
  auto arguments = std::make_shared<grpc::ChannelArguments>();
  arguments->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

inline Result<v1::TopKResponse> MessageOf(const Result<Response>& response) {
  if (!response.ok()) return response.status();
  return response->message();
}

/// Sends a request with its data in one message.
inline Result<v1::TopKResponse> ComputeUnary(const Client& client,
                                             const v1::TopKRequest& request,
                                             const CallOptions& options = {}) {
  return MessageOf(client.ComputeTopK(topk::Request(request), options));
}

inline Result<v1::TopKResponse> ComputeStream(const Client& client,
                                              const v1::TopKRequest& header,
                                              std::span<const std::byte> tensor,
                                              CallOptions options = {}) {
  options.stream = true;
  return MessageOf(client.ComputeTopK(topk::Request(header, tensor), options));
}

inline std::vector<Result<v1::TopKResponse>> ComputeMany(
    const Client& client, const std::vector<v1::TopKRequest>& messages,
    const CallOptions& options = {}) {
  const std::vector<topk::Request> requests(messages.begin(), messages.end());
  std::vector<Result<v1::TopKResponse>> results;
  (void)client.ComputeTopKMany(
      requests,
      [&](size_t, const Result<Response>& response) {
        results.push_back(MessageOf(response));
      },
      options);
  return results;
}

}  // namespace topk::testing
