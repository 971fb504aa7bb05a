#include "topk/merge.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "core/merge/merge.h"

namespace topk {
namespace {

Status CheckTensor(const v1::Tensor& tensor, const std::string& field) {
  if (FindDType(tensor.data_type()) == nullptr) {
    return InvalidArgument(
        "OUTPUT_MISSING", field,
        "the output is missing; a merge needs values and indices");
  }
  if (tensor.has_shared_memory() || tensor.has_cuda_memory()) {
    return InvalidArgument(
        "OUTPUT_IN_SHARED_MEMORY", field,
        "it is in shared memory or CUDA memory; only outputs "
        "in the response are merged");
  }
  if (tensor.strides_size() > 0) {
    return InvalidArgument(
        "OUTPUT_STRIDED", field,
        "it has strides; only contiguous outputs are merged");
  }
  return {};
}

Result<Partial> Describe(const PartialResponse& answer, size_t number) {
  const v1::Tensor& values = answer.response.values();
  const v1::Tensor& indices = answer.response.indices();
  const std::string field = StrCat("partials[", number, "].response.");
  if (Status s = CheckTensor(values, field + "values"); !s.ok()) return s;
  if (Status s = CheckTensor(indices, field + "indices"); !s.ok()) return s;
  std::vector<int64_t> shape(values.shape().begin(), values.shape().end());
  if (!std::ranges::equal(shape, indices.shape())) {
    return InvalidArgument("SHAPES_DIFFER", field + "indices.shape",
                           "values and indices must have the same shape");
  }
  const auto rank = static_cast<int64_t>(shape.size());
  return Partial{.dtype = static_cast<DType>(values.data_type()),
                 .shape = std::move(shape),
                 .axis = answer.axis < 0 ? answer.axis + rank : answer.axis,
                 .k = answer.k,
                 .direction = answer.direction,
                 .order = answer.order,
                 .index_type = static_cast<DType>(indices.data_type()),
                 .values = std::as_bytes(std::span(values.data())),
                 .indices = std::as_bytes(std::span(indices.data()))};
}

void SetTensor(DType type, const std::vector<int64_t>& shape, std::string data,
               v1::Tensor& tensor) {
  tensor.set_data_type(static_cast<v1::DataType>(type));
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_data(std::move(data));
}

}  // namespace

Result<PartialResponse> Merge(std::span<const PartialResponse> partials) {
  std::vector<Partial> described;
  described.reserve(partials.size());
  for (const PartialResponse& answer : partials) {
    Result<Partial> partial = Describe(answer, described.size());
    if (!partial.ok()) return partial.status();
    described.push_back(*std::move(partial));
  }
  Result<Merged> merged = MergePartials(described);
  if (!merged.ok()) return merged.status();
  const Partial& first = described[0];
  PartialResponse answer;
  answer.k = first.k;
  answer.axis = first.axis;
  answer.direction = first.direction;
  answer.order = first.order;
  SetTensor(first.dtype, merged->shape, std::move(merged->values),
            *answer.response.mutable_values());
  SetTensor(first.index_type, merged->shape, std::move(merged->indices),
            *answer.response.mutable_indices());
  return answer;
}

}  // namespace topk
