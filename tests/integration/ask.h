// Makes calls and returns their results. Scrapes metrics.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/support/test_server.h"

namespace topk::testing {

/// The details that our errors carry. Absent details are default messages.
struct Details {
  google::rpc::Status status;
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::QuotaFailure quota;
  google::rpc::RetryInfo retry;
};

inline Details DetailsOf(const google::rpc::Status& status) {
  Details details;
  details.status = status;
  for (const google::protobuf::Any& any : status.details()) {
    // UnpackTo() ignores messages of other types.
    static_cast<void>(any.UnpackTo(&details.info));
    static_cast<void>(any.UnpackTo(&details.bad_request));
    static_cast<void>(any.UnpackTo(&details.quota));
    static_cast<void>(any.UnpackTo(&details.retry));
  }
  return details;
}

inline Details DetailsOf(const grpc::Status& status) {
  google::rpc::Status rpc;
  static_cast<void>(rpc.ParseFromString(status.error_details()));
  return DetailsOf(rpc);
}

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

template <class Response>
struct Answered {
  grpc::Status status;
  Response response;
};

/// The method of the reflection service.
inline constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Calls any unary method.
template <class Stub, class Request, class Response>
Answered<Response> CallUnary(
    Stub& stub,
    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                 Response*),
    const std::type_identity_t<Request>& request = {}) {
  Answered<Response> answered;
  grpc::ClientContext context;
  answered.status = (stub.*method)(&context, request, &answered.response);
  return answered;
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

struct RawAnswer {
  grpc::Status status;
  /// The unparsed response messages.
  std::vector<std::string> messages;
};

/// Waits for the only operation in flight. Returns whether it succeeded.
inline bool AwaitOperation(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

inline std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

/// Calls a method of any kind, e.g. "/topk.v1.TopKService/ComputeTopK". Sends
/// the metadata, calls `meanwhile` unless empty, sends the messages, which must
/// be small, and then reads all responses, within 20 s.
inline RawAnswer RawCall(const std::shared_ptr<grpc::Channel>& channel,
                         const std::string& method,
                         const std::vector<std::string>& messages,
                         const Metadata& metadata = {},
                         const std::function<void()>& meanwhile = {}) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  const auto call =
      grpc::GenericStub(channel).PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool open = AwaitOperation(queue);
  if (meanwhile) meanwhile();
  for (size_t i = 0; open && i < messages.size(); ++i) {
    const grpc::Slice slice(messages[i]);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = AwaitOperation(queue);
  }
  if (open) {
    call->WritesDone(nullptr);
    AwaitOperation(queue);
  }
  RawAnswer answer;
  grpc::ByteBuffer bytes;
  for (call->Read(&bytes, nullptr); AwaitOperation(queue);
       call->Read(&bytes, nullptr)) {
    answer.messages.push_back(Text(bytes));
  }
  call->Finish(&answer.status, nullptr);
  AwaitOperation(queue);
  queue.Shutdown();
  return answer;
}

inline ServerConfig WithMetrics() {
  ServerConfig config;
  config.metrics_listen = "127.0.0.1:0";
  return config;
}

inline std::string ScrapedText(TestServer& server) {
  return HttpGet(server.server().side_addresses().at("metrics"), "/metrics");
}

/// Returns the value of each series, e.g. "name{label=\"value\"}" or "name{}".
/// The test fails if a series occurs twice. tests/system/deploy checks the
/// format with promtool.
inline std::map<std::string, double> Scrape(TestServer& server) {
  std::map<std::string, double> samples;
  std::istringstream lines(ScrapedText(server));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.rfind(' ');
    std::string series = line.substr(0, space);
    if (!series.ends_with('}')) series += "{}";
    EXPECT_TRUE(samples.emplace(series, std::stod(line.substr(space))).second)
        << line;
  }
  return samples;
}

/// Scrapes the server. Returns the value of a series, or -1 if there is none.
inline double Value(TestServer& server, const std::string& series) {
  const std::map<std::string, double> samples = Scrape(server);
  const auto found = samples.find(series);
  return found == samples.end() ? -1 : found->second;
}

}  // namespace topk::testing
