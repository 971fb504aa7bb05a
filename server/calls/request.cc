#include "server/calls/request.h"

#include "core/base/text.h"

namespace topk {

Status TensorRequest::Admit(grpc::ByteBuffer& message, int64_t own_bytes) {
  stats_.Arrive(RequestStats::Clock::now());
  message_.Swap(&message);
  own_bytes_ = own_bytes;
  Status status = state_.admission.AdmitRequest(
      call_, static_cast<int64_t>(message_.Length()),
      own_bytes + SliceMemory(message_), charge_);
  if (!status.ok()) KeepIdOnly();
  return status;
}

// Frees the message of a rejected request. First parses the fields that
// WriteError() and Record() report, if this takes little time and memory.
void TensorRequest::KeepIdOnly() {
  const ChargeParsed charge = [](Size bytes) {
    return bytes <= 2 * kUnchargedBytes ? Status() : Cancelled();
  };
  if (nanoseconds() <= WorkQueue::kSmallNanoseconds) {
    (void)CatchBadAlloc([&] { return codec_->Read(message_, charge, read_); });
  }
  read_.data.clear();
  message_.Clear();
}

Status TensorRequest::Prepare() {
  stats_.RecordStage(Stage::kQueue);
  const ChargeParsed charge = [this](Size bytes) { return charge_.Add(bytes); };
  Status status = CatchBadAlloc([&] {
    Status read = codec_->Read(message_, charge, read_);
    return read.ok() ? codec_->Translate(PrepareRead()) : read;
  });
  stats_.RecordStage(Stage::kDecode);
  return status;
}

Status TensorRequest::PrepareRead() {
  v1::TopKRequest& request = read_.message;
  if (read_.data.empty()) {
    read_.data = {std::as_bytes(std::span(request.tensor().data()))};
  }
  size_t bytes = 0;
  for (const auto& piece : read_.data) bytes += piece.size();
  stats_.tensor_bytes = static_cast<int64_t>(bytes);
  if (Status s = memory_.OpenTensor(request, call_.caller.is_local); !s.ok())
    return s;
  if (Status s = memory_.OpenOutputs(request, call_.caller.is_local); !s.ok())
    return s;
  const std::optional<int64_t> shared = memory_.tensor_bytes();
  if (shared) stats_.tensor_bytes = *shared;
  stats_.computing = true;
  Result<PreparedRequest> prepared = state_.engine.Prepare(
      request, stats_.tensor_bytes, read_.data.size(), memory_.device_uuid());
  if (!prepared.ok()) {
    Status status = prepared.status();
    if (shared && status.field == "tensor.data") {
      status.field = StrCat(memory_.tensor_field(), ".byte_size");
    }
    return status;
  }
  const Plan& plan = *prepared->plan;
  stats_.k = plan.k;
  if (Status s = memory_.SetSizes(plan.values.bytes, plan.indices.bytes);
      !s.ok()) {
    return s;
  }
  memory_.AddCost(*prepared);
  // Each piece of the tensor is fed on its own.
  constexpr int64_t kPieceNanoseconds = 50;
  prepared->cost.nanoseconds +=
      Size(static_cast<int64_t>(read_.data.size())) * kPieceNanoseconds;
  // Admit() has already charged the input as part of the message.
  const Cost& cost = prepared->cost;
  if (Status s = charge_.Add(cost.output_bytes + cost.working_bytes); !s.ok()) {
    return s;
  }
  prepared_ = *std::move(prepared);
  return {};
}

Size TensorRequest::nanoseconds() {
  if (prepared_.has_value()) return prepared_->cost.nanoseconds;
  constexpr int64_t kFields = 20'000;
  constexpr int64_t kSlice = 20;
  return kFields + CountSlices(message_) * kSlice;
}

bool TensorRequest::MayRunOnPoller() const {
  const Cost& cost = prepared_->cost;
  return !memory_.is_used() && cost.output_bytes <= kShortBytes &&
         cost.nanoseconds <= WorkQueue::kSmallNanoseconds;
}

Status TensorRequest::Run() {
  stats_.RecordStage(Stage::kQueue);
  return CatchBadAlloc([&] { return codec_->Translate(Compute()); });
}

Status TensorRequest::Compute() {
  Result<v1::TopKResponse> computed =
      memory_.Run(state_.engine, *prepared_, read_.data, &cancellation_);
  if (!computed.ok()) {
    stats_.RecordStage(Stage::kDecode);
    return computed.status();
  }
  stats_.AddResponse(*computed);
  if (Status s = memory_.Deliver(*computed, &cancellation_); !s.ok()) return s;
  codec_->Write(std::make_shared<v1::TopKResponse>(*std::move(computed)))
      .Swap(&response_);
  stats_.RecordStage(Stage::kEncode);
  return {};
}

void TensorRequest::WriteError(const Status& status) {
  (void)CatchBadAlloc([&] {
    codec_->WriteError(status, read_.message).Swap(&response_);
    return Status();
  });
}

void TensorRequest::Record(const Status& status) {
  codec_->Record(stats_, status.ok());
  state_.Record(call_, read_.message, stats_, status);
}

void TensorRequest::ReleaseMessage() {
  message_.Clear();
  read_ = {};
  memory_ = RequestMemory(nullptr, nullptr);
  codec_.reset();
  prepared_.reset();
  charge_.Shrink(static_cast<int64_t>(response_.Length()) + own_bytes_);
}

}  // namespace topk
