// Parses requests, but leaves the tensor data in gRPC's receive buffers.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/checked.h"
#include "inference/grpc_service.pb.h"
#include "proto/library_versions.h"
#include "topk/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A request, or a chunk of a stream, whose tensor data is not copied.
template <class Message>
struct ParsedMessage {
  /// The parsed message. Its field for the tensor data is set but empty.
  Message message;
  /// The tensor data, as views of the received bytes.
  std::vector<std::span<const std::byte>> data;
};

/// A request of the Open Inference Protocol whose raw contents are not copied.
struct ParsedInfer {
  /// `arena` must outlive this object.
  explicit ParsedInfer(google::protobuf::Arena& arena)
      : message(NewMessage<inference::ModelInferRequest>(arena)) {}

  /// The message without raw_input_contents.
  inference::ModelInferRequest& message;
  /// The first two entries of raw_input_contents, as views of the received
  /// bytes. They are for the inputs X and K. Further entries are only counted.
  std::array<std::vector<std::span<const std::byte>>, 2> contents;
  /// The number of entries in raw_input_contents.
  size_t content_count = 0;
};

/// Maximum size of a message without its tensor data, in bytes. The limit is
/// low because two bytes on the wire can need a hundred bytes of memory once
/// parsed.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 10;
/// Maximum total size of the packed typed contents of an inference request, in
/// bytes.
inline constexpr int64_t kMaxTypedBytes = int64_t{8} << 20;
/// A parsed message that needs at most this much memory does not count as in
/// flight. Most requests need less.
inline constexpr int64_t kUnchargedBytes = int64_t{8} << 10;

/// Adds `bytes`, the maximum memory that parsing allocates next, to the bytes
/// in flight. Called repeatedly for large messages. Parsing stops at an error.
using ChargeParsed = std::function<Status(Size bytes)>;

/// Reads a message like the generated parser, but does not copy the tensor data
/// and drops unknown fields, except those in nested messages of a few bytes.
/// Takes time linear in the number of parsed bytes, slices and fields. Returns
/// INVALID_ARGUMENT if the message is malformed, and RESOURCE_EXHAUSTED if the
/// message without its tensor data exceeds kMaxParsedBytes. `bytes` is not
/// modified and must outlive `to`.
template <class Message>  // v1::TopKRequest or v1::TopKRequestChunk
Status ParseMessage(grpc::ByteBuffer& bytes, const ChargeParsed& charge,
                    ParsedMessage<Message>& to);

/// Like ParseMessage() above, but for a request of the Open Inference Protocol.
/// Also returns RESOURCE_EXHAUSTED if the typed contents exceed kMaxTypedBytes.
Status ParseMessage(grpc::ByteBuffer& bytes, const ChargeParsed& charge,
                    ParsedInfer& to);

/// Reads a message without a tensor. Returns INVALID_ARGUMENT if the message is
/// malformed, and RESOURCE_EXHAUSTED if it exceeds kMaxParsedBytes.
Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to);

/// Returns the number of slices in the buffer. Takes constant time.
int64_t CountSlices(grpc::ByteBuffer& bytes);
/// Returns an upper bound on the memory overhead of the buffer's slices, not
/// counting their data. Takes constant time.
int64_t SliceMemory(grpc::ByteBuffer& bytes);

/// Copies a message into one slice if its slices are small. Call this before
/// queueing a message, because each slice keeps a gRPC receive block of up to
/// 64 KiB allocated. No-op if copying would take a polling thread too long.
void Compact(grpc::ByteBuffer& bytes);

}  // namespace topk
