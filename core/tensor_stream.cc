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
  std::unique_ptr<const Plan> plan;
  std::unique_ptr<const PreparedPlan> prepared;
  v1::TopKResponse response;
  Outputs outputs;
  std::unique_ptr<Fold> fold;  // null for a strided tensor
  CollectedTensor collected;   // a strided tensor's data
  const Cancellation* cancellation = nullptr;
  int64_t received = 0;
  Size held_bytes;       // at most
  Size run_nanoseconds;  // of a collected tensor
  std::chrono::nanoseconds computing{0};
};

Execution TensorStream::RunCollected(const State& state) {
  const auto run = [&state](std::span<const std::byte> tensor) {
    return state.prepared->Run(tensor, state.outputs, state.cancellation);
  };
  const auto parts = state.collected.parts();
  if (parts.size() == 1) return run(parts[0]);
  const WholeTensor whole = Concatenate(*state.plan, parts, state.cancellation);
  if (IsCancelled(state.cancellation)) return {};
  return run(whole);
}

TensorStream::TensorStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TensorStream::TensorStream(TensorStream&&) noexcept = default;

TensorStream::~TensorStream() {
  // A stream without a response may hold much memory, whose release takes long.
  // Memory of a device must be released before the device is.
  if (state_ != nullptr && state_->held_bytes >= kLargeBytes &&
      (state_->fold == nullptr || state_->fold->OutlivesBackend())) {
    DeferFree(std::move(state_));
  }
}

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         const v1::TopKRequest& header,
                                         const ComputeOptions& options) {
  Result<PreparedRequest> prepared = engine.PrepareStream(header);
  if (!prepared.ok()) return prepared.status();
  if (IsCancelled(options.cancellation)) return Cancelled();
  if (options.admit) {
    if (Status s = options.admit(prepared->cost); !s.ok()) return s;
  }
  return Start(engine, *std::move(prepared), options.cancellation);
}

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         PreparedRequest request,
                                         const Cancellation* cancellation) {
  if (IsCancelled(cancellation)) return Cancelled();
  TensorStream stream(std::make_unique<State>());
  State& state = *stream.state_;
  state.cancellation = cancellation;
  state.plan = std::move(request.plan);
  state.prepared = std::move(request.prepared);
  state.response.set_request_id(request.request_id);
  state.outputs = PrepareOutputs(*state.plan, state.response, cancellation);
  state.held_bytes = request.cost.output_bytes + request.cost.working_bytes;
  state.run_nanoseconds = request.cost.nanoseconds;
  if (state.plan->input.packed && !IsCancelled(cancellation)) {
    Result<std::unique_ptr<Fold>> fold =
        state.prepared->StartFold(state.outputs, cancellation);
    if (!fold.ok()) {
      engine.CountFallback(fold.status().code);
      state.prepared = engine.PrepareLast(*state.plan);
      fold = state.prepared->StartFold(state.outputs, cancellation);
    }
    state.fold = *std::move(fold);
  }
  if (IsCancelled(cancellation)) return Cancelled();
  return stream;
}

Size TensorStream::FeedNanoseconds(Size bytes) const {
  return state_->fold == nullptr ? CopyNanoseconds(bytes)
                                 : state_->prepared->FeedNanoseconds(bytes);
}

Size TensorStream::FinishNanoseconds() const {
  // Every slice of a fold on the CPU was written with its last element.
  if (state_->fold == nullptr) return state_->run_nanoseconds;
  return state_->prepared->FeedNanoseconds(0);
}

Status TensorStream::Feed(std::span<const std::byte> piece) {
  if (IsCancelled(state_->cancellation)) return Cancelled();
  const auto size = static_cast<int64_t>(piece.size());
  const Layout& input = state_->plan->input;
  if (size > input.padded_bytes - state_->received) {
    return CheckPayload(*state_->plan, state_->received + size);
  }
  if (state_->fold != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t left = std::max<int64_t>(input.bytes - state_->received, 0);
    state_->fold->Feed(piece.first(static_cast<size_t>(std::min(size, left))));
    state_->computing += std::chrono::steady_clock::now() - start;
  } else {
    state_->collected.Append(*state_->plan, piece, state_->cancellation);
  }
  state_->received += size;
  return IsCancelled(state_->cancellation) ? Cancelled() : Status();
}

Result<v1::TopKResponse> TensorStream::Finish() {
  State& state = *state_;
  if (IsCancelled(state.cancellation)) return Cancelled();
  if (Status s = CheckPayload(*state.plan, state.received); !s.ok()) return s;
  const auto start = std::chrono::steady_clock::now();
  const Execution execution =
      state.fold != nullptr ? state.fold->Finish() : RunCollected(state);
  state.computing += std::chrono::steady_clock::now() - start;
  if (IsCancelled(state.cancellation)) return Cancelled();
  // The pieces are gone: whoever sent them can do so again.
  if (!execution.status.ok()) return execution.status;
  SetExecution(execution, state.computing.count(), state.response);
  return std::move(state.response);
}

}  // namespace topk
