#include "core/answer.h"

#include <algorithm>
#include <memory>

#include "core/base/deferred_free.h"
#include "core/base/text.h"

namespace topk {
namespace {

std::span<std::byte> PrepareTensor(const Plan& plan, DType type,
                                   const Layout& layout,
                                   const Cancellation* cancellation,
                                   v1::Tensor& tensor) {
  tensor.set_data_type(static_cast<v1::DataType>(type));
  const std::vector<int64_t> shape = plan.output_shape();
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  if (!layout.packed) {
    tensor.mutable_strides()->Add(layout.strides.begin(), layout.strides.end());
  }
  std::string& data = *tensor.mutable_data();
  // Grow in blocks to allow cancellation: 4 MiB of new pages take 1 ms.
  constexpr size_t kBlock = size_t{1} << 20;
  const auto size = static_cast<size_t>(layout.bytes);
  data.reserve(size);
  while (data.size() < size && !IsCancelled(cancellation)) {
    data.resize(std::min(size, data.size() + kBlock));
  }
  return std::as_writable_bytes(std::span(data));
}

}  // namespace

Status CheckPayload(const Plan& plan, int64_t bytes) {
  if (bytes == plan.data_bytes || bytes == plan.padded_data_bytes) return {};
  const std::string padding =
      plan.padded_data_bytes > plan.data_bytes
          ? StrCat(" (or ", plan.padded_data_bytes, " with padding)")
          : "";
  const std::string expected =
      plan.data_bytes > plan.input.bytes
          ? "its total size is "
          : StrCat("its type (", InfoOf(plan.dtype).name, ")",
                   plan.input.packed ? " and shape" : ", shape and strides",
                   " imply ");
  return InvalidArgument("DATA_LENGTH", "tensor.data",
                         StrCat("the tensor has ", bytes, " bytes of data; ",
                                expected, plan.data_bytes, padding));
}

Outputs PrepareOutputs(const Plan& plan, v1::TopKResponse& response,
                       const Cancellation* cancellation) {
  Outputs outputs;
  if (plan.wants_values) {
    outputs.values = PrepareTensor(plan, plan.dtype, plan.values, cancellation,
                                   *response.mutable_values());
  }
  if (plan.wants_indices) {
    outputs.indices = PrepareTensor(plan, plan.index_type, plan.indices,
                                    cancellation, *response.mutable_indices());
  }
  return outputs;
}

void Discard(const Plan& plan, v1::TopKResponse response) {
  constexpr int64_t kSmall = int64_t{4} << 20;  // 0.3 ms
  if (plan.output_bytes() < kSmall) return;
  for (v1::Tensor* tensor :
       {response.mutable_values(), response.mutable_indices()}) {
    if (!tensor->has_data()) continue;
    DeferFree(tensor->release_data(), 0, [](void* p) {
      const std::unique_ptr<std::string> data(static_cast<std::string*>(p));
      DropPages(data->data(), data->size());
    });
  }
}

void SetExecution(const Execution& execution, std::chrono::nanoseconds duration,
                  v1::TopKResponse& response) {
  v1::ExecutionInfo& info = *response.mutable_execution();
  info.set_backend(std::string(execution.backend));
  info.set_kernel(std::string(execution.kernel));
  info.set_instruction_set(std::string(execution.instruction_set));
  info.set_compute_nanoseconds(duration.count());
}

}  // namespace topk
