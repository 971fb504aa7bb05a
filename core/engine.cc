#include "core/engine.h"

#include <algorithm>
#include <chrono>

#include "core/answer.h"
#include "core/backends/registry.h"
#include "core/base/processors.h"
#include "core/base/text.h"
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
    const Result<std::unique_ptr<Fold>> fold =
        backend.Start(plan, outputs, cancellation);
    if (!fold.ok()) return {backend.name(), "", "", fold.status()};
    auto left = static_cast<size_t>(plan.input.bytes);  // without padding
    for (const auto& piece : pieces) {
      const size_t size = std::min(left, piece.size());
      (*fold)->Feed(piece.first(size));
      left -= size;
    }
    return (*fold)->Finish();
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
    : Engine(options, MakeBackends(options.threads > 0 ? options.threads
                                                       : AvailableProcessors(),
                                   options.backends)) {}

Engine::Engine(const EngineOptions& options,
               std::vector<std::unique_ptr<Backend>> backends)
    : limits_(options.limits),
      choice_(options.backends.choice),
      backends_(std::move(backends)) {}

Status Engine::CheckEnvironment(const BackendOptions& options) {
  return topk::CheckEnvironment(options);
}

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
    int64_t working = WorkingBytes(backend, *plan, pieces.size());
    if (&backend != &last()) {  // which may have to do it instead
      working = std::max(working, WorkingBytes(last(), *plan, pieces.size()));
    }
    if (Status s = options.admit(CostOf(*plan, working)); !s.ok()) return s;
  }
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response, cancellation);
  if (!IsCancelled(cancellation)) {
    const Clock::time_point start = Clock::now();
    Execution execution = Run(backend, *plan, pieces, outputs, cancellation);
    if (!execution.status.ok() && !IsCancelled(cancellation)) {
      CountFallback(execution.status.code);
      execution = Run(last(), *plan, pieces, outputs, cancellation);
    }
    SetExecution(execution, NanosecondsSince(start), response);
  }
  // Nothing that was left out can be in an answer: what is cancelled stays so.
  if (!IsCancelled(cancellation)) return response;
  Discard(*plan, std::move(response));
  return Cancelled();
}

const Backend& Engine::Choose(const Plan& plan) const {
  const Backend* best = &last();
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend.get() == &last()) break;
    if (!backend->Supports(plan).ok()) continue;
    if (choice_ == BackendChoice::kCuda) return *backend;
    if (backend->EstimateNanoseconds(plan) < best->EstimateNanoseconds(plan)) {
      best = backend.get();
    }
  }
  return *best;
}

void Engine::CountFallback(Code why) const {
  std::atomic<int64_t>& count =
      why == Code::kResourceExhausted ? fallbacks_full_ : fallbacks_lost_;
  count.fetch_add(1, std::memory_order_relaxed);
}

DeviceReport Engine::Devices() const {
  DeviceReport report;
  for (const std::unique_ptr<Backend>& backend : backends_) {
    for (DeviceState& state : backend->Devices()) {
      report.devices.push_back(std::move(state));
    }
  }
  report.fallbacks_lost = fallbacks_lost_.load(std::memory_order_relaxed);
  report.fallbacks_full = fallbacks_full_.load(std::memory_order_relaxed);
  return report;
}

}  // namespace topk
