// Zero-copy messages: requests whose tensor stays in gRPC's receive buffers,
// and responses that are sent from the memory they were computed in.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/checked.h"
#include "core/base/status.h"
#include "core/wire/message_pieces.h"
#include "inference/grpc_service.pb.h"
#include "proto/library_versions.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// A tensor's data in pieces of any length.
using Pieces = std::span<const std::span<const std::byte>>;

/// A request, or a chunk of a stream, whose tensor's data is not copied.
template <class Message>
struct RawMessage {
  /// The message; its tensor's data is empty if `data` is not.
  Message message;
  /// The tensor's data: views into the slices.
  std::vector<std::span<const std::byte>> data;
  /// Keeps the data alive.
  std::vector<grpc::Slice> slices;
};

/// A request of the Open Inference Protocol whose raw contents are not copied.
struct RawInfer {
  /// The arena outlives it.
  explicit RawInfer(google::protobuf::Arena& arena)
      : message(NewMessage<inference::ModelInferRequest>(arena)) {}

  /// The message without its raw contents.
  inference::ModelInferRequest& message;
  /// The raw contents, each in pieces: views into the slices or the message.
  std::vector<std::vector<std::span<const std::byte>>> contents;
  /// Keeps the contents alive.
  std::vector<grpc::Slice> slices;
};

/// Returns the INVALID_ARGUMENT status for bytes that do not parse as the
/// method's message.
Status MalformedMessage();

/// The thread that reads a message. A poller stops if reading would take more
/// than about 10 us; a worker then reads the message from its start.
enum class Reader { kPoller, kWorker };

/// The limit of a message without its tensor's data, in bytes. It is low
/// because two bytes on the wire can take a hundred bytes of memory once
/// parsed.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 10;
/// The limit of a message without its tensor's data if a poller reads it.
inline constexpr int64_t kMaxPollerBytes = int64_t{4} << 10;
/// The limit of the typed contents of an inference's inputs, in bytes.
inline constexpr int64_t kMaxTypedBytes = int64_t{8} << 20;

/// Charges an upper bound of the memory that parsing will take, in bytes.
/// Reading ends if it does not return OK.
using ChargeParsed = std::function<Status(Size bytes)>;

/// Reads a message exactly as the generated parser does, except that the
/// tensor's data is not copied. Returns nothing if that takes too long for a
/// poller. INVALID_ARGUMENT if the message is malformed; RESOURCE_EXHAUSTED if
/// it has more than kMaxParsedBytes without its data. `bytes` is not modified;
/// `to` shares its slices.
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
