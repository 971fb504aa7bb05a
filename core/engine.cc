#include "core/engine.h"

#include <algorithm>
#include <chrono>

#include "core/answer.h"
#include "core/backends/registry.h"
#include "core/base/processors.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::nanoseconds(Clock::now() - start).count();
}

// Runs a plan on a tensor in pieces: folded over them, or put together first
// where that is faster.
Execution Run(const Backend& backend, const Plan& plan,
              std::span<const std::span<const std::byte>> pieces,
              const Outputs& outputs) {
  if (pieces.size() == 1) return backend.Run(plan, pieces[0], outputs);
  if (backend.FoldsWell(plan)) {
    const std::unique_ptr<Fold> fold = backend.Start(plan, outputs);
    auto left = static_cast<size_t>(plan.input.bytes);  // without padding
    for (const auto& piece : pieces) {
      const size_t size = std::min(left, piece.size());
      fold->Feed(piece.first(size));
      left -= size;
    }
    return fold->Finish();
  }
  std::vector<std::byte> whole;
  whole.reserve(static_cast<size_t>(plan.input.padded_bytes));
  for (const auto& piece : pieces) {
    whole.insert(whole.end(), piece.begin(), piece.end());
  }
  return backend.Run(plan, whole, outputs);
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : limits_(options.limits),
      backends_(MakeBackends(options.threads > 0 ? options.threads
                                                 : AvailableProcessors())) {}

Status Engine::CheckEnvironment() { return topk::CheckEnvironment(); }

Result<v1::TopKResponse> Engine::Compute(const v1::TopKRequest& request) const {
  const v1::Tensor& tensor = request.tensor();
  if (tensor.has_shared_memory()) {
    return Unimplemented("SHARED_MEMORY_NOT_ALLOWED", "tensor.shared_memory",
                         "this server does not use shared memory");
  }
  return Compute(request, std::as_bytes(std::span(tensor.data())));
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, std::span<const std::byte> tensor) const {
  return Compute(request, std::span(&tensor, 1));
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request,
    std::span<const std::span<const std::byte>> pieces) const {
  const Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += static_cast<int64_t>(piece.size());
  if (Status s = CheckPayload(*plan, bytes); !s.ok()) return s;
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response);
  const Clock::time_point start = Clock::now();
  const Execution execution = Run(Choose(*plan), *plan, pieces, outputs);
  SetExecution(execution, NanosecondsSince(start), response);
  return response;
}

const Backend& Engine::Choose(const Plan& plan) const {
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend->Supports(plan).ok()) return *backend;
  }
  return *backends_.back();  // the portable one accepts everything
}

}  // namespace topk
