#include "server/oip/infer_codec.h"

#include <utility>

#include "server/calls/status_map.h"
#include "server/calls/write_message.h"
#include "server/oip/infer_request.h"

namespace topk {

std::optional<Status> InferCodec::Read(grpc::ByteBuffer& message, Reader reader,
                                       const ChargeParsed& charge,
                                       RawMessage<v1::TopKRequest>& to) {
  const std::optional<Status> read = ReadRaw(message, reader, charge, raw_);
  if (!read.has_value() || !read->ok()) return read;
  const Result<const Model*> model =
      FindModel(raw_.message.model_name(), raw_.message.model_version());
  if (!model.ok()) return model.status();
  model_ = *model;
  const Result<Pieces> data = ParseInfer(raw_, *model_, regions_, to.message);
  if (!data.ok()) return data.status();
  to.data.assign(data->begin(), data->end());
  return Status();
}

grpc::ByteBuffer InferCodec::Write(std::shared_ptr<v1::TopKResponse> response) {
  return WriteInfer(response, raw_.message, *model_, kind_);
}

grpc::ByteBuffer InferCodec::WriteError(const Status& status,
                                        const v1::TopKRequest& /*request*/) {
  inference::ModelStreamInferResponse answer;
  answer.set_error_message(ToRpcStatus(status).message());
  answer.mutable_infer_response()->set_id(raw_.message.id());
  return WriteMessage(std::move(answer));
}

Status InferCodec::Translate(Status status) const {
  status.field = OipField(status.field, *model_, raw_.message);
  return status;
}

void InferCodec::Record(const RequestStats& stats, bool ok) {
  if (model_ != nullptr) statistics_.Record(*model_, stats, ok);
}

}  // namespace topk
