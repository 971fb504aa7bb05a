#include "client/expected_answer.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/base/checked.h"
#include "core/base/elements.h"
#include "core/base/packing.h"
#include "core/base/text.h"
#include "core/dialects/registry.h"

namespace topk {
namespace {

// Upper bound on the bytes of a response's field tags and of the names in
// ExecutionInfo.
constexpr int64_t kAroundData = 16 << 10;
// Tensor sizes and strides are encoded as varints of at most this many bytes.
constexpr int64_t kVarintBytes = 10;

Status Reject(std::string message) {
  return InvalidArgument("", "", std::move(message));
}

template <class Numbers>
std::string ListText(const Numbers& numbers) {
  constexpr int kShown = 8;
  std::string text = "[";
  int count = 0;
  for (const int64_t number : numbers) {
    if (count == kShown) return text + ", ...]";
    text += StrCat(count++ > 0 ? ", " : "", number);
  }
  return text + "]";
}

std::string TypeText(int data_type) {
  const DTypeInfo* info = FindDType(data_type);
  return info != nullptr ? std::string(info->name) : StrCat(data_type);
}

Result<int64_t> ReadK(const Outline& outline) {
  if (outline.k_tensor == nullptr) return outline.k.value_or(0);
  const DTypeInfo* type = FindDType(outline.k_tensor->data_type());
  const std::string& data = outline.k_tensor->data();
  if (type == nullptr || type->is_float ||
      data.size() != static_cast<size_t>(type->bytes)) {
    return Reject("its K is not one integer");
  }
  return ReadInteger(*type, std::as_bytes(std::span(data)).data());
}

using Dimensions = std::span<const int64_t>;

// Searches `data`, from `position` on, for an index outside begin .. begin +
// length - 1. Returns the first such index, if any.
template <class Index>
std::optional<Index> FindOutside(const std::byte* data, int64_t position,
                                 Dimensions shape, Dimensions strides,
                                 uint64_t begin, uint64_t length) {
  for (int64_t i = 0; i < shape[0]; ++i, position += strides[0]) {
    if (shape.size() > 1) {
      const auto wrong = FindOutside<Index>(data, position, shape.subspan(1),
                                            strides.subspan(1), begin, length);
      if (wrong.has_value()) return wrong;
      continue;
    }
    const auto index = Load<Index>(data, position);
    // If index < begin, the difference wraps to a large number.
    if (static_cast<uint64_t>(index) - begin >= length) return index;
  }
  return {};
}

Dimensions SpanOf(const google::protobuf::RepeatedField<int64_t>& numbers) {
  return {numbers.data(), static_cast<size_t>(numbers.size())};
}

template <class Index>
Status CheckIndices(const v1::Tensor& indices, int64_t begin, int64_t length) {
  int64_t count = 1;
  for (const int64_t size : indices.shape()) count *= size;
  if (count == 0) return {};
  const bool packed = indices.strides().empty();
  const int64_t step = 1;
  const std::optional<Index> wrong = FindOutside<Index>(
      std::as_bytes(std::span(indices.data())).data(), 0,
      packed ? Dimensions(&count, 1) : SpanOf(indices.shape()),
      packed ? Dimensions(&step, 1) : SpanOf(indices.strides()),
      static_cast<uint64_t>(begin), static_cast<uint64_t>(length));
  if (!wrong.has_value()) return {};
  return BadAnswer("response.indices.data",
                   StrCat("index ", *wrong, " is outside ", begin, " .. ",
                          begin + length - 1));
}

}  // namespace

Status BadAnswer(std::string_view field, std::string_view message) {
  return {Code::kInternal, "BAD_ANSWER", std::string(field),
          StrCat("the server's response is wrong: ", message)};
}

ExpectedAnswer::ExpectedAnswer(const v1::TopKRequest& request) {
  rejection_ = Understand(request);
}

Status ExpectedAnswer::Understand(const v1::TopKRequest& request) {
  request_id_ = request.request_id();
  const v1::Tensor& tensor = request.tensor();
  const Dialect* const dialect = FindDialect(request.attributes_case());
  if (dialect == nullptr) return Reject("it has no attributes");
  const Outline outline = dialect->peek(request);
  const Result<int64_t> k_sent = ReadK(outline);
  if (!k_sent.ok()) return k_sent.status();
  if (FindDType(tensor.data_type()) == nullptr) {
    return Reject(
        StrCat("its data type is ", static_cast<int>(tensor.data_type())));
  }
  const int64_t rank = tensor.shape_size();
  if (outline.axis < -rank || outline.axis >= rank) {
    return Reject(
        StrCat("axis ", outline.axis, " is out of range for rank ", rank));
  }
  shape_.assign(tensor.shape().begin(), tensor.shape().end());
  int64_t& along = shape_[static_cast<size_t>((outline.axis + rank) % rank)];
  length_ = along;
  const int64_t k = *k_sent;
  if (k < 1 || k > length_) {
    return Reject(StrCat("k = ", k, " is outside 1 .. ", length_));
  }
  begin_ = request.index_offset();
  int64_t end = 0;
  if (begin_ < 0 || !CheckedAdd(begin_, length_, &end)) {
    return Reject(StrCat("index_offset = ", begin_, " is out of range"));
  }
  along = k;
  const v1::OutputOptions& options = request.output();
  values_.wanted = options.selection() != v1::OUTPUT_SELECTION_INDICES_ONLY;
  values_.dtype = static_cast<DType>(tensor.data_type());
  values_.region = options.values();
  indices_.wanted = options.selection() != v1::OUTPUT_SELECTION_VALUES_ONLY;
  indices_.dtype = outline.index_type;
  indices_.region = options.indices();
  if (Status s = Describe(outline.values, values_); !s.ok()) return s;
  return Describe(outline.indices, indices_);
}

Status ExpectedAnswer::Describe(const v1::TensorDesc* desc,
                                Output& output) const {
  const DTypeInfo& info = InfoOf(output.dtype);
  const Status huge = Reject("its output's size exceeds 63 bits");
  int64_t count = 1;
  for (const int64_t size : shape_) {
    if (size < 0 || !CheckedMultiply(count, size, &count)) return huge;
  }
  if (!CheckedBytes(info, count, &output.bytes)) return huge;
  if (desc == nullptr) return {};
  if (!desc->strides().empty()) {
    output.strides.assign(desc->strides().begin(), desc->strides().end());
    if (output.strides.size() != shape_.size()) {
      return Reject("its output has strides of another rank");
    }
    Size elements = 1;
    for (size_t i = 0; i < shape_.size(); ++i) {
      if (output.strides[i] < 0) return Reject("its output's stride is < 0");
      elements += Size(shape_[i] - 1) * output.strides[i];
    }
    const Size bytes = elements * info.bytes;
    const Size padded = bytes + 3;
    if (padded == Size::kMax) return huge;
    output.bytes = padded.value() / 4 * 4;
  }
  const int64_t total = desc->total_tensor_size_bytes();
  if (total != 0 && total < output.bytes) {
    return Reject(StrCat("its output needs ", output.bytes,
                         " bytes, but total_tensor_size_bytes is ", total));
  }
  if (total != 0) output.bytes = total;
  return {};
}

int64_t ExpectedAnswer::CarriedBytes(const Output& output) {
  return output.wanted && output.region.name().empty() ? output.bytes : 0;
}

int64_t ExpectedAnswer::max_message_bytes() const {
  const Size sizes = Size(4 * kVarintBytes) * shape_.size();
  const Size names = Size(request_id_.size()) + values_.region.name().size() +
                     indices_.region.name().size();
  const Size data = rejection_.ok() ? Size(value_bytes()) + index_bytes() : 0;
  return (sizes + names + data + kAroundData).value();
}

Status ExpectedAnswer::Check(const v1::TopKResponse& response) const {
  if (!rejection_.ok()) {
    return BadAnswer("", StrCat("the server accepted an invalid request: ",
                                rejection_.message));
  }
  if (response.request_id() != request_id_) {
    return BadAnswer("response.request_id",
                     StrCat("request_id ", Quote(response.request_id()),
                            ", expected ", Quote(request_id_)));
  }
  if (Status s = CheckOutput("response.values", values_, response.has_values(),
                             response.values());
      !s.ok()) {
    return s;
  }
  if (Status s = CheckOutput("response.indices", indices_,
                             response.has_indices(), response.indices());
      !s.ok()) {
    return s;
  }
  return indices_.wanted && indices_.region.name().empty()
             ? CheckRange(response.indices())
             : Status();
}

Status ExpectedAnswer::CheckOutput(std::string_view name,
                                   const Output& expected, bool sent,
                                   const v1::Tensor& tensor) const {
  if (sent != expected.wanted) {
    return BadAnswer(name, sent ? "an output that the request does not want"
                                : "an output is missing");
  }
  if (!sent) return {};
  if (tensor.data_type() != static_cast<int>(expected.dtype)) {
    return BadAnswer(StrCat(name, ".data_type"),
                     StrCat("data type ", TypeText(tensor.data_type()),
                            ", expected ", InfoOf(expected.dtype).name));
  }
  if (!std::ranges::equal(tensor.shape(), shape_)) {
    return BadAnswer(StrCat(name, ".shape"),
                     StrCat("shape ", ListText(tensor.shape()), ", expected ",
                            ListText(shape_)));
  }
  if (!std::ranges::equal(tensor.strides(), expected.strides)) {
    return BadAnswer(StrCat(name, ".strides"),
                     StrCat("strides ", ListText(tensor.strides()),
                            ", expected ", ListText(expected.strides)));
  }
  const bool shared = !expected.region.name().empty();
  const v1::SharedMemoryRegion& region = tensor.shared_memory();
  if (shared != tensor.has_shared_memory() ||
      region.name() != expected.region.name() ||
      region.offset() != expected.region.offset()) {
    return BadAnswer(StrCat(name, ".shared_memory"),
                     "the output is not where the request wants it");
  }
  const int64_t bytes =
      shared ? region.byte_size() : static_cast<int64_t>(tensor.data().size());
  if (bytes != expected.bytes) {
    return BadAnswer(StrCat(name, shared ? ".shared_memory" : ".data"),
                     StrCat(bytes, " bytes, expected ", expected.bytes));
  }
  return {};
}

Status ExpectedAnswer::CheckRange(const v1::Tensor& indices) const {
  switch (indices_.dtype) {
    case DType::kI32:
      return CheckIndices<int32_t>(indices, begin_, length_);
    case DType::kU32:
      return CheckIndices<uint32_t>(indices, begin_, length_);
    case DType::kI64:
      return CheckIndices<int64_t>(indices, begin_, length_);
    default:
      return CheckIndices<uint64_t>(indices, begin_, length_);
  }
}

}  // namespace topk
