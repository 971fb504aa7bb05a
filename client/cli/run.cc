#include "client/cli/run.h"

#include <algorithm>
#include <iostream>

#include "client/cli/errors.h"
#include "client/cli/output.h"
#include "client/cli/show.h"
#include "client/expected_answer.h"
#include "client/numpy/npy.h"
#include "client/numpy/npz.h"
#include "core/base/text.h"
#include "core/engine.h"
#include "topk/shared_memory.h"

namespace topk::cli {
namespace {

// Uses only the CPU: opening a device takes too long for a single tensor.
Engine LocalEngine() {
  EngineOptions options;
  options.backends.choice = "cpu";
  return Engine(options);
}

// Copies an output from shared memory. The client has already validated the
// response's region.
void Fetch(const SharedMemory& memory, v1::Tensor& tensor) {
  const v1::SharedMemoryRegion& region = tensor.shared_memory();
  const auto bytes =
      memory.data().subspan(static_cast<size_t>(region.offset()),
                            static_cast<size_t>(region.byte_size()));
  tensor.set_data(bytes.data(), bytes.size());
}

Result<v1::TopKResponse> ComputeShared(const Client& client,
                                       v1::TopKRequest request,
                                       const NpyArray& array,
                                       const CallOptions& call) {
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
  Result<v1::TopKResponse> answer = client.ComputeTopK(request, call);
  if (!answer.ok()) return answer;
  Fetch(*output, *answer->mutable_values());
  Fetch(*output, *answer->mutable_indices());
  if (Status s = expected.Check(*answer); !s.ok()) return s;
  return answer;
}

Result<v1::TopKResponse> Compute(const RunFlags& flags,
                                 const v1::TopKRequest& request,
                                 const NpyArray& array) {
  if (flags.local) return LocalEngine().Compute(request, array.data);
  CallOptions options;
  if (!flags.traceparent.empty()) {
    std::cerr << "trace " << flags.traceparent.substr(3, 32) << "\n";
    options.metadata = {{"traceparent", flags.traceparent}};
  }
  const Client client(flags.client);
  if (flags.shared_memory) {
    return ComputeShared(client, request, array, options);
  }
  if (flags.stream != "auto") options.stream = flags.stream == "on";
  return client.ComputeTopK(request, array.data, options);
}

}  // namespace

ExitCode Run(const RunFlags& flags) {
  const Result<NpyArray> array = ReadArray(flags.file, flags.how);
  if (!array.ok()) return ReportInput(flags.file, array.status());
  Result<v1::TopKRequest> request = MakeRequest(
      flags.operation, static_cast<v1::DataType>(array->dtype), array->shape);
  if (!request.ok()) return ReportUsage(request.status());
  request->set_index_offset(flags.index_offset);
  request->mutable_tensor()->mutable_strides()->Add(flags.strides.begin(),
                                                    flags.strides.end());
  const Result<v1::TopKResponse> response = Compute(flags, *request, *array);
  if (!response.ok()) {
    return Report(response.status(), flags.local ? nullptr : &flags.client,
                  request->request_id());
  }
  const auto rank = static_cast<int64_t>(array->shape.size());
  const auto dimension =
      static_cast<int>((flags.operation.axis.value_or(-1) + rank) % rank);
  return Show(*response, dimension, flags.show);
}

}  // namespace topk::cli
