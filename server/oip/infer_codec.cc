#include "server/oip/infer_codec.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/common/message_pieces.h"
#include "server/calls/status_map.h"
#include "server/calls/write_message.h"
#include "server/oip/data_types.h"
#include "server/oip/infer_request.h"

namespace topk {
namespace {

using inference::ModelInferResponse;
using Output = ModelInferResponse::InferOutputTensor;

void AddField(int number, std::string_view bytes, std::string& to) {
  BeginField(number, bytes.size(), to);
  to += bytes;
}

// Returns the parameters of an output that was written to a region: the
// parameters of the request, but with the actual size in bytes.
Output ParametersOf(const inference::ModelInferRequest& request,
                    const char* name, int64_t byte_size) {
  Output output;
  for (const auto& requested : request.outputs()) {
    if (requested.name() != name) continue;
    *output.mutable_parameters() = requested.parameters();
  }
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(
      byte_size);
  return output;
}

std::string SerializedOutput(const inference::ModelInferRequest& request,
                             const char* name, const v1::Tensor& tensor) {
  std::string output;
  AddField(Output::kNameFieldNumber, name, output);
  AddField(Output::kDatatypeFieldNumber, FindOipType(tensor.data_type()).name,
           output);
  std::string shape;
  for (const int64_t size : tensor.shape()) {
    AppendVarint(static_cast<uint64_t>(size), shape);
  }
  AddField(Output::kShapeFieldNumber, shape, output);
  if (tensor.has_shared_memory() || tensor.has_cuda_memory()) {
    const int64_t bytes = tensor.has_shared_memory()
                              ? tensor.shared_memory().byte_size()
                              : tensor.cuda_memory().byte_size();
    output += ParametersOf(request, name, bytes).SerializeAsString();
  }
  return output;
}

// Returns the serialized parameter that marks a response as final. Every
// response is final, because each request has one response.
std::string FinalResponseMark() {
  ModelInferResponse response;
  (*response.mutable_parameters())["triton_final_response"].set_bool_param(
      true);
  return response.SerializeAsString();
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

// Serializes the response field by field, because building a ModelInferResponse
// takes as long as computing a small request.
grpc::ByteBuffer InferCodec::Write(std::shared_ptr<v1::TopKResponse> response) {
  std::string own;
  own.reserve(256);
  AddField(ModelInferResponse::kModelNameFieldNumber, model_->name, own);
  AddField(ModelInferResponse::kModelVersionFieldNumber,
           std::to_string(model_->version->version), own);
  AddField(ModelInferResponse::kIdFieldNumber, raw_.message.id(), own);
  if (of_stream_) own += FinalResponseMark();

  std::vector<const v1::Tensor*> tensors;
  tensors.reserve(2);
  const auto add = [&](const char* name, const v1::Tensor& tensor) {
    tensors.push_back(&tensor);
    AddField(ModelInferResponse::kOutputsFieldNumber,
             SerializedOutput(raw_.message, name, tensor), own);
  };
  if (response->has_values()) add(kOutputValues, response->values());
  if (response->has_indices()) add(kOutputIndices, response->indices());

  std::vector<MessagePiece> pieces;
  pieces.reserve(4);
  size_t size = 0;
  for (const v1::Tensor* tensor : tensors) {
    const auto data = std::as_bytes(std::span(tensor->data()));
    BeginField(ModelInferResponse::kRawOutputContentsFieldNumber, data.size(),
               own);
    size += own.size() + data.size();
    pieces.push_back({std::exchange(own, {}), {}});
    if (!data.empty()) pieces.push_back({{}, data});
  }
  if (of_stream_) {
    BeginField(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
               size, own);
    pieces.front().own.insert(0, own);
  }
  return WritePieces(pieces, response);
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
