#include "server/oip/infer.h"

#include <utility>

#include "server/oip/infer_request.h"
#include "server/oip/infer_response.h"

namespace topk {

Status Infer::Run(grpc::ByteBuffer& bytes, const ComputeOptions& options,
                  Tally& tally, inference::ModelInferResponse& response) {
  if (Status s = ReadRaw(bytes, raw_); !s.ok()) return s;
  const Result<const Model*> model =
      FindModel(raw_.message.model_name(), raw_.message.model_version());
  if (!model.ok()) return model.status();
  model_ = *model;
  if (Status s = Understand(raw_, *model_, oip_.regions(), request_); !s.ok()) {
    return s;
  }
  v1::TopKResponse answer;
  if (Status s = oip_.topk().Compute(request_, options, tally, answer);
      !s.ok()) {
    s.field = OipField(s.field, *model_);
    return s;
  }
  Translate(std::move(answer), raw_.message, *model_, response);
  return {};
}

void Infer::Record(const CallInfo& call, const Tally& tally,
                   const Status& status) {
  if (model_ != nullptr) {
    oip_.statistics().Record(*model_, tally, status.ok());
  }
  oip_.topk().Record(call, request_.message, tally, status);
}

int64_t InferWorkBytes(const OipService& oip, grpc::ByteBuffer& request) {
  const auto own = static_cast<int64_t>(request.Length());
  if (!oip.regions().allowed() || own > WorkQueue::kSmall) return own;
  inference::ModelInferRequest read;
  if (!ReadMessage(request, read).ok()) return own;
  return own + SharedBytes(read);
}

}  // namespace topk
