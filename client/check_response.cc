#include "client/check_response.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk {
namespace {

// Returns whether the data of a tensor has the size that its type and shape
// imply. DirectML's outputs may be larger, because of strides or padding.
bool HasItsSize(const v1::Tensor& tensor, bool may_be_larger) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape()) {
    if (size < 0 || !CheckedMultiply(elements, size, &elements)) return false;
  }
  int64_t bytes = 0;
  if (!CheckedBytes(*FindDType(tensor.data_type()), elements, &bytes)) {
    return false;
  }
  const auto size = static_cast<int64_t>(tensor.data().size());
  return size == bytes || (may_be_larger && size > bytes);
}

Status CheckOutput(std::string_view name, const v1::TopKRequest& request,
                   bool is_selected, bool is_sent, const v1::Tensor& tensor) {
  const auto bad = [name](std::string_view field, auto... why) {
    return BadAnswer(StrCat("response.", name, field), StrCat(why...));
  };
  const int rank = request.tensor().shape_size();
  if (is_selected != is_sent) {
    return bad("", is_sent ? "the request does not select this output"
                           : "the output is missing");
  }
  if (!is_sent) return {};
  const DTypeInfo* const type = FindDType(tensor.data_type());
  if (type == nullptr ||
      (name == "values" ? tensor.data_type() != request.tensor().data_type()
                        : type->is_float || type->bits < 32)) {
    return bad(".data_type", "unexpected type ", int{tensor.data_type()});
  }
  if (tensor.shape_size() != rank) {
    return bad(".shape", tensor.shape_size(), " dimensions, expected ", rank);
  }
  if (!tensor.has_shared_memory() && !tensor.has_cuda_memory() &&
      !HasItsSize(tensor, request.has_directml())) {
    return bad(".data", tensor.data().size(),
               " bytes do not fit the type and the shape");
  }
  return {};
}

}  // namespace

Status BadAnswer(std::string_view field, std::string_view message) {
  return {Code::kInternal, "BAD_ANSWER", std::string(field),
          StrCat("the server's response is wrong: ", message)};
}

Status ReadAnswer(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message) {
  grpc::ProtoBufferReader reader(&bytes);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) {
    return {};
  }
  return BadAnswer("", "not a message that the method returns");
}

Status CheckResponse(const v1::TopKRequest& request,
                     const v1::TopKResponse& response) {
  const v1::OutputSelection selection = request.output().selection();
  Status status = CheckOutput("values", request,
                              selection != v1::OUTPUT_SELECTION_INDICES_ONLY,
                              response.has_values(), response.values());
  if (!status.ok()) return status;
  status = CheckOutput("indices", request,
                       selection != v1::OUTPUT_SELECTION_VALUES_ONLY,
                       response.has_indices(), response.indices());
  if (status.ok() && response.has_values() && response.has_indices() &&
      !std::ranges::equal(response.values().shape(),
                          response.indices().shape())) {
    return BadAnswer("response.indices.shape",
                     "differs from the shape of the values");
  }
  return status;
}

Status Assemble(v1::TopKResponseChunk& chunk,
                std::optional<v1::TopKResponse>& response) {
  if (chunk.has_header() == response.has_value()) {
    return BadAnswer(
        "", response ? "a second header" : "a chunk arrived before the header");
  }
  if (chunk.has_header()) {
    response = std::move(*chunk.mutable_header());
  } else if (chunk.has_values()) {
    response->mutable_values()->mutable_data()->append(chunk.values());
  } else {
    response->mutable_indices()->mutable_data()->append(chunk.indices());
  }
  return {};
}

}  // namespace topk
