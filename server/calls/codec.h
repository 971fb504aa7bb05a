// A protocol of TopK requests: from bytes to a request, from a response to
// bytes. All else is common to the protocols, see request.h.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "core/base/status.h"
#include "server/calls/raw_message.h"
#include "server/telemetry/request_stats.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Reads one request and writes its response.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Reads a message, which must outlive `to`. Errors: those of ReadRaw() and
  /// of the protocol. After an error `to` holds the fields that Record() and
  /// WriteError() report, if they were read.
  virtual std::optional<Status> Read(grpc::ByteBuffer& message, Reader reader,
                                     const ChargeParsed& charge,
                                     RawMessage<v1::TopKRequest>& to) = 0;

  /// Returns the message of a response.
  virtual grpc::ByteBuffer Write(
      std::shared_ptr<v1::TopKResponse> response) = 0;

  /// Returns the message of an error, for methods that continue after errors.
  virtual grpc::ByteBuffer WriteError(const Status& status,
                                      const v1::TopKRequest& request) {
    (void)status, (void)request;
    return {};
  }

  /// Returns an error of the engine in the protocol's terms. REQUIRES: Read()
  /// returned OK.
  virtual Status Translate(Status status) const { return status; }

  /// Counts a request that has ended.
  virtual void Record(const RequestStats& stats, bool ok) {
    (void)stats, (void)ok;
  }
};

}  // namespace topk
