#include "server/oip/infer.h"

#include <string>
#include <utility>

#include "server/calls/status_map.h"
#include "server/oip/infer_request.h"

namespace topk {

std::optional<Status> InferRequest::Read(Reader reader,
                                         const ChargeParsed& charge) {
  const std::optional<Status> read = ReadRaw(message(), reader, charge, raw_);
  if (!read.has_value() || !read->ok()) return read;
  const Result<const Model*> model =
      FindModel(raw_.message.model_name(), raw_.message.model_version());
  if (!model.ok()) return model.status();
  model_ = *model;
  const Result<Pieces> data =
      Understand(raw_, *model_, oip_.regions(), request_);
  if (!data.ok()) return data.status();
  data_ = *data;
  return Status();
}

grpc::ByteBuffer InferRequest::Write(
    std::shared_ptr<v1::TopKResponse> response) {
  return WriteInfer(std::move(response), raw_.message, *model_, kind_);
}

Status InferRequest::Translated(Status status) const {
  status.field = OipField(status.field, *model_);
  return status;
}

void InferRequest::WriteError(const Status& status) {
  inference::ModelStreamInferResponse answer;
  answer.set_error_message(ToRpcStatus(status).message());
  answer.mutable_infer_response()->set_id(raw_.message.id());
  WriteMessage(std::move(answer)).Swap(&response());
}

void InferRequest::Record(const CallInfo& call, const Status& status) {
  if (model_ != nullptr) {
    oip_.statistics().Record(*model_, stats(), status.ok());
  }
  Request::Record(call, status);
}

void InferRequest::ReleaseData() {
  data_ = {};
  raw_.contents.clear();
  raw_.slices.clear();
}

// The arena frees its messages with the request.
void InferRequest::ReleaseRead() {
  ReleaseData();
  raw_.message.Clear();
  request_.Clear();
}

}  // namespace topk
