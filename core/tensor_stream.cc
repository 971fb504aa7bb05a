// The streaming half of engine.h.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/answer.h"
#include "core/base/deferred_free.h"
#include "core/engine.h"
#include "core/whole_tensor.h"

namespace topk {

struct TensorStream::State {
  PreparedRequest request;
  v1::TopKResponse response;
  Outputs outputs;
  std::unique_ptr<Fold> fold;  // null for a strided tensor
  WholeTensor whole;           // a strided tensor's data
  const Cancellation* cancellation = nullptr;
  int64_t received = 0;
  std::chrono::nanoseconds computing{0};
};

TensorStream::TensorStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TensorStream::TensorStream(TensorStream&&) noexcept = default;

TensorStream::~TensorStream() {
  // A stream without a response may hold much memory, whose release takes long.
  // Memory of a device must be released before the device is.
  if (state_ == nullptr) return;
  const Cost& cost = state_->request.cost;
  if (cost.output_bytes + cost.working_bytes >= kLargeBytes &&
      (state_->fold == nullptr || state_->fold->OutlivesBackend())) {
    DeferFree(std::move(state_));
  }
}

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         const v1::TopKRequest& header,
                                         const Cancellation* cancellation) {
  Result<PreparedRequest> prepared = engine.PrepareStream(header);
  if (!prepared.ok()) return prepared.status();
  return Start(engine, *std::move(prepared), cancellation);
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
  state.outputs = PrepareOutputs(plan, state.response, cancellation);
  if (plan.input.packed && !IsCancelled(cancellation)) {
    auto& prepared = state.request.prepared;
    Result<std::unique_ptr<Fold>> fold =
        prepared->StartFold(state.outputs, cancellation);
    if (!fold.ok()) {
      engine.CountFallback(fold.status().code);
      prepared = engine.PrepareLast(plan);
      fold = prepared->StartFold(state.outputs, cancellation);
    }
    state.fold = *std::move(fold);
  } else if (!plan.input.packed) {
    state.whole.reserve(static_cast<size_t>(plan.input.bytes));
  }
  if (IsCancelled(cancellation)) return Cancelled();
  return stream;
}

Size TensorStream::FeedNanoseconds(Size bytes) const {
  return state_->fold == nullptr
             ? CopyNanoseconds(bytes)
             : state_->request.prepared->FeedNanoseconds(bytes);
}

Size TensorStream::FinishNanoseconds() const {
  // Every slice of a fold on the CPU was written with its last element.
  if (state_->fold == nullptr) return state_->request.cost.nanoseconds;
  return state_->request.prepared->FeedNanoseconds(0);
}

Status TensorStream::Feed(std::span<const std::byte> piece) {
  if (IsCancelled(state_->cancellation)) return Cancelled();
  const auto size = static_cast<int64_t>(piece.size());
  const Plan& plan = *state_->request.plan;
  if (size > plan.padded_data_bytes - state_->received) {
    return CheckPayload(plan, state_->received + size);
  }
  const int64_t left =
      std::max<int64_t>(plan.input.bytes - state_->received, 0);
  piece = piece.first(static_cast<size_t>(std::min(size, left)));  // no padding
  if (state_->fold != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    state_->fold->Feed(piece);
    state_->computing += std::chrono::steady_clock::now() - start;
  } else {
    Append(piece, state_->cancellation, state_->whole);
  }
  state_->received += size;
  return IsCancelled(state_->cancellation) ? Cancelled() : Status();
}

Result<v1::TopKResponse> TensorStream::Finish() {
  State& state = *state_;
  if (IsCancelled(state.cancellation)) return Cancelled();
  if (Status s = CheckPayload(*state.request.plan, state.received); !s.ok())
    return s;
  const auto start = std::chrono::steady_clock::now();
  const Execution execution =
      state.fold != nullptr
          ? state.fold->Finish()
          : state.request.prepared->Run(state.whole, state.outputs,
                                        state.cancellation);
  state.computing += std::chrono::steady_clock::now() - start;
  if (IsCancelled(state.cancellation)) return Cancelled();
  // The pieces are gone: whoever sent them can do so again.
  if (!execution.status.ok()) return execution.status;
  SetExecution(execution, state.computing, state.response);
  return std::move(state.response);
}

}  // namespace topk
