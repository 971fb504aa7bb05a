// Memory of a caller's that gRPC sends from.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/wire/message_pieces.h"

namespace topk {

/// Knows what gRPC has of a caller's memory. A call that was cancelled ends
/// before its bytes have left the connection's buffers, so whoever lends must
/// wait for their return.
class LentMemory {
 public:
  /// Returns the pieces as slices: those that are lent point to where they are.
  grpc::ByteBuffer Lend(const std::vector<MessagePiece>& pieces);

  /// Returns when gRPC has given all back: the call and its context are gone.
  /// Lets gRPC work meanwhile, on the call's queue.
  void AwaitReturn(grpc::CompletionQueue& queue) const;

 private:
  std::atomic<int64_t> out_ = 0;
};

}  // namespace topk
