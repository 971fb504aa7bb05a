// Messages whose tensor stays where gRPC received it, and answers that are sent
// from where they were computed.
#pragma once

#include <google/protobuf/arena.h>
#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "inference/grpc_service.pb.h"
#include "topk/v1/topk.pb.h"

namespace topk {

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

/// Returns a message whose parts, but for large ones, are one allocation: for
/// messages of many parts.
template <class Message>
std::shared_ptr<Message> MakeCompact() {
  using google::protobuf::Arena;
  google::protobuf::ArenaOptions options;
  options.start_block_size = size_t{4} << 10;
  const auto arena = std::make_shared<Arena>(options);
  return {arena, Arena::CreateMessage<Message>(arena.get())};
}

/// A request of the Open Inference Protocol with its raw contents beside it.
struct RawInfer {
  /// Keeps the message.
  std::shared_ptr<inference::ModelInferRequest> kept =
      MakeCompact<inference::ModelInferRequest>();
  /// The message; what its raw contents say is below.
  inference::ModelInferRequest& message = *kept;
  /// The raw contents, each in pieces: those of the slices, or of the message.
  std::vector<std::vector<std::span<const std::byte>>> contents;
  /// Keeps them alive.
  std::vector<grpc::Slice> slices;
};

/// Returns the size of a request's data, wherever that is.
int64_t DataBytes(const RawMessage<v1::TopKRequest>& request);

/// Returns the INVALID_ARGUMENT status of bytes that are not the message that
/// the method takes.
Status MalformedMessage();

/// Reads a message as the generated parser does, bytes for bytes: what is valid
/// and what it means do not depend on where its data is left. INVALID_ARGUMENT
/// if it is not valid. The bytes are the reader's from then on.
Status ReadRaw(grpc::ByteBuffer& bytes, RawMessage<v1::TopKRequest>& to);
Status ReadRaw(grpc::ByteBuffer& bytes, RawMessage<v1::TopKRequestChunk>& to);

/// The same; RESOURCE_EXHAUSTED if it has more than 8 MiB beside its raw
/// contents.
Status ReadRaw(grpc::ByteBuffer& bytes, RawInfer& to);

/// Reads a message that holds no tensor.
Status ReadMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& to);

/// Returns a message's bytes, with slices that point into its data, which they
/// keep, where that is large.
grpc::ByteBuffer WriteShared(
    std::shared_ptr<const google::protobuf::Message> message);
template <class Message>
grpc::ByteBuffer WriteMessage(Message message) {
  return WriteShared(std::make_shared<const Message>(std::move(message)));
}

/// Returns the messages of StreamTopK's answer: the whole if its data is at
/// most 1 MiB, else a header without data, pieces of values, pieces of indices.
std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer);

}  // namespace topk
