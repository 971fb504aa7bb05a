// Serializes the response field by field. Building the message first took as
// long as computing a small request.
#include "server/oip/infer_response.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/wire/message_pieces.h"
#include "server/calls/write_message.h"
#include "server/oip/data_types.h"

namespace topk {
namespace {

using inference::ModelInferResponse;
using Output = ModelInferResponse::InferOutputTensor;

void AddField(int number, std::string_view bytes, std::string& to) {
  BeginField(number, bytes.size(), to);
  to += bytes;
}

// Returns the parameters of an output that was written to shared memory: those
// of the requested output, with the actual number of bytes.
Output ParametersOf(const inference::ModelInferRequest& request,
                    const char* name, const v1::SharedMemoryRegion& part) {
  Output output;
  for (const auto& requested : request.outputs()) {
    if (requested.name() != name) continue;
    *output.mutable_parameters() = requested.parameters();
  }
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(
      part.byte_size());
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
  if (tensor.has_shared_memory()) {
    output +=
        ParametersOf(request, name, tensor.shared_memory()).SerializeAsString();
  }
  return output;
}

// Marks a response of a stream as the last for its request, which each one is.
std::string FinalResponseMark() {
  ModelInferResponse response;
  (*response.mutable_parameters())["triton_final_response"].set_bool_param(
      true);
  return response.SerializeAsString();
}

}  // namespace

grpc::ByteBuffer WriteInfer(
    const std::shared_ptr<const v1::TopKResponse>& answer,
    const inference::ModelInferRequest& request, const Model& model,
    InferMessage message) {
  std::string own;
  own.reserve(256);
  AddField(ModelInferResponse::kModelNameFieldNumber, model.name, own);
  AddField(ModelInferResponse::kModelVersionFieldNumber,
           std::to_string(model.version->version), own);
  AddField(ModelInferResponse::kIdFieldNumber, request.id(), own);
  if (message == InferMessage::kOfStream) own += FinalResponseMark();

  std::vector<const v1::Tensor*> tensors;
  tensors.reserve(2);
  const auto add = [&](const char* name, const v1::Tensor& tensor) {
    tensors.push_back(&tensor);
    AddField(ModelInferResponse::kOutputsFieldNumber,
             SerializedOutput(request, name, tensor), own);
  };
  if (answer->has_values()) add(kOutputValues, answer->values());
  if (answer->has_indices()) add(kOutputIndices, answer->indices());

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
  if (message == InferMessage::kOfStream) {
    BeginField(inference::ModelStreamInferResponse::kInferResponseFieldNumber,
               size, own);
    pieces.front().own.insert(0, own);
  }
  return WritePieces(pieces, answer);
}

}  // namespace topk
