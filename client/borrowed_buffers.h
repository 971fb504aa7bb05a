// Lets gRPC send the caller's memory without copying it.
#pragma once

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/common/message_pieces.h"

namespace topk {

/// Whether gRPC sends the caller's memory or a copy of it.
enum class Memory { kBorrowed, kCopied };

/// Tracks the buffers that gRPC has borrowed from the caller. gRPC may still
/// read from them after a cancelled call has ended, so the caller must not
/// change or free them before AwaitReturn() returns.
class BorrowedBuffers {
 public:
  explicit BorrowedBuffers(Memory memory) : memory_(memory) {}

  /// Returns a buffer with the bytes of all pieces. Borrowed pieces are not
  /// copied, unless this object was created with Memory::kCopied.
  grpc::ByteBuffer Wrap(const std::vector<MessagePiece>& pieces);

  /// Polls `queue` until gRPC has released all buffers. REQUIRES: the RPC and
  /// its ClientContext have been destroyed.
  void AwaitReturn(grpc::CompletionQueue& queue) const;

 private:
  const Memory memory_;
  std::atomic<int64_t> out_ = 0;
};

}  // namespace topk
