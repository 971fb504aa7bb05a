#include "client/cli/run.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "client/cli/errors.h"
#include "client/cli/interrupts.h"
#include "client/cli/output.h"
#include "client/cli/show.h"
#include "client/numpy/npy.h"
#include "client/numpy/npz.h"
#include "core/base/text.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

// Uses only the CPU: opening a device takes too long for a single tensor.
Engine LocalEngine() {
  EngineOptions options;
  options.backends.choice = "cpu";
  return Engine(options);
}

// Sends the tensor in shared memory. The outputs are in the response.
Result<Response> ComputeShared(const Client& client, v1::TopKRequest request,
                               const NpyArray& array, const CallOptions& call) {
  HandleInterrupts(EndProcess);
  Result<SharedMemory> input = CreateShared(array.data.size());
  if (!input.ok()) return input.status();
  std::ranges::copy(array.data, input->data().begin());
  *request.mutable_tensor()->mutable_shared_memory() =
      input->Region(0, array.data.size());
  return client.ComputeTopK(Request(std::move(request)), call);
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
  if (flags.stream != "auto") options.stream = flags.stream == "on";
  const Result<Response> response =
      flags.shared_memory
          ? ComputeShared(client, request, array, options)
          : client.ComputeTopK(Request(request, array.data), options);
  if (!response.ok()) return response.status();
  return response->message();
}

}  // namespace

ExitCode Run(const RunFlags& flags) {
  const Result<NpyArray> array = ReadArray(flags.file, flags.read);
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
