// Serializes messages without copying their tensors.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk {

/// A part of a serialized message. The bytes are either owned by the piece, or
/// borrowed from the serialized object. The unused member is empty.
struct MessagePiece {
  std::string own;
  std::span<const std::byte> borrowed;
};

/// Appends a number as a protobuf varint.
void AppendVarint(uint64_t number, std::string& to);

/// Appends the tag and the length of a field of type bytes, string or message.
void BeginField(int number, size_t size, std::string& to);

/// Serializes a message as a sequence of pieces, which borrow large fields from
/// `message`. `message` must not change while the pieces are in use.
std::vector<MessagePiece> PiecesOf(
    const google::protobuf::MessageLite& message);

/// Serializes the request `header`, with the bytes in `tensor` as tensor data.
/// REQUIRES: Tensor.source is not set in `header`.
std::vector<MessagePiece> PiecesOf(const v1::TopKRequest& header,
                                   std::span<const std::byte> tensor);

/// Serializes a message that has only one field, of type bytes.
std::vector<MessagePiece> PiecesOf(int field, std::span<const std::byte> data);

}  // namespace topk
