// Streams of messages that are bytes.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>

#include "tests/bench/service/caller.h"
#include "tests/bench/service/wire.h"

namespace topk::bench {

/// A method whose messages go both ways, on a channel.
class RawStreamMethod {
 public:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  RawStreamMethod(ChannelPtr channel, const char* name)
      : channel_(std::move(channel)),
        method_(name, grpc::internal::RpcMethod::BIDI_STREAMING, channel_) {}

  /// Begins a call; the context outlives it.
  std::unique_ptr<Stream> Open(grpc::ClientContext& context) const {
    Bound(context);
    using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer,
                                                              grpc::ByteBuffer>;
    return std::unique_ptr<Stream>(
        Factory::Create(channel_.get(), method_, &context));
  }

 private:
  const ChannelPtr channel_;
  const grpc::internal::RpcMethod method_;
};

}  // namespace topk::bench
