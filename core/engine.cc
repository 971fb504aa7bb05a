#include "core/engine.h"

#include <algorithm>
#include <chrono>

#include "core/answer.h"
#include "core/backends/registry.h"
#include "core/base/processors.h"
#include "core/dialects/registry.h"
#include "core/whole_tensor.h"

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
              const Outputs& outputs, const Cancellation* cancellation) {
  if (pieces.size() == 1) {
    return backend.Run(plan, pieces[0], outputs, cancellation);
  }
  if (backend.FoldsWell(plan)) {
    const std::unique_ptr<Fold> fold =
        backend.Start(plan, outputs, cancellation);
    auto left = static_cast<size_t>(plan.input.bytes);  // without padding
    for (const auto& piece : pieces) {
      const size_t size = std::min(left, piece.size());
      fold->Feed(piece.first(size));
      left -= size;
    }
    return fold->Finish();
  }
  const WholeTensor whole = PutTogether(plan, pieces, cancellation);
  if (IsCancelled(cancellation)) return {};
  return backend.Run(plan, whole, outputs, cancellation);
}

// What Run() takes beyond the pieces and the outputs.
int64_t WorkingBytes(const Backend& backend, const Plan& plan, size_t pieces) {
  if (pieces == 1) return backend.RunBytes(plan);
  if (backend.FoldsWell(plan)) return backend.FoldBytes(plan);
  return plan.input.padded_bytes + backend.RunBytes(plan);
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : limits_(options.limits),
      backends_(MakeBackends(options.threads > 0 ? options.threads
                                                 : AvailableProcessors())) {}

Status Engine::CheckEnvironment() { return topk::CheckEnvironment(); }

Result<v1::TopKResponse> Engine::Compute(const v1::TopKRequest& request,
                                         const ComputeOptions& options) const {
  const v1::Tensor& tensor = request.tensor();
  if (tensor.has_shared_memory()) {
    return Unimplemented("SHARED_MEMORY_NOT_ALLOWED", "tensor.shared_memory",
                         "this server does not use shared memory");
  }
  return Compute(request, std::as_bytes(std::span(tensor.data())), options);
}

Result<v1::TopKResponse> Engine::Compute(const v1::TopKRequest& request,
                                         std::span<const std::byte> tensor,
                                         const ComputeOptions& options) const {
  return Compute(request, std::span(&tensor, 1), options);
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request,
    std::span<const std::span<const std::byte>> pieces,
    const ComputeOptions& options) const {
  const Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += static_cast<int64_t>(piece.size());
  if (Status s = CheckPayload(*plan, bytes); !s.ok()) return s;
  const Cancellation* const cancellation = options.cancellation;
  if (IsCancelled(cancellation)) return Cancelled();
  const Backend& backend = Choose(*plan);
  if (options.admit) {
    const int64_t working = WorkingBytes(backend, *plan, pieces.size());
    if (Status s = options.admit(CostOf(*plan, working)); !s.ok()) return s;
  }
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response, cancellation);
  if (!IsCancelled(cancellation)) {
    const Clock::time_point start = Clock::now();
    const Execution execution =
        Run(backend, *plan, pieces, outputs, cancellation);
    SetExecution(execution, NanosecondsSince(start), response);
  }
  // Nothing that was left out can be in an answer: what is cancelled stays so.
  if (!IsCancelled(cancellation)) return response;
  Discard(*plan, std::move(response));
  return Cancelled();
}

const Backend& Engine::Choose(const Plan& plan) const {
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend->Supports(plan).ok()) return *backend;
  }
  return *backends_.back();  // the portable one accepts everything
}

}  // namespace topk
