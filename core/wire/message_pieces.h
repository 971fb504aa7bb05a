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

/// A part of a serialized message: owned bytes, or bytes borrowed from the
/// object that is serialized. One of the two is empty.
struct MessagePiece {
  std::string own;
  std::span<const std::byte> borrowed;
};

/// Appends a number as a protobuf varint.
void AppendVarint(uint64_t number, std::string& to);

/// Appends the tag and the length of a field of type bytes, string or message.
void BeginField(int number, size_t size, std::string& to);

/// Returns the serialized message in order. Large fields are borrowed from
/// `message`, which must not change while they are in use.
std::vector<MessagePiece> PiecesOf(
    const google::protobuf::MessageLite& message);

/// Returns the serialized `header`, with the bytes of `tensor` as its tensor.
/// REQUIRES: the `source` field of the tensor in `header` is not set.
std::vector<MessagePiece> PiecesOf(const v1::TopKRequest& header,
                                   std::span<const std::byte> tensor);

/// Returns the serialized message whose only field is this field of type bytes.
std::vector<MessagePiece> PiecesOf(int field, std::span<const std::byte> data);

}  // namespace topk
