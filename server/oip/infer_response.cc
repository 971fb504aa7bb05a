#include "server/oip/infer_response.h"

#include <string>
#include <utility>

#include "server/oip/data_types.h"

namespace topk {
namespace {

// The parameters of an output that was put into shared memory: those that were
// asked for, with the bytes that it takes.
void SetParameters(const inference::ModelInferRequest& request,
                   const v1::SharedMemoryRegion& part,
                   inference::ModelInferResponse::InferOutputTensor& output) {
  for (const auto& asked : request.outputs()) {
    if (asked.name() != output.name()) continue;
    *output.mutable_parameters() = asked.parameters();
  }
  (*output.mutable_parameters())["shared_memory_byte_size"].set_int64_param(
      part.byte_size());
}

void AddOutput(const inference::ModelInferRequest& request, const char* name,
               v1::Tensor& tensor, inference::ModelInferResponse& to) {
  auto& output = *to.add_outputs();
  output.set_name(name);
  output.set_datatype(std::string(FindOipType(tensor.data_type()).name));
  *output.mutable_shape() = tensor.shape();
  if (tensor.has_shared_memory()) {
    SetParameters(request, tensor.shared_memory(), output);
  }
  std::string& raw = *to.add_raw_output_contents();
  if (tensor.has_data()) raw = std::move(*tensor.mutable_data());
}

}  // namespace

void Translate(v1::TopKResponse answer,
               const inference::ModelInferRequest& request, const Model& model,
               inference::ModelInferResponse& to) {
  to.set_model_name(model.name);
  to.set_model_version(std::to_string(model.version->version));
  to.set_id(request.id());
  if (answer.has_values()) {
    AddOutput(request, kOutputValues, *answer.mutable_values(), to);
  }
  if (answer.has_indices()) {
    AddOutput(request, kOutputIndices, *answer.mutable_indices(), to);
  }
}

}  // namespace topk
