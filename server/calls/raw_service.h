// topk.v1.TopKService as gRPC sees it: methods whose messages are bytes.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include "core/wire/methods.h"
#include "topk/v1/topk.grpc.pb.h"

namespace topk {

/// What each method is taken for: any number of messages either way. On the
/// wire a unary call is one of each.
using RawStream =
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

/// The service without handlers, its messages as the bytes that they are: the
/// generated ones would be parsed, and their tensors copied, before anyone sees
/// them, and the answers after. Its unary methods are streams, so that a call
/// is here with its headers, and its body is read when it is asked for: gRPC's
/// own unary calls come with their whole body, or nobody hears of them.
class RawService final : public v1::TopKService::Service {
 public:
  RawService();

  /// Waits for a call of a method; `tag` comes out of the queue with it.
  void Request(Method method, grpc::ServerContext& context, RawStream& stream,
               grpc::ServerCompletionQueue& queue, void* tag);
};

}  // namespace topk
