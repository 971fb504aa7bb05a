// The streaming half of engine.h.
#include <chrono>
#include <string>

#include "core/answer.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"
#include "core/engine.h"

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
  std::string collected;       // a strided tensor's data
  int64_t received = 0;
  std::chrono::nanoseconds computing{0};
};

TensorStream::TensorStream(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TensorStream::TensorStream(TensorStream&&) noexcept = default;
TensorStream::~TensorStream() = default;

Result<TensorStream> TensorStream::Start(const Engine& engine,
                                         const v1::TopKRequest& header) {
  Result<Plan> plan = Lower(header, engine.limits_);
  if (!plan.ok()) return plan.status();
  if (header.tensor().source_case() != v1::Tensor::SOURCE_NOT_SET) {
    return InvalidArgument("HEADER_HAS_DATA", "header.tensor",
                           "a stream's header has no data; send it in the "
                           "messages that follow");
  }
  if (Status s = CheckColumns(*plan, engine.limits_); !s.ok()) return s;
  auto state = std::make_unique<State>();
  state->plan = *std::move(plan);
  state->response.set_request_id(header.request_id());
  state->outputs = PrepareOutputs(state->plan, state->response);
  state->backend = &engine.Choose(state->plan);
  if (state->plan.input.packed) {
    state->fold = state->backend->Start(state->plan, state->outputs);
  }
  return TensorStream(std::move(state));
}

bool TensorStream::FeedsFast() const {
  return state_->fold != nullptr && state_->backend->FoldsWell(state_->plan);
}

Status TensorStream::Feed(std::span<const std::byte> piece) {
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
    state_->collected.append(reinterpret_cast<const char*>(piece.data()),
                             piece.size());
  }
  state_->received += size;
  return {};
}

Result<v1::TopKResponse> TensorStream::Finish() {
  if (Status s = CheckPayload(state_->plan, state_->received); !s.ok()) {
    return s;
  }
  const auto start = std::chrono::steady_clock::now();
  const Execution execution =
      state_->fold != nullptr
          ? state_->fold->Finish()
          : state_->backend->Run(state_->plan,
                                 std::as_bytes(std::span(state_->collected)),
                                 state_->outputs);
  state_->computing += std::chrono::steady_clock::now() - start;
  SetExecution(execution, state_->computing.count(), state_->response);
  return std::move(state_->response);
}

}  // namespace topk
