// Runs requests in a single call, and feeds data in pieces.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/engine.h"

namespace topk::testing {

inline Execution RunWhole(const PreparedPlan& prepared,
                          std::span<const std::byte> tensor,
                          const Outputs& outputs,
                          const Cancellation* cancellation = nullptr) {
  return prepared.Run(std::span(&tensor, 1), outputs, cancellation);
}

/// Returns the length of the next piece, which may be 0.
using NextPiece = std::function<size_t()>;

/// Feeds data in pieces. The last piece is whatever remains. Each piece is a
/// separate copy, to detect reads past its end and after the call.
template <class Feed>
Status FeedInPieces(const std::string& data, const NextPiece& next,
                    const Feed& feed) {
  auto rest = std::as_bytes(std::span(data));
  while (!rest.empty()) {
    const auto piece = rest.first(std::min(rest.size(), next()));
    const std::vector<std::byte> copy(piece.begin(), piece.end());
    if (Status s = feed(std::span(copy)); !s.ok()) return s;
    rest = rest.subspan(piece.size());
  }
  return {};
}

inline void FoldInPieces(const std::string& data, const NextPiece& next,
                         Fold& fold) {
  (void)FeedInPieces(data, next, [&](std::span<const std::byte> piece) {
    fold.Feed(piece);
    return Status();
  });
}

/// Prepares and runs a request whose data is in `chunks`.
inline Result<v1::TopKResponse> Compute(
    const Engine& engine, const v1::TopKRequest& request, Chunks chunks,
    const Cancellation* cancellation = nullptr) {
  int64_t bytes = 0;
  for (const auto& chunk : chunks) bytes += static_cast<int64_t>(chunk.size());
  const auto prepared = engine.Prepare(request, bytes, chunks.size());
  if (!prepared.ok()) return prepared.status();
  return engine.Run(*prepared, chunks, cancellation);
}

/// Prepares and runs a request that contains its data.
inline Result<v1::TopKResponse> Compute(const Engine& engine,
                                        const v1::TopKRequest& request) {
  return engine.Compute(request,
                        std::as_bytes(std::span(request.tensor().data())));
}

inline Result<std::unique_ptr<TensorStream>> StartStream(
    const Engine& engine, const v1::TopKRequest& header,
    const Cancellation* cancellation = nullptr) {
  Result<PreparedRequest> prepared = engine.PrepareStream(header);
  if (!prepared.ok()) return prepared.status();
  return TensorStream::Start(engine, *std::move(prepared), cancellation);
}

}  // namespace topk::testing
