#include "client/cli/run.h"

#include <algorithm>
#include <iostream>
#include <tuple>

#include "client/cli/compare.h"
#include "client/cli/errors.h"
#include "client/cli/merge.h"
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

Result<std::vector<std::string>> ReadLabels(const std::string& path,
                                            int64_t count) {
  v1::Tensor tensor;
  if (Status s = ReadTensor(path, {}, tensor); !s.ok()) return s;
  if (tensor.shape_size() != 1 || tensor.shape(0) != count) {
    return InvalidArgument(
        "LABELS", "labels",
        StrCat("the file must contain ", count, " labels in one dimension"));
  }
  return AllElements(tensor);
}

ExitCode Compare(const v1::TopKRequest& request,
                 std::span<const std::byte> tensor,
                 const v1::TopKResponse& answer, int axis) {
  const Result<v1::TopKResponse> ours = LocalEngine().Compute(request, tensor);
  if (!ours.ok()) return Report(ours.status(), nullptr, request.request_id());
  const std::string difference = Difference(answer, *ours, axis);
  if (!difference.empty()) {
    std::cerr << "topk: the server's result differs from the result computed "
                 "locally: "
              << difference << "\n";
    return kWrongAnswer;
  }
  std::cout << "equal: " << answer.values().data().size()
            << " bytes of values and " << answer.indices().data().size()
            << " bytes of indices match the local result\n";
  return kOk;
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
  if (!flags.k_tensor.empty()) {
    if (request->has_directml()) {
      return ReportUsage(
          InvalidArgument("FLAG", "--k-tensor", "DirectML has no --k-tensor"));
    }
    v1::KInput& k = request->has_onnx()
                        ? *request->mutable_onnx()->mutable_k()
                        : *request->mutable_openvino()->mutable_k();
    if (Status s = ReadTensor(flags.k_tensor, {}, *k.mutable_tensor());
        !s.ok()) {
      return ReportInput(flags.k_tensor, s);
    }
  }
  const Result<v1::TopKResponse> response = Compute(flags, *request, *array);
  if (!response.ok()) {
    return Report(response.status(), flags.local ? nullptr : &flags.client,
                  request->request_id());
  }
  const auto rank = static_cast<int64_t>(array->shape.size());
  const auto dimension =
      static_cast<int>((flags.operation.axis.value_or(-1) + rank) % rank);
  if (flags.compare) {
    return Compare(*request, array->data, *response, dimension);
  }
  const auto axis = static_cast<size_t>(dimension);
  Labels labels;
  int64_t slices = 1;
  for (size_t d = 0; d < array->shape.size(); ++d) {
    if (d != axis) slices *= array->shape[d];
  }
  for (const auto& [path, count, into] :
       {std::tuple(flags.labels, array->shape[axis], &labels.of_index),
        std::tuple(flags.slice_labels, slices, &labels.of_slice)}) {
    if (path.empty()) continue;
    Result<std::vector<std::string>> read = ReadLabels(path, count);
    if (!read.ok()) return ReportInput(path, read.status());
    *into = *std::move(read);
  }
  return Show(*response, dimension, labels, flags.show);
}

}  // namespace topk::cli
