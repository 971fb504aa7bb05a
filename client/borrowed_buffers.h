// Lets gRPC send the caller's memory without copying it.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/wire/message_pieces.h"

namespace topk {

/// Whether gRPC sends the caller's memory or a copy of it.
enum class Memory { kBorrowed, kCopied };

/// Tracks the buffers that gRPC has borrowed from the caller. A cancelled call
/// ends before its bytes have left the connection's buffers, so the caller must
/// wait for the buffers before it may change or free them.
class BorrowedBuffers {
 public:
  explicit BorrowedBuffers(Memory memory) : memory_(memory) {}

  /// Returns the pieces as slices. Borrowed pieces are not copied if the
  /// buffers are Memory::kBorrowed.
  grpc::ByteBuffer Wrap(const std::vector<MessagePiece>& pieces);

  /// Returns once gRPC has released all buffers. Call it after the call and its
  /// context are destroyed. While it waits, it polls `queue` for gRPC.
  void AwaitReturn(grpc::CompletionQueue& queue) const;

 private:
  const Memory memory_;
  std::atomic<int64_t> out_ = 0;
};

}  // namespace topk
