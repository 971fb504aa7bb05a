#include "client/cli/run_shared.h"

#include <algorithm>

#include "client/shared_memory.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

// How many elements an output has; 0 where the server is to say what is wrong.
int64_t OutputElements(const NpyArray& array, int64_t axis, int64_t k) {
  const auto rank = static_cast<int64_t>(array.shape.size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return 0;
  const int64_t size = array.shape[static_cast<size_t>(axis)];
  if (k < 1 || k > size) return 0;
  int64_t elements = 1;
  for (const int64_t length : array.shape) elements *= length;
  return elements / size * k;
}

// Takes an output out of the shared memory.
Status Fetch(const SharedMemory& memory, const v1::SharedMemoryRegion& asked,
             std::string_view name, v1::Tensor& tensor) {
  if (!tensor.has_shared_memory()) return {};
  const v1::SharedMemoryRegion& got = tensor.shared_memory();
  if (got.name() != asked.name() || got.offset() != asked.offset() ||
      got.byte_size() < 0 || got.byte_size() > asked.byte_size()) {
    return {Code::kInternal, "BAD_ANSWER", Cat("response.", name),
            "the server's answer is wrong: it is not where it was to be"};
  }
  const auto bytes = memory.data().subspan(
      static_cast<size_t>(got.offset()), static_cast<size_t>(got.byte_size()));
  tensor.set_data(bytes.data(), bytes.size());
  return {};
}

}  // namespace

Result<v1::TopKResponse> ComputeShared(const Client& client,
                                       v1::TopKRequest request, int64_t axis,
                                       int64_t k, const NpyArray& array) {
  Result<SharedMemory> input = SharedMemory::Create("", array.data.size());
  if (!input.ok()) return input.status();
  std::ranges::copy(array.data, input->data().begin());

  constexpr size_t kMostIndexBytes = 8;
  const int64_t elements = OutputElements(array, axis, k);
  int64_t value_bytes = 0;  // fits, as the file's do
  CheckedBytes(InfoOf(array.dtype), elements, &value_bytes);
  const auto values = static_cast<size_t>(value_bytes);
  const size_t indices = static_cast<size_t>(elements) * kMostIndexBytes;
  Result<SharedMemory> output = SharedMemory::Create("", values + indices);
  if (!output.ok()) return output.status();

  *request.mutable_tensor()->mutable_shared_memory() =
      input->Region(0, array.data.size());
  v1::OutputOptions& options = *request.mutable_output();
  *options.mutable_values() = output->Region(0, values);
  *options.mutable_indices() = output->Region(values, indices);
  Result<v1::TopKResponse> answer = client.ComputeTopK(request);
  if (!answer.ok()) return answer;
  if (answer->has_values()) {
    if (Status s = Fetch(*output, options.values(), "values",
                         *answer->mutable_values());
        !s.ok()) {
      return s;
    }
  }
  if (answer->has_indices()) {
    if (Status s = Fetch(*output, options.indices(), "indices",
                         *answer->mutable_indices());
        !s.ok()) {
      return s;
    }
  }
  return answer;
}

}  // namespace topk::cli
