#include "client/streamed_answer.h"

#include <string>
#include <string_view>
#include <utility>

#include "core/base/text.h"

namespace topk {
namespace {

constexpr char kValues[] = "response.values.data";
constexpr char kIndices[] = "response.indices.data";

Status Append(std::string_view name, const std::string& data,
              v1::Tensor& tensor) {
  if (data.empty()) return BadAnswer(name, "a chunk has no bytes");
  tensor.mutable_data()->append(data);
  return {};
}

Status CheckSize(std::string_view name, const v1::Tensor& tensor,
                 int64_t limit) {
  const size_t size = tensor.data().size();
  if (size <= static_cast<size_t>(limit)) return {};
  return BadAnswer(name, StrCat(size, " bytes or more, expected ", limit));
}

}  // namespace

Status StreamedAnswer::Add(v1::TopKResponseChunk& chunk) {
  if (chunk.has_header() == has_header_ &&
      chunk.content_case() != v1::TopKResponseChunk::CONTENT_NOT_SET) {
    return BadAnswer("", has_header_ ? "a second header"
                                     : "a chunk arrived before the header");
  }
  Status status;
  switch (chunk.content_case()) {
    case v1::TopKResponseChunk::kHeader:
      response_ = std::move(*chunk.mutable_header());
      has_header_ = true;
      break;
    case v1::TopKResponseChunk::kValues:
      status = Append(kValues, chunk.values(), *response_.mutable_values());
      break;
    case v1::TopKResponseChunk::kIndices:
      status = Append(kIndices, chunk.indices(), *response_.mutable_indices());
      break;
    default:
      return BadAnswer("", "an empty message");
  }
  if (status.ok()) {
    status = CheckSize(kValues, response_.values(), expected_.value_bytes());
  }
  if (!status.ok()) return status;
  return CheckSize(kIndices, response_.indices(), expected_.index_bytes());
}

bool StreamedAnswer::Clear() {
  response_.Clear();
  return std::exchange(has_header_, false);
}

Result<v1::TopKResponse> StreamedAnswer::Take() {
  if (!has_header_) return BadAnswer("", "the stream ended without a header");
  if (Status s = expected_.Check(response_); !s.ok()) return s;
  return std::move(response_);
}

}  // namespace topk
