#include "client/cli/check_answer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/checked.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

Status Bad(std::string_view field, std::string_view what) {
  return {Code::kInternal, "BAD_ANSWER", std::string(field),
          Cat("the server's answer is wrong: ", what)};
}

Status CheckTensor(std::string_view name, const v1::Tensor& tensor,
                   const std::vector<int64_t>& shape, DType dtype) {
  const std::string field = Cat("response.", name);
  if (tensor.strides_size() > 0) return Bad(field, "it is not packed");
  if (!std::equal(tensor.shape().begin(), tensor.shape().end(), shape.begin(),
                  shape.end())) {
    return Bad(field, "its shape is not the input's with k along the axis");
  }
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (!CheckedMultiply(count, size, &count)) return Bad(field, "too large");
  }
  int64_t bytes = 0;
  if (!CheckedBytes(InfoOf(dtype), count, &bytes)) {
    return Bad(field, "too large");
  }
  if (tensor.data().size() != static_cast<size_t>(bytes)) {
    return Bad(field, Cat("it has ", tensor.data().size(),
                          " bytes; its shape and type imply ", bytes));
  }
  return {};
}

template <class Index>
bool AllWithin(const std::string& data, int64_t begin, int64_t size) {
  for (size_t at = 0; at < data.size(); at += sizeof(Index)) {
    Index index;
    std::memcpy(&index, data.data() + at, sizeof(index));
    // A negative difference is a great unsigned one.
    if (static_cast<uint64_t>(index) - static_cast<uint64_t>(begin) >=
        static_cast<uint64_t>(size)) {
      return false;
    }
  }
  return true;
}

bool IndicesWithin(DType type, const std::string& data, int64_t begin,
                   int64_t size) {
  switch (type) {
    case DType::kI32:
      return AllWithin<int32_t>(data, begin, size);
    case DType::kU32:
      return AllWithin<uint32_t>(data, begin, size);
    case DType::kI64:
      return AllWithin<int64_t>(data, begin, size);
    default:
      return AllWithin<uint64_t>(data, begin, size);
  }
}

}  // namespace

Result<int> CheckAnswer(const Question& question,
                        const v1::TopKResponse& answer) {
  const auto rank = static_cast<int64_t>(question.shape.size());
  const int64_t axis = question.axis < 0 ? question.axis + rank : question.axis;
  if (axis < 0 || axis >= rank) return Bad("", "there is no such axis");
  const int64_t size = question.shape[static_cast<size_t>(axis)];
  if (question.k < 1 || question.k > size) {
    return Bad("", "there are no k elements along the axis");
  }
  const v1::Tensor& values = answer.values();
  const v1::Tensor& indices = answer.indices();
  if (values.data_type() != static_cast<int>(question.dtype)) {
    return Bad("response.values", "its type is not the input's");
  }
  switch (indices.data_type()) {
    case v1::DATA_TYPE_I32:
    case v1::DATA_TYPE_I64:
    case v1::DATA_TYPE_U32:
    case v1::DATA_TYPE_U64:
      break;
    default:
      return Bad("response.indices", "its type is none of indices");
  }
  std::vector<int64_t> shape(question.shape.begin(), question.shape.end());
  shape[static_cast<size_t>(axis)] = question.k;
  const auto index_type = static_cast<DType>(indices.data_type());
  if (Status s = CheckTensor("values", values, shape, question.dtype);
      !s.ok()) {
    return s;
  }
  if (Status s = CheckTensor("indices", indices, shape, index_type); !s.ok()) {
    return s;
  }
  if (!IndicesWithin(index_type, indices.data(), question.index_offset, size)) {
    return Bad("response.indices", "an index lies beyond the axis");
  }
  return static_cast<int>(axis);
}

}  // namespace topk::cli
