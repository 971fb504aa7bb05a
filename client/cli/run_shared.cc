#include "client/cli/run_shared.h"

#include <algorithm>

#include "client/expected_answer.h"
#include "client/shared_memory.h"

namespace topk::cli {
namespace {

// Returns the number of elements of an output; 0 for a request that the server
// will reject.
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

// Takes an output out of the shared memory, where the client found it to be.
void Fetch(const SharedMemory& memory, v1::Tensor& tensor) {
  const v1::SharedMemoryRegion& region = tensor.shared_memory();
  const auto bytes =
      memory.data().subspan(static_cast<size_t>(region.offset()),
                            static_cast<size_t>(region.byte_size()));
  tensor.set_data(bytes.data(), bytes.size());
}

}  // namespace

Result<v1::TopKResponse> ComputeShared(const Client& client,
                                       v1::TopKRequest request, int64_t axis,
                                       int64_t k, const NpyArray& array) {
  Result<SharedMemory> input = SharedMemory::Create("", array.data.size());
  if (!input.ok()) return input.status();
  std::ranges::copy(array.data, input->data().begin());

  constexpr size_t kMaxIndexBytes = 8;
  const int64_t elements = OutputElements(array, axis, k);
  int64_t value_bytes = 0;  // fits, as the file's do
  CheckedBytes(InfoOf(array.dtype), elements, &value_bytes);
  const auto values = static_cast<size_t>(value_bytes);
  const size_t indices = static_cast<size_t>(elements) * kMaxIndexBytes;
  Result<SharedMemory> output = SharedMemory::Create("", values + indices);
  if (!output.ok()) return output.status();

  *request.mutable_tensor()->mutable_shared_memory() =
      input->Region(0, array.data.size());
  v1::OutputOptions& options = *request.mutable_output();
  *options.mutable_values() = output->Region(0, values);
  *options.mutable_indices() = output->Region(values, indices);
  Result<v1::TopKResponse> answer = client.ComputeTopK(request);
  if (!answer.ok()) return answer;
  Fetch(*output, *answer->mutable_values());
  Fetch(*output, *answer->mutable_indices());
  request.clear_output();
  if (Status s = ExpectedAnswer(request).Check(*answer); !s.ok()) return s;
  return answer;
}

}  // namespace topk::cli
