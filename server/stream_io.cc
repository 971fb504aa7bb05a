#include "server/stream_io.h"

#include <chrono>
#include <string>
#include <utility>

namespace topk {
namespace {

// An answer up to this size comes whole in the header, a larger one in pieces
// of it. Measured: 1 MiB messages move bytes fastest.
constexpr size_t kPieceBytes = size_t{1} << 20;

Status Cancelled() {
  return {Code::kCancelled, "CANCELLED", "", "the client cancelled the call"};
}

// Takes a tensor's data out of it, so that its source is unset.
std::string TakeData(v1::Tensor& tensor) {
  std::string data = std::move(*tensor.mutable_data());
  tensor.clear_data();
  return data;
}

// Sends a tensor's data in pieces; `set` puts one into its field. False once
// the client is gone.
template <class Set>
bool SendPieces(ChunkStream& stream, const std::string& data, const Set& set) {
  v1::TopKResponseChunk chunk;
  for (size_t begin = 0; begin < data.size(); begin += kPieceBytes) {
    set(chunk, data.substr(begin, kPieceBytes));
    if (!stream.Write(chunk)) return false;
  }
  return true;
}

bool SendInPieces(ChunkStream& stream, v1::TopKResponse answer) {
  std::string values;
  std::string indices;
  if (answer.has_values()) values = TakeData(*answer.mutable_values());
  if (answer.has_indices()) indices = TakeData(*answer.mutable_indices());
  v1::TopKResponseChunk chunk;
  *chunk.mutable_header() = std::move(answer);
  return stream.Write(chunk) &&
         SendPieces(stream, values,
                    [](v1::TopKResponseChunk& to, std::string piece) {
                      to.set_values(std::move(piece));
                    }) &&
         SendPieces(stream, indices,
                    [](v1::TopKResponseChunk& to, std::string piece) {
                      to.set_indices(std::move(piece));
                    });
}

}  // namespace

Status CheckAlive(const grpc::ServerContext& context) {
  if (!context.IsCancelled()) return {};
  if (context.deadline() <= std::chrono::system_clock::now()) {
    return {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED", "",
            "the call's deadline has passed"};
  }
  return Cancelled();
}

Status ReadHeader(const grpc::ServerContext& context, ChunkStream& stream,
                  v1::TopKRequest& header) {
  RawMessage<v1::TopKRequestChunk> raw;
  const Result<bool> read = ReadMessage(context, stream, raw);
  if (!read.ok()) return read.status();
  v1::TopKRequestChunk& chunk = raw.message;
  if (!chunk.has_header()) {
    return InvalidArgument(
        "HEADER_MISSING",
        chunk.has_data() || !raw.data.empty() ? "data" : "header",
        "the first message of a stream must be the header");
  }
  header = std::move(*chunk.mutable_header());
  return {};
}

Status FeedAll(const grpc::ServerContext& context, ChunkStream& stream,
               TensorStream& tensor, int64_t& tensor_bytes) {
  RawMessage<v1::TopKRequestChunk> raw;
  const v1::TopKRequestChunk& chunk = raw.message;
  while (true) {
    const Result<bool> read = ReadMessage(context, stream, raw);
    if (!read.ok()) return read.status();
    if (!*read) return {};
    for (const auto& piece : raw.data) {
      tensor_bytes += static_cast<int64_t>(piece.size());
      if (Status s = tensor.Feed(piece); !s.ok()) return s;
    }
    if (!raw.data.empty()) continue;
    if (chunk.has_header()) {
      return InvalidArgument("HEADER_REPEATED", "header",
                             "a stream has one header, its first message");
    }
    if (!chunk.has_data()) {
      return InvalidArgument("DATA_MISSING", "data",
                             "a message after the header must be data");
    }
    const std::string& data = chunk.data();
    tensor_bytes += static_cast<int64_t>(data.size());
    if (Status s = tensor.Feed(std::as_bytes(std::span(data))); !s.ok()) {
      return s;
    }
  }
}

Status SendAnswer(ChunkStream& stream, v1::TopKResponse answer) {
  bool sent = false;
  if (answer.values().data().size() + answer.indices().data().size() <=
      kPieceBytes) {
    v1::TopKResponseChunk chunk;
    *chunk.mutable_header() = std::move(answer);
    sent = stream.Write(chunk);
  } else {
    sent = SendInPieces(stream, std::move(answer));
  }
  return sent ? Status{} : Cancelled();
}

}  // namespace topk
