#include "server/oip/infer_codec.h"

#include <string>
#include <utility>

#include "server/calls/status_map.h"
#include "server/calls/write_message.h"
#include "server/oip/data_types.h"
#include "server/oip/infer_request.h"

namespace topk {
namespace {

using inference::ModelInferResponse;

// Moves an output to `response`. An output in a region has the parameters of
// the request, but with the actual size in bytes, and no raw contents.
void AddOutput(const inference::ModelInferRequest& request, const char* name,
               v1::Tensor& tensor, ModelInferResponse& response) {
  auto& output = *response.add_outputs();
  output.set_name(name);
  output.set_datatype(std::string(FindOipType(tensor.data_type()).name));
  *output.mutable_shape() = tensor.shape();
  std::string& contents = *response.add_raw_output_contents();
  if (tensor.has_data()) {
    contents = std::move(*tensor.mutable_data());
    return;
  }
  for (const auto& requested : request.outputs()) {
    if (requested.name() != name) continue;
    *output.mutable_parameters() = requested.parameters();
  }
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(
      tensor.has_shared_memory() ? tensor.shared_memory().byte_size()
                                 : tensor.cuda_memory().byte_size());
}

}  // namespace

Status InferCodec::Read(grpc::ByteBuffer& message, const ChargeParsed& charge,
                        ParsedMessage<v1::TopKRequest>& to) {
  if (Status s = ParseMessage(message, charge, raw_); !s.ok()) return s;
  const Result<const Model*> model =
      FindModel(raw_.message.model_name(), raw_.message.model_version());
  if (!model.ok()) return model.status();
  model_ = *model;
  return ParseInfer(raw_, *model_, regions_, to);
}

grpc::ByteBuffer InferCodec::Write(std::shared_ptr<v1::TopKResponse> response) {
  ModelInferResponse to;
  to.set_model_name(model_->name);
  to.set_model_version(std::to_string(model_->version->version));
  to.set_id(raw_.message.id());
  if (response->has_values()) {
    AddOutput(raw_.message, kOutputValues, *response->mutable_values(), to);
  }
  if (response->has_indices()) {
    AddOutput(raw_.message, kOutputIndices, *response->mutable_indices(), to);
  }
  if (!of_stream_) return WriteMessage(std::move(to));
  // Every response is final, because each request has one response.
  (*to.mutable_parameters())["triton_final_response"].set_bool_param(true);
  inference::ModelStreamInferResponse answer;
  *answer.mutable_infer_response() = std::move(to);
  return WriteMessage(std::move(answer));
}

grpc::ByteBuffer InferCodec::WriteError(const Status& status,
                                        const v1::TopKRequest& /*request*/) {
  inference::ModelStreamInferResponse answer;
  answer.set_error_message(ToRpcStatus(status).message());
  answer.mutable_infer_response()->set_id(raw_.message.id());
  return WriteMessage(std::move(answer));
}

Status InferCodec::Translate(Status status) const {
  if (status.ok()) return status;
  status.field = OipField(status.field, *model_, raw_.message);
  return status;
}

void InferCodec::Record(const RequestStats& stats, bool ok) {
  if (model_ != nullptr) statistics_.Record(*model_, stats, ok);
}

}  // namespace topk
