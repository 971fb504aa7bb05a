#include "client/cli/run_shared.h"

#include <algorithm>

#include "client/expected_answer.h"
#include "client/shared_memory.h"

namespace topk::cli {
namespace {

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
                                       v1::TopKRequest request,
                                       const NpyArray& array) {
  const ExpectedAnswer expected(request);
  Result<SharedMemory> input = SharedMemory::Create("", array.data.size());
  if (!input.ok()) return input.status();
  std::ranges::copy(array.data, input->data().begin());

  const auto values = static_cast<size_t>(expected.value_bytes());
  const auto indices = static_cast<size_t>(expected.index_bytes());
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
  if (Status s = expected.Check(*answer); !s.ok()) return s;
  return answer;
}

}  // namespace topk::cli
