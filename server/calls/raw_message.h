// Requests whose tensor stays in gRPC's receive buffers.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/checked.h"
#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "proto/library_versions.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A tensor's data in pieces of any length.
using Pieces = std::span<const std::span<const std::byte>>;

/// A request, or a chunk of a stream, whose tensor's data is not copied.
template <class Message>
struct RawMessage {
  /// The message. The field of the tensor's data is set but empty.
  Message message;
  /// The tensor's data: views into the bytes that were read.
  std::vector<std::span<const std::byte>> data;
};

/// A request of the Open Inference Protocol whose raw contents are not copied.
struct RawInfer {
  /// `arena` must outlive this object.
  explicit RawInfer(google::protobuf::Arena& arena)
      : message(NewMessage<inference::ModelInferRequest>(arena)) {}

  /// The message without its raw contents.
  inference::ModelInferRequest& message;
  /// The first raw contents: views into the bytes that were read. Inputs X and
  /// K take one each; further contents are only counted.
  std::array<std::vector<std::span<const std::byte>>, 2> contents;
  /// The number of raw contents in the message.
  size_t content_count = 0;
};

/// Returns the INVALID_ARGUMENT status for bytes that do not parse as the
/// method's message.
Status MalformedMessage();

/// The thread that reads a message. A poller stops if the message has too many
/// slices or fields; a worker then reads the message from its start.
enum class Reader { kPoller, kWorker };

/// The limit of a message without its tensor's data, in bytes. It is low
/// because two bytes on the wire can take a hundred bytes of memory once
/// parsed.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 10;
/// The limit of a message without its tensor's data if a poller reads it.
inline constexpr int64_t kMaxPollerBytes = int64_t{4} << 10;
/// The limit of the packed typed contents of an inference's inputs, in bytes.
inline constexpr int64_t kMaxTypedBytes = int64_t{8} << 20;
/// The memory of a parsed message that is not charged, in bytes. Most requests
/// need less.
inline constexpr int64_t kUnchargedBytes = int64_t{2} << 10;

/// Charges an upper bound of the memory that reading will take, in bytes.
/// Called before the memory is allocated, repeatedly for large messages.
/// Reading ends if it does not return OK.
using ChargeParsed = std::function<Status(Size bytes)>;

/// Reads a message as the generated parser does, except that the tensor's data
/// is not copied and unknown fields are dropped. Takes time linear in the
/// number of bytes to parse, of slices and of fields. Returns nothing if that
/// is too long for a poller. INVALID_ARGUMENT if the message is malformed;
/// RESOURCE_EXHAUSTED if it has more than kMaxParsedBytes without its data.
/// `bytes` is not modified and must outlive `to`.
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequest>& to);
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequestChunk>& to);

/// Reads a request of the Open Inference Protocol. Also RESOURCE_EXHAUSTED for
/// more than kMaxTypedBytes of typed contents.
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge, RawInfer& to);

/// Reads a message that holds no tensor. INVALID_ARGUMENT if it is not valid,
/// RESOURCE_EXHAUSTED if it has more than kMaxParsedBytes.
Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to);

/// Returns the number of gRPC's slices of a message. Takes constant time.
int64_t CountSlices(grpc::ByteBuffer& bytes);
/// The memory of a slice: gRPC's entry, and ours in vectors of pieces, which
/// grow.
inline constexpr int64_t kSliceMemory = 128;

/// Copies a message that has to wait if its slices are small: each slice keeps
/// one of gRPC's receive blocks of up to 64 KiB allocated. No-op for more
/// slices than a poller may visit.
void Compact(grpc::ByteBuffer& bytes);

}  // namespace topk
