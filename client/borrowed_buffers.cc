#include "client/borrowed_buffers.h"

#include <chrono>

namespace topk {

grpc::ByteBuffer BorrowedBuffers::Wrap(
    const std::vector<MessagePiece>& pieces) {
  std::vector<grpc::Slice> slices;
  for (const MessagePiece& piece : pieces) {
    if (piece.borrowed.empty()) {
      slices.emplace_back(piece.own);
      continue;
    }
    if (memory_ == Memory::kCopied) {
      slices.emplace_back(piece.borrowed.data(), piece.borrowed.size());
      continue;
    }
    ++out_;
    slices.emplace_back(
        const_cast<std::byte*>(piece.borrowed.data()), piece.borrowed.size(),
        [](void* out) { --*static_cast<std::atomic<int64_t>*>(out); }, &out_);
  }
  return {slices.data(), slices.size()};
}

void BorrowedBuffers::AwaitReturn(grpc::CompletionQueue& queue) const {
  while (out_ > 0) {
    void* tag = nullptr;
    bool ok = false;
    // No more events will arrive, but gRPC does its socket writes on the thread
    // that polls this queue, so keep polling.
    queue.AsyncNext(
        &tag, &ok,
        std::chrono::system_clock::now() + std::chrono::milliseconds(1));
  }
}

}  // namespace topk
