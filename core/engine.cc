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

// The cost of Engine::RunOn().
Cost CostOf(const PreparedPlan& prepared, size_t pieces) {
  if (pieces == 1) return prepared.RunCost();
  if (prepared.FoldsWell()) return prepared.FoldCost();
  Cost cost = prepared.RunCost();
  cost.working_bytes += cost.input_bytes;
  cost.nanoseconds += CopyNanoseconds(cost.input_bytes);
  return cost;
}

// The cost of a stream.
Cost CostOfStream(const PreparedPlan& prepared, const Plan& plan) {
  if (plan.input.packed) return prepared.FoldCost();
  // The tensor is collected first.
  Cost cost = prepared.RunCost();
  cost.working_bytes += cost.input_bytes;
  cost.nanoseconds += CopyNanoseconds(cost.input_bytes);
  return cost;
}

// The cost of whichever of two backends has to do it.
Cost MaxCost(const Cost& a, const Cost& b) {
  return {std::max(a.input_bytes, b.input_bytes),
          std::max(a.output_bytes, b.output_bytes),
          std::max(a.working_bytes, b.working_bytes),
          std::max(a.nanoseconds, b.nanoseconds)};
}

// A fold keeps a selection for each column from the header on: a few bytes of
// header must not cost more than a response may.
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

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, const Cancellation* cancellation) const {
  const v1::Tensor& tensor = request.tensor();
  if (tensor.has_shared_memory()) {
    return Unimplemented("SHARED_MEMORY_NOT_ALLOWED", "tensor.shared_memory",
                         "this server does not use shared memory");
  }
  return Compute(request, std::as_bytes(std::span(tensor.data())),
                 cancellation);
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, std::span<const std::byte> tensor,
    const Cancellation* cancellation) const {
  return Compute(request, std::span(&tensor, 1), cancellation);
}

Result<v1::TopKResponse> Engine::Compute(
    const v1::TopKRequest& request, Pieces pieces,
    const Cancellation* cancellation) const {
  int64_t bytes = 0;
  for (const auto& piece : pieces) bytes += static_cast<int64_t>(piece.size());
  const Result<PreparedRequest> prepared =
      Prepare(request, bytes, pieces.size());
  if (!prepared.ok()) return prepared.status();
  return Run(*prepared, pieces, cancellation);
}

Result<PreparedRequest> Engine::Prepare(const v1::TopKRequest& request,
                                        int64_t data_bytes,
                                        size_t pieces) const {
  Result<Plan> plan = Lower(request, limits_);
  if (!plan.ok()) return plan.status();
  if (Status s = CheckPayload(*plan, data_bytes); !s.ok()) return s;
  return PrepareBest(*std::move(plan), request.request_id(),
                     [pieces](const PreparedPlan& prepared, const Plan&) {
                       return CostOf(prepared, pieces);
                     });
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
  return PrepareBest(*std::move(plan), header.request_id(), CostOfStream);
}

template <class CostOf>
PreparedRequest Engine::PrepareBest(Plan plan, const std::string& request_id,
                                    CostOf cost_of) const {
  PreparedRequest request;
  request.plan = std::make_unique<const Plan>(std::move(plan));
  request.request_id = request_id;
  request.prepared = PrepareLast(*request.plan);
  request.cost = cost_of(*request.prepared, *request.plan);
  for (const std::unique_ptr<Backend>& backend : backends_) {
    if (backend == backends_.back()) break;
    auto prepared = backend->Prepare(*request.plan);
    if (!prepared.ok()) continue;
    const bool chosen = choice_ == backend->name();
    if (!chosen && (*prepared)->EstimateNanoseconds() >=
                       request.prepared->EstimateNanoseconds()) {
      continue;
    }
    // The last one may have to do it instead.
    request.cost = MaxCost(request.cost, cost_of(**prepared, *request.plan));
    request.prepared = *std::move(prepared);
    if (chosen) break;
  }
  return request;
}

std::unique_ptr<const PreparedPlan> Engine::PrepareLast(
    const Plan& plan) const {
  return *backends_.back()->Prepare(plan);
}

Execution Engine::RunOn(const PreparedPlan& prepared, const Plan& plan,
                        Pieces pieces, const Outputs& outputs,
                        const Cancellation* cancellation) {
  if (pieces.size() == 1) {
    return prepared.Run(pieces[0], outputs, cancellation);
  }
  if (prepared.FoldsWell()) {
    const Result<std::unique_ptr<Fold>> fold =
        prepared.StartFold(outputs, cancellation);
    if (!fold.ok()) return {"", "", "", fold.status()};
    auto left = static_cast<size_t>(plan.input.bytes);  // without padding
    for (const auto& piece : pieces) {
      const size_t size = std::min(left, piece.size());
      (*fold)->Feed(piece.first(size));
      left -= size;
    }
    return (*fold)->Finish();
  }
  const WholeTensor whole = Concatenate(plan, pieces, cancellation);
  if (IsCancelled(cancellation)) return {};
  return prepared.Run(whole, outputs, cancellation);
}

Result<v1::TopKResponse> Engine::Run(const PreparedRequest& request,
                                     Pieces pieces,
                                     const Cancellation* cancellation) const {
  const Plan& plan = *request.plan;
  if (IsCancelled(cancellation)) return Cancelled();
  v1::TopKResponse response;
  response.set_request_id(request.request_id);
  const Outputs outputs = PrepareOutputs(plan, response, cancellation);
  if (!IsCancelled(cancellation)) {
    const auto start = std::chrono::steady_clock::now();
    Execution execution =
        RunOn(*request.prepared, plan, pieces, outputs, cancellation);
    if (!execution.status.ok() && !IsCancelled(cancellation)) {
      CountFallback(execution.status.code);
      execution =
          RunOn(*PrepareLast(plan), plan, pieces, outputs, cancellation);
    }
    SetExecution(execution, std::chrono::steady_clock::now() - start, response);
  }
  // Nothing that was left out can be in an answer: what is cancelled stays so.
  if (!IsCancelled(cancellation)) return response;
  Discard(plan, std::move(response));
  return Cancelled();
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
