// Messages whose tensor stays where gRPC received it, and answers that are sent
// from where they were computed.
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

/// A tensor's data, cut anywhere.
using Pieces = std::span<const std::span<const std::byte>>;

/// A request, or a chunk of a stream, with the tensor's data beside it.
template <class Message>
struct RawMessage {
  /// The message; its tensor's data is empty if `data` is not.
  Message message;
  /// The data, in pieces, cut anywhere: those of the slices that hold them.
  std::vector<std::span<const std::byte>> data;
  /// Keeps the data alive.
  std::vector<grpc::Slice> slices;
};

/// A request of the Open Inference Protocol with its raw contents beside it.
struct RawInfer {
  /// The arena outlives it.
  explicit RawInfer(google::protobuf::Arena& arena)
      : message(NewMessage<inference::ModelInferRequest>(arena)) {}

  /// The message; what its raw contents say is below.
  inference::ModelInferRequest& message;
  /// The raw contents, each in pieces: those of the slices, or of the message.
  std::vector<std::vector<std::span<const std::byte>>> contents;
  /// Keeps them alive.
  std::vector<grpc::Slice> slices;
};

/// Returns the INVALID_ARGUMENT status of bytes that are not the message that
/// the method takes.
Status MalformedMessage();

/// The thread that reads a message. A poller gives up where it would take
/// longer than some ten microseconds; a worker then reads the message again.
enum class Reader { kPoller, kWorker };

/// The limit of a message without its tensor's data, in bytes: two bytes can
/// become a hundred when they are parsed.
inline constexpr int64_t kMaxParsedBytes = int64_t{64} << 10;
/// The same for a poller.
inline constexpr int64_t kMaxPollerBytes = int64_t{4} << 10;
/// The limit of the typed contents of an inference's inputs, in bytes.
inline constexpr int64_t kMaxTypedBytes = int64_t{8} << 20;

/// Charges memory for what is to be parsed, an upper bound in bytes, before it
/// is; what is not OK ends the reading.
using ChargeParsed = std::function<Status(Size bytes)>;

/// Reads a message as the generated parser does, bytes for bytes: what is valid
/// and what it means do not depend on where its data is left. Returns nothing
/// if that takes too long for a poller. INVALID_ARGUMENT if it is not valid;
/// RESOURCE_EXHAUSTED if it has more than kMaxParsedBytes without its data. The
/// bytes stay as they are; `to` shares them.
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequest>& to);
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge,
                              RawMessage<v1::TopKRequestChunk>& to);

/// The same; also RESOURCE_EXHAUSTED for more than kMaxTypedBytes of typed
/// contents.
std::optional<Status> ReadRaw(grpc::ByteBuffer& bytes, Reader reader,
                              const ChargeParsed& charge, RawInfer& to);

/// Reads a message that holds no tensor. INVALID_ARGUMENT if it is not valid,
/// RESOURCE_EXHAUSTED if it has more than kMaxParsedBytes.
Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to);

/// Returns bytes in order. What is lent is copied if all are few, else kept by
/// its owner.
grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner);

/// Returns a message's bytes, with slices that point into its data, which they
/// keep, where that is large.
grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message);
template <class Message>
grpc::ByteBuffer WriteMessage(Message message) {
  return WriteShared(std::make_shared<const Message>(std::move(message)));
}

/// Returns the messages of StreamTopK's answer: the whole if its data is at
/// most 1 MiB, else a header without data, pieces of values, pieces of indices.
std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer);

}  // namespace topk
