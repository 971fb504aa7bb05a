// Makes calls and returns their results.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/rpc_status.h"
#include "tests/support/test_server.h"

namespace topk::testing {

/// Metadata of a call.
using Metadata = std::vector<std::pair<std::string, std::string>>;

inline std::string Returned(const grpc::ClientContext& context,
                            const char* name) {
  for (const auto* metadata : {&context.GetServerInitialMetadata(),
                               &context.GetServerTrailingMetadata()}) {
    const auto found = metadata->find(name);
    if (found != metadata->end()) {
      return {found->second.data(), found->second.size()};
    }
  }
  return "";
}

struct CallResult {
  grpc::Status status;
  v1::TopKResponse response;
  /// The server's metadata traceparent and grpc-retry-pushback-ms, or "".
  std::string traceparent;
  std::string pushback;

  std::string reason() const { return DetailsOf(status).info.reason(); }
  std::string field() const {
    return DetailsOf(status).info.metadata().at("field");
  }
};

/// Calls ComputeTopK.
inline CallResult Ask(v1::TopKService::Stub& stub,
                      const v1::TopKRequest& request,
                      const Metadata& metadata = {}) {
  grpc::ClientContext context;
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  CallResult asked;
  asked.status = stub.ComputeTopK(&context, request, &asked.response);
  asked.traceparent = Returned(context, "traceparent");
  asked.pushback = Returned(context, "grpc-retry-pushback-ms");
  return asked;
}

/// Calls ComputeTopK on a new connection.
inline CallResult Ask(const TestServer& server, const v1::TopKRequest& request,
                      const Metadata& metadata = {}) {
  return Ask(*server.Stub(), request, metadata);
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

/// A call of a bidirectional method.
template <class Request, class Response,
          std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> (
              v1::TopKService::Stub::*kMethod)(grpc::ClientContext*)>
class BidiCall {
 public:
  explicit BidiCall(
      const std::shared_ptr<grpc::Channel>& channel,
      const Metadata& metadata = {},
      std::chrono::milliseconds timeout = std::chrono::seconds(60))
      : stub_(v1::TopKService::NewStub(channel)) {
    for (const auto& [name, value] : metadata) {
      context_.AddMetadata(name, value);
    }
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    stream_ = (stub_.get()->*kMethod)(&context_);
  }
  explicit BidiCall(const TestServer& server) : BidiCall(server.Connect()) {}
  explicit BidiCall(const std::string& target) : BidiCall(ConnectTo(target)) {}

  auto* operator->() { return stream_.get(); }
  grpc::ClientContext& context() { return context_; }

  Response Ask(const Request& request) {
    Response result;
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
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

using ManyCall = BidiCall<v1::TopKRequest, v1::TopKResult,
                          &v1::TopKService::Stub::ComputeTopKMany>;
using StreamCall = BidiCall<v1::TopKRequestChunk, v1::TopKResponseChunk,
                            &v1::TopKService::Stub::StreamTopK>;

}  // namespace topk::testing
