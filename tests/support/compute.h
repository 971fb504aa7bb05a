// Runs requests in a single call.
#pragma once

#include <cstdint>
#include <span>

#include "core/engine.h"

namespace topk::testing {

/// Runs a plan on a tensor in one chunk.
inline Execution RunWhole(const PreparedPlan& prepared,
                          std::span<const std::byte> tensor,
                          const Outputs& outputs) {
  return prepared.Run(std::span(&tensor, 1), outputs, nullptr);
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

inline Result<TensorStream> StartStream(
    const Engine& engine, const v1::TopKRequest& header,
    const Cancellation* cancellation = nullptr) {
  Result<PreparedRequest> prepared = engine.PrepareStream(header);
  if (!prepared.ok()) return prepared.status();
  return TensorStream::Start(engine, *std::move(prepared), cancellation);
}

}  // namespace topk::testing
