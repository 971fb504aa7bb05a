#include "server/calls/write_message.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/deferred_free.h"
#include "core/base/happens_before.h"

namespace topk {
namespace {

// Messages up to this size are a single slice.
constexpr size_t kMinSlice = size_t{4} << 10;
// A streamed response up to this size is sent in the header message. A larger
// response is sent in pieces of this size. 1 MiB was the fastest size measured.
constexpr size_t kPieceBytes = size_t{1} << 20;
// Larger responses are freed on another thread, because a poller may have to
// free the responses of all calls of a connection at once.
constexpr size_t kDeferredBytes = size_t{1} << 20;

// Returns a slice that references `memory` and keeps `owner` alive.
grpc::Slice SliceOf(std::span<const std::byte> memory,
                    const std::shared_ptr<const void>& owner) {
  using Owner = std::shared_ptr<const void>;
  auto* const kept = new Owner(owner);
  AnnotateHappensBefore(kept);
  return {const_cast<std::byte*>(memory.data()), memory.size(),
          [](void* done) {
            AnnotateHappensAfter(done);
            delete static_cast<Owner*>(done);
          },
          kept};
}

// Returns a pointer that keeps `owner` alive. Large memory is freed on another
// thread, because a poller may release the last copy of the pointer.
std::shared_ptr<const void> FreedLater(
    std::vector<std::span<const std::byte>> borrowed,
    const std::shared_ptr<const void>& owner) {
  size_t size = 0;
  for (const auto& memory : borrowed) size += memory.size();
  if (size <= kDeferredBytes) return owner;
  struct Lender {
    std::shared_ptr<const void> owner;
    std::vector<std::span<const std::byte>> borrowed;
    size_t size;
    ~Lender() {
      if (owner.use_count() > 1 || size < kLargeBytes) return;
      for (const auto& memory : borrowed) {
        DropPages(const_cast<std::byte*>(memory.data()), memory.size());
      }
    }
  };
  return std::shared_ptr<const void>(
      new Lender{owner, std::move(borrowed), size}, [](Lender* done) {
        DeferFree(std::unique_ptr<Lender>(done), done->size);
      });
}

// Splits `data` into pieces and appends them to `messages` as field `number`.
void AppendPieces(int number, const std::shared_ptr<const std::string>& data,
                  std::vector<grpc::ByteBuffer>& messages) {
  if (data == nullptr) return;
  const auto all = std::as_bytes(std::span(*data));
  const std::shared_ptr<const void> owner = FreedLater({all}, data);
  for (size_t begin = 0; begin < all.size(); begin += kPieceBytes) {
    const size_t size = std::min(kPieceBytes, all.size() - begin);
    messages.push_back(
        WritePieces(PiecesOf(number, all.subspan(begin, size)), owner));
  }
}

}  // namespace

grpc::ByteBuffer WritePieces(const std::vector<MessagePiece>& pieces,
                             const std::shared_ptr<const void>& owner) {
  size_t size = 0;
  for (const auto& [own, borrowed] : pieces)
    size += own.size() + borrowed.size();
  if (size <= kMinSlice) {
    grpc_slice bytes = grpc_slice_malloc(size);
    uint8_t* to = GRPC_SLICE_START_PTR(bytes);
    for (const auto& [own, borrowed] : pieces) {
      for (const auto& part : {std::as_bytes(std::span(own)), borrowed}) {
        to = std::copy_n(reinterpret_cast<const uint8_t*>(part.data()),
                         part.size(), to);
      }
    }
    const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
    return {&slice, 1};
  }
  std::vector<std::span<const std::byte>> borrowed;
  borrowed.reserve(pieces.size());
  for (const MessagePiece& piece : pieces) borrowed.push_back(piece.borrowed);
  const std::shared_ptr<const void> lender =
      FreedLater(std::move(borrowed), owner);
  std::vector<grpc::Slice> slices;
  slices.reserve(pieces.size());
  for (const MessagePiece& piece : pieces) {
    slices.push_back(piece.borrowed.empty() ? grpc::Slice(piece.own)
                                            : SliceOf(piece.borrowed, lender));
  }
  return {slices.data(), slices.size()};
}

grpc::ByteBuffer WriteShared(
    const std::shared_ptr<const google::protobuf::Message>& message) {
  return message->ByteSizeLong() > kMinSlice
             ? WritePieces(PiecesOf(*message), message)
             : CopyMessage(*message);
}

grpc::ByteBuffer CopyMessage(const google::protobuf::Message& message) {
  grpc_slice bytes = grpc_slice_malloc(message.ByteSizeLong());
  static_cast<void>(
      message.SerializeWithCachedSizesToArray(GRPC_SLICE_START_PTR(bytes)));
  const grpc::Slice slice(bytes, grpc::Slice::STEAL_REF);
  return {&slice, 1};
}

std::vector<grpc::ByteBuffer> WriteChunks(v1::TopKResponse answer) {
  std::shared_ptr<const std::string> values;
  std::shared_ptr<const std::string> indices;
  if (answer.values().data().size() + answer.indices().data().size() >
      kPieceBytes) {
    // release_data() clears the field, so `header` will not include the data.
    if (answer.has_values()) {
      values.reset(answer.mutable_values()->release_data());
    }
    if (answer.has_indices()) {
      indices.reset(answer.mutable_indices()->release_data());
    }
  }
  v1::TopKResponseChunk header;
  *header.mutable_header() = std::move(answer);
  std::vector<grpc::ByteBuffer> messages = {WriteMessage(std::move(header))};
  AppendPieces(v1::TopKResponseChunk::kValuesFieldNumber, values, messages);
  AppendPieces(v1::TopKResponseChunk::kIndicesFieldNumber, indices, messages);
  return messages;
}

}  // namespace topk
