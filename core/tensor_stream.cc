// Implements TensorStream of engine.h.
#include <chrono>
#include <memory>
#include <utility>

#include "core/answer.h"
#include "core/base/deferred_free.h"
#include "core/base/dtype.h"
#include "core/engine.h"

namespace topk {

struct TensorStream::State {
  PreparedRequest request;
  v1::TopKResponse response;
  std::unique_ptr<Fold> fold;
  const Cancellation* cancellation = nullptr;
  int64_t received = 0;
  std::chrono::nanoseconds computing{0};
};

TensorStream::TensorStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TensorStream::TensorStream(TensorStream&&) noexcept = default;

TensorStream::~TensorStream() {
  // An unfinished stream may hold a lot of memory, which is slow to free. Free
  // device memory now, because it must not outlive its device.
  if (state_ == nullptr) return;
  const Cost& cost = state_->request.cost;
  if (cost.output_bytes + cost.working_bytes >= kLargeBytes &&
      (state_->fold == nullptr || state_->fold->OutlivesBackend())) {
    DeferFree(std::move(state_));
  }
}

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         PreparedRequest request,
                                         const Cancellation* cancellation) {
  if (IsCancelled(cancellation)) return Cancelled();
  TensorStream stream(std::make_unique<State>());
  State& state = *stream.state_;
  state.cancellation = cancellation;
  state.request = std::move(request);
  const Plan& plan = *state.request.plan;
  state.response.set_request_id(state.request.request_id);
  const Outputs outputs = PrepareOutputs(plan, state.response, cancellation);
  if (IsCancelled(cancellation)) return Cancelled();
  auto fold = state.request.prepared->StartFold(outputs, cancellation);
  if (!fold.ok()) {
    engine.CountFallback(fold.status().code);
    state.request.prepared = engine.PrepareLast(plan);
    fold = state.request.prepared->StartFold(outputs, cancellation);
  }
  state.fold = *std::move(fold);
  if (IsCancelled(cancellation)) return Cancelled();
  return stream;
}

Size TensorStream::FeedNanoseconds(Size bytes) const {
  return state_->request.prepared->FeedNanoseconds(bytes);
}

Size TensorStream::FinishNanoseconds() const {
  const PreparedRequest& request = state_->request;
  const Plan& plan = *request.plan;
  // A strided tensor is computed when all of it has arrived.
  if (!plan.input.packed) return request.cost.nanoseconds;
  // A fold on the CPU writes each slice when its last element arrives, but
  // packs sub-byte values only at the end, at up to 1 ns each.
  const bool packs = InfoOf(plan.dtype).packed() && plan.wants_values;
  return request.prepared->FeedNanoseconds(0) +
         Size(packs ? plan.selected() : 0);
}

Status TensorStream::Feed(std::span<const std::byte> chunk) {
  State& state = *state_;
  if (IsCancelled(state.cancellation)) return Cancelled();
  const Plan& plan = *state.request.plan;
  const auto size = static_cast<int64_t>(chunk.size());
  if (size > plan.padded_data_bytes - state.received) {
    return CheckPayload(plan, state.received + size);
  }
  state.received += size;
  const auto start = std::chrono::steady_clock::now();
  state.fold->Feed(chunk);
  state.computing += std::chrono::steady_clock::now() - start;
  return IsCancelled(state.cancellation) ? Cancelled() : Status();
}

Result<v1::TopKResponse> TensorStream::Finish() {
  State& state = *state_;
  if (IsCancelled(state.cancellation)) return Cancelled();
  if (Status s = CheckPayload(*state.request.plan, state.received); !s.ok())
    return s;
  const auto start = std::chrono::steady_clock::now();
  const Execution execution = state.fold->Finish();
  state.computing += std::chrono::steady_clock::now() - start;
  if (IsCancelled(state.cancellation)) return Cancelled();
  // No fallback: the chunks are gone.
  if (!execution.status.ok()) return execution.status;
  SetExecution(execution, state.computing, state.response);
  return std::move(state.response);
}

}  // namespace topk
