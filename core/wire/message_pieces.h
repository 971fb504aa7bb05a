// A message's bytes for the wire, without a copy of its tensor.
#pragma once

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topk/v1/topk.pb.h"

namespace topk {

/// A part of a message's bytes: owned, or borrowed from the object that the
/// message is written from. One of the two is empty.
struct MessagePiece {
  std::string own;
  std::span<const std::byte> borrowed;
};

/// Appends a number as protobuf has it.
void AppendVarint(uint64_t number, std::string& to);

/// Appends what stands before the bytes of a field of bytes, text or a message.
void BeginField(int number, size_t size, std::string& to);

/// Returns a message's bytes in order; large fields are borrowed from
/// the message, which must not change while they are in use.
std::vector<MessagePiece> PiecesOf(
    const google::protobuf::MessageLite& message);

/// Returns the bytes of a request whose tensor, which has no source in the
/// header, has this data.
std::vector<MessagePiece> PiecesOf(const v1::TopKRequest& header,
                                   std::span<const std::byte> tensor);

/// Returns the bytes of a message that has one field, of bytes.
std::vector<MessagePiece> PiecesOf(int field, std::span<const std::byte> data);

}  // namespace topk
