#include "core/engine.h"

#include <algorithm>
#include <chrono>

#include "core/answer.h"
#include "core/backends/registry.h"
#include "core/base/processors.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

// Returns the cost if either of two backends may run the request.
Cost MaxCost(const Cost& a, const Cost& b) {
  return {std::max(a.input_bytes, b.input_bytes),
          std::max(a.output_bytes, b.output_bytes),
          std::max(a.working_bytes, b.working_bytes),
          std::max(a.nanoseconds, b.nanoseconds)};
}

// A fold allocates a selection for each column when the header arrives. A small
// header must not cost more memory than a response may.
Status CheckColumns(const Plan& plan, const Limits& limits) {
  constexpr int64_t kColumnBytes = 192;
  const int64_t most = limits.max_output_bytes / kColumnBytes;
  if (!plan.input.packed || plan.slices() == 0 || plan.inner <= most) return {};
  return ResourceExhausted("TOO_MANY_COLUMNS", "tensor.shape",
                           StrCat(plan.inner, " columns next to axis ",
                                  plan.axis, " exceed the limit of a stream, ",
                                  most, "; make the axis the last one"));
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

Result<PreparedRequest> Engine::Prepare(const v1::TopKRequest& request,
                                        int64_t data_bytes,
                                        size_t chunks) const {
  if (request.tensor().has_shared_memory()) {
    return Unimplemented("SHARED_MEMORY_NOT_ALLOWED", "tensor.shared_memory",
                         "this server does not use shared memory");
  }
  Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  if (Status s = CheckPayload(*plan, data_bytes); !s.ok()) return s;
  return PrepareBest(*std::move(plan), request.request_id(),
                     chunks == 1 ? Arrival::kWhole : Arrival::kChunks);
}

Result<PreparedRequest> Engine::PrepareStream(
    const v1::TopKRequest& header) const {
  Result<Plan> plan = Lower(header, limits_);
  if (!plan.ok()) return plan.status();
  if (header.tensor().source_case() != v1::Tensor::SOURCE_NOT_SET) {
    return InvalidArgument("HEADER_HAS_DATA", "header.tensor",
                           "a stream's header has no data; send it in the "
                           "messages that follow");
  }
  if (Status s = CheckColumns(*plan, limits_); !s.ok()) return s;
  return PrepareBest(*std::move(plan), header.request_id(), Arrival::kStream);
}

PreparedRequest Engine::PrepareBest(Plan plan, const std::string& request_id,
                                    Arrival arrival) const {
  PreparedRequest request;
  request.plan = std::make_unique<const Plan>(std::move(plan));
  request.request_id = request_id;
  request.prepared = PrepareLast(*request.plan);
  request.cost = request.prepared->CostOf(arrival);
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend == backends_.back()) break;
    auto prepared = backend->Prepare(*request.plan);
    if (!prepared.ok()) continue;
    const bool chosen = choice_ == backend->name();
    if (!chosen && (*prepared)->EstimateNanoseconds() >=
                       request.prepared->EstimateNanoseconds()) {
      continue;
    }
    // The last backend runs the request if this one fails.
    request.cost = MaxCost(request.cost, (*prepared)->CostOf(arrival));
    request.prepared = *std::move(prepared);
    if (chosen) break;
  }
  return request;
}

std::unique_ptr<const PreparedPlan> Engine::PrepareLast(
    const Plan& plan) const {
  return *backends_.back()->Prepare(plan);
}

Result<v1::TopKResponse> Engine::Run(const PreparedRequest& request,
                                     Chunks chunks,
                                     const Cancellation* cancellation) const {
  const Plan& plan = *request.plan;
  if (IsCancelled(cancellation)) return Cancelled();
  v1::TopKResponse response;
  response.set_request_id(request.request_id);
  const Outputs outputs = PrepareOutputs(plan, response, cancellation);
  if (!IsCancelled(cancellation)) {
    const auto start = std::chrono::steady_clock::now();
    Execution execution = request.prepared->Run(chunks, outputs, cancellation);
    if (!execution.status.ok() && !IsCancelled(cancellation)) {
      CountFallback(execution.status.code);
      execution = PrepareLast(plan)->Run(chunks, outputs, cancellation);
    }
    SetExecution(execution, std::chrono::steady_clock::now() - start, response);
  }
  // Cancellation is permanent, so an incomplete response cannot pass this
  // check.
  if (!IsCancelled(cancellation)) return response;
  Discard(plan, std::move(response));
  return Cancelled();
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, std::span<const std::byte> data) const {
  const auto prepared = Prepare(request, static_cast<int64_t>(data.size()), 1);
  if (!prepared.ok()) return prepared.status();
  return Run(*prepared, std::span(&data, 1), nullptr);
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
