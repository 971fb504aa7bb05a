// A service as gRPC sees it: methods whose messages are bytes.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <span>

namespace topk {

/// Every method is handled as a bidirectional stream. On the wire a unary call
/// is a stream with one message in each direction.
using RawStream =
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// A service without handlers whose messages are raw bytes: generated messages
/// would be parsed and their tensors copied before a handler runs. Its unary
/// methods are streams, so that a call is delivered with its headers and the
/// server decides when to read the body: gRPC delivers its own unary calls only
/// once their whole body has arrived.
class RawService final : public grpc::Service {
 public:
  /// Its methods' paths, which outlive it.
  explicit RawService(std::span<const char* const> paths);

  /// Returns the path of a method.
  const char* path(size_t index) const { return paths_[index]; }

  /// Waits for a call of a method; `tag` comes out of the queue with it.
  void Request(int method, grpc::ServerContext& context, RawStream& stream,
               grpc::ServerCompletionQueue& queue, void* tag);

 private:
  const std::span<const char* const> paths_;
};

}  // namespace topk
