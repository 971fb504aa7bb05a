// Serializes responses without copying their large fields.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/common/message_pieces.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns the pieces as one buffer. If the total is small, copies the pieces.
/// Otherwise, the buffer refers to the memory of pieces that do not own it, and
/// keeps `owner` alive.
grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner);

/// Serializes a message. Slices of large fields point into the message and keep
/// it alive.
grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message);
template <class Message>
grpc::ByteBuffer WriteMessage(Message message) {
  return WriteShared(std::make_shared<const Message>(std::move(message)));
}

/// Serializes a message into a single slice that owns its memory.
grpc::ByteBuffer CopyMessage(const google::protobuf::Message& message);

/// Serializes a StreamTopK response. If its data is at most 1 MiB, returns one
/// message. Otherwise returns a header without data, then chunks of values,
/// then chunks of indices.
std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer);

}  // namespace topk
