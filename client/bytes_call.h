// Calls of bytes, by the thread that calls.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "client/borrowed_buffers.h"
#include "core/base/status.h"
#include "core/wire/message_pieces.h"

namespace topk {

/// Produces the messages that a stream sends and consumes those it receives.
struct StreamHandlers {
  /// A message of the client's.
  struct Message {
    std::vector<MessagePiece> pieces;
    /// Another one follows at once: this one may wait for it.
    bool more = false;
  };
  /// Returns the next message, or nothing after the last.
  std::function<std::optional<Message>()> next;
  /// Takes a message of the server's. An error ends the call.
  std::function<Status(grpc::ByteBuffer&)> receive;
};

/// Sends one message and receives one, in place, and returns the call's status.
/// Memory borrowed by the pieces is no longer used after the return. `prepare`
/// sets the call's deadline; `stop` cancels it.
Status CallUnary(grpc::GenericStub& stub, const std::string& method,
                 Memory memory, const std::vector<MessagePiece>& request,
                 const std::function<void(grpc::ClientContext&)>& prepare,
                 const std::stop_token& stop, grpc::ByteBuffer& answer);

/// Sends and receives at the same time until the server ends the call; the same
/// otherwise.
Status CallStream(grpc::GenericStub& stub, const std::string& method,
                  Memory memory, const StreamHandlers& handlers,
                  const std::function<void(grpc::ClientContext&)>& prepare,
                  const std::stop_token& stop);

/// Reads a message of the server's. BAD_ANSWER if it is not one, or has more
/// than `max_bytes` bytes.
Status ReadAnswer(grpc::ByteBuffer& bytes, int64_t max_bytes,
                  google::protobuf::MessageLite& message);

}  // namespace topk
