// Memory of a caller's that gRPC sends from.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/wire/message_pieces.h"

namespace topk {

/// Whether gRPC sends from the caller's memory, or from a copy of it.
enum class Memory { kBorrowed, kCopied };

/// Knows what gRPC has of a caller's memory. A call that was cancelled ends
/// before its bytes have left the connection's buffers, so whoever lends must
/// wait for their return.
class BorrowedBuffers {
 public:
  explicit BorrowedBuffers(Memory memory) : memory_(memory) {}

  /// Returns the pieces as slices: those that are borrowed point to where they
  /// are, if that is how gRPC is to send them.
  grpc::ByteBuffer Wrap(const std::vector<MessagePiece>& pieces);

  /// Returns when gRPC has given all back: the call and its context are gone.
  /// Lets gRPC work meanwhile, on the call's queue.
  void AwaitReturn(grpc::CompletionQueue& queue) const;

 private:
  const Memory memory_;
  std::atomic<int64_t> out_ = 0;
};

}  // namespace topk
