// Converts between TopK messages and the wire format of a protocol. All other
// code is shared by the protocols; see request.h.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "core/base/status.h"
#include "server/calls/raw_message.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Parses one request and serializes its response.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Parses `message`, which must outlive `to`. Returns the result of
  /// ReadRaw(), or a protocol error. After an error, `to` holds the fields that
  /// Record() and WriteError() report, if they could be parsed.
  virtual StepStatus Read(grpc::ByteBuffer& message, Reader reader,
                          const ChargeParsed& charge,
                          RawMessage<v1::TopKRequest>& to) = 0;

  /// Returns the serialized response.
  virtual grpc::ByteBuffer Write(
      std::shared_ptr<v1::TopKResponse> response) = 0;

  /// Returns the serialized error. Used by methods whose stream continues after
  /// an error.
  virtual grpc::ByteBuffer WriteError(const Status& status,
                                      const v1::TopKRequest& request) {
    (void)status, (void)request;
    return {};
  }

  /// Translates an engine error into the protocol's terms. REQUIRES: Read()
  /// returned OK.
  virtual Status Translate(Status status) const { return status; }

  /// Updates the protocol's metrics when a request ends.
  virtual void Record(const RequestStats& stats, bool ok) {
    (void)stats, (void)ok;
  }
};

}  // namespace topk
