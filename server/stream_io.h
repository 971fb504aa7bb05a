// Messages in and out of the streaming calls.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include <cstdint>

#include "core/base/status.h"
#include "core/engine.h"
#include "server/raw_message.h"
#include "topk/v1/topk.pb.h"

namespace topk {

// Requests arrive as bytes and are parsed here: gRPC's own Read says the same,
// false, of a message that is not valid as of the end of the stream, and the
// client would be told that all is well.

/// The server's side of StreamTopK.
using ChunkStream =
    grpc::ServerReaderWriter<v1::TopKResponseChunk, grpc::ByteBuffer>;
/// The server's side of ComputeTopKMany.
using ManyStream = grpc::ServerReaderWriter<v1::TopKResult, grpc::ByteBuffer>;

/// Returns OK while the client waits; CANCELLED, or DEADLINE_EXCEEDED if that
/// is why, once it does not.
Status CheckAlive(const grpc::ServerContext& context);

/// Reads the next message. Returns false at the end of the stream;
/// INVALID_ARGUMENT for a message that is not valid, CheckAlive()'s status if
/// the call has ended.
template <class Stream, class Message>
Result<bool> ReadMessage(const grpc::ServerContext& context, Stream& stream,
                         RawMessage<Message>& message) {
  grpc::ByteBuffer bytes;
  if (!stream.Read(&bytes)) {
    if (Status s = CheckAlive(context); !s.ok()) return s;
    return false;
  }
  if (Status s = ReadRaw(bytes, message); !s.ok()) return s;
  return true;
}

/// Reads StreamTopK's first message. INVALID_ARGUMENT unless it is a header.
Status ReadHeader(const grpc::ServerContext& context, ChunkStream& stream,
                  v1::TopKRequest& header);

/// Feeds the messages after the header until the client has sent all, counting
/// their bytes. INVALID_ARGUMENT for a message that is not data, and as Feed.
Status FeedAll(const grpc::ServerContext& context, ChunkStream& stream,
               TensorStream& tensor, int64_t& tensor_bytes);

/// Sends an answer: whole if its data is at most 1 MiB, else a header without
/// data, then pieces of values, then pieces of indices. CANCELLED if the client
/// has gone.
Status SendAnswer(ChunkStream& stream, v1::TopKResponse answer);

}  // namespace topk
