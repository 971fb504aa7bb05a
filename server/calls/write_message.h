// Responses that are sent from the memory they were computed in.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/wire/message_pieces.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns the pieces as one buffer. Borrowed pieces are copied if all pieces
/// together are small; otherwise the buffer keeps `owner` alive.
grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner);

/// Returns a message's bytes. Slices of large fields point into the message and
/// keep it alive.
grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message);
template <class Message>
grpc::ByteBuffer WriteMessage(Message message) {
  return WriteShared(std::make_shared<const Message>(std::move(message)));
}

/// Returns the bytes of a message as one slice, which keeps nothing else alive.
grpc::ByteBuffer CopyMessage(const google::protobuf::Message& message);

/// Returns the messages of StreamTopK's response: one message if its data is at
/// most 1 MiB, else a header without data, chunks of values, chunks of indices.
std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer);

}  // namespace topk
