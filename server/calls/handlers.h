// Handlers of the compute methods, and the Codec interface for their protocols.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "server/calls/call.h"
#include "server/calls/parsed_message.h"
#include "server/calls/write_message.h"
#include "server/telemetry/request_stats.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

struct SharedState;

/// Converts between TopK messages and the wire format of a protocol: parses one
/// request and serializes its response. All other code is shared by the
/// protocols; see request.h. This class is the codec of ComputeTopK, whose
/// messages need no conversion.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Parses `message` into `to`. `message` must outlive `to`. Returns the
  /// result of ParseMessage(), or a protocol error. After an error of
  /// ParseMessage(), `to` is empty. After a protocol error, `to` holds the
  /// fields that Record() and WriteError() report.
  virtual Status Read(grpc::ByteBuffer& message, const ChargeParsed& charge,
                      ParsedMessage<v1::TopKRequest>& to) {
    return ParseMessage(message, charge, to);
  }

  /// Returns the serialized response.
  virtual grpc::ByteBuffer Write(std::shared_ptr<v1::TopKResponse> response) {
    return WriteShared(response);
  }

  /// Returns an error as a serialized message. Used by streams that continue
  /// after an error.
  virtual grpc::ByteBuffer WriteError(const Status& status,
                                      const v1::TopKRequest& request) {
    (void)status, (void)request;
    return {};
  }

  /// Translates an engine error, if any, into the protocol's terms. REQUIRES:
  /// Read() returned OK.
  virtual Status Translate(Status status) const { return status; }

  /// Updates the protocol's metrics when a request ends.
  virtual void Record(const RequestStats& stats, bool ok) {
    (void)stats, (void)ok;
  }
};

/// Returns the codec for one request.
using MakeCodec = std::function<std::unique_ptr<Codec>()>;

/// Returns a handler for ComputeTopK or ModelInfer, which send one response to
/// one request. In all functions of this file, `state` must outlive the call.
std::unique_ptr<CallHandler> MakeUnaryCall(SharedState& state, Call& call,
                                           std::unique_ptr<Codec> codec);

/// Returns a handler for StreamTopK, which receives the tensor and sends the
/// response in chunks.
std::unique_ptr<CallHandler> MakeStreamCall(SharedState& state, Call& call);

/// Returns a handler for ComputeTopKMany or ModelStreamInfer, which send one
/// response to each request, in order.
std::unique_ptr<CallHandler> MakeManyCall(SharedState& state, Call& call,
                                          MakeCodec make_codec);

}  // namespace topk
