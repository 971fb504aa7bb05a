#include "server/oip/infer.h"

#include <memory>

#include "server/oip/infer_request.h"

namespace topk {

const Status& Infer::ReadOnce(grpc::ByteBuffer& bytes) {
  if (!read_.has_value()) {
    read_ = CatchBadAlloc([&] { return ReadRaw(bytes, raw_); });
  }
  return *read_;
}

int64_t Infer::WorkBytes(grpc::ByteBuffer& bytes) {
  const auto own = static_cast<int64_t>(bytes.Length());
  if (!oip_.topk().ReadsFirst(own) || !ReadOnce(bytes).ok()) return own;
  return own + SharedBytes(raw_.message);
}

Status Infer::Run(grpc::ByteBuffer& bytes, const ComputeOptions& options,
                  Tally& tally, InferMessage message,
                  grpc::ByteBuffer& answer) {
  if (const Status& s = ReadOnce(bytes); !s.ok()) return s;
  const Result<const Model*> model =
      FindModel(raw_.message.model_name(), raw_.message.model_version());
  if (!model.ok()) return model.status();
  model_ = *model;
  const Result<Pieces> data =
      Understand(raw_, *model_, oip_.regions(), request_);
  if (!data.ok()) return data.status();
  const auto computed = std::make_shared<v1::TopKResponse>();
  if (Status s =
          oip_.topk().Compute(request_, *data, options, tally, *computed);
      !s.ok()) {
    s.field = OipField(s.field, *model_);
    return s;
  }
  WriteInfer(computed, raw_.message, *model_, message).Swap(&answer);
  tally.Lap(Stage::kEncode);
  return {};
}

void Infer::Record(const CallInfo& call, const Tally& tally,
                   const Status& status) {
  if (model_ != nullptr) {
    oip_.statistics().Record(*model_, tally, status.ok());
  }
  oip_.topk().Record(call, request_, tally, status);
}

}  // namespace topk
