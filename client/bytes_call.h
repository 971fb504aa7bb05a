// Blocking RPCs on raw bytes.
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
#include "core/common/message_pieces.h"
#include "topk/status.h"

namespace topk {

/// Callbacks that produce the messages to send on a stream and consume the
/// received messages.
struct StreamHandlers {
  struct Message {
    std::vector<MessagePiece> pieces;
    /// Whether another message follows immediately. If so, gRPC may buffer this
    /// message.
    bool more = false;
  };
  /// Returns the next message, or nullopt after the last message.
  std::function<std::optional<Message>()> next;
  /// Consumes a message from the server. Returning an error ends the call.
  std::function<Status(grpc::ByteBuffer&)> receive;
};

/// Sends one message, receives one message, and returns the call's status.
/// `request` may be freed after this function returns. `prepare` sets the
/// call's metadata and deadline. `stop` cancels the call.
Status CallUnary(grpc::GenericStub& stub, const std::string& method,
                 Memory memory, const std::vector<MessagePiece>& request,
                 const std::function<void(grpc::ClientContext&)>& prepare,
                 const std::stop_token& stop, grpc::ByteBuffer& answer);

/// Like CallUnary(), but sends and receives streams of messages concurrently
/// until the server ends the call.
Status CallStream(grpc::GenericStub& stub, const std::string& method,
                  Memory memory, const StreamHandlers& handlers,
                  const std::function<void(grpc::ClientContext&)>& prepare,
                  const std::stop_token& stop);

/// Parses a message from the server. Returns BAD_ANSWER if it is malformed.
Status ReadAnswer(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message);

}  // namespace topk
