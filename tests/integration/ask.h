// Makes calls and returns their results.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/integration/rpc_status.h"
#include "tests/support/test_server.h"

namespace topk::testing {

struct CallResult {
  grpc::Status status;
  v1::TopKResponse response;

  std::string reason() const { return DetailsOf(status).info.reason(); }
  std::string field() const {
    return DetailsOf(status).info.metadata().at("field");
  }
};

/// Calls ComputeTopK.
inline CallResult Ask(v1::TopKService::Stub& stub,
                      const v1::TopKRequest& request) {
  grpc::ClientContext context;
  CallResult asked;
  asked.status = stub.ComputeTopK(&context, request, &asked.response);
  return asked;
}

/// Calls ComputeTopK on a new connection.
inline CallResult Ask(const TestServer& server,
                      const v1::TopKRequest& request) {
  return Ask(*server.Stub(), request);
}

inline CallResult Ask(const std::string& target,
                      const v1::TopKRequest& request) {
  return Ask(*v1::TopKService::NewStub(ConnectTo(target)), request);
}

/// Returns the header of a stream: the request without its data.
inline v1::TopKRequestChunk HeaderOf(const v1::TopKRequest& request) {
  v1::TopKRequestChunk chunk;
  *chunk.mutable_header() = request;
  chunk.mutable_header()->mutable_tensor()->clear_source();
  return chunk;
}

/// Returns the traceparent that the server sent, or "".
inline std::string ReturnedTrace(const grpc::ClientContext& context) {
  for (const auto* metadata : {&context.GetServerInitialMetadata(),
                               &context.GetServerTrailingMetadata()}) {
    const auto found = metadata->find("traceparent");
    if (found != metadata->end()) {
      return {found->second.data(), found->second.size()};
    }
  }
  return "";
}

/// A call of ComputeTopKMany.
class ManyCall {
 public:
  explicit ManyCall(const std::shared_ptr<grpc::Channel>& channel,
                    std::chrono::seconds timeout = std::chrono::seconds(60))
      : stub_(v1::TopKService::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    stream_ = stub_->ComputeTopKMany(&context_);
  }
  explicit ManyCall(const TestServer& server) : ManyCall(server.Connect()) {}
  explicit ManyCall(const std::string& target) : ManyCall(ConnectTo(target)) {}

  auto* operator->() { return stream_.get(); }
  grpc::ClientContext& context() { return context_; }

  /// Sends a request and returns its result.
  v1::TopKResult Ask(const v1::TopKRequest& request) {
    v1::TopKResult result;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&result));
    return result;
  }

  /// Half-closes the call and returns its status.
  grpc::Status Finish() {
    stream_->WritesDone();
    return stream_->Finish();
  }

 private:
  const std::unique_ptr<v1::TopKService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TopKRequest, v1::TopKResult>>
      stream_;
};

}  // namespace topk::testing
