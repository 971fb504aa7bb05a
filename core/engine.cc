#include "core/engine.h"

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
  const Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  if (Status s = CheckPayload(*plan, static_cast<int64_t>(tensor.size()));
      !s.ok()) {
    return s;
  }
  v1::TopKResponse response;
  response.set_request_id(request.request_id());
  const Outputs outputs = PrepareOutputs(*plan, response);
  const Clock::time_point start = Clock::now();
  const Execution execution = Choose(*plan).Run(*plan, tensor, outputs);
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
