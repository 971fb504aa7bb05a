#include "core/answer.h"

#include "core/base/text.h"

namespace topk {
namespace {

std::span<std::byte> PrepareTensor(const Plan& plan, DType type,
                                   const Layout& layout, v1::Tensor& tensor) {
  tensor.set_data_type(static_cast<v1::DataType>(type));
  const std::vector<int64_t> shape = plan.output_shape();
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  if (!layout.packed) {
    tensor.mutable_strides()->Add(layout.strides.begin(), layout.strides.end());
  }
  std::string& data = *tensor.mutable_data();
  data.resize(static_cast<size_t>(layout.bytes));
  return std::as_writable_bytes(std::span(data));
}

}  // namespace

Status CheckPayload(const Plan& plan, int64_t bytes) {
  const Layout& input = plan.input;
  if (bytes == input.bytes || bytes == input.padded_bytes) return {};
  const std::string padded =
      input.padded_bytes == input.bytes
          ? ""
          : Cat(" (or ", input.padded_bytes, " with padding)");
  return InvalidArgument(
      "DATA_LENGTH", "tensor.data",
      Cat("the tensor has ", bytes, " bytes of data; its shape and type (",
          InfoOf(plan.dtype).name, ") imply ", input.bytes, padded));
}

Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response) {
  Outputs outputs;
  if (plan.wants_values) {
    outputs.values = PrepareTensor(plan, plan.dtype, plan.values,
                                   *response.mutable_values());
  }
  if (plan.wants_indices) {
    outputs.indices = PrepareTensor(plan, plan.index_type, plan.indices,
                                    *response.mutable_indices());
  }
  return outputs;
}

void SetExecution(const Execution& execution, int64_t nanoseconds,
                  v1::TopKResponse& response) {
  v1::ExecutionInfo& info = *response.mutable_execution();
  info.set_backend(std::string(execution.backend));
  info.set_kernel(std::string(execution.kernel));
  info.set_instruction_set(std::string(execution.instruction_set));
  info.set_compute_nanoseconds(nanoseconds);
}

}  // namespace topk
