// The streaming half of engine.h.
#include <chrono>
#include <string>

#include "core/answer.h"
#include "core/base/free_later.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "core/engine.h"
#include "core/whole_tensor.h"

namespace topk {
namespace {

// A fold keeps a selection for each column that is under way, from the header
// on: a few bytes of header must not cost more than an answer may.
Status CheckColumns(const Plan& plan, const Limits& limits) {
  constexpr int64_t kColumnBytes = 192;
  const int64_t most = limits.max_output_bytes / kColumnBytes;
  if (!plan.input.packed || plan.slices() == 0 || plan.inner <= most) return {};
  return ResourceExhausted("TOO_MANY_COLUMNS", "tensor.shape",
                           Cat(plan.inner, " columns beside axis ", plan.axis,
                               " exceed the limit of a stream, ", most,
                               "; a tensor whose axis is last has none"));
}

}  // namespace

struct TensorStream::State {
  Plan plan;
  v1::TopKResponse response;
  Outputs outputs;
  const Backend* backend = nullptr;
  std::unique_ptr<Fold> fold;  // null for a strided tensor
  CollectedTensor collected;   // a strided tensor's data
  const Cancellation* cancellation = nullptr;
  int64_t received = 0;
  std::chrono::nanoseconds computing{0};
};

Execution TensorStream::RunCollected(const State& state) {
  const auto run = [&state](std::span<const std::byte> tensor) {
    return state.backend->Run(state.plan, tensor, state.outputs,
                              state.cancellation);
  };
  const auto parts = state.collected.parts();
  if (parts.size() == 1) return run(parts[0]);
  const WholeTensor whole = PutTogether(state.plan, parts, state.cancellation);
  if (IsCancelled(state.cancellation)) return {};
  return run(whole);
}

TensorStream::TensorStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TensorStream::TensorStream(TensorStream&&) noexcept = default;

TensorStream::~TensorStream() {
  // A stream that was cut off may hold much, which somebody waits for.
  if (state_ != nullptr && IsCancelled(state_->cancellation)) {
    FreeLater(std::move(state_));
  }
}

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         const v1::TopKRequest& header,
                                         const ComputeOptions& options) {
  Result<Plan> plan = Lower(header, engine.limits_);
  if (!plan.ok()) return plan.status();
  if (header.tensor().source_case() != v1::Tensor::SOURCE_NOT_SET) {
    return InvalidArgument("HEADER_HAS_DATA", "header.tensor",
                           "a stream's header has no data; send it in the "
                           "messages that follow");
  }
  if (Status s = CheckColumns(*plan, engine.limits_); !s.ok()) return s;
  const Cancellation* const cancellation = options.cancellation;
  if (IsCancelled(cancellation)) return Cancelled();
  const Backend* backend = &engine.Choose(*plan);
  if (options.admit) {
    const int64_t working =
        plan->input.packed
            ? std::max(backend->FoldBytes(*plan),
                       engine.last().FoldBytes(*plan))
            // It is collected, and then put together.
            : 2 * plan->input.padded_bytes + backend->RunBytes(*plan);
    if (Status s = options.admit(CostOf(*plan, working)); !s.ok()) return s;
  }
  TensorStream stream(std::make_unique<State>());
  State& state = *stream.state_;
  state.cancellation = cancellation;
  state.plan = *std::move(plan);
  state.response.set_request_id(header.request_id());
  state.outputs = PrepareOutputs(state.plan, state.response, cancellation);
  if (state.plan.input.packed && !IsCancelled(cancellation)) {
    Result<std::unique_ptr<Fold>> fold =
        backend->Start(state.plan, state.outputs, cancellation);
    if (!fold.ok()) {
      engine.CountFallback(fold.status().code);
      backend = &engine.last();
      fold = backend->Start(state.plan, state.outputs, cancellation);
    }
    state.fold = *std::move(fold);
  }
  state.backend = backend;
  if (IsCancelled(cancellation)) return Cancelled();
  return stream;
}

bool TensorStream::FeedsFast() const {
  // To feed a device is to wait for copies.
  return state_->fold != nullptr && state_->backend->threads() > 0 &&
         state_->backend->FoldsWell(state_->plan);
}

Status TensorStream::Feed(std::span<const std::byte> piece) {
  if (IsCancelled(state_->cancellation)) return Cancelled();
  const auto size = static_cast<int64_t>(piece.size());
  const Layout& input = state_->plan.input;
  if (size > input.padded_bytes - state_->received) {
    return CheckPayload(state_->plan, state_->received + size);
  }
  if (state_->fold != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const int64_t left = std::max<int64_t>(input.bytes - state_->received, 0);
    state_->fold->Feed(piece.first(static_cast<size_t>(std::min(size, left))));
    state_->computing += std::chrono::steady_clock::now() - start;
  } else {
    state_->collected.Append(state_->plan, piece, state_->cancellation);
  }
  state_->received += size;
  return IsCancelled(state_->cancellation) ? Cancelled() : Status();
}

Result<v1::TopKResponse> TensorStream::Finish() {
  State& state = *state_;
  if (IsCancelled(state.cancellation)) return Cancelled();
  if (Status s = CheckPayload(state.plan, state.received); !s.ok()) return s;
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
